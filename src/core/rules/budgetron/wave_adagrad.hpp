// Beliefs that learn many features by AdaGrad, each with its rate lambda and own share rho: linear features and
// all waves.
//
//   phi = [linear, sqrt(1/waves) waves],   f = sum (w + sqrt(rho) w_i) phi,
//   G += (g phi)^2,   w += lambda g phi / sqrt(G),   and the same for own weights with sqrt(rho) phi
//
// Own weights of all tasks lie in one array, those of a task as one run of cells that begins at the hash of its task id. Runs
// of different tasks may overlap: with few cells tasks learn from each other at random, which costs less than having no own
// weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "rules/budgetron/hashing.hpp"
#include "rules/budgetron/part.hpp"
#include "rules/budgetron/steps.hpp"
#include "simd/simd.hpp"

namespace budgetron {

constexpr double kNoPull = 1e-3;  // an example whose class has at least 99.9 % changes nothing

class WaveAdaGrad final : public Part {
 public:
  WaveAdaGrad(Bytes& bytes, const std::vector<double>& rates, const std::vector<double>& owns, std::size_t outputs, std::size_t columns, std::size_t waves, bool shared,
              std::size_t own_cells)
      : rates_(rates), outputs_(outputs), columns_(columns), width_(columns + 2 * waves), shared_(shared),
        amplitude_(1.0 / std::sqrt(static_cast<double>(std::max<std::size_t>(waves, 1)))),
        own_cells_(own_cells >= width_ ? own_cells : 0), steps_(bytes, outputs), w_(bytes, shared ? beliefs() * outputs * width_ : 0),
        squares_(bytes, w_.size()), own_w_(bytes, beliefs() * outputs * own_cells_), own_squares_(bytes, own_w_.size()) {
    for (std::size_t b = 0; b < rates.size(); ++b) roots_.push_back(shared ? std::sqrt(owns.at(b)) : 1.0);
  }

  std::size_t count() const override { return beliefs(); }

  void margins(const Seen& e, double* f) const override {
    for (std::size_t k = 0; k < beliefs() * outputs_; ++k) {
      f[k] = shared_ ? dot(w_.data() + k * width_, e.features) : 0.0;
      for (std::size_t j = 0; own_cells_ && j < e.n_related; ++j)
        f[k] += roots_[k / outputs_] * e.related[j].coefficient * dot(own_w_.data() + k * own_cells_ + run_of(e.related[j].id), e.features);
    }
  }

  // What a step at the present rates would change, which falls as AdaGrad becomes sure.
  void variances(const Seen& e, double* v) override {
    for (std::size_t b = 0; b < beliefs(); ++b) {
      v[b] = shared_ ? step_size(squares_.data() + b * outputs_ * width_, width_, e.features) : 0.0;
      for (std::size_t j = 0; own_cells_ && j < e.n_related; ++j) {
        const double r = roots_[b] * e.related[j].coefficient;
        v[b] += r * r * step_size(own_squares_.data() + b * outputs_ * own_cells_ + run_of(e.related[j].id), own_cells_, e.features);
      }
      v[b] *= rates_[b];
    }
  }

  bool learn(const Seen& e, const double* f, std::size_t label, double omega) override {
    bool changed = false;
    for (std::size_t b = 0; b < beliefs(); ++b) {
      if (omega * steps_.gradient(f + b * outputs_, label) < kNoPull) continue;
      changed = true;
      for (std::size_t o = 0; o < outputs_; ++o) {
        const std::size_t k = b * outputs_ + o;
        const double pull = omega * steps_.g()[o];
        if (shared_) step(w_.data() + k * width_, squares_.data() + k * width_, e.features, pull, rates_[b]);
        for (std::size_t j = 0; own_cells_ && j < e.n_related; ++j) {
          const std::size_t at_run = k * own_cells_ + run_of(e.related[j].id);
          step(own_w_.data() + at_run, own_squares_.data() + at_run, e.features, pull * roots_[b] * e.related[j].coefficient, rates_[b]);
        }
      }
    }
    return changed;
  }

  void linear_weights(const Seen& e, double* out) const override {
    for (std::size_t k = 0; k < beliefs() * outputs_; ++k)
      for (std::size_t c = 0; c < columns_; ++c) {
        double& to = out[k * columns_ + c];
        if (shared_) to += static_cast<double>(w_[k * width_ + c]);
        for (std::size_t j = 0; own_cells_ && j < e.n_related; ++j)
          to += roots_[k / outputs_] * e.related[j].coefficient * static_cast<double>(own_w_[k * own_cells_ + run_of(e.related[j].id) + c]);
      }
  }

  void save(State& state) override {
    for (const auto& [name, values] : arrays()) state.reals[name].assign(values->begin(), values->end());
  }
  void load(const State& state) override {
    for (const auto& [name, values] : arrays()) {
      const auto& saved = state.reals.at(name);
      if (saved.size() != values->size()) throw std::invalid_argument("a saved model whose weights do not agree in number");
      std::transform(saved.begin(), saved.end(), values->begin(), [](double x) { return static_cast<float>(x); });
    }
  }

 private:
  struct Named {
    const char* name;
    Vec<float>* values;
  };
  std::vector<Named> arrays() {
    return {{"adagrad_weights", &w_}, {"adagrad_squares", &squares_}, {"adagrad_own_weights", &own_w_}, {"adagrad_own_squares", &own_squares_}};
  }
  std::size_t beliefs() const { return rates_.size(); }
  std::size_t run_of(std::int64_t id) const { return static_cast<std::size_t>(mix64(id) % (own_cells_ - width_ + 1)); }
  double dot(const float* w, const double* phi) const {
    return simd().dot_f32(w, phi, columns_) + amplitude_ * simd().dot_f32(w + columns_, phi + columns_, width_ - columns_);
  }
  void step(float* w, float* squares, const double* phi, double pull, double rate) const {
    const auto lambda = static_cast<float>(rate);
    simd().adagrad(w, squares, phi, pull, lambda, columns_);
    simd().adagrad(w + columns_, squares + columns_, phi + columns_, pull * amplitude_, lambda, width_ - columns_);
  }
  // sum phi^2 / sqrt(1 + G), G averaged over the outputs, which lie `stride` apart.
  double step_size(const float* squares, std::size_t stride, const double* phi) const {
    double sum = 0;
    for (std::size_t c = 0; c < width_; ++c) {
      double mean = 0;
      for (std::size_t o = 0; o < outputs_; ++o) mean += static_cast<double>(squares[o * stride + c]);
      const double value = c < columns_ ? phi[c] : amplitude_ * phi[c];
      sum += value * value / std::sqrt(1.0 + mean / static_cast<double>(outputs_));
    }
    return sum;
  }

  std::vector<double> rates_, roots_;
  std::size_t outputs_, columns_, width_;
  bool shared_;
  double amplitude_;
  std::size_t own_cells_;
  Steps steps_;
  Vec<float> w_, squares_, own_w_, own_squares_;
};

}  // namespace budgetron
