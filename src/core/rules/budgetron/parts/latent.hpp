// One belief that learns how tasks are related: every task is a point u_i in a space of r dimensions.
//
//   f = sum_{q=0..r} u_iq a_q + w_i·phi,   a_q = theta_q·phi,   u_i0 = 1
//   V = sum_q u_iq^2 phi' Sigma_q phi + b' C_i b + sum S_i phi^2,   b_q = sum_c g_c a_qc / g_y,  q = 1..r
//   theta_q += alpha u_iq Sigma_q phi,   u_i += |alpha_y| C_i b,   w_i += alpha S_i phi;   covariances shrink as in Filter
//
// phi are the features, i is the task and y the label of the example. a_qc is a_q for class c; for two classes, b_q is a_q or -a_q. All tasks use
// theta_0 equally; the other theta_q are weighted by the coordinates of the task's point. w_i are the own weights of the task. steps.hpp
// defines g, alpha and the curvature h. Sigma_q, C_i and S_i are the covariances of theta_q, u_i and w_i. Sigma_0 is stored as in a filter;
// the other Sigma_q and S_i are diagonal; C_i is r × r.
//
// Because u and theta change together, f changes by alpha V and by a further alpha^2 epsilon, where
// epsilon = sum_q u_iq (phi' Sigma_q phi)(C_i b)_q. The step is shortened until alpha^2 epsilon is at most half of alpha V, so that the
// product of u and theta cannot diverge. Points and theta_1 ... theta_r start at random values: if they were equal, all dimensions would learn
// the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "rules/budgetron/features/hashing.hpp"
#include "rules/budgetron/parts/filter.hpp"

namespace budgetron {

class Latent final : public Part {
 public:
  // The prior variance of theta; the prior variance of own weights, as a multiple of kPrior; the standard deviation of a new task's point.
  static constexpr double kPrior = 3.0, kOwnPrior = 0.1, kStart = 0.1;

  Latent(Bytes& bytes, std::size_t rank, std::size_t outputs, std::size_t columns, bool full_covariance)
      : rank_(rank), outputs_(outputs), columns_(columns), shared_(bytes, outputs, columns, SharedWeights::kind_of(full_covariance, false)), theta_(bytes, rank * outputs * columns),
        sigma_(bytes, rank * columns, kPrior), steps_(bytes, outputs), b_(bytes, rank), cb_(bytes, rank),
        spread_(bytes, rank) {
    shared_.extend(columns, kPrior);
    for (std::size_t k = 0; k < theta_.size(); ++k)
      theta_[k] = 0.5 * std::sqrt(kPrior) * gaussian_integer(mix64(static_cast<std::uint64_t>(k + 1000000))) / 32.0;
  }

  bool learns_slowly() const override { return true; }
  std::size_t row_width() const override { return rank_ + rank_ * rank_ + (outputs_ + 1) * columns_; }

  void begin_row(double* row, std::int64_t task_id) const override {
    const Row r = view(row);
    for (std::size_t q = 0; q < rank_; ++q) {
      r.u[q] = kStart / 32.0 * gaussian_integer(mix64(mix64(task_id) ^ mix64(static_cast<std::uint64_t>(q + 2000000))));
      for (std::size_t s = 0; s < rank_; ++s) r.c[q * rank_ + s] = q == s;
    }
    r.own.begin(kPrior * kOwnPrior);
  }

  void margins(const Seen& e, double* f) const override {
    const Row r = view(e.mine);
    for (std::size_t o = 0; o < outputs_; ++o) {
      f[o] = shared_.value(o, e.linear) + r.own.value(o, e.linear);
      for (std::size_t q = 0; q < rank_; ++q) f[o] += r.u[q] * simd().dot(theta(q, o), e.linear, columns_);
    }
  }

  // The term b' C_i b of V is left out, because b depends on the label.
  void variances(const Seen& e, double* v) override {
    const Row r = view(e.mine);
    v[0] = shared_.variance(e.linear) + r.own.variance(e.linear);
    for (std::size_t q = 0; q < rank_; ++q) v[0] += r.u[q] * r.u[q] * latent_variance(q, e.linear);
  }

  bool learn(const Seen& e, const double* f, std::size_t label, double omega) override {
    const Row r = view(e.mine);
    const double* phi = e.linear;
    const double error = steps_.gradient(f, label);  // 1 - p_y
    find_direction(phi, label);
    double v = shared_.variance(phi) + r.own.variance(phi), epsilon = 0;
    for (std::size_t q = 0; q < rank_; ++q) {
      cb_[q] = simd().dot(r.c + q * rank_, b_.data(), rank_);
      spread_[q] = latent_variance(q, phi);
      v += r.u[q] * r.u[q] * spread_[q] + b_[q] * cb_[q];
      epsilon += r.u[q] * spread_[q] * cb_[q];
    }
    // If the error is 0, b and v can be NaN. The comparison is then false, and no step is taken.
    if (!(omega * error * v >= kNegligibleStep)) return false;
    const double h = steps_.solve(f, omega, v);
    double size = std::abs(steps_.alpha()[outputs_ == 1 ? 0 : label]);
    if (size * std::abs(epsilon) > v / 2) {
      const double factor = v / 2 / (size * std::abs(epsilon));
      for (std::size_t o = 0; o < outputs_; ++o) steps_.alpha()[o] *= factor;
      size *= factor;
    }
    shared_.learn(phi, steps_.alpha(), {h}, v, 0.0);
    for (std::size_t q = 0; q < rank_; ++q) learn_dimension(q, r.u[q], phi, h);
    const double c = h / (1.0 + h * v);
    for (std::size_t q = 0; q < rank_; ++q) {
      r.u[q] += size * cb_[q];
      for (std::size_t s = 0; s < rank_; ++s) r.c[q * rank_ + s] -= c * cb_[q] * cb_[s];
    }
    r.own.learn(phi, steps_.alpha(), {h}, 1.0, 0.0);
    return true;
  }

  // The sum of u_iq theta_q for q >= 1 is learned mostly from tasks with similar points, so it counts as coming from related tasks.
  void terms(const Seen& e, Terms& to) const override {
    const Row r = view(e.mine);
    for (std::size_t o = 0; o < outputs_; ++o) {
      multiply_add(1.0, shared_.weights(o), e.linear, columns_, to.columns(kShared, o));
      multiply_add(1.0, r.own.w + o * columns_, e.linear, columns_, to.columns(kOwn, o));
      for (std::size_t q = 0; q < rank_; ++q) multiply_add(r.u[q], theta(q, o), e.linear, columns_, to.columns(kRelated, o));
    }
  }

  std::size_t bytes(std::size_t) const override {
    return SharedWeights::bytes(columns_, outputs_, SharedWeights::kind_of(shared_.full_covariance(), false)) + sizeof(double) * (theta_.size() + sigma_.size());
  }

  void save(State& state) override {
    shared_.save(state, "latent");
    state.reals["latent_dimensions"].assign(theta_.begin(), theta_.end());
    state.reals["latent_variances"].assign(sigma_.begin(), sigma_.end());
  }
  void load(const State& state) override {
    shared_.load(state, "latent");
    const auto& theta = state.reals.at("latent_dimensions");
    const auto& sigma = state.reals.at("latent_variances");
    if (theta.size() != theta_.size() || sigma.size() != sigma_.size())
      throw std::invalid_argument("saved model: wrong number of learned dimensions");
    std::copy(theta.begin(), theta.end(), theta_.begin());
    std::copy(sigma.begin(), sigma.end(), sigma_.begin());
  }

 private:
  // The numbers of a task in its row: u_i, C_i, w_i and S_i.
  struct Row {
    double *u, *c;
    DiagonalWeights own;
  };
  Row view(double* row) const {
    double* u = row + row_offset;
    double* w = u + rank_ + rank_ * rank_;
    return {u, u + rank_, {w, w + outputs_ * columns_, columns_, outputs_}};
  }
  const double* theta(std::size_t q, std::size_t output) const { return theta_.data() + (q * outputs_ + output) * columns_; }
  double latent_variance(std::size_t q, const double* phi) const {
    double sum = 0;
    for (std::size_t j = 0; j < columns_; ++j) sum += sigma_[q * columns_ + j] * phi[j] * phi[j];
    return sum;
  }
  // Computes b: how the margin of the true class over the other classes changes with u.
  void find_direction(const double* phi, std::size_t label) {
    for (std::size_t q = 0; q < rank_; ++q) {
      if (outputs_ == 1) {
        b_[q] = steps_.sign() * simd().dot(theta(q, 0), phi, columns_);
        continue;
      }
      b_[q] = 0;
      for (std::size_t o = 0; o < outputs_; ++o) b_[q] += steps_.g()[o] * simd().dot(theta(q, o), phi, columns_);
      b_[q] /= steps_.g()[label];
    }
  }
  void learn_dimension(std::size_t q, double u, const double* phi, double h) {
    const DiagonalWeights dimension{theta_.data() + q * outputs_ * columns_, sigma_.data() + q * columns_, columns_, outputs_};
    dimension.learn(phi, steps_.alpha(), {h}, u, 0.0);
  }

  std::size_t rank_, outputs_, columns_;
  SharedWeights shared_;
  Vec<double> theta_, sigma_;  // of the learned dimensions: rank × outputs × columns, and rank × columns
  Steps steps_;
  Vec<double> b_, cb_, spread_;  // b, C_i b, and phi' Sigma_q phi of each dimension
};

}  // namespace budgetron
