// The linear part of the flagship, in primal: weights and a diagonal covariance over features, for each belief.
//
//   f = W·φ,  V = Σ S φ²                       S starts at the prior
//   learn:  t = S φ,  W += G t,  S ← max(S / (1 + h t φ), floor · prior)
//
// Dense input: φ is the row, centred and scaled by its own past (Welford), clipped at ±3 and divided by √d, and a bias.
// Sparse input: φ is the row scaled slot by slot, of unit norm, and a bias, hashed into one table; a task's own copy is
// hashed with the task into the same table.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "beliefs.hpp"
#include "memory.hpp"
#include "store.hpp"

namespace budgetron {

// Running mean and spread of every column.
class Moments {
 public:
  static constexpr double kClip = 3.0, kFar = 10.0;

  Moments(Bytes& bytes, std::size_t d) : mean_(bytes, d), m2_(bytes, d) {}

  template <class T>
  void features(const T* x, double* z) const {
    const std::size_t d = mean_.size();
    const double root = std::sqrt(static_cast<double>(d));
    for (std::size_t j = 0; j < d; ++j) {
      z[j] = 0.0;
      if (m2_[j] > 0) {
        const double scaled = (static_cast<double>(x[j]) - mean_[j]) / std::sqrt(m2_[j] / count_);
        z[j] = std::max(-kClip, std::min(kClip, scaled)) / root;
      }
    }
    z[d] = 1.0;
  }

  // A value counts as at most ten standard deviations away: one absurd row must not blind a column for good.
  template <class T>
  void learn(const T* x) {
    const double before = count_ - 1.0;
    count_ += 1.0;
    for (std::size_t j = 0; j < mean_.size(); ++j) {
      double value = static_cast<double>(x[j]);
      if (m2_[j] > 0) {
        const double far = kFar * std::sqrt(m2_[j] / before);
        value = std::max(mean_[j] - far, std::min(mean_[j] + far, value));
      }
      const double away = value - mean_[j];
      mean_[j] += away / count_;
      m2_[j] += away * (value - mean_[j]);
    }
  }

  double count_ = 0.0;
  Vec<double> mean_, m2_;
};

// One diagonal block of one belief: `outputs` rows of weights, then the variances, each `width` long.
struct Diagonal {
  double *w, *s;
  std::size_t width, outputs;
};

inline double value_of(const double* w, const double* phi, std::size_t n) {
  double sum = 0;
  for (std::size_t j = 0; j < n; ++j) sum += w[j] * phi[j];
  return sum;
}
inline double variance_of(const double* s, const double* phi, std::size_t n) {
  double sum = 0;
  for (std::size_t j = 0; j < n; ++j) sum += s[j] * phi[j] * phi[j];
  return sum;
}
// `scale` times s is the variance; the floor is in units of s.
inline void learn_diagonal(const Diagonal& block, const double* phi, const double* g, double h, double scale, double floor) {
  for (std::size_t j = 0; j < block.width; ++j) {
    const double t = scale * block.s[j] * phi[j];
    for (std::size_t c = 0; c < block.outputs; ++c) block.w[c * block.width + j] += g[c] * t;
    block.s[j] = std::max(block.s[j] / (1.0 + h * t * phi[j]), floor);
  }
}

inline std::uint64_t mix64(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// One feature of a sparse row in the table: its cell for all tasks, its cell for this task, and its signed values there.
struct Entry {
  std::uint32_t shared, own;
  double shared_value, own_value;
};

// The hashed table: cell by cell, for every linear belief its weights and its variance; and a typical |x| for each cell.
template <class T>
class HashedTable {
 public:
  static constexpr double kRate = 1.0 / 8.0;

  HashedTable(Bytes& bytes, std::size_t slots, std::size_t beliefs, std::size_t outputs)
      : slots_(slots), beliefs_(beliefs), outputs_(outputs), cells(bytes, slots * beliefs * (outputs + 1)), typical(bytes, slots) {}

  T* cell(std::uint32_t slot, std::size_t belief) { return cells.data() + (slot * beliefs_ + belief) * (outputs_ + 1); }
  const T* cell(std::uint32_t slot, std::size_t belief) const { return const_cast<HashedTable*>(this)->cell(slot, belief); }

  template <class X>
  void entries(const std::int32_t* indices, const X* data, std::size_t n, std::int64_t task, Vec<Entry>& out) const {
    out.clear();
    double square = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (data[i] == X{}) continue;
      Entry entry = entry_of(static_cast<std::uint64_t>(static_cast<std::int64_t>(indices[i])), task);
      const double x = static_cast<double>(data[i]), scaled = x / next_typical(entry.shared, std::abs(x));
      square += scaled * scaled;
      entry.shared_value *= scaled;
      entry.own_value *= scaled;
      out.push_back(entry);
    }
    const double norm = std::sqrt(square);
    for (Entry& entry : out) {
      entry.shared_value /= norm;
      entry.own_value /= norm;
    }
    out.push_back(entry_of(~std::uint64_t{0}, task));  // the bias
  }

  template <class X>
  void learn_typical(const std::int32_t* indices, const X* data, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      if (data[i] == X{}) continue;
      const std::uint32_t slot = slot_of(mix64(static_cast<std::uint64_t>(static_cast<std::int64_t>(indices[i]))));
      typical[slot] = static_cast<T>(next_typical(slot, std::abs(static_cast<double>(data[i]))));
    }
  }

  // Keeps the columns of the beliefs marked in `keep`.
  void narrow(Bytes& bytes, const std::vector<bool>& keep) {
    const auto kept = static_cast<std::size_t>(std::count(keep.begin(), keep.end(), true));
    Vec<T> smaller(bytes, slots_ * kept * (outputs_ + 1));
    T* to = smaller.data();
    for (std::size_t slot = 0; slot < slots_; ++slot)
      for (std::size_t b = 0; b < beliefs_; ++b)
        if (keep[b]) {
          to = std::copy_n(cell(static_cast<std::uint32_t>(slot), b), outputs_ + 1, to);
        }
    cells.swap(smaller);
    beliefs_ = kept;
  }

 private:
  std::uint32_t slot_of(std::uint64_t h) const { return static_cast<std::uint32_t>(((h >> 32) * slots_) >> 32); }
  Entry entry_of(std::uint64_t feature, std::int64_t task) const {
    const std::uint64_t h = mix64(feature), g = mix64(h ^ static_cast<std::uint64_t>(task));
    return {slot_of(h), slot_of(g), h & 1 ? -1.0 : 1.0, g & 1 ? -1.0 : 1.0};
  }
  double next_typical(std::uint32_t slot, double x) const {
    const double a = static_cast<double>(typical[slot]);
    return a > 0 ? a + (x - a) * kRate : x;
  }

  std::size_t slots_, beliefs_, outputs_;

 public:
  Vec<T> cells, typical;
};

}  // namespace budgetron
