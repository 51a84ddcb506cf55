// The span of what is stored: projecting a new instance on it, and letting one member go.
//
//   α = H⁻¹ k,  δ² = K_tt − kᵀα
//   letting r go, with P the inverse of the B + 1 points (new one included):  γ_j = −P_jr / P_rr
//
// The B + 1-point inverse is never formed:  P_jj + α_j²/δ²,  P_jr + α_j α_r/δ²  and, for the new one, −α_r/δ².
#pragma once

#include <cmath>

#include "algebra/gram.hpp"

namespace budgetron {

class Span {
 public:
  Span(Bytes& bytes, std::size_t capacity, bool growing, bool small_eta)
      : alpha(bytes, capacity),
        gamma(bytes, capacity),
        scores(bytes, capacity),
        gram_(make_gram(bytes, capacity, growing, small_eta)),
        h_(bytes, capacity) {}

  // Sets alpha, returns δ² ≥ 0. An inverse that rounding has broken is rebuilt from the stored rows.
  double project(const double* k, double kk, const Gram::RowOf& row_of) {
    double delta2 = gram_->project(k, kk, alpha.data());
    if (!(delta2 > -1e-8 * kk)) {
      gram_->rebuild(gram_->size(), row_of);
      delta2 = gram_->project(k, kk, alpha.data());
    }
    return delta2 > 0 ? delta2 : 0.0;
  }

  // √(P_jj) of the B + 1 points: 1/√P_jj is the norm of what is lost with j.
  double root_diagonal(std::size_t j, double delta2) const {
    return std::sqrt(gram_->diagonal(j) + alpha[j] * alpha[j] / delta2);
  }
  double root_diagonal(std::size_t j) const { return std::sqrt(gram_->diagonal(j)); }

  void append(const double* k, double kk, double delta2) { gram_->append(k, kk, alpha.data(), delta2); }

  // The new instance takes slot r. gamma_j says what j takes over of r, gamma_r what the new one does.
  void replace(std::size_t r, const double* k, double kk, double delta2) {
    gram_->column(r, h_.data());
    const double share = alpha[r] / delta2, whole = h_[r] + alpha[r] * share;
    for (std::size_t j = 0; j < gram_->size(); ++j) gamma[j] = -(h_[j] + alpha[j] * share) / whole;
    gamma[r] = share / whole;
    gram_->replace(r, k, kk, alpha.data(), delta2, h_.data());
  }

  // gamma for letting r go with nothing new; remove(r) afterwards. Valid after a projection.
  void let_go(std::size_t r) {
    gram_->column(r, h_.data());
    for (std::size_t j = 0; j < gram_->size(); ++j) gamma[j] = -h_[j] / h_[r];
    gamma[r] = 0.0;
  }
  void remove(std::size_t r) { gram_->remove(r); }

  void grow(std::size_t capacity) {
    alpha.resize(capacity);
    gamma.resize(capacity);
    scores.resize(capacity);
    h_.resize(capacity);
  }

  void settle() { gram_->settle(); }
  void save(State& state) { gram_->save(state); }
  void load(const State& state, std::size_t n, const Gram::RowOf& row_of) {
    if (!gram_->load(state, n)) gram_->rebuild(n, row_of);
  }

  Vec<double> alpha, gamma, scores;

 private:
  std::unique_ptr<Gram> gram_;
  Vec<double> h_;
};

}  // namespace budgetron
