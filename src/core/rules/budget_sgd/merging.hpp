// Budget maintenance that merges m, the example with the smallest coefficient, and another example n of its task into one row z. If the task has no
// other example, m is removed. Merging works only with the Gaussian kernel K' (Wang, Crammer and Vucetic, JMLR 13, 2012). κ = K'(x_m, x_n), and K_m
// is the function K'(x_m, ·).
//
//   z = h x_m + (1 − h) x_n,   β_z = β_m κ^((1−h)²) + β_n κ^(h²),   h maximises ‖β_z‖²
//   loss = ‖β_m K_m + β_n K_n‖² − ‖β_z‖²;   n is the example with the least loss, and z takes over its arrival number
//
// In the code, p = ‖β_m‖² ≤ q = ‖β_n‖², s = ⟨β_m, β_n⟩, L = −ln κ. The NumPy definition searches for h in the same way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "rules/budget_sgd/margin_learner.hpp"
#include "rules/budget_sgd/merged_row.hpp"

namespace budgetron {

// The examples m and n, reduced to the numbers that h and the loss depend on.
struct Pair {
  double p, q, s, L;

  // ‖β_z‖² for a given h.
  double value(double h) const {
    const double a = 1.0 - h;
    return p * std::exp(-2.0 * L * a * a) + q * std::exp(-2.0 * L * h * h) + 2.0 * s * std::exp(-L * (a * a + h * h));
  }

  // Golden-section search for the maximum within [low, high], with an error of at most 1e-4. Among equal values, it prefers the lower h.
  double golden(double low, double high) const {
    const double ratio = (std::sqrt(5.0) - 1.0) / 2.0;
    double left = high - ratio * (high - low), right = low + ratio * (high - low);
    double at_left = value(left), at_right = value(right);
    while (high - low > 1e-4) {
      if (at_left * kEqual >= at_right) {
        high = right;
        right = left;
        at_right = at_left;
        left = high - ratio * (high - low);
        at_left = value(left);
      } else {
        low = left;
        left = right;
        at_left = at_right;
        right = low + ratio * (high - low);
        at_right = value(right);
      }
    }
    return (low + high) / 2.0;
  }

  // Improves h by Newton's method. A search that compares values finds only half of the digits, because a function is flat at its maximum.
  double polish(double h) const {
    for (int i = 0; i < 6; ++i) {
      const double a = 1.0 - h;
      const double u = p * std::exp(-2.0 * L * a * a), v = q * std::exp(-2.0 * L * h * h), w = s * std::exp(-L * (a * a + h * h));
      const double slope = 4.0 * (u * a - v * h + w * (a - h));
      const double curvature = 4.0 * (u * (4.0 * L * a * a - 1.0) + v * (4.0 * L * h * h - 1.0) + 2.0 * w * (L * (a - h) * (a - h) - 1.0));
      if (curvature >= 0 || std::abs(slope) > 1e-2 * -curvature) return h;
      h -= slope / curvature;
    }
    return h;
  }

  // Sets h and returns the loss.
  double merge(double& h) const {
    h = 0.0;  // z = x_n
    if (L <= 0) return 0.0;  // x_m = x_n
    if (L > 36.0) return p;  // κ is negligible beside 1: merging only removes m, and the maxima are too narrow to find
    double best = value(h);
    const auto try_candidate = [&](double low, double high) {
      const double at = polish(golden(low, high)), candidate_value = value(at);
      if (candidate_value > best * kEqual) {
        best = candidate_value;
        h = at;
      }
    };
    // If β_m and β_n have the same direction, the maximum lies between x_m and x_n. If their directions are opposite, it lies beyond x_n, whose
    // coefficient is the larger one. With several outputs there are other cases, and all three intervals are searched.
    if (s * s >= p * q * (1.0 - 1e-12)) {
      s >= 0 ? try_candidate(0.0, 1.0) : try_candidate(-5.0, 0.0);
    } else {
      try_candidate(0.0, 1.0);
      try_candidate(-5.0, 0.0);
      try_candidate(1.0, 6.0);
    }
    return std::max(p + q + 2.0 * s * std::exp(-L) - best, 0.0);
  }

  static constexpr double kEqual = 1.0 + 1e-12;
};

// A lower bound of the loss, from a table. It makes most searches for h unnecessary. For one output, loss/p depends only on u = √(1 − κ),
// t = √(p/q) ≤ 1 and the sign of s. It increases with u. It decreases with t if s > 0, and increases with t if s < 0. So the table divides
// (u, t) into cells, and the loss at one corner of a cell bounds the loss in the whole cell. With several outputs, the loss is concave in s,
// so it is at least the linear interpolation between its values at s = √(pq) and s = −√(pq).
class LossBound {
 public:
  static double of(const Pair& pair, double kappa) {
    static const LossBound table;
    const double product = std::sqrt(pair.p * pair.q);
    if (!(product > 0)) return 0.0;
    const std::size_t u = index(std::sqrt(std::max(0.0, 1.0 - kappa))), t = index(pair.p / product);
    const double same = 0.5 + 0.5 * std::max(-1.0, std::min(1.0, pair.s / product));
    return pair.p * (same * static_cast<double>(table.cell_[0][u][t]) + (1.0 - same) * static_cast<double>(table.cell_[1][u][t]));
  }

 private:
  static constexpr std::size_t kCells = 64;

  LossBound() {
    for (int sign = 0; sign < 2; ++sign)
      for (std::size_t u = 0; u < kCells; ++u)
        for (std::size_t t = 0; t < kCells; ++t)
          // The corner of least loss has the lower u, and the upper t if s > 0 or the lower t if s < 0. The factor covers rounding.
          cell_[sign][u][t] = static_cast<float>((1.0 - 1e-4) * corner(u, sign ? t : t + 1, sign ? -1.0 : 1.0));
  }
  static double corner(std::size_t u, std::size_t t, double sign) {
    const double root = static_cast<double>(u) / kCells, kappa = 1.0 - root * root;
    if (u == 0) return 0.0;
    if (t == 0) return 1.0 - kappa * kappa * (1.0 - 2.0 * std::log(kappa));  // the limit of q/p → ∞
    const double ratio = static_cast<double>(kCells) / static_cast<double>(t);
    double h;
    return Pair{1.0, ratio * ratio, sign * ratio, -std::log(kappa)}.merge(h);
  }
  static std::size_t index(double x) { return std::min(kCells - 1, static_cast<std::size_t>(x * static_cast<double>(kCells))); }

  float cell_[2][kCells][kCells];
};

class Merging final : public MarginLearner {
 public:
  explicit Merging(const Config& config) : MarginLearner(config), merged_(bytes_, config) {
    if (config.kernel.kind != Kernel::Kind::gaussian) throw std::invalid_argument("_core.make: merging needs a Gaussian kernel");
    store_->expect_mergers();
  }

 protected:
  void reserve_rule(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t*, const std::int64_t*) override {
    if (config_.sparse) merged_.reserve(store_->nonzeros() + static_cast<std::size_t>(rows.indptr[to] - rows.indptr[from]));
  }

  std::uint8_t learn_step(const Example& example, const Update& u, Scratch& scratch) override {
    if (!store_->fits_alone(example.x)) return 0;
    while (!store_->fits(example.x)) {
      for (std::size_t j = 0; j < size(); ++j) scores_[j] = scale_ * norm(j);
      const std::size_t r = argmin_oldest(scores_.data(), size());
      move_last(scratch.row, r, size() - 1);
      remove(r);
    }
    if (!full()) {
      append_step(example, u);
      return kUpdated | kStored;
    }
    const std::size_t newest = size();  // stands for the new example, which has no slot yet
    for (std::size_t j = 0; j < newest; ++j) scores_[j] = scale_ * norm(j);
    const std::size_t m = least_or_new(simd().extremes(scores_.data(), newest), u.tau / unit_ * (u.step.minus < config_.n_outputs ? std::sqrt(2.0) : 1.0));
    const double* kappa = scratch.row.data();
    if (m != newest) {
      store_->kernel_row_of_slot(config_.kernel, m, false, row_.data());
      kappa = row_.data();
    }
    const Partner partner = find_partner(m, kappa, m == newest ? 0.0 : scratch.row[m], example, u);
    if (partner.slot == kNone) {  // m is the only example of its task: it is removed, or not stored if it is new
      if (m == newest) return 0;
      replace_step(m, example, u);
      return kUpdated | kStored;
    }
    const double other_h = 1.0 - partner.h, factor_m = std::exp(-partner.L * other_h * other_h), factor_n = std::exp(-partner.L * partner.h * partner.h);
    if (m == newest) {  // the new example is merged into a stored one
      merged_.merge(*store_, example.x, partner.slot, partner.h);
      store_merged(partner.slot);
      for (std::size_t o = 0; o < config_.n_outputs; ++o) beta(o)[partner.slot] = beta(o)[partner.slot] * factor_n + step_coefficient(u, o) * factor_m;
      return kUpdated;
    }
    if (partner.slot == newest) {  // a stored example is merged with the new one, and the merged row takes its slot
      merged_.merge(*store_, example.x, m, other_h);
      store_merged(m);
      arrivals_[m] = n_seen_;
      for (std::size_t o = 0; o < config_.n_outputs; ++o) beta(o)[m] = beta(o)[m] * factor_m + step_coefficient(u, o) * factor_n;
      return kUpdated | kStored;
    }
    merged_.merge(*store_, m, partner.slot, partner.h);
    for (std::size_t o = 0; o < config_.n_outputs; ++o) beta(o)[partner.slot] = beta(o)[partner.slot] * factor_n + beta(o)[m] * factor_m;
    replace_step(m, example, u);  // first, because a pool may have no space for the merged row while m is stored
    store_merged(partner.slot);
    return kUpdated | kStored;
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Partner {
    std::size_t slot = kNone;  // size(): the new example
    double h = 0, L = 0, loss = 0;
  };

  double step_coefficient(const Update& u, std::size_t o) const {
    return o == u.step.plus ? u.step.sign * size_of(u) : o == u.step.minus ? -u.step.sign * size_of(u) : 0.0;
  }

  // The partner with the least loss among the examples of m's task; if several are tied, the oldest. `kappa` has K'(x_m, x_n) for the slots n, and
  // `to_new` is K'(x_m, x_t) for the new example t.
  Partner find_partner(std::size_t m, const double* kappa, double to_new, const Example& example, const Update& u) const {
    const std::size_t newest = size(), outputs = config_.n_outputs;
    const std::int64_t task_id = m == newest ? example.task.id : task_ids_[m];
    const auto weight = [&](std::size_t j, std::size_t o) { return j == newest ? step_coefficient(u, o) : beta(o)[j]; };
    const auto kappa_of = [&](std::size_t n) { return n == newest ? to_new : kappa[n]; };
    const auto is_candidate = [&](std::size_t n) { return n != m && (n == newest ? example.task.id : task_ids_[n]) == task_id; };
    const auto arrival = [&](std::size_t n) { return n == newest ? n_seen_ : arrivals_[n]; };
    double p = 0;
    for (std::size_t o = 0; o < outputs; ++o) p += weight(m, o) * weight(m, o);
    Partner best;
    const auto try_candidate = [&](std::size_t n) {
      const double k = kappa_of(n);
      Pair pair{p, 0, 0, 0};
      for (std::size_t o = 0; o < outputs; ++o) {
        pair.q += weight(n, o) * weight(n, o);
        pair.s += weight(m, o) * weight(n, o);
      }
      if (best.slot != kNone && LossBound::of(pair, k) > best.loss * (1.0 + 1e-10) + 1e-12 * p) return;
      pair.L = k > 0 ? std::min(-std::log(k), 700.0) : 700.0;
      Partner candidate{n, 0, pair.L, 0};
      candidate.loss = pair.merge(candidate.h);
      const double tie = 1e-12 * p;
      const bool less = candidate.loss * (1.0 + 1e-10) + tie < best.loss, tied = !(best.loss * (1.0 + 1e-10) + tie < candidate.loss);
      if (best.slot == kNone || less || (tied && arrival(n) < arrival(best.slot))) best = candidate;
    };
    // Try the nearest example first: its loss is often the least, and then the bound excludes most of the others.
    std::size_t nearest = kNone;
    for (std::size_t n = 0; n <= newest; ++n)
      if (is_candidate(n) && (nearest == kNone || kappa_of(n) > kappa_of(nearest))) nearest = n;
    if (nearest == kNone) return best;
    try_candidate(nearest);
    for (std::size_t n = 0; n <= newest; ++n)
      if (is_candidate(n) && n != nearest) try_candidate(n);
    return best;
  }

  void store_merged(std::size_t slot) {
    if (!merged_.sparse()) return overwrite(slot, merged_.dense());
    const Rows rows = merged_.rows();
    Instance z{&rows, 0, 0.0};
    store_->squares(rows, 0, 1, &z.sq);
    overwrite(slot, z);
  }

  MergedRow merged_;
};

}  // namespace budgetron
