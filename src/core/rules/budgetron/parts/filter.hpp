// One belief as a Bayesian filter: weights with a covariance, shared by all tasks, and own weights of every task.
//
//   f = theta·phi + sum_j R_ij (v_j·phi),      V = phi' P phi + sum_j R_ij^2 sum S_j phi^2
//   alpha, h from Steps;  c = h/(1 + hV)
//   theta += alpha P phi,  P -= c P phi (P phi)',   v_j += alpha R_ij S_j phi,  S_j <- S_j/(1 + h R_ij^2 S_j phi^2)
//
// phi are the features of an example of task i, theta the shared weights with covariance P, v_j the own weights of task j with variances
// S_j, and R_ij the coefficients of the related tasks. f is the margin and V its variance. P is a full matrix, or only a diagonal if there
// are many columns. A filter with frequencies also sees random Fourier features; own weights use only the linear features.
//
// A filter with a rate learns by AdaGrad, with the same steps. Every weight has one S, with the update S <- S/sqrt(1 + (g S phi/rate)^2). So S
// is rate/sqrt(G), where G is (rate/prior)^2 plus the sum of squared gradients. After n examples S has fallen like 1/sqrt(n), not like 1/n, so the
// filter follows a stream that drifts.
//
// A filter with a lapse rate assumes that this share of the labels is random. The weight of an example is multiplied by the probability
// that its label is not random, and the rule mixes the probability lapse/2 + (1 - lapse) p. Two classes only.
//
// In a filter with cells, the only own weight of a task is its bias. A cell of a hashed array holds the bias for each output and one variance,
// which is the cheapest kind of own weights. Tasks with the same hash share a cell. A plain filter ignores the graph: a task uses only its
// own weights and the shared ones, so that a wrong graph costs little accuracy. A filter may have short rows, which keep the own weights of tasks
// while they have no row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "learner/learner.hpp"
#include "rules/budgetron/features/fourier_features.hpp"
#include "rules/budgetron/features/hashing.hpp"
#include "rules/budgetron/parts/covariance.hpp"
#include "rules/budgetron/parts/part.hpp"
#include "rules/budgetron/parts/short_rows.hpp"
#include "rules/budgetron/parts/steps.hpp"

namespace budgetron {

constexpr double kNegligibleStep = 1e-3;  // a step that would change f by less is not taken

// How an example shrinks variances: as in AdaGrad if `adagrad` = (g/rate)^2 is positive, otherwise by the curvature h of the loss.
struct Shrinking {
  double curvature;
  double adagrad = 0;
};

// A view of weights with a diagonal covariance: `w` has `outputs` rows, and `s` one row of variances, each `columns` long.
struct DiagonalWeights {
  double *w, *s;
  std::size_t columns, outputs;

  double value(std::size_t output, const double* phi) const { return simd().dot(w + output * columns, phi, columns); }
  double variance(const double* phi) const {
    double sum = 0;
    for (std::size_t j = 0; j < columns; ++j) sum += s[j] * phi[j] * phi[j];
    return sum;
  }
  // `r` is the coefficient with which these weights enter f. Variances do not fall below `floor`.
  void learn(const double* phi, const double* alpha, Shrinking by, double r, double floor) const {
    for (std::size_t j = 0; j < columns; ++j) {
      const double t = r * s[j] * phi[j];
      for (std::size_t o = 0; o < outputs; ++o) w[o * columns + j] = flushed(w[o * columns + j] + alpha[o] * t);
      s[j] = std::max(flushed(s[j] / (by.adagrad > 0 ? std::sqrt(1.0 + by.adagrad * t * t) : 1.0 + by.curvature * r * t * phi[j])), floor);
    }
  }
  void begin(double prior) const {
    std::fill_n(w, outputs * columns, 0.0);
    std::fill_n(s, columns, prior);
  }
};

// The shared weights of a filter, with a full covariance matrix P or with one variance per weight.
class SharedWeights {
  // Calls `use` with the full covariance, which is of one of two classes (covariance.hpp).
  template <class Use>
  auto with_covariance(Use use) {
    return kind_ == Kind::single ? use(single_) : use(full_);
  }

 public:
  enum class Kind { diagonal, full, single };  // single: a full covariance in float32
  static Kind kind_of(bool full_covariance, bool single) { return !full_covariance ? Kind::diagonal : single ? Kind::single : Kind::full; }

  // `columns` is the number of linear features. Features after these are Fourier features, which need the kind `single`.
  SharedWeights(Bytes& bytes, std::size_t outputs, std::size_t columns, Kind kind)
      : kind_(kind), outputs_(outputs), columns_(columns), theta_(bytes), variances_(bytes), full_(bytes), single_(bytes) {}

  // Adds features with this prior variance. If it throws, nothing has changed.
  void extend(std::size_t more, double prior) {
    Bytes& bytes = *theta_.get_allocator().bytes;
    const std::size_t n = n_ + more;
    Vec<double> theta(bytes, outputs_ * n);
    for (std::size_t o = 0; o < outputs_; ++o) std::copy_n(theta_.data() + o * n_, n_, theta.data() + o * n);
    if (kind_ == Kind::diagonal)
      variances_.resize(n, prior);
    else
      with_covariance([&](auto& p) { p.extend(more, prior); });
    theta_.swap(theta);
    n_ = n;
  }
  bool full_covariance() const { return kind_ != Kind::diagonal; }
  std::size_t size() const { return n_; }
  double* weights(std::size_t output) { return theta_.data() + output * n_; }
  const double* weights(std::size_t output) const { return theta_.data() + output * n_; }
  // theta·phi of the linear features alone, and of all features.
  double value(std::size_t output, const double* linear) const { return simd().dot(weights(output), linear, columns_); }
  double value(std::size_t output, const double* linear, const float* fourier) const { return value(output, linear) + fourier_value(output, fourier); }
  double fourier_value(std::size_t output, const float* fourier) const { return n_ == columns_ ? 0.0 : simd().dot_f32(fourier, weights(output) + columns_, n_ - columns_); }

  // Return phi' P phi. The first is for weights of linear features only; the second also accepts Fourier features.
  double variance(const double* linear) { return kind_ == Kind::diagonal ? as_diagonal().variance(linear) : full_.multiply(linear); }
  double variance(const double* linear, const float* fourier) { return kind_ == Kind::single ? single_.multiply(linear, columns_, fourier) : variance(linear); }
  // Call it after variance() of the same example, which has computed P phi.
  void learn(const double* linear, const double* alpha, Shrinking by, double v, double floor) {
    if (kind_ == Kind::diagonal) {
      as_diagonal().learn(linear, alpha, by, 1.0, floor);
      return;
    }
    with_covariance([&](auto& p) {
      for (std::size_t o = 0; o < outputs_; ++o) p.add_product(alpha[o], weights(o));
      p.subtract(by.curvature / (1.0 + by.curvature * v));
      if (floor > 0) raise(p, floor);
    });
  }
  // The mean variance of the weights after the first `skipped` ones.
  double mean_variance(std::size_t skipped) {
    double sum = 0;
    with_covariance([&](auto& p) {
      p.settle();
      for (std::size_t j = skipped; j < n_; ++j) sum += p.variance(j);
    });
    return sum / static_cast<double>(n_ - skipped);
  }

  static std::size_t bytes(std::size_t n, std::size_t outputs, Kind kind) {
    const std::size_t variances = kind == Kind::diagonal ? sizeof(double) * n : kind == Kind::full ? Covariance::bytes(n) : SingleCovariance::bytes(n);
    return sizeof(double) * outputs * n + variances;
  }

  void save(State& state, const std::string& name);
  void load(const State& state, const std::string& name);

 private:
  DiagonalWeights as_diagonal() { return {theta_.data(), variances_.data(), n_, outputs_}; }

  // Adds 1 % of `least` to every variance below `least`, once per step. Adding to the diagonal keeps P positive definite.
  template <class Matrix>
  void raise(Matrix& p, double least) {
    p.settle();
    for (std::size_t j = 0; j < n_; ++j)
      if (p.variance(j) < least) p.set_variance(j, p.variance(j) + 0.01 * least);
  }

  Kind kind_;
  std::size_t outputs_, columns_, n_ = 0;
  Vec<double> theta_;      // outputs × n
  Vec<double> variances_;  // one per weight if kind_ is diagonal; otherwise one of the next two is not empty
  Covariance full_;
  SingleCovariance single_;
};

inline void SharedWeights::save(State& state, const std::string& name) {
  state.reals[name + "_weights"].assign(theta_.begin(), theta_.end());
  auto& covariance = state.reals[name + "_covariance"];
  if (kind_ == Kind::diagonal) {
    covariance.assign(variances_.begin(), variances_.end());
    return;
  }
  with_covariance([&](auto& p) {
    p.settle();
    p.save(covariance);
  });
}

inline void SharedWeights::load(const State& state, const std::string& name) {
  const auto &weights = state.reals.at(name + "_weights"), &covariance = state.reals.at(name + "_covariance");
  if (weights.size() != theta_.size() || covariance.size() != (full_covariance() ? triangle(n_) : n_)) throw std::invalid_argument("saved model: wrong number of weights");
  std::copy(weights.begin(), weights.end(), theta_.begin());
  if (kind_ == Kind::diagonal)
    std::copy(covariance.begin(), covariance.end(), variances_.begin());
  else
    with_covariance([&](auto& p) { p.load(covariance); });
}

struct FilterBelief {
  double prior;  // prior variance of a shared weight
  double own;    // prior variance of an own weight, as a multiple of `prior`; without shared weights it counts as 1
  double floor;  // lower limit of variances, as a share of their prior; in a full covariance they may be lower, see SharedWeights::raise()
  double rate = 0;  // step size of AdaGrad; 0 for a Bayesian filter
  double lapse = 0;  // the share of labels that the belief assumes to be random; two classes only
};

class Filter final : public Part {
 public:
  static constexpr double kConfident = 0.01;  // a filter with Fourier features skips an example if omega (1 - p) of its true class is less
  static constexpr double kFourierPrior = 0.25;  // prior variance of a weight of a Fourier feature
  // Limits of useful_frequencies(). In the first kEarly examples, a filter grows if all filters with Fourier features together have at least
  // kMajorityWeight of the weight. Later it grows if the mean variance of its Fourier weights is below kUndetermined times their prior variance.
  static constexpr double kMajorityWeight = 0.5, kUndetermined = 0.6;
  static constexpr std::int64_t kEarly = 512;

  struct Shape {
    std::size_t outputs, columns, frequencies, frequency_limit;
    bool full_covariance, shared, own;
    std::size_t cells = 0;
    bool plain = false;
    std::size_t bank = 0;
    std::size_t short_rows = 0;
  };

  Filter(Bytes& bytes, std::string name, FilterBelief belief, Shape shape)
      : name_(std::move(name)), belief_(belief), shape_(shape), kind_(SharedWeights::kind_of(shape.full_covariance && belief.rate == 0, shape.frequencies > 0)), shared_(bytes, shape.outputs, shape.columns, kind_), steps_(bytes, shape.outputs),
        cells_(bytes, shape.own ? shape.cells * (shape.outputs + 1) : 0), short_rows_(bytes, shape.own ? shape.short_rows : 0, row_width()) {
    for (std::size_t k = shape.outputs; k < cells_.size(); k += shape.outputs + 1) cells_[k] = static_cast<float>(own_prior());
    if (!shape.shared) return;
    shared_.extend(shape.columns, belief.prior);
    set_frequencies(std::min(shape.frequencies, first_frequencies(shape.bank)));
  }

  std::size_t row_width() const override { return has_rows() ? (shape_.outputs + 1) * shape_.columns : 0; }
  void begin_row(double* row, std::int64_t task_id) const override {
    if (has_rows() && !short_rows_.read(task_id, row + row_offset)) own(row).begin(own_prior());
  }
  void end_row(const double* row, std::int64_t task_id) noexcept override { short_rows_.write(task_id, row + row_offset); }

  void margins(const Seen& e, double* f) const override {
    for (std::size_t o = 0; o < shape_.outputs; ++o) {
      f[o] = shape_.shared ? shared_.value(o, e.linear, fourier(e)) : 0.0;
      for_each_related(e, [&](const Related& related_task) {
        f[o] += related_task.coefficient * (has_rows() ? own(related_task.row).value(o, e.linear) : static_cast<double>(cell(related_task.id)[o]));
      });
    }
  }

  void variances(const Seen& e, double* v) override { v[0] = variance(e); }

  bool learn(const Seen& e, const double* f, std::size_t label, double omega) override {
    const double miss = steps_.gradient(f, label);  // 1 - p_y
    if (belief_.lapse > 0) omega *= not_random(1.0 - miss, belief_.lapse);
    const double error = omega * miss;
    if (shape_.frequencies && error < kConfident) return false;  // an update over Fourier features costs a pass over their covariance
    const double v = variance(e);
    if (error * v < kNegligibleStep) return false;
    // An example weight above 1 counts as 1 in AdaGrad's sum of squares, so that one heavy example cannot end the learning of this belief.
    const double g = belief_.rate > 0 ? std::min(omega, 1.0) * miss / belief_.rate : 0.0;
    const Shrinking by{steps_.solve(f, omega, v), g * g};
    if (shape_.shared) shared_.learn(e.linear, steps_.alpha(), by, v, belief_.floor * belief_.prior);
    for_each_related(e, [&](const Related& related_task) { learn_own(related_task, e.linear, by); });
    return true;
  }

  void terms(const Seen& e, Terms& to) const override {
    const std::size_t n = shape_.columns;
    for (std::size_t o = 0; o < shape_.outputs; ++o) {
      if (shape_.shared) {
        multiply_add(1.0, shared_.weights(o), e.linear, n, to.columns(kShared, o));
        to.fourier(kShared, o) = shared_.fourier_value(o, fourier(e));
      }
      for_each_related(e, [&](const Related& related_task) {
        double* out = to.columns(related_task.own ? kOwn : kRelated, o);
        if (has_rows())
          multiply_add(related_task.coefficient, own(related_task.row).w + o * n, e.linear, n, out);
        else
          out[n - 1] += related_task.coefficient * static_cast<double>(cell(related_task.id)[o]) * e.linear[n - 1];
      });
    }
  }

  std::size_t frequencies() const override { return frequencies_; }
  std::size_t max_frequencies() const override { return shape_.shared ? shape_.frequencies : 0; }
  // Only the heaviest filter with Fourier features grows (for the others, `weight` is 0), because the time of an update grows with the square of the
  // frequencies. It can grow early, while it has learned little: weights that are added later cannot take over what the others have already learned.
  // After that, it grows once the stream has determined its weights: while most of their prior variance remains, more weights would not help.
  std::size_t useful_frequencies(double weight, std::int64_t seen) override {
    const bool grows = weight > 0 && (seen < kEarly ? weight >= kMajorityWeight : shared_.mean_variance(shape_.columns) < kUndetermined * kFourierPrior);
    return grows ? shape_.frequency_limit : frequencies_;
  }
  void forget(std::int64_t task_id) noexcept override {
    short_rows_.forget(task_id);
    if (cells_.empty()) return;
    std::fill_n(cell(task_id), shape_.outputs, 0.0f);
    cell(task_id)[shape_.outputs] = static_cast<float>(own_prior());
  }
  std::size_t bank() const override { return shape_.bank; }
  bool stays() const override { return belief_.rate > 0; }
  double lapse() const override { return belief_.lapse; }
  Kind kind() const override { return Kind::filter; }
  void stop_growing() override { shape_.frequencies = frequencies_; }
  void set_frequencies(std::size_t count) override {
    if (count == frequencies_) return;
    shared_.extend(2 * (count - frequencies_), kFourierPrior);
    frequencies_ = count;
    shape_.frequencies = std::max(shape_.frequencies, count);
  }
  // Includes the features of the filter's bank, unless it is bank 0, which all parts share.
  std::size_t bytes(std::size_t frequencies) const override {
    const std::size_t width = shape_.shared ? shape_.columns + 2 * frequencies : 0;
    return SharedWeights::bytes(width, shape_.outputs, kind_) + sizeof(float) * ((shape_.bank && shape_.shared ? 2 * frequencies : 0) + cells_.size()) + short_rows_.bytes();
  }

  // Without shared weights, their arrays are saved as empty arrays.
  void save(State& state) override {
    state.integers[name_ + "_frequencies"] = {static_cast<std::int64_t>(frequencies_), static_cast<std::int64_t>(shape_.frequencies)};
    shared_.save(state, name_);
    state.reals[name_ + "_cells"].assign(cells_.begin(), cells_.end());
    short_rows_.save(state, name_);
  }
  void load(const State& state) override {
    set_frequencies(saved_frequencies(state, name_ + "_frequencies", 0));
    shape_.frequencies = saved_frequencies(state, name_ + "_frequencies", 1);
    shared_.load(state, name_);
    const auto& cells = state.reals.at(name_ + "_cells");
    if (cells.size() != cells_.size()) throw std::invalid_argument("saved model: wrong number of cells");
    std::transform(cells.begin(), cells.end(), cells_.begin(), [](double x) { return static_cast<float>(x); });
    short_rows_.load(state, name_);
  }

 private:
  const float* fourier(const Seen& e) const { return shape_.bank ? e.banks[shape_.bank - 1] : e.fourier; }
  DiagonalWeights own(double* row) const {
    double* w = row + row_offset;
    return {w, w + shape_.outputs * shape_.columns, shape_.columns, shape_.outputs};
  }
  bool has_rows() const { return shape_.own && shape_.cells == 0; }
  template <class Use>
  void for_each_related(const Seen& e, Use use) const {
    if (!shape_.own) return;
    if (shape_.plain) {
      use(Related{1.0, e.task_id, e.mine, true});
      return;
    }
    for (std::size_t j = 0; j < e.n_related; ++j) use(e.related[j]);
  }
  // The cell of a task: its bias for each output, then their variance.
  const float* cell(std::int64_t id) const { return cells_.data() + mix64(id) % shape_.cells * (shape_.outputs + 1); }
  float* cell(std::int64_t id) { return cells_.data() + mix64(id) % shape_.cells * (shape_.outputs + 1); }

  void learn_own(const Related& related_task, const double* phi, Shrinking by) {
    const double r = related_task.coefficient, floor = belief_.floor * own_prior();
    if (has_rows()) {
      own(related_task.row).learn(phi, steps_.alpha(), by, r, floor);
      return;
    }
    float* own_cell = cell(related_task.id);
    float& variance = own_cell[shape_.outputs];
    const double t = r * static_cast<double>(variance);
    for (std::size_t o = 0; o < shape_.outputs; ++o) own_cell[o] = static_cast<float>(static_cast<double>(own_cell[o]) + steps_.alpha()[o] * t);
    variance = static_cast<float>(std::max(static_cast<double>(variance) / (1.0 + by.curvature * r * t), floor));
  }

  double own_prior() const { return belief_.prior * (shape_.shared ? belief_.own : 1.0); }

  double variance(const Seen& e) {
    double v = shape_.shared ? shared_.variance(e.linear, fourier(e)) : 0.0;
    for_each_related(e, [&](const Related& related_task) {
      const double own_variance = has_rows() ? own(related_task.row).variance(e.linear) : static_cast<double>(cell(related_task.id)[shape_.outputs]);
      v += related_task.coefficient * related_task.coefficient * own_variance;
    });
    return v;
  }

  std::string name_;
  FilterBelief belief_;
  Shape shape_;
  SharedWeights::Kind kind_;
  SharedWeights shared_;
  Steps steps_;
  Vec<float> cells_;
  ShortRows short_rows_;
  std::size_t frequencies_ = 0;  // in use; shape_.frequencies is the number that the filter may use
};

}  // namespace budgetron
