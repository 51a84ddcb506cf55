// The linear block on sparse input: one hashed table for the shared weights and all tasks' own copies of them.
//
//   h = mix(feature), g = mix(h xor task);  shared cell: slot(h), own cell: slot(g);  signs from their lowest bits
//
// What all beliefs know of a slot lies together: the weights output by output, then the variances, then the typical |x|.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "intrinsics.hpp"
#include "simd/simd.hpp"
#include "memory.hpp"

namespace budgetron {

inline std::uint64_t mix64(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

template <class T>
class HashedTable {
 public:
  static constexpr double kRate = 1.0 / 8.0;

  HashedTable(Bytes& bytes, std::size_t slots, std::size_t beliefs, std::size_t outputs)
      : slots_(slots), beliefs_(beliefs), outputs_(outputs), cells_(bytes, slots * stride()) {}

  std::size_t slots() const { return slots_; }
  T& weight(std::size_t slot, std::size_t belief, std::size_t output) { return cells_[slot * stride() + output * beliefs_ + belief]; }
  T& variance(std::size_t slot, std::size_t belief) { return weight(slot, belief, outputs_); }
  T& typical(std::size_t slot) { return cells_[slot * stride() + stride() - 1]; }

  // The cells of a row's features, the bias last. All of them are sent for.
  template <class X>
  void find(const std::int32_t* indices, const X* data, std::size_t n, std::int64_t task, Vec<Entry>& out) const {
    out.resize(n + 1);
    Entry* next = out.data();
    for (std::size_t i = 0; i < n; ++i)
      if (data[i] != X{}) put(static_cast<std::uint64_t>(static_cast<std::int64_t>(indices[i])), task, *next++);
    put(~std::uint64_t{0}, task, *next++);
    out.resize(static_cast<std::size_t>(next - out.data()));
  }

  // Their scaled values.
  template <class X>
  void scale(const X* data, Vec<Entry>& entries) const {
    double square = 0;
    for (std::size_t i = 0, e = 0; e + 1 < entries.size(); ++i) {
      if (data[i] == X{}) continue;
      const double x = static_cast<double>(data[i]), scaled = x / next_typical(entries[e].shared & kSlotBits, std::abs(x));
      square += scaled * scaled;
      entries[e++].value = scaled;
    }
    const double norm = std::sqrt(square);
    for (std::size_t e = 0; e + 1 < entries.size(); ++e) entries[e].value /= norm;
    entries.back().value = 1.0;
  }

  // Σ over the entries of weight · φ for every output and belief, then of variance · φ²; first over the shared cells,
  // then over the own ones: (outputs + 1) × beliefs numbers each.
  void read(const Vec<Entry>& entries, double* shared, double* own) const {
    if constexpr (std::is_same_v<T, float>)
      simd().table_read_f32(cells_.data(), shape(), entries.data(), entries.size(), shared, own);
    else
      simd().table_read_f64(cells_.data(), shape(), entries.data(), entries.size(), shared, own);
  }

  // Entry after entry, each finding its cells as those before left them:  W += G S φ,  S ← max(S / (1 + h S φ²), floor).
  // A belief with h < 0 stays as it is.
  void learn(const Vec<Entry>& entries, const TableStep& step) {
    if constexpr (std::is_same_v<T, float>)
      simd().table_learn_f32(cells_.data(), shape(), entries.data(), entries.size(), step);
    else
      simd().table_learn_f64(cells_.data(), shape(), entries.data(), entries.size(), step);
  }

  // After the example; `entries` are those of its row.
  template <class X>
  void learn_typical(const X* data, std::size_t n, const Vec<Entry>& entries) {
    for (std::size_t i = 0, e = 0; i < n; ++i) {
      if (data[i] == X{}) continue;
      const std::uint32_t slot = entries[e++].shared & kSlotBits;
      typical(slot) = static_cast<T>(next_typical(slot, std::abs(static_cast<double>(data[i]))));
    }
  }

  // Keeps the columns of the beliefs that keep(belief) marks, in place: a number only ever moves to a lower address.
  template <class Keep>
  void narrow(Keep keep) noexcept {
    std::size_t kept = 0;
    for (std::size_t b = 0; b < beliefs_; ++b) kept += keep(b);
    T* to = cells_.data();
    const T* from = cells_.data();
    for (std::size_t slot = 0; slot < slots_; ++slot) {
      for (std::size_t o = 0; o <= outputs_; ++o)
        for (std::size_t b = 0; b < beliefs_; ++b, ++from)
          if (keep(b)) *to++ = *from;
      *to++ = *from++;  // the typical |x|
    }
    beliefs_ = kept;
    cells_.resize(slots_ * stride());
    shrink(cells_);
  }

 private:
  std::size_t stride() const { return beliefs_ * (outputs_ + 1) + 1; }
  TableShape shape() const { return {beliefs_, outputs_}; }
  std::uint32_t place_of(std::uint64_t h) const { return static_cast<std::uint32_t>(((h >> 32) * slots_) >> 32 | (h & 1) << 31); }
  void put(std::uint64_t feature, std::int64_t task, Entry& out) const {
    const std::uint64_t h = mix64(feature), g = mix64(h ^ static_cast<std::uint64_t>(task));
    out.shared = place_of(h);
    out.own = place_of(g);
    for (const std::uint32_t place : {out.shared, out.own}) {
      const T* cell = cells_.data() + (place & kSlotBits) * stride();
      prefetch(cell);
      prefetch(cell + stride() - 1);
    }
  }
  double next_typical(std::uint32_t slot, double x) const {
    const double a = static_cast<double>(cells_[slot * stride() + stride() - 1]);
    return a > 0 ? a + (x - a) * kRate : x;
  }

  std::size_t slots_, beliefs_, outputs_;
  Vec<T> cells_;
};

}  // namespace budgetron
