// Combines the margins of the beliefs linearly, beside the mixture. The mixture is about as good as the best belief. Beliefs that are wrong on
// different examples, such as one on linear features and one on bins, can together be better than the best of them.
//
//   x_b = l_b - m,   z = m + sum_b beta_b x_b
//   g = [y] - p(z),  u_b = sum_c g_c x_bc                       [y]: 1 for the true class y and 0 for the others
//   beta += w P u/(1 + w u'Pu),   P -= w Pu(Pu)'/(1 + w u'Pu),   P <- P/kKeep
//
// m is the margin of the mixture, l_b the margin of belief b, and z the margin of the combination. With more than two classes, all three are log
// probabilities, one per class, and z is normalised. A belief that sleeps has x_b = 0. w is the weight of the example; above 1 it counts as 1.
// All beta begin at 0, so the combination begins as the mixture. P is the covariance of beta. The update is the online Newton step (Hazan,
// Agarwal and Kale, Logarithmic regret algorithms for online convex optimization, Machine Learning 2007). P grows a little at every step, so
// that beta keeps following beliefs that still learn. A variance that would exceed its prior is set to the prior, and its covariances shrink so
// that the correlations stay the same.
//
// The prediction averages the probabilities of m and z, weighted by how well each of the two has predicted (mixture.hpp). So where the combination
// does not help, its cost in log loss is at most ln 2 once, plus 5e-5 per example: each update divides 1e-4 of the weight equally.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "memory.hpp"
#include "rules/budgetron/mixture.hpp"
#include "rules/budgetron/parts/steps.hpp"
#include "state.hpp"

namespace budgetron {

class Combination {
 public:
  static constexpr double kPrior = 0.03;   // the variance of every beta before the first example
  static constexpr double kKeep = 0.9997;  // the last 3,000 or so examples determine beta

  Combination(Bytes& bytes, std::size_t beliefs, std::size_t outputs)
      : beta_(bytes, beliefs), covariance_(bytes, beliefs * beliefs), choice_(bytes, 2), both_(bytes, 2), u_(bytes, beliefs), spread_(bytes, beliefs), outputs_(outputs), classes_(std::max<std::size_t>(2, outputs)) {
    for (std::size_t b = 0; b < beliefs; ++b) covariance_[b * beliefs + b] = kPrior;
    both_[1] = 1;
  }

  // The size of the working memory of margins() and learn(), in numbers: x of every belief; m and z; and the probabilities of m and z.
  static std::size_t scratch_size(std::size_t beliefs, std::size_t outputs) { return beliefs * outputs + 2 * (outputs + std::max<std::size_t>(2, outputs)); }

  // Computes the margin of the average of the probabilities of m and z. `p` are the probabilities of the beliefs in `awake`, in that order.
  void margins(const double* p, const Vec<std::size_t>& awake, const double* m, double* scratch, double* out) const {
    if (awake.size() == 1) {
      std::copy_n(m, outputs_, out);
      return;
    }
    double *both = scratch, *z = scratch + outputs_, *both_p = scratch + 2 * outputs_, *x = both_p + 2 * classes_;
    std::copy_n(m, outputs_, both);
    std::copy_n(m, outputs_, z);
    for (std::size_t k = 0; k < awake.size(); ++k)
      for (std::size_t o = 0; o < outputs_; ++o) {
        const double margin = std::log(outputs_ == 1 ? p[2 * k + 1] / p[2 * k] : p[k * classes_ + o]);
        x[k * outputs_ + o] = margin - m[o];
        z[o] += beta_[awake[k]] * x[k * outputs_ + o];
      }
    if (outputs_ > 1) log_probabilities(z, outputs_, z);
    Mixture::probabilities(both, 2, outputs_, both_p);
    choice_.margins(both, both_p, both_, outputs_, out);
  }

  // Whether z has predicted at least as well as m so far.
  bool is_no_worse() const { return choice_.weights[1] >= 0.5; }

  // Learns from an example. `scratch` must be as margins() left it for the same example.
  void learn(const Vec<std::size_t>& awake, double* scratch, std::size_t label, double omega) {
    if (awake.size() == 1) return;
    const double weight = std::min(omega, 1.0);
    const double *z = scratch + outputs_, *both_p = scratch + 2 * outputs_, *x = both_p + 2 * classes_;
    choice_.learn(both_p, both_, outputs_, label, weight);
    double* gradient = scratch;  // m is no longer needed
    find_gradient(z, label, gradient);
    const std::size_t n = beta_.size();
    std::fill(u_.begin(), u_.end(), 0.0);
    for (std::size_t k = 0; k < awake.size(); ++k)
      for (std::size_t o = 0; o < outputs_; ++o) u_[awake[k]] += x[k * outputs_ + o] * gradient[o];
    double variance = 0;
    for (std::size_t b = 0; b < n; ++b) {
      spread_[b] = 0;
      for (std::size_t a = 0; a < n; ++a) spread_[b] += covariance_[b * n + a] * u_[a];
      variance += u_[b] * spread_[b];
    }
    const double step = weight / (1.0 + weight * variance);
    for (std::size_t b = 0; b < n; ++b) {
      beta_[b] += step * spread_[b];
      for (std::size_t a = 0; a < n; ++a) covariance_[b * n + a] = (covariance_[b * n + a] - step * (spread_[b] * spread_[a])) * (1.0 / kKeep);
    }
    limit_variances();
  }

  // Approximates the prediction as sum_b c_b l_b over the beliefs in `awake`, and writes c: m is taken as sum_b w_b l_b, and the margins of m and
  // z are averaged instead of their probabilities. The weights `w` of the mixture must have a sum of 1; c then has the same sum.
  void coefficients(const std::vector<double>& w, const Vec<std::size_t>& awake, double* out) const {
    double sum = 0;
    for (const std::size_t b : awake) sum += beta_[b];
    const double share = awake.size() == 1 ? 0.0 : choice_.weights[1];
    for (std::size_t k = 0; k < awake.size(); ++k) out[k] = (1.0 - share * sum) * w[k] + share * beta_[awake[k]];
  }

  // Removes `count` beliefs, beginning with `from`.
  void drop(std::size_t from, std::size_t count) noexcept {
    const std::size_t before = beta_.size(), end = from + count;
    std::size_t at = 0;
    for (std::size_t b = 0; b < before; ++b)
      for (std::size_t a = 0; a < before; ++a)
        if ((b < from || b >= end) && (a < from || a >= end)) covariance_[at++] = covariance_[b * before + a];
    covariance_.resize(at);
    const auto erase = [&](Vec<double>& values) { values.erase(values.begin() + static_cast<std::ptrdiff_t>(from), values.begin() + static_cast<std::ptrdiff_t>(end)); };
    erase(beta_);
    erase(u_);
    erase(spread_);
  }

  void save(State& state) const {
    state.reals["combination_beta"].assign(beta_.begin(), beta_.end());
    for (std::size_t b = 0; b < beta_.size(); ++b)
      for (std::size_t a = 0; a <= b; ++a) state.reals["combination_matrix"].push_back(covariance_[b * beta_.size() + a]);
    state.reals["combination_weight"].assign(choice_.weights.begin(), choice_.weights.end());
  }

  void load(const State& state) {
    const auto copy = [](const std::vector<double>& from, Vec<double>& to) {
      if (from.size() != to.size()) throw std::invalid_argument("saved model: wrong size of the combination");
      std::copy(from.begin(), from.end(), to.begin());
    };
    copy(state.reals.at("combination_beta"), beta_);
    const std::vector<double>& matrix = state.reals.at("combination_matrix");
    const std::size_t n = beta_.size();
    if (matrix.size() != n * (n + 1) / 2) throw std::invalid_argument("saved model: wrong size of the combination");
    for (std::size_t b = 0, at = 0; b < n; ++b)
      for (std::size_t a = 0; a <= b; ++a, ++at) covariance_[b * n + a] = covariance_[a * n + b] = matrix[at];
    copy(state.reals.at("combination_weight"), choice_.weights);
  }

 private:
  // Computes g of each output.
  void find_gradient(const double* z, std::size_t label, double* g) const {
    if (outputs_ == 1) {
      const double e = std::exp(-std::abs(z[0])), likely = 1.0 / (1.0 + e), unlikely = e / (1.0 + e);
      const double error = (z[0] >= 0) == (label == 1) ? unlikely : likely;
      g[0] = label ? error : -error;
      return;
    }
    for (std::size_t c = 0; c < outputs_; ++c) g[c] = (c == label ? 1.0 : 0.0) - std::exp(z[c]);
  }

  void limit_variances() {
    const std::size_t n = beta_.size();
    bool any = false;
    for (std::size_t b = 0; b < n; ++b) any = any || covariance_[b * n + b] > kPrior;
    if (!any) return;
    for (std::size_t b = 0; b < n; ++b) u_[b] = std::sqrt(std::min(1.0, kPrior / covariance_[b * n + b]));  // u is no longer needed
    for (std::size_t b = 0; b < n; ++b)
      for (std::size_t a = 0; a < n; ++a) covariance_[b * n + a] *= u_[b] * u_[a];
  }

  Vec<double> beta_;
  Vec<double> covariance_;  // P: beliefs × beliefs
  Mixture choice_;          // the weights of m and z
  Vec<std::size_t> both_;   // {0, 1}, the indices of m and z, which Mixture takes as the beliefs that are awake
  Vec<double> u_, spread_;  // working memory of learn(): u and P u
  std::size_t outputs_, classes_;
};

}  // namespace budgetron
