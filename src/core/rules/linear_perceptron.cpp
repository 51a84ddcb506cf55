// LinearPerceptron: the multitask Perceptron with one vector per task, and the multitask p-norm Perceptron.
//
// x is the row of the example and y its label. A is the interaction matrix of the tasks, w_j are the weights of task j, v_j its dual weights, and n
// runs over the entries of all v_j.
//
//   on a mistake of task i:   v_j ← v_j + y (A⁻¹)_ji x for every task j
//   no norm:   f_i(x) = v_i·x
//   p-norm:    f_i(x) = Σ_j (A⁻¹)_ij w_j·x,   w_n = φ(v_n)/‖v‖_p^{p−2},   φ(v) = sign(v)|v|^{p−1}
//
// In a clique (diagonal a, off-diagonal o of A⁻¹), v_j = (a − o) u_j + o s, where u_j is the sum of the task's own steps and s the sum of the u_j of
// its cluster. So a mistake changes only one row and one sum. With a p-norm, each cluster also stores, per output and column, the sums Φ = Σ_j φ(v_j)
// and Σ_j |v_j|^p; a mistake recomputes them for the columns in which x is not 0. On an explicit graph, v itself is stored for all tasks.
//
// |v|^p can overflow. Therefore φ and |v|^p are computed from v/unit_, where unit_ is a power of two.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "learner/primal_learner.hpp"

namespace budgetron {

namespace {

class LinearPerceptron final : public PrimalLearner {
 public:
  explicit LinearPerceptron(const Config& config)
      : PrimalLearner(config),
        p_(config.parameters.real("norm", 0.0)),
        clique_(dynamic_cast<const Clique*>(config.similarity.get())),
        explicit_(dynamic_cast<const Explicit*>(config.similarity.get())),
        sums_(bytes_, p_ > 0 ? 3 * width_ : width_, 0, config.hash_seed),
        phi_(bytes_),
        clusters_seen_(bytes_) {
    if ((p_ != 0 && !(p_ >= 2 && p_ <= 50)) || (!clique_ && !explicit_))
      throw std::invalid_argument("_core.make: a LinearPerceptron needs a norm from 2 to 50, or 0 for none, and a graph that is not factored");
    if (!explicit_) return;
    rows_.reserve(explicit_->tasks());
    for (std::size_t j = 0; j < explicit_->tasks(); ++j) rows_.add({static_cast<std::int64_t>(j), false}, 0);
    rows_.end_reserve();
    if (p_ > 0) resize_exactly(phi_, explicit_->tasks() * width_);
  }

  void forget(std::int64_t task_id) override {
    const std::uint32_t r = row_of(task_id);
    if (r == RowTable::kNone) return;
    if (explicit_) {
      std::fill_n(rows_.values(r), width_, 0.0);
    } else {
      const std::uint32_t c = sum_of(rows_.row(r).cluster);
      if (c != RowTable::kNone)
        for (std::size_t n = 0; n < width_; ++n) sums_.values(c)[n] -= rows_.values(r)[n];
      rows_.drop(r);
    }
    if (p_ > 0) rebuild();
  }

 protected:
  void reserve_rule(const Rows&, std::size_t from, std::size_t to, const std::int64_t* task_ids, const std::int64_t* clusters) override {
    if (explicit_) return;
    rows_.reserve(count_new_tasks(from, to, task_ids));
    if (!coupled()) return;
    clusters_seen_.clear();
    for (std::size_t i = from; i < to; ++i)
      if (sum_of(clusters[i]) == RowTable::kNone) clusters_seen_.push_back(clusters[i]);
    sums_.reserve(count_distinct(clusters_seen_));
    release(clusters_seen_);
  }
  void end_reserve() noexcept override {
    PrimalLearner::end_reserve();
    sums_.end_reserve();
  }

  void score(const Instance& x, Task task, Scratch& s) const override {
    // w = scale · φ(v/unit_), because φ(v) = unit_^{p−1} φ(v/unit_) and ‖v‖_p = unit_ norm_^{1/p}.
    const double scale = p_ > 0 && norm_ > 0 ? unit_ * std::pow(norm_, 2.0 / p_ - 1.0) : 0.0;
    if (explicit_) return score_explicit(x, task, scale, s);
    const std::uint32_t r = row_of(task.id), c = sum_of(task.cluster);
    const double a = clique_->diagonal, o = clique_->off;
    for (std::size_t k = 0; k < config_.n_outputs; ++k) {
      const std::size_t at = k * config_.d;
      const double* own = r == RowTable::kNone ? nullptr : rows_.values(r) + at;
      const double* sum = c == RowTable::kNone ? nullptr : sums_.values(c) + at;
      double& f = s.margins[k] = 0.0;
      if (p_ == 0) {
        if (own) f += (a - o) * product(own, x);
        if (sum) f += o * product(sum, x);
        continue;
      }
      for_each_value(x, [&](std::size_t n, double value) {
        const double shared = sum ? o * sum[n] : 0.0, phi = power(((own ? (a - o) * own[n] : 0.0) + shared) / unit_);
        double w = (a - o) * phi;
        // Φ, in sum[width_ + n], includes a task without a row only if the number of tasks is known.
        if (sum) w += o * (sum[width_ + n] + (own || n_tasks_known() ? 0.0 : phi));
        f += w * value;
      });
      f *= scale;
    }
  }

  std::uint8_t update(const Example& example, Scratch& s) override {
    Step step;
    if (!mistaken(example, s, step)) return 0;
    if (square(example.x) == 0) return kMistake;
    if (explicit_) {
      learn_explicit(example, step, s);
    } else {
      learn_clique(example, step);
    }
    if (p_ > 0) {
      peak_ = std::max(peak_, norm_);
      // Recompute the norm if cancellation has cost it six digits or more, or if some |v| is too large for the unit.
      if (rescale_ || !(norm_ > 1e-6 * peak_)) rebuild();
    }
    return kMistake | kUpdated;
  }

  void save_rule(State& state) override {
    save_rows(state);
    auto& sums = state.reals["sums"];
    auto& clusters = state.integers["sum_cluster"];
    for (std::size_t c = 0; c < sums_.size(); ++c) {
      clusters.push_back(sums_.row(c).cluster);
      sums.insert(sums.end(), sums_.values(c), sums_.values(c) + width_);
    }
    if (p_ == 0) return;
    auto& duals = state.reals["dual_sums"];
    for (std::size_t c = 0; c < sums_.size(); ++c) duals.insert(duals.end(), sums_.values(c) + width_, sums_.values(c) + 3 * width_);
    state.reals["norm"] = {norm_, unit_, peak_};
  }

  void load_rule(const State& state) override {
    load_rows(state, [](std::size_t) {});
    const auto& clusters = state.integers.at("sum_cluster");
    const auto& sums = state.reals.at("sums");
    if (sums.size() != clusters.size() * width_ || (explicit_ && !clusters.empty()))
      throw std::invalid_argument("saved model: wrong number of sums");
    sums_.reserve(clusters.size());
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      if (sum_of(clusters[c]) != RowTable::kNone) throw std::invalid_argument("saved model: a cluster occurs twice");
      sums_.add({clusters[c], true}, clusters[c]);
      std::copy_n(sums.begin() + static_cast<std::ptrdiff_t>(c * width_), width_, sums_.values(c));
    }
    if (coupled())
      for (std::size_t r = 0; r < rows_.size(); ++r)
        if (sum_of(rows_.row(r).cluster) == RowTable::kNone) throw std::invalid_argument("saved model: the sum of a cluster is missing");
    if (p_ == 0) return;
    const auto norm = state.reals.find("norm"), duals = state.reals.find("dual_sums");
    if (norm == state.reals.end() || duals == state.reals.end() || norm->second.size() != 3 || !(norm->second[1] > 0) ||
        duals->second.size() != 2 * width_ * sums_.size())
      return rebuild();
    norm_ = norm->second[0];
    unit_ = norm->second[1];
    peak_ = norm->second[2];
    for (std::size_t c = 0; c < sums_.size(); ++c)
      std::copy_n(duals->second.begin() + static_cast<std::ptrdiff_t>(2 * c * width_), 2 * width_, sums_.values(c) + width_);
    for (std::size_t j = 0; explicit_ && j < rows_.size(); ++j)
      for (std::size_t n = 0; n < width_; ++n) phi_[j * width_ + n] = power(rows_.values(j)[n] / unit_);
  }

 private:
  static constexpr double kRange = 65536.0;  // when |v|/unit_ exceeds this, unit_ is chosen again

  bool coupled() const { return clique_ && clique_->off != 0.0; }
  bool n_tasks_known() const { return config_.n_tasks != 0; }
  // How many tasks of the clique have no row; 0 if the number of its tasks is unknown. Each of them has v = o s.
  double n_missing() const {
    return config_.n_tasks > rows_.size() ? static_cast<double>(config_.n_tasks - rows_.size()) : 0.0;
  }
  std::uint32_t sum_of(std::int64_t cluster) const { return sums_.find({cluster, true}); }

  double power(double z) const { return z == 0 ? 0.0 : std::copysign(std::pow(std::abs(z), p_ - 1.0), z); }
  // Adds φ(v/unit_) and |v/unit_|^p of `times` equal weights v to the two sums.
  void add_powers(double v, double times, double& phi_sum, double& norm_sum) {
    const double z = v / unit_, phi = power(z);
    if (std::abs(z) > kRange) rescale_ = true;
    phi_sum += times * phi;
    norm_sum += times * phi * z;
  }

  void score_explicit(const Instance& x, Task task, double scale, Scratch& s) const {
    const double* column = p_ > 0 ? explicit_->column(task.id, s.workspace.get()) : nullptr;
    for (std::size_t k = 0; k < config_.n_outputs; ++k) {
      if (p_ == 0) {
        s.margins[k] = product(rows_.values(static_cast<std::size_t>(task.id)) + k * config_.d, x);
        continue;
      }
      double f = 0;
      for (std::size_t j = 0; j < rows_.size(); ++j)
        if (column[j] != 0) f += column[j] * product(phi_.data() + j * width_ + k * config_.d, x);
      s.margins[k] = scale * f;
    }
  }

  void learn_explicit(const Example& example, const Step& step, Scratch& s) {
    const double* column = explicit_->column(example.task.id, s.workspace.get());
    for_each_output(step, [&](std::size_t k, double y) {
      for (std::size_t j = 0; j < rows_.size(); ++j) {
        if (column[j] == 0) continue;
        double* v = rows_.values(j) + k * config_.d;
        double* phi = p_ > 0 ? phi_.data() + j * width_ + k * config_.d : nullptr;
        for_each_value(example.x, [&](std::size_t n, double value) {
          if (phi) norm_ -= phi[n] * (v[n] / unit_);
          v[n] += y * column[j] * value;
          if (!phi) return;
          phi[n] = 0.0;
          add_powers(v[n], 1.0, phi[n], norm_);
        });
      }
    });
  }

  void learn_clique(const Example& example, const Step& step) {
    const std::uint32_t r = row_for(example.task), c = coupled() ? sum_of(example.task.cluster) : RowTable::kNone;
    const double a = clique_->diagonal, o = clique_->off;
    for_each_output(step, [&](std::size_t k, double y) {
      const std::size_t at = k * config_.d;
      for_each_value(example.x, [&](std::size_t column, double value) {
        const std::size_t n = at + column;
        double& own = rows_.values(r)[n];
        if (c == RowTable::kNone) {
          if (p_ > 0) norm_ -= power(a * own / unit_) * (a * own / unit_);
          own += y * value;
          double unused = 0;
          if (p_ > 0) add_powers(a * own, 1.0, unused, norm_);
          return;
        }
        double* sum = sums_.values(c) + n;
        own += y * value;
        *sum += y * value;
        if (p_ == 0) return;
        double& phi = sum[width_];
        double& norm = sum[2 * width_];
        norm_ -= norm;
        phi = norm = 0.0;
        double same_phi = 0, same_norm = 0;  // of a task with u = 0 in this column, so that v = o s
        add_powers(o * *sum, 1.0, same_phi, same_norm);
        for (std::size_t j = 0; j < rows_.size(); ++j) {
          if (rows_.row(j).cluster != example.task.cluster) continue;
          const double u = rows_.values(j)[n];
          if (u == 0) {
            phi += same_phi;
            norm += same_norm;
          } else {
            add_powers((a - o) * u + o * *sum, 1.0, phi, norm);
          }
        }
        phi += n_missing() * same_phi;
        norm += n_missing() * same_norm;
        norm_ += norm;
      });
    });
  }

  // Returns the row of a task, and adds it if there is none. A new row is counted in the sums of its cluster. If the number of tasks is
  // known, the sums count it already, as one of the tasks without a row.
  std::uint32_t row_for(Task task) {
    if (coupled() && sum_of(task.cluster) == RowTable::kNone) sums_.add({task.cluster, true}, task.cluster);
    const std::uint32_t row = row_of(task.id);
    if (row != RowTable::kNone) return row;
    const bool counted = n_missing() > 0;
    const std::uint32_t r = rows_.add({task.id, false}, task.cluster);
    if (p_ == 0 || counted || !coupled()) return r;
    double* sum = sums_.values(sum_of(task.cluster));
    for (std::size_t n = 0; n < width_; ++n) {
      norm_ -= sum[2 * width_ + n];
      add_powers(clique_->off * sum[n], 1.0, sum[width_ + n], sum[2 * width_ + n]);
      norm_ += sum[2 * width_ + n];
    }
    return r;
  }

  // Chooses unit_ again. With it, recomputes Φ and Σ|v|^p of every cluster, or phi_ of an explicit graph, and norm_.
  void rebuild() {
    const double a = clique_ ? clique_->diagonal : 1.0, o = clique_ ? clique_->off : 0.0;
    const auto shared = [&](std::size_t r, std::size_t n) {
      return coupled() ? o * sums_.values(sum_of(rows_.row(r).cluster))[n] : 0.0;
    };
    double largest = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (std::size_t n = 0; n < width_; ++n) largest = std::max(largest, std::abs((explicit_ ? 1.0 : a - o) * rows_.values(r)[n] + shared(r, n)));
    for (std::size_t c = 0; c < sums_.size(); ++c)
      for (std::size_t n = 0; n < width_; ++n) largest = std::max(largest, std::abs(o * sums_.values(c)[n]));
    unit_ = largest > 0 ? std::exp2(std::floor(std::log2(largest))) : 1.0;
    norm_ = 0.0;
    for (std::size_t c = 0; c < sums_.size(); ++c) std::fill_n(sums_.values(c) + width_, 2 * width_, 0.0);
    double unused = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      double* sum = coupled() ? sums_.values(sum_of(rows_.row(r).cluster)) : nullptr;
      for (std::size_t n = 0; n < width_; ++n) {
        const double v = (explicit_ ? 1.0 : a - o) * rows_.values(r)[n] + shared(r, n);
        if (sum) {
          add_powers(v, 1.0, sum[width_ + n], sum[2 * width_ + n]);
        } else if (explicit_) {
          phi_[r * width_ + n] = 0.0;
          add_powers(v, 1.0, phi_[r * width_ + n], norm_);
        } else {
          add_powers(v, 1.0, unused, norm_);
        }
      }
    }
    for (std::size_t c = 0; c < sums_.size(); ++c)
      for (std::size_t n = 0; n < width_; ++n) {
        double* sum = sums_.values(c) + n;
        if (n_missing() > 0) add_powers(o * *sum, n_missing(), sum[width_], sum[2 * width_]);
        norm_ += sum[2 * width_];
      }
    peak_ = norm_;
    rescale_ = false;
  }

  const double p_;  // 0: no norm
  const Clique* clique_;
  const Explicit* explicit_;
  RowTable sums_;    // per cluster: s; with a norm also Φ and Σ|v|^p, computed from v/unit_
  Vec<double> phi_;  // φ(v/unit_) of an explicit graph, tasks × width
  Vec<std::int64_t> clusters_seen_;
  double norm_ = 0.0, unit_ = 1.0, peak_ = 0.0;  // norm_ is ‖v/unit_‖_p^p; peak_ is the largest norm_ since the last rebuild()
  bool rescale_ = false;  // whether rebuild() must choose a larger unit_
};

const Registered registered("linear_perceptron", {"norm"}, make_counted<LinearPerceptron>);

}  // namespace

}  // namespace budgetron
