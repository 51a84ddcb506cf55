// The beliefs of a Budgetron on binned columns. A sum of step functions describes thresholds and jumps, which linear and Fourier features
// describe badly.
//
// The first E rows that have a positive weight are stored. In each column, their sorted values are the edges of the bins. Column j of a row has a
// fine bin, the number of edges below x_j, and a coarse bin, which counts only every (E/8)-th edge. Until there are E rows, only the biases
// learn.
//
//   f_0 = b + b_i + phi sum_j (w_j + v_j) + kappa n   b_i: bias of task i; w_j, v_j: weights of the fine and the coarse bin of column j
//   f_1 = f_0 + phi sum_j u_ij                      u_ij: own weight of task i for the coarse bin of column j
//   f_2 = f_0 + psi sum_{j,l} w_jl                  w_jl: weight of the coarse bins of two columns together
//
// phi = 1/sqrt(2d) for d columns, psi = 1/sqrt(number of pairs). n is the evidence of naive Bayes, over the 2d bins of the row, and kappa its learned
// weight. The weights of f_0 follow the gradient of f_0, and the weights that f_1 and f_2 add follow the gradients of f_1 and f_2, by AdaGrad
// (adagrad_and_bayes.hpp): c = 2 for w_j and v_j, 4 for own weights, own biases and pairs. On a graph, b_i and u_ij are weighted sums over the tasks
// related to i, as in the other parts.
//
// The own weights of all tasks are in one array, at the hash of task and bin, so two of them may share a number. The own biases are in the
// first eighth of it, where fewer weights share a number, because they matter most.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "rules/budgetron/features/hashing.hpp"
#include "rules/budgetron/parts/adagrad_and_bayes.hpp"
#include "rules/budgetron/parts/part.hpp"

namespace budgetron {

class BinnedColumns final : public Part {
 public:
  static constexpr std::size_t kCoarseEdges = 8, kCoarse = kCoarseEdges + 1;  // edges and number of the coarse bins of a column
  static constexpr std::size_t kCellsPerBias = 8;  // one in this many own weights is a bias
  static constexpr double kRate = 0.4, kPairRate = 1.0;
  static constexpr double kOwnPrior = 4.0, kPairPrior = 4.0;  // c of own weights and of pairs

  struct Shape {
    std::size_t columns, outputs, edges;  // `edges` per column, a multiple of 8
    bool pairs;
    std::size_t cells;  // numbers for own weights, per output; 0 if tasks have none
  };

  BinnedColumns(Bytes& bytes, const Shape& shape)
      : shape_(shape), classes_(classes_of(shape.outputs)), biases_(shape.cells / kCellsPerBias), phi_(1.0 / std::sqrt(2.0 * static_cast<double>(shape.columns))),
        psi_(1.0 / std::sqrt(static_cast<double>(std::max<std::size_t>(1, n_pairs())))), gradients_(bytes, count(), shape.outputs), evidence_(bytes, shape.outputs),
        edges_(bytes, shape.columns * shape.edges), bias_(bytes, shape.outputs), bias_squares_(bytes, shape.outputs), bayes_(bytes, 2, 1.0),
        slots_(bytes, shape.columns * slots_each() * slot_width()), own_(bytes, shape.cells * 2 * shape.outputs), pairs_(bytes, shape.pairs ? n_pairs() * kCoarse * kCoarse * 2 * shape.outputs : 0) {
    bayes_[0] = 0.5;
  }

  std::size_t count() const override { return 1 + (has_own() ? 1 : 0) + (shape_.pairs ? 1 : 0); }

  void margins(const Seen& e, double* f) const override {
    const std::size_t outputs = shape_.outputs;
    std::copy(bias_.begin(), bias_.end(), f);
    for_each_own_bias(e, [&](const float* w, double r, std::size_t) { add(w, r, f); });
    if (is_ready()) {
      find_bins(e);
      find_evidence(e);
      for_each_slot(e, [&](const float* slot, std::size_t) { add(slot + classes_, phi_, f); });
      for (std::size_t o = 0; o < outputs; ++o) f[o] += bayes_[0] * e.bin_evidence[o];
    }
    for (std::size_t k = outputs; k < count() * outputs; ++k) f[k] = f[k % outputs];
    if (!is_ready()) return;
    double* last = f + outputs;
    for_each_own(e, [&](const float* w, double r, std::size_t, std::size_t) { add(w, r * phi_, last); });
    if (has_own()) last += outputs;
    for_each_pair(e, [&](const float* w, std::size_t, std::size_t) { add(w, psi_, last); });
  }

  // About how far a step with g = 1 would move f, in place of a variance (as in fourier_adagrad.hpp).
  void variances(const Seen& e, double* v) override {
    v[0] = kRate;
    for_each_own_bias(e, [&](const float* w, double r, std::size_t) { v[0] += kRate * r * r * step_size(w); });
    if (is_ready()) for_each_slot(e, [&](const float* slot, std::size_t) { v[0] += kRate * phi_ * phi_ * step_size(slot + classes_); });
    for (std::size_t b = 1; b < count(); ++b) v[b] = v[0];
    if (!is_ready()) return;
    for_each_own(e, [&](const float* w, double r, std::size_t, std::size_t) { v[1] += kRate * r * r * phi_ * phi_ * step_size(w); });
    for_each_pair(e, [&](const float* w, std::size_t, std::size_t) { v[count() - 1] += kPairRate * psi_ * psi_ * step_size(w); });
  }

  bool learn(const Seen& e, const double* f, std::size_t label, double omega) override {
    const std::size_t outputs = shape_.outputs;
    bool any_steps = false;
    for (std::size_t b = 0; b < count(); ++b) any_steps |= gradients_.find(b, f, label, omega);
    for (std::size_t o = 0; o < outputs; ++o) step_bias(bias_[o], bias_squares_[o], gradients_[o], kRate);
    for_each_own_bias(e, [&](const float* w, double r, std::size_t) { step(writable(own_, w), r, 0, kRate, kOwnPrior); });
    if (!is_ready()) {
      store_row(e);
      return any_steps;
    }
    double bayes_gradient = 0;
    for (std::size_t o = 0; o < outputs; ++o) bayes_gradient += gradients_[o] * e.bin_evidence[o];
    step_bayes(bayes_[0], bayes_[1], bayes_gradient);
    for_each_slot(e, [&](const float* found, std::size_t) {
      float* slot = writable(slots_, found);
      step(slot + classes_, phi_, 0, kRate, kSharedPrior);
      slot[label] += static_cast<float>(phi_);
      evidence_.total()[label] += phi_;
    });
    for_each_own(e, [&](const float* w, double r, std::size_t, std::size_t) { step(writable(own_, w), r * phi_, 1, kRate, kOwnPrior); });
    for_each_pair(e, [&](const float* w, std::size_t, std::size_t) { step(writable(pairs_, w), psi_, count() - 1, kPairRate, kPairPrior); });
    return any_steps;
  }

  // Without e.bins, only linear terms are asked for, and there are none.
  void terms(const Seen& e, Terms& to) const override {
    if (!e.bins) return;
    const std::size_t outputs = shape_.outputs, constant = to.n - 1;
    for (std::size_t o = 0; o < outputs; ++o) to.columns(kShared, o)[constant] = bias_[o];
    for_each_own_bias(e, [&](const float* w, double r, std::size_t source) { add_term(w, r, source, 0, constant, to); });
    if (is_ready())
      for_each_slot(e, [&](const float* slot, std::size_t column) {
        add_term(slot + classes_, phi_, kShared, 0, column, to);
        evidence_.for_each_output(slot, [&](std::size_t o, double n) { to.columns(kShared, o)[column] += bayes_[0] * phi_ * n; });
      });
    for (std::size_t b = 1; b < count(); ++b)
      for (std::size_t o = 0; o < outputs; ++o)
        for (std::size_t source = 0; source < kSources; ++source) std::copy_n(to.columns(source, o), to.n, to.columns(source, b * outputs + o));
    if (!is_ready()) return;
    for_each_own(e, [&](const float* w, double r, std::size_t source, std::size_t column) { add_term(w, r * phi_, source, 1, column, to); });
    for_each_pair(e, [&](const float* w, std::size_t j, std::size_t l) {  // half of a pair for each of its columns
      for (const std::size_t column : {j, l}) add_term(w, 0.5 * psi_, kShared, count() - 1, column, to);
    });
  }

  void forget(std::int64_t task_id) noexcept override {
    if (!has_own()) return;
    std::fill_n(own_.data() + bias_cell(task_id) * 2 * shape_.outputs, 2 * shape_.outputs, 0.0f);
    for (std::size_t bin = 0; bin < shape_.columns * kCoarse; ++bin) std::fill_n(own_.data() + own_cell(task_id, bin) * 2 * shape_.outputs, 2 * shape_.outputs, 0.0f);
  }

  bool is_linear() const override { return false; }
  std::size_t bytes(std::size_t) const override { return (slots_.size() + own_.size() + pairs_.size()) * sizeof(float) + edges_.size() * sizeof(double); }

  void save(State& state) override {
    state.integers["bins_rows"] = {static_cast<std::int64_t>(rows_)};
    for_each_array([&](const char* name, auto& values) { state.reals[name].assign(values.begin(), values.end()); });
  }
  void load(const State& state) override {
    const std::int64_t rows = state.integers.at("bins_rows").at(0);
    if (rows < 0 || rows > static_cast<std::int64_t>(shape_.edges)) throw std::invalid_argument("saved model: the number of rows for bins is out of range");
    rows_ = static_cast<std::size_t>(rows);
    for_each_array([&](const char* name, auto& values) {
      const std::vector<double>& saved = state.reals.at(name);
      if (saved.size() != values.size()) throw std::invalid_argument("saved model: wrong size of the bins");
      using Number = std::decay_t<decltype(values[0])>;
      std::transform(saved.begin(), saved.end(), values.begin(), [](double x) { return static_cast<Number>(x); });
    });
  }

 private:
  bool is_ready() const { return rows_ == shape_.edges; }
  bool has_own() const { return shape_.cells > 0; }
  std::size_t n_pairs() const { return shape_.columns * (shape_.columns - 1) / 2; }
  std::size_t slots_each() const { return shape_.edges + 1 + kCoarse; }  // fine and coarse bins of a column
  std::size_t slot_width() const { return classes_ + 2 * shape_.outputs; }
  std::size_t coarse(const Seen& e, std::size_t column) const { return e.bins[column] / (shape_.edges / kCoarseEdges); }

  // margins() and learn() find weights by the same const functions; learn() changes them through writable().
  static float* writable(Vec<float>& array, const float* found) { return array.data() + (found - array.data()); }

  template <class Use>
  void for_each_array(Use use) {
    use("bins_edges", edges_);
    use("bins_total", evidence_.total());
    use("bins_bias", bias_);
    use("bins_bias_squares", bias_squares_);
    use("bins_bayes", bayes_);
    use("bins_mean_squares", gradients_.mean_squares());
    use("bins_slots", slots_);
    use("bins_own", own_);
    use("bins_pairs", pairs_);
  }

  // Writes the fine bin of every column to e.bins.
  void find_bins(const Seen& e) const {
    for (std::size_t j = 0; j < shape_.columns; ++j) {
      const double* first = edges_.data() + j * shape_.edges;
      e.bins[j] = static_cast<std::uint8_t>(std::lower_bound(first, first + shape_.edges, e.row[j]) - first);
    }
  }
  // Stores one of the first rows. After the last of these rows, sorts the values of each column, which are then its edges.
  void store_row(const Seen& e) {
    for (std::size_t j = 0; j < shape_.columns; ++j) edges_[j * shape_.edges + rows_] = e.row[j];
    if (++rows_ < shape_.edges) return;
    for (std::size_t j = 0; j < shape_.columns; ++j) std::sort(edges_.data() + j * shape_.edges, edges_.data() + (j + 1) * shape_.edges);
  }

  // ---- where the weights are

  // Calls use(slot, column) for the fine and the coarse bin of every column. A slot holds the mass of each class, the weights, and their G.
  template <class Use>
  void for_each_slot(const Seen& e, Use use) const {
    for (std::size_t j = 0; j < shape_.columns; ++j) {
      const float* first = slots_.data() + j * slots_each() * slot_width();
      use(first + e.bins[j] * slot_width(), j);
      use(first + (shape_.edges + 1 + coarse(e, j)) * slot_width(), j);
    }
  }
  // Calls use(weights, coefficient, source) for the bias of every related task.
  template <class Use>
  void for_each_own_bias(const Seen& e, Use use) const {
    for (std::size_t k = 0; has_own() && k < e.n_related; ++k)
      use(own_.data() + bias_cell(e.related[k].id) * 2 * shape_.outputs, e.related[k].coefficient, e.related[k].own ? kOwn : kRelated);
  }
  // Calls use(weights, coefficient, source, column) for the own weights of every related task.
  template <class Use>
  void for_each_own(const Seen& e, Use use) const {
    for (std::size_t k = 0; has_own() && k < e.n_related; ++k)
      for (std::size_t j = 0; j < shape_.columns; ++j)
        use(own_.data() + own_cell(e.related[k].id, j * kCoarse + coarse(e, j)) * 2 * shape_.outputs, e.related[k].coefficient, e.related[k].own ? kOwn : kRelated, j);
  }
  std::size_t bias_cell(std::int64_t id) const { return static_cast<std::size_t>(mix64(~id) % biases_); }
  // `bin` numbers the coarse bins of all columns.
  std::size_t own_cell(std::int64_t id, std::size_t bin) const {
    return biases_ + static_cast<std::size_t>(mix64(mix64(static_cast<std::uint64_t>(bin)) ^ mix64(~id)) % (shape_.cells - biases_));
  }
  // Calls use(weights, column, other column) for every pair of columns.
  template <class Use>
  void for_each_pair(const Seen& e, Use use) const {
    const float* bins = pairs_.data();  // of one pair of columns
    const std::size_t width = 2 * shape_.outputs;
    for (std::size_t j = 1; shape_.pairs && j < shape_.columns; ++j)
      for (std::size_t l = 0; l < j; ++l, bins += kCoarse * kCoarse * width) use(bins + (coarse(e, j) * kCoarse + coarse(e, l)) * width, j, l);
  }

  // ---- sums and steps

  void add(const float* w, double factor, double* f) const {
    for (std::size_t o = 0; o < shape_.outputs; ++o) f[o] += factor * static_cast<double>(w[o]);
  }
  void add_term(const float* w, double factor, std::size_t source, std::size_t belief, std::size_t column, Terms& to) const {
    for (std::size_t o = 0; o < shape_.outputs; ++o) to.columns(source, belief * shape_.outputs + o)[column] += factor * static_cast<double>(w[o]);
  }
  // 1/sqrt(1 + G), with G averaged over the outputs.
  double step_size(const float* w) const {
    double sum = 0;
    for (std::size_t o = 0; o < shape_.outputs; ++o) sum += static_cast<double>(w[shape_.outputs + o]);
    return 1.0 / std::sqrt(1.0 + sum / static_cast<double>(shape_.outputs));
  }
  // A step of weights and their G, along the gradient of one belief.
  void step(float* w, double feature, std::size_t belief, double rate, double prior) const {
    for (std::size_t o = 0; o < shape_.outputs; ++o) {
      const std::size_t k = belief * shape_.outputs + o;
      step_weight(w[o], w[shape_.outputs + o], static_cast<float>(feature), static_cast<float>(gradients_[k]), static_cast<float>(rate), 1.0f,
                   static_cast<float>(prior * gradients_.mean_square(k)));
    }
  }

  // Writes n to e.bin_evidence.
  void find_evidence(const Seen& e) const {
    const std::size_t outputs = shape_.outputs;
    for (std::size_t o = 0; o < outputs; ++o) {
      Evidence::LogRatio ratio;
      for_each_slot(e, [&](const float* slot, std::size_t) {
        const auto mass = [&](std::size_t c) { return static_cast<double>(slot[c]) + Evidence::kPriorMass; };
        ratio.above *= outputs == 1 ? mass(1) / mass(0) : mass(o);
        ratio.end_of_factor();
      });
      e.bin_evidence[o] = phi_ * (ratio.value() + static_cast<double>(ratio.factors()) * evidence_.log_prior(o));
    }
    evidence_.centre(e.bin_evidence);
  }

  Shape shape_;
  std::size_t classes_, biases_, rows_ = 0;  // rows_: how many of the first rows are stored
  double phi_, psi_;
  Gradients gradients_;
  Evidence evidence_;
  Vec<double> edges_, bias_, bias_squares_, bayes_;  // the edges (columns × edges); the bias and its sum of g^2; kappa and its `squares`
  Vec<float> slots_, own_, pairs_;
};

}  // namespace budgetron
