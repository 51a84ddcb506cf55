// Standardises columns, after pulling outliers towards the median.
//
// For each column, m is a running estimate of its median and s of its spread (1.48 times the median distance from m). For a value x:
//
//   r = x - m,   x~ = m + sign(r) s l(|r|/s),   l(u) = u up to 3, then 3 + log(u - 2)
//   z = (x~ - mean)/sd, between -3 and 3,       mean and variance of x~ by running averages
//
// x~ limits the influence of outliers: a corrupt row, codes such as -999 and heavy tails leave mean and variance usable. The step size of
// the estimates falls like 1/t after t rows, but not below kMinRate, so that they follow columns that drift.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "learner/parameters.hpp"
#include "memory.hpp"

namespace budgetron {

class Scaler {
 public:
  // kBend: l is logarithmic beyond this many spreads. kClip: the largest |z|. kNear: see learn(). kNormal: the median distance of a standard
  // normal variable from its median; 1/kNormal = 1.48.
  static constexpr double kBend = 3.0, kClip = 3.0, kMinRate = 0.001, kNear = 0.02, kNormal = 0.6745;
  static constexpr std::int64_t kFirst = 3;  // rows of the first estimate; their median is usable even if one of them is corrupt

  Scaler(Bytes& bytes, std::size_t d) : centre(bytes, d), spread(bytes, d), mean(bytes, d), variance(bytes, d) {}

  // z of every column. It is 0 until there are estimates, and as long as the variance of the column is 0.
  void features(const double* x, double* z) const {
    const std::size_t d = centre.size();
    for (std::size_t j = 0; j < d; ++j) {
      z[j] = 0.0;
      if (count >= kFirst && variance[j] > 0)
        z[j] = std::max(-kClip, std::min(kClip, (compressed(j, x[j]) - mean[j]) / std::sqrt(variance[j])));
    }
  }

  void learn(const double* x) {
    const std::size_t d = centre.size();
    if (++count <= kFirst) {
      for (std::size_t j = 0; j < d; ++j) learn_first(j, x[j]);
      return;
    }
    const double t = static_cast<double>(count - 1);
    const double averaging = std::max(1.0 / (t - 1.0), kMinRate), rate = std::max(2.0 / (2.0 + t), kMinRate);
    const double widen = std::exp(rate / 2), narrow = std::exp(-rate / 2);
    for (std::size_t j = 0; j < d; ++j) {
      const double r = x[j] - centre[j], size = std::abs(r);
      if (spread[j] == 0) spread[j] = size;  // until now, most values were equal; the first value off the median sets the spread
      const double away = compressed(j, x[j]) - mean[j];
      mean[j] += averaging * away;
      variance[j] = flushed((1.0 - averaging) * (variance[j] + averaging * away * away));
      // A value this close to the median changes neither the median nor the spread. So in a column of mostly zeros, the spread describes
      // the other values.
      if (!(size > kNear * spread[j])) continue;
      const bool wider = size > kNormal * spread[j];
      // Stochastic approximation: steps of equal size up and down cancel on average only at the median.
      centre[j] += std::copysign(0.7 * rate * spread[j], r);
      spread[j] = flushed(spread[j] * (wider ? widen : narrow));
    }
  }

  void save(State& state) {
    state.integers["scaler_count"] = {count};
    for (const auto& [name, values] : arrays()) state.reals[name].assign(values->begin(), values->end());
  }
  void load(const State& state) {
    count = state.integers.at("scaler_count").at(0);
    for (const auto& [name, values] : arrays()) {
      const auto& saved = state.reals.at(name);
      if (saved.size() != values->size()) throw std::invalid_argument("saved model: wrong number of columns");
      std::copy(saved.begin(), saved.end(), values->begin());
    }
  }

  std::int64_t count = 0;
  Vec<double> centre, spread, mean, variance;

 private:
  struct Named {
    const char* name;
    Vec<double>* values;
  };
  std::vector<Named> arrays() {
    return {{"scaler_centre", &centre}, {"scaler_spread", &spread}, {"scaler_mean", &mean}, {"scaler_variance", &variance}};
  }

  double compressed(std::size_t j, double x) const {
    const double r = x - centre[j], size = std::abs(r), s = spread[j];
    if (!(size > kBend * s) || s == 0) return x;
    return centre[j] + std::copysign(s * (kBend + std::log(size / s - (kBend - 1.0))), r);
  }

  // Estimates the median and the spread from the first three rows. Until the third row, the arrays of the estimates hold the values of the
  // first two rows.
  void learn_first(std::size_t j, double x) {
    if (count < kFirst) {
      (count == 1 ? centre : spread)[j] = x;
      return;
    }
    const double a = centre[j], b = spread[j];
    centre[j] = middle(a, b, x);
    spread[j] = middle(std::abs(a - centre[j]), std::abs(b - centre[j]), std::abs(x - centre[j])) / kNormal;
    mean[j] = centre[j];
  }
  static double middle(double a, double b, double c) { return std::max(std::min(a, b), std::min(std::max(a, b), c)); }
};

}  // namespace budgetron
