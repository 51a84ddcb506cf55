// The span of the stored instances: projects a new instance onto it, and evicts a stored instance by projecting it onto the others.
//
//   α = H⁻¹ k,  δ² = K_tt − kᵀα
//   eviction of r:  γ_j = −Q_jr / Q_rr
//
// H is the Gram matrix of the B stored instances, P its inverse, k the kernel row of the new instance t, and K_tt its kernel with itself. An
// evicted instance r is replaced by its projection Σ_j γ_j x_j onto the others. If the new instance takes the slot of r, Q is the inverse Gram
// matrix of the B stored instances and the new one; otherwise Q = P.
//
// Kernel values have a rounding error of about `noise` · K_tt, which depends on the precision of the rows. A smaller δ² counts
// as 0. A δ² far below 0 means that rounding errors have accumulated in the inverse.
//
// The matrix Q of the B + 1 instances is never stored. Its entries follow from P:  Q_jj = P_jj + α_j²/δ²,  Q_jr = P_jr + α_j α_r/δ²,  and −α_r/δ²
// between r and the new instance.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "algebra/gram.hpp"

namespace budgetron {

// Inner products of dense float32 rows are summed in float32, all others in double.
constexpr double kNoiseSingle = 1.0 / 65536, kNoiseDouble = 1.0 / (65536.0 * 1048576);  // 2⁻¹⁶, 2⁻³⁶

class Span {
 public:
  Span(Bytes& bytes, std::size_t capacity, bool small_eta, bool single)
      : alpha(bytes, capacity),
        gamma(bytes, capacity),
        scores(bytes, capacity),
        gram_(make_gram(bytes, capacity, small_eta)),
        h_(bytes, capacity),
        noise_(single ? kNoiseSingle : kNoiseDouble) {}

  // Sets alpha and returns δ² ≥ 0. If rounding errors have made the inverse useless, it is rebuilt from the stored rows in O(B³). The next
  // rebuild must wait for about as many changes as there are rows, so that rebuilds cost no more than the O(B²) changes themselves.
  double project(const double* k, double kk, const Gram::RowOf& row_of) {
    double delta2 = gram_->project(k, kk, alpha.data());
    if (!(delta2 > -256 * noise_ * kk) && wait_ == 0) {
      rebuild(gram_->size(), row_of);
      ++rebuilds_;
      wait_ = std::max<std::int64_t>(16, static_cast<std::int64_t>(gram_->size()));
      delta2 = gram_->project(k, kk, alpha.data());
    }
    return delta2 > noise_ * kk ? delta2 : 0.0;
  }
  void rebuild(std::size_t n, const Gram::RowOf& row_of) { gram_->rebuild(n, row_of, noise_ / 128); }

  // √P_jj. 1/√P_jj is the distance of j from the span of the other stored instances.
  double root_diagonal(std::size_t j) const { return std::sqrt(gram_->diagonal()[j]); }
  // √Q_jj as a function of the slot j, where Q includes the new instance. The returned function makes no virtual call, so that compilers can
  // vectorise a loop over all slots.
  auto root_diagonals(double delta2) const {
    return [p = gram_->diagonal(), a = alpha.data(), delta2](std::size_t j) { return std::sqrt(p[j] + a[j] * a[j] / delta2); };
  }
  double root_diagonal(std::size_t j, double delta2) const { return root_diagonals(delta2)(j); }

  void append(const double* k, double kk, double delta2) {
    gram_->append(k, kk, alpha.data(), delta2);
    count_change();
  }

  // The new instance takes slot r. Sets gamma to the projection of the evicted instance; gamma[r] is the coefficient of the new one.
  void replace(std::size_t r, const double* k, double kk, double delta2) {
    gram_->column(r, h_.data());
    const double share = alpha[r] / delta2, q_rr = h_[r] + alpha[r] * share;
    for (std::size_t j = 0; j < gram_->size(); ++j) gamma[j] = -(h_[j] + alpha[j] * share) / q_rr;
    gamma[r] = share / q_rr;
    gram_->replace(r, k, kk, alpha.data(), delta2, h_.data());
    count_change();
  }

  // Computes gamma for the eviction of r without a new instance. Call settle() or project() before it, and remove(r) after it.
  void set_eviction(std::size_t r) {
    gram_->column(r, h_.data());
    for (std::size_t j = 0; j < gram_->size(); ++j) gamma[j] = -h_[j] / h_[r];
    gamma[r] = 0.0;
  }
  void remove(std::size_t r) {
    gram_->remove(r);
    count_change();
  }

  // Called after the kernel has changed. As long as some instance is within η of the span of the others, evicts the nearest one. With the new
  // kernel not all of them would have been stored, and their entries in the inverse could be arbitrarily large.
  template <class Evict>
  void evict_dependent(double eta2, Evict evict) {
    while (gram_->size() > 1) {
      settle();
      std::size_t nearest = 0;
      for (std::size_t j = 1; j < gram_->size(); ++j)
        if (gram_->diagonal()[j] > gram_->diagonal()[nearest]) nearest = j;
      if (1.0 > gram_->diagonal()[nearest] * std::max(eta2, noise_)) return;  // 1/P_jj exceeds η² and the rounding error, with K_jj taken as 1
      evict(nearest);
    }
  }

  // If it throws, the span is unchanged; some vectors may be larger than needed.
  void reserve(std::size_t capacity) {
    for (auto* values : {&alpha, &gamma, &scores, &h_})
      if (values->size() < capacity) values->resize(capacity);
    gram_->reserve(capacity);
  }

  void settle() { gram_->settle(); }
  void save(State& state) {
    gram_->save(state);
    if (rebuilds_) state.integers["gram_rebuilds"] = {rebuilds_, wait_};
  }
  void load(const State& state, std::size_t n, const Gram::RowOf& row_of) {
    gram_->reserve(n);
    if (!gram_->load(state, n)) rebuild(n, row_of);
    const auto saved = state.integers.find("gram_rebuilds");
    if (saved == state.integers.end() || saved->second.size() != 2) return;
    rebuilds_ = saved->second[0];
    wait_ = saved->second[1];
  }

  // alpha is set by project(), gamma by replace() or set_eviction(). The rules use `scores` as working memory, one number per slot.
  Vec<double> alpha, gamma, scores;

 private:
  void count_change() {
    if (wait_ > 0) --wait_;
  }

  std::unique_ptr<Gram> gram_;
  Vec<double> h_;
  double noise_;
  std::int64_t rebuilds_ = 0;  // how often project() has rebuilt the inverse
  std::int64_t wait_ = 0;      // how many changes must follow before project() may rebuild it again
};

}  // namespace budgetron
