// ShiftingPerceptron: all weights shrink at every mistake.
//
//   on a mistake, after M earlier mistakes:   β ← φ β,   S ← S ∪ {t},  β_t = y_t;   if |S| = B + 1, the oldest example is evicted
//   φ = M/(λ + M),   or   φ = 1 − a with a fixed a,  ln(B)/B by default
//
// S is the set of stored examples, B the budget, β_t the coefficient of example t, y_t its label.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "learner/coefficient_learner.hpp"

namespace budgetron {

namespace {

class ShiftingPerceptron final : public CoefficientLearner {
 public:
  explicit ShiftingPerceptron(const Config& config)
      : CoefficientLearner(config), fixed_(config.parameters.flag("shrink", true)), amount_(amount(config)), order_(bytes_, config.pool ? capacity() : 0) {
    if (!(amount_ >= 0) || (fixed_ && amount_ >= 1))
      throw std::invalid_argument("_core.make: the amount of a ShiftingPerceptron must be at least 0, and below 1 if shrink is 1");
  }

 protected:
  std::uint8_t on_mistake(const Example& example, double, const Step& step, Scratch&) override {
    if (!store_->fits_alone(example.x)) return kMistake;
    const double earlier = static_cast<double>(n_mistakes_);
    if (fixed_)
      scale_ *= 1.0 - amount_;
    else if (n_mistakes_ > 0)
      scale_ *= earlier / (amount_ + earlier);
    if (scale_ < 1e-100) fold_scale();
    set(store(example), step, 1.0 / scale_);
    return kMistake | kUpdated | kStored;
  }

 private:
  static double amount(const Config& config) {
    const double b = static_cast<double>(std::max<std::size_t>(config.capacity, 1));
    return config.parameters.real("amount", std::log(b) / b);
  }

  // Stores an example. If there is no space for it, the oldest examples are evicted first: a long sparse row may evict several.
  std::size_t store(const Example& example) {
    if (config_.pool == 0) {
      if (!full()) return append(example);
      const auto oldest = static_cast<std::size_t>(std::min_element(arrivals_.begin(), arrivals_.end()) - arrivals_.begin());
      replace(oldest, example);
      return oldest;
    }
    order_.resize(size());
    for (std::size_t j = 0; j < size(); ++j) order_[j] = j;
    std::sort(order_.begin(), order_.end(), [&](auto a, auto b) { return arrivals_[a] < arrivals_[b]; });
    order_.resize(std::max<std::size_t>(store_->n_to_evict(example.x, order_), full() ? 1 : 0));
    std::sort(order_.rbegin(), order_.rend());  // from the last slot down, so that remove() moves no slot that is still to be removed
    for (const std::size_t r : order_) remove(r);
    return append(example);
  }

  const bool fixed_;
  const double amount_;     // λ or a
  Vec<std::size_t> order_;  // slots
};

const Registered registered("shifting_perceptron", {"shrink", "amount"}, make_counted<ShiftingPerceptron>);

}  // namespace

}  // namespace budgetron
