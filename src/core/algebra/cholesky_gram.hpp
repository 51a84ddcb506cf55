// The Gram matrix H of the stored instances (gram.hpp), represented by its Cholesky factor L, H = L Lᵀ.
//
// Replacing an instance removes its row of L and appends a new last row, because a last row is the easiest to add. So the rows of L are
// not in the order of the slots: slot_of_row_ says which slot a row belongs to. P is H⁻¹, of which only the diagonal is stored.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "algebra/gram.hpp"
#include "simd/simd.hpp"

namespace budgetron {

class CholeskyGram final : public Gram {
 public:
  CholeskyGram(Bytes& bytes, std::size_t capacity)
      : size_(bytes, sizeof(CholeskyGram)), l_(bytes), diagonal_(bytes), slot_of_row_(bytes), row_of_slot_(bytes), v_(bytes), work_(bytes) {
    reserve(capacity);
  }

  std::size_t size() const override { return n_; }

  double project(const double* k, double kk, double* alpha) override {
    for (std::size_t i = 0; i < n_; ++i) v_[i] = k[slot_of_row_[i]];
    forward(v_.data());
    const double delta2 = kk - simd().dot(v_.data(), v_.data(), n_);
    for (std::size_t i = 0; i < n_; ++i) work_[i] = v_[i];
    backward(work_.data());
    for (std::size_t i = 0; i < n_; ++i) alpha[slot_of_row_[i]] = work_[i];
    return delta2;
  }

  const double* diagonal() const override { return diagonal_.data(); }

  void settle() override {}  // updates are never pending

  void column(std::size_t r, double* h) override {
    double* x = work_.data();
    std::fill_n(x, n_, 0.0);
    x[row_of_slot_[r]] = 1.0;
    forward(x);
    backward(x);
    for (std::size_t i = 0; i < n_; ++i) h[slot_of_row_[i]] = x[i];
  }

  // project() has left L⁻¹ k in v_, so k is not needed again.
  void append(const double*, double, const double* alpha, double delta2) override {
    for (std::size_t j = 0; j < n_; ++j) diagonal_[j] += alpha[j] * alpha[j] / delta2;
    diagonal_[n_] = 1.0 / delta2;
    append_row(n_, delta2);
  }

  void replace(std::size_t r, const double* k, double kk, const double* alpha, double delta2,
               const double* h) override {
    const double share = alpha[r] / h[r], new_delta2 = delta2 + alpha[r] * share;  // δ² after r was removed
    for (std::size_t j = 0; j < n_; ++j) {
      const double a = j == r ? -1.0 : alpha[j] - h[j] * share;
      diagonal_[j] += a * a / new_delta2 - h[j] * h[j] / h[r];
    }
    remove_row(row_of_slot_[r]);
    for (std::size_t i = 0; i < n_; ++i) v_[i] = k[slot_of_row_[i]];
    forward(v_.data());
    append_row(r, kk - simd().dot(v_.data(), v_.data(), n_));
    count_change();
  }

  void remove(std::size_t r) override {
    double* h = v_.data();
    column(r, h);
    for (std::size_t j = 0; j < n_; ++j) diagonal_[j] -= h[j] * h[j] / h[r];
    remove_row(row_of_slot_[r]);
    const std::size_t last = n_;  // n_ is one less now
    if (r != last) {
      diagonal_[r] = diagonal_[last];
      row_of_slot_[r] = row_of_slot_[last];
      slot_of_row_[row_of_slot_[r]] = static_cast<std::uint32_t>(r);
    }
    count_change();
  }

  void reserve(std::size_t capacity) override {
    if (capacity <= diagonal_.size()) return;
    l_.resize(triangle(capacity));
    slot_of_row_.resize(capacity);
    row_of_slot_.resize(capacity);
    v_.resize(2 * capacity);
    work_.resize(capacity);
    diagonal_.resize(capacity);  // last, because its size is the capacity
  }
  void rebuild(std::size_t n, const RowOf& row_of, double least) override;

  void save(State& state) override {
    state.reals["factor"].assign(l_.begin(), l_.begin() + static_cast<std::ptrdiff_t>(triangle(n_)));
    state.reals["inverse_diagonal"].assign(diagonal_.begin(), diagonal_.begin() + static_cast<std::ptrdiff_t>(n_));
    state.integers["factor_order"].assign(slot_of_row_.begin(), slot_of_row_.begin() + static_cast<std::ptrdiff_t>(n_));
    state.integers["factor_age"] = {static_cast<std::int64_t>(changes_)};
  }

  bool load(const State& state, std::size_t n) override {
    const auto l = state.reals.find("factor"), d = state.reals.find("inverse_diagonal");
    const auto o = state.integers.find("factor_order"), a = state.integers.find("factor_age");
    if (l == state.reals.end() || d == state.reals.end() || o == state.integers.end() || a == state.integers.end())
      return false;
    if (l->second.size() != triangle(n) || d->second.size() != n || o->second.size() != n || a->second.size() != 1)
      return false;
    std::vector<bool> seen(n);
    for (auto slot : o->second) {
      if (slot < 0 || static_cast<std::size_t>(slot) >= n || seen[static_cast<std::size_t>(slot)]) return false;
      seen[static_cast<std::size_t>(slot)] = true;
    }
    reserve(n);
    n_ = n;
    std::copy(l->second.begin(), l->second.end(), l_.begin());
    std::copy(d->second.begin(), d->second.end(), diagonal_.begin());
    for (std::size_t i = 0; i < n; ++i) {
      slot_of_row_[i] = static_cast<std::uint32_t>(o->second[i]);
      row_of_slot_[slot_of_row_[i]] = static_cast<std::uint32_t>(i);
    }
    changes_ = static_cast<std::size_t>(a->second[0]);
    return true;
  }

 private:
  void forward(double* x) const {  // x ← L⁻¹ x
    for (std::size_t i = 0; i < n_; ++i) {
      const double* row = l_.data() + triangle(i);
      x[i] = (x[i] - simd().dot(row, x, i)) / row[i];
    }
  }
  void backward(double* x) const {  // x ← L⁻ᵀ x
    for (std::size_t i = n_; i-- > 0;) {
      const double* row = l_.data() + triangle(i);
      x[i] /= row[i];
      simd().axpy(-x[i], row, i, x);
    }
  }

  // Appends the row (L⁻¹ k, √pivot2) for `slot`; v_ holds L⁻¹ k.
  void append_row(std::size_t slot, double pivot2) {
    double* row = l_.data() + triangle(n_);
    std::copy(v_.begin(), v_.begin() + static_cast<std::ptrdiff_t>(n_), row);
    row[n_] = std::sqrt(pivot2);
    slot_of_row_[n_] = static_cast<std::uint32_t>(slot);
    row_of_slot_[slot] = static_cast<std::uint32_t>(n_);
    ++n_;
  }

  // Removes row `at` of the factor. The rows below it lose their entry in column `at`, so a rank-one update by Givens rotations
  // adds these entries again (Golub and Van Loan, Matrix Computations, 4th ed., section 6.5.4).
  void remove_row(std::size_t at) {
    double* lost = work_.data();
    for (std::size_t i = at + 1; i < n_; ++i) {
      double* from = l_.data() + triangle(i);
      lost[i - 1] = from[at];
      double* to = l_.data() + triangle(i - 1);
      std::copy(from, from + at, to);
      std::copy(from + at + 1, from + i + 1, to + at);
      slot_of_row_[i - 1] = slot_of_row_[i];
      row_of_slot_[slot_of_row_[i - 1]] = static_cast<std::uint32_t>(i - 1);
    }
    --n_;
    // The factor of L Lᵀ + lost lostᵀ, row by row: all earlier rotations (c, s) are applied to the row, then a new one makes its
    // entry of `lost` zero.
    double *c = v_.data(), *s = v_.data() + diagonal_.size();
    for (std::size_t i = at; i < n_; ++i) {
      double* row = l_.data() + triangle(i);
      double w = lost[i];
      for (std::size_t j = at; j < i; ++j) {
        const double t = row[j];
        row[j] = c[j] * t + s[j] * w;
        w = c[j] * w - s[j] * t;
      }
      const double length = std::hypot(row[i], w);
      c[i] = row[i] / length;
      s[i] = w / length;
      row[i] = length;
    }
  }

  // Replacements and removals make the diagonal of P accumulate rounding errors, so it is recomputed after max(n, 16) such changes, where n is
  // the number of instances. This costs O(n³) per n changes, no more than the changes themselves.
  void count_change() {
    if (++changes_ < std::max<std::size_t>(n_, 16)) return;
    changes_ = 0;
    refresh_diagonal();
  }

  void refresh_diagonal() {
    double* x = work_.data();
    for (std::size_t c = 0; c < n_; ++c) {  // x is column c of L⁻¹; the sum of its squares is entry c of the diagonal of P = L⁻ᵀ L⁻¹
      x[c] = 1.0 / l_[triangle(c) + c];
      for (std::size_t i = c + 1; i < n_; ++i) {
        const double* row = l_.data() + triangle(i);
        x[i] = -simd().dot(row + c, x + c, i - c) / row[i];
      }
      double sum = 0;
      for (std::size_t i = c; i < n_; ++i) sum += x[i] * x[i];
      diagonal_[slot_of_row_[c]] = sum;
    }
  }

  CountedSize size_;
  std::size_t n_ = 0;
  Vec<double> l_, diagonal_;  // L as a packed triangle, and P_jj of each slot
  Vec<std::uint32_t> slot_of_row_, row_of_slot_;  // the slot of each row of L, and the row of L of each slot
  Vec<double> v_, work_;  // working memory; project() leaves L⁻¹ k in v_ for append()
  std::size_t changes_ = 0;  // replacements and removals since the diagonal was computed
};

}  // namespace budgetron
