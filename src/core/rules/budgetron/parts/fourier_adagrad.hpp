// One belief trained by AdaGrad on the linear features and the Fourier features of bank 0, with rate lambda and own share rho.
//
//   phi = [linear, sqrt(1/D) Fourier features of D frequencies],   f = sum (w + sqrt(rho) w_i) phi,
//   G += (g phi)^2,   w += lambda g phi / sqrt(G),   and the same for own weights with sqrt(rho) phi
//   g = omega ([y] - p), the negative gradient of the log loss with respect to an output
//
// w are the shared weights and w_i the own weights of task i; on a graph, w_i is a sum over the related tasks (part.hpp). G sums the squared
// gradients of a weight. omega is the weight of the example, p the probability of the output's class, and [y] is 1 for the true class and 0 for
// the others.
//
// The own weights of all tasks are in one array. The own weights of a task are a run of consecutive cells that begins at the hash of its task id.
// Runs of different tasks may overlap: with few cells, unrelated tasks share weights, which costs less accuracy than having no own weights. A run
// has cells for the planned frequencies; frequencies that are added later have no own weights.
//
// When the part starts to use more frequencies, the shared Fourier weights are scaled so that the shared part of f does not change. G of a
// new weight begins with a quarter of the mean G of the other Fourier weights. If it began with 0, thousands of new weights would all take a step
// of size lambda at once. Own weights are not scaled, because a cell may belong to a column for one task and to a Fourier feature for another.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "rules/budgetron/features/fourier_features.hpp"
#include "rules/budgetron/features/hashing.hpp"
#include "rules/budgetron/parts/part.hpp"
#include "rules/budgetron/parts/steps.hpp"
#include "simd/simd.hpp"

namespace budgetron {

constexpr double kFirstSquares = 0.25;  // G of a new weight, as a share of the mean G of the other Fourier weights
constexpr double kMinError = 1e-3;  // an example changes nothing if omega (1 - p) of its true class is less: with omega = 1, if p > 99.9 %

class FourierAdaGrad final : public Part {
 public:
  FourierAdaGrad(Bytes& bytes, std::string name, double rate, double own, std::size_t outputs, std::size_t columns, std::size_t frequencies, std::size_t frequency_limit, bool shared,
              std::size_t own_cells)
      : name_(std::move(name)), rate_(rate), sqrt_own_(shared ? std::sqrt(own) : 1.0), outputs_(outputs), columns_(columns), planned_(frequencies), max_frequencies_(frequencies), limit_(frequency_limit), shared_(shared),
        own_cells_(own_cells >= columns + 2 * frequencies ? own_cells : 0), steps_(bytes, outputs), w_(bytes), squares_(bytes),
        own_w_(bytes, outputs * own_cells_), own_squares_(bytes, own_w_.size()) {
    set_frequencies(std::min(frequencies, first_frequencies(0)));
  }

  void margins(const Seen& e, double* f) const override {
    for (std::size_t o = 0; o < outputs_; ++o) {
      f[o] = shared_ ? dot(shared_run(), w_.data() + o * width(), e) : 0.0;
      for_each_run(e, [&](double r, std::size_t run, bool) { f[o] += r * dot(own_run(), own_w_.data() + o * own_cells_ + run, e); });
    }
  }

  // AdaGrad has no posterior variance. Instead, this returns about how far a step with g = 1 would move f. It decreases as squared gradients add up.
  void variances(const Seen& e, double* v) override {
    v[0] = shared_ ? step_size(shared_run(), squares_.data(), width(), e) : 0.0;
    for_each_run(e, [&](double r, std::size_t run, bool) { v[0] += r * r * step_size(own_run(), own_squares_.data() + run, own_cells_, e); });
    v[0] *= rate_;
  }

  bool learn(const Seen& e, const double* f, std::size_t label, double omega) override {
    if (omega * steps_.gradient(f, label) < kMinError) return false;
    for (std::size_t o = 0; o < outputs_; ++o) {
      const double gradient = omega * steps_.g()[o];
      if (shared_) step(shared_run(), w_.data() + o * width(), squares_.data() + o * width(), e, gradient);
      for_each_run(e, [&](double r, std::size_t run, bool) {
        const std::size_t begin = o * own_cells_ + run;
        step(own_run(), own_w_.data() + begin, own_squares_.data() + begin, e, gradient * r);
      });
    }
    return true;
  }

  void terms(const Seen& e, Terms& to) const override {
    for (std::size_t o = 0; o < outputs_; ++o) {
      if (shared_) add_terms(shared_run(), 1.0, w_.data() + o * width(), e, to, kShared, o);
      for_each_run(e, [&](double r, std::size_t run, bool own) {
        add_terms(own_run(), r, own_w_.data() + o * own_cells_ + run, e, to, own ? kOwn : kRelated, o);
      });
    }
  }

  void forget(std::int64_t task_id) noexcept override {
    for (std::size_t o = 0; own_cells_ && o < outputs_; ++o)
      for (Vec<float>* values : {&own_w_, &own_squares_}) std::fill_n(values->data() + o * own_cells_ + run_of(task_id), columns_ + 2 * planned_, 0.0f);
  }

  std::size_t frequencies() const override { return frequencies_; }
  std::size_t max_frequencies() const override { return max_frequencies_; }
  // With more frequencies, this part needs more examples before it predicts better than the filters. So the heaviest part of this kind may grow to
  // the limit as soon as the weight of its kind is not negligible; waiting for a large weight would be too late. For the others, `weight` is 0.
  std::size_t useful_frequencies(double weight, std::int64_t) override {
    return weight >= kNegligible ? limit_ : std::min(limit_, budgetron::useful_frequencies(columns_ - 1));
  }
  Kind kind() const override { return Kind::adagrad; }
  void stop_growing() override { max_frequencies_ = frequencies_; }
  void set_frequencies(std::size_t count) override {
    Bytes& bytes = *w_.get_allocator().bytes;
    const std::size_t before = width(), after = columns_ + 2 * count, rows = shared_ ? outputs_ : 0;
    Vec<float> w(bytes, rows * after), squares(bytes, rows * after);
    const double scale = frequencies_ ? std::sqrt(static_cast<double>(count) / static_cast<double>(frequencies_)) : 1.0;
    for (std::size_t k = 0; !w_.empty() && k < rows; ++k) {
      double sum = 0;
      for (std::size_t c = 0; c < before; ++c) {
        const double factor = c < columns_ ? 1.0 : scale;
        w[k * after + c] = static_cast<float>(static_cast<double>(w_[k * before + c]) * factor);
        squares[k * after + c] = static_cast<float>(static_cast<double>(squares_[k * before + c]) / (factor * factor));
        if (c >= columns_) sum += static_cast<double>(squares[k * after + c]);
      }
      if (before == columns_) continue;
      const auto first = static_cast<float>(kFirstSquares * sum / static_cast<double>(before - columns_));
      std::fill_n(squares.data() + k * after + before, after - before, first);
    }
    w_.swap(w);
    squares_.swap(squares);
    frequencies_ = count;
    max_frequencies_ = std::max(max_frequencies_, count);
  }
  std::size_t bytes(std::size_t frequencies) const override {
    return 2 * sizeof(float) * outputs_ * ((shared_ ? columns_ + 2 * frequencies : 0) + own_cells_);
  }

  void save(State& state) override {
    state.integers[name_ + "_frequencies"] = {static_cast<std::int64_t>(frequencies_), static_cast<std::int64_t>(max_frequencies_)};
    for (const auto& [name, values] : arrays()) state.reals[name].assign(values->begin(), values->end());
  }
  void load(const State& state) override {
    set_frequencies(saved_frequencies(state, name_ + "_frequencies", 0));
    max_frequencies_ = saved_frequencies(state, name_ + "_frequencies", 1);
    for (const auto& [name, values] : arrays()) {
      const auto& saved = state.reals.at(name);
      if (saved.size() != values->size()) throw std::invalid_argument("saved model: wrong number of weights");
      std::transform(saved.begin(), saved.end(), values->begin(), [](double x) { return static_cast<float>(x); });
    }
  }

 private:
  struct Named {
    std::string name;
    Vec<float>* values;
  };
  std::vector<Named> arrays() {
    return {{name_ + "_weights", &w_}, {name_ + "_squares", &squares_}, {name_ + "_own_weights", &own_w_}, {name_ + "_own_squares", &own_squares_}};
  }
  // Calls use(coefficient, first cell of the run, whether the run is the task's own) for each related task. These usually include the task itself.
  template <class Use>
  void for_each_run(const Seen& e, Use use) const {
    for (std::size_t j = 0; own_cells_ && j < e.n_related; ++j) use(sqrt_own_ * e.related[j].coefficient, run_of(e.related[j].id), e.related[j].own);
  }
  std::size_t run_of(std::int64_t id) const { return static_cast<std::size_t>(mix64(id) % (own_cells_ - (columns_ + 2 * planned_) + 1)); }

  // The layout of one run of weights: first the weights of the columns, then two weights per frequency. `amplitude` is the factor of the
  // Fourier features, sqrt(1/D).
  struct Run {
    std::size_t frequencies;
    double amplitude;
    explicit Run(std::size_t count) : frequencies(count), amplitude(1.0 / std::sqrt(static_cast<double>(std::max<std::size_t>(count, 1)))) {}
  };
  Run shared_run() const { return Run(frequencies_); }
  Run own_run() const { return Run(std::min(frequencies_, planned_)); }
  std::size_t width() const { return columns_ + 2 * frequencies_; }

  double fourier_dot(const Run& run, const float* w, const Seen& e) const { return run.amplitude * simd().dot_floats(w + columns_, e.fourier, 2 * run.frequencies); }
  double dot(const Run& run, const float* w, const Seen& e) const { return simd().dot_f32(w, e.linear, columns_) + fourier_dot(run, w, e); }
  void add_terms(const Run& run, double factor, const float* w, const Seen& e, Terms& to, std::size_t source, std::size_t k) const {
    multiply_add(factor, w, e.linear, columns_, to.columns(source, k));
    to.fourier(source, k) += factor * fourier_dot(run, w, e);
  }
  void step(const Run& run, float* w, float* squares, const Seen& e, double gradient) const {
    const auto lambda = static_cast<float>(rate_);
    simd().adagrad(w, squares, e.linear, gradient, lambda, columns_);
    simd().adagrad_floats(w + columns_, squares + columns_, e.fourier, static_cast<float>(gradient * run.amplitude), lambda, 2 * run.frequencies);
  }
  // sum phi^2 / sqrt(1 + G), with G averaged over the outputs, whose arrays begin `stride` cells apart.
  double step_size(const Run& run, const float* squares, std::size_t stride, const Seen& e) const {
    double sum = 0;
    for (std::size_t c = 0; c < columns_ + 2 * run.frequencies; ++c) {
      double mean = 0;
      for (std::size_t o = 0; o < outputs_; ++o) mean += static_cast<double>(squares[o * stride + c]);
      const double value = c < columns_ ? e.linear[c] : run.amplitude * static_cast<double>(e.fourier[c - columns_]);
      sum += value * value / std::sqrt(1.0 + mean / static_cast<double>(outputs_));
    }
    return sum;
  }

  std::string name_;
  double rate_, sqrt_own_;  // lambda and sqrt(rho); without shared weights, rho is 1
  // The last four are numbers of frequencies: in use, in the plan (it sets the length of a run), allowed now, and allowed if there are spare bytes.
  std::size_t outputs_, columns_, frequencies_ = 0, planned_, max_frequencies_, limit_;
  bool shared_;
  std::size_t own_cells_;
  Steps steps_;
  Vec<float> w_, squares_, own_w_, own_squares_;
};

}  // namespace budgetron
