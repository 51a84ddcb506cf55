// HashedPerceptron, the rule that the tests add; see definition.py for the formulas.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "learner/registry.hpp"

namespace budgetron {

namespace {

struct Cells : RuleScratch {
  explicit Cells(Bytes& bytes) : phi(bytes) {}
  Vec<double> phi;
};

class HashedPerceptron final : public Learner {
 public:
  explicit HashedPerceptron(const Config& config)
      : Learner(config),
        rate_(config.parameters.real("rate", 1.0)),
        cells_(config.parameters.count("cells", 1)),
        weights_(bytes_, config.n_outputs * cells_),
        hits_(bytes_, cells_) {
    if (config.sparse || cells_ == 0 || !(rate_ > 0)) throw std::invalid_argument("_core.make: a HashedPerceptron takes dense rows, cells and a rate");
    size_all(scratch());
  }

  State query(const Query& query) override {
    if (query.name != "busiest") return Learner::query(query);
    std::vector<std::size_t> order(cells_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return hits_[a] > hits_[b]; });
    State answer;
    for (const auto cell : order) {
      answer.integers["cell"].push_back(static_cast<std::int64_t>(cell));
      answer.reals["weight"].push_back(weights_[cell]);
    }
    return answer;
  }

  void forget(std::int64_t) override {}
  void task_weights(Task, double*) const override {}
  void coefficients(double*) const override {}

 protected:
  void size_scratch(Scratch& s) const override { s.rule_scratch<Cells>().phi.resize(cells_); }

  void score(const Instance& x, Task, Scratch& s) const override {
    auto& phi = s.rule_scratch<Cells>().phi;
    std::fill(phi.begin(), phi.end(), 0.0);
    for (std::size_t f = 0; f < config_.d; ++f)
      phi[f % cells_] += config_.single ? static_cast<double>(x.rows->dense_f32[x.at * config_.d + f]) : x.rows->dense_f64[x.at * config_.d + f];
    for (std::size_t o = 0; o < config_.n_outputs; ++o)
      s.margins[o] = std::inner_product(phi.begin(), phi.end(), weights_.data() + o * cells_, 0.0);
  }

  std::uint8_t update(const Example& example, Scratch& s) override {
    Step step;
    if (!mistaken(example, s, step)) return 0;
    const auto& phi = s.rule_scratch<Cells>().phi;
    const auto add = [&](std::size_t o, double sign) {
      for (std::size_t c = 0; c < cells_; ++c) weights_[o * cells_ + c] += sign * rate_ * phi[c];
    };
    add(step.plus, step.sign);
    if (step.minus < config_.n_outputs) add(step.minus, -step.sign);
    for (std::size_t c = 0; c < cells_; ++c) hits_[c] += phi[c] != 0;
    return kMistake | kUpdated;
  }

  void grow(std::size_t) override {}
  void slot_removed(std::size_t, std::size_t) override {}

  void save_rule(State& state) override {
    state.reals["weights"].assign(weights_.begin(), weights_.end());
    state.integers["hits"].assign(hits_.begin(), hits_.end());
  }
  void load_rule(const State& state) override {
    const auto& weights = state.reals.at("weights");
    const auto& hits = state.integers.at("hits");
    if (weights.size() != weights_.size() || hits.size() != cells_) throw std::invalid_argument("a saved model of another size");
    std::copy(weights.begin(), weights.end(), weights_.begin());
    std::copy(hits.begin(), hits.end(), hits_.begin());
  }

 private:
  const double rate_;
  const std::size_t cells_;
  Vec<double> weights_;
  Vec<std::int64_t> hits_;
};

const Registered registered("hashed_perceptron", {"rate", "cells"}, make_counted<HashedPerceptron>);

}  // namespace

}  // namespace budgetron
