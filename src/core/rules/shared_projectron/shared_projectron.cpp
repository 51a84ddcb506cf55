// SharedProjectron, the Budget Projectron whose projection ignores tasks.
//
// K' is the kernel of the rows, without the similarities A⁻¹ of the tasks. S is the set of stored examples, H their Gram matrix in K', and k' the
// values of K' between the new example t and S. (β_l)_j is the weight of example j for task l, i_t the task of t, δ the distance of t from the span
// of S in K', and η the parameter `eta`. A mistake with √K'_tt ≤ η is not learned.
//
//   f_l(x) = Σ_j (β_l)_j K'(x_j, x)
//   on any other mistake:  α = H⁻¹k',  δ² = K'_tt − k'ᵀα
//     δ ≤ η:   (β_l)_j += α_j y_t (A⁻¹)_{l,i_t}  for all l
//     else:    S ← S ∪ {t},  (β_l)_t = y_t (A⁻¹)_{l,i_t}.  If now |S| = B + 1, with P = H⁻¹ of the B + 1 instances:
//              r = argmin of ‖((β_1)_j … (β_k)_j)‖ / √P_jj over the stored j (not t),  γ_j = −P_jr / P_rr,
//              (β_l)_j += γ_j (β_l)_r for every l and j ≠ r (also t),  S ← S ∖ {r}
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "algebra/span.hpp"
#include "learner/registry.hpp"
#include "rules/shared_projectron/task_coefficients.hpp"

namespace budgetron {

namespace {

class SharedProjectron final : public Learner {
 public:
  explicit SharedProjectron(const Config& config)
      : Learner(config),
        eta_(config.parameters.real("eta", 0.0)),
        span_(bytes_, capacity(), small_eta(), config.single && !config.sparse),
        beta_(bytes_, config, config.parameters.count("max_task_rows", 0), capacity()) {
    require_kernel();
    if (config.parameters.count("max_task_rows", 0) == 1)
      throw std::invalid_argument("_core.make: max_task_rows must be 0 for no cap, or at least 2");
  }

  void task_weights(Task task, double* out) const override {
    Bytes temporary;
    const auto workspace = config_.similarity->new_workspace(temporary);
    Vec<double> space(temporary, size());
    std::fill(out, out + config_.n_outputs * size(), 0.0);
    beta_.visit(task, size(), workspace.get(), space.data(),
                [&](std::size_t o, double similarity, const double* row) { simd().axpy(similarity, row, size(), out + o * size()); });
  }

  // Σ_l C_lj over the tasks l, where C is the matrix that task_coefficients.hpp defines.
  void coefficients(double* out) const override {
    std::fill(out, out + config_.n_outputs * size(), 0.0);
    beta_.add_task_rows(size(), out);
  }

  void forget(std::int64_t task_id) override {
    beta_.forget(task_id, size(), workspace());
    for (std::size_t slot = 0; slot < size();) {
      if (task_ids_[slot] == task_id) {
        span_.settle();
        evict(slot);
      } else {
        ++slot;
      }
    }
  }

 protected:
  void score(const Instance&, Task task, Scratch& s) const override {
    std::fill(s.margins.begin(), s.margins.end(), 0.0);
    beta_.visit(task, size(), s.workspace.get(), s.task_row.data(), [&](std::size_t o, double similarity, const double* row) {
      s.margins[o] += similarity * simd().dot(row, s.row.data(), size());
    });
  }

  std::uint8_t update(const Example& example, Scratch& scratch) override {
    Step step;
    if (!mistaken(example, scratch, step)) return 0;
    const double eta2 = eta_ * eta_, kk = example.self;
    if (kk <= eta2) return kMistake;
    beta_.ensure_rows(example.task, n_seen_, size(), workspace());
    const double* k = scratch.row.data();
    double delta2 = span_.project(k, kk, rows());
    if (delta2 <= eta2) {
      beta_.update(example.task, step, {span_.alpha.data(), 0}, size(), workspace());
      return kMistake | kUpdated;
    }
    if (!store_->fits_alone(example.x)) {
      beta_.settle(size());
      return kMistake;
    }
    while (!store_->fits(example.x)) {
      const std::size_t r = cheapest([&](std::size_t j) { return span_.root_diagonal(j); });
      move_last(scratch.row, r, size() - 1);
      evict(r);
      delta2 = span_.project(k, kk, rows());
    }
    std::size_t slot;
    if (full()) {
      slot = cheapest(span_.root_diagonals(delta2));
      span_.replace(slot, k, kk, delta2);
      beta_.distribute(slot, span_.gamma.data(), size(), workspace());
      replace(slot, example);
    } else {
      span_.append(k, kk, delta2);
      slot = append(example);
    }
    beta_.update(example.task, step, {nullptr, slot}, size(), workspace());
    return kMistake | kUpdated | kStored;
  }

  void grow(std::size_t capacity) override {
    span_.reserve(capacity);
    beta_.grow(capacity);
  }

  bool rule_grows_little(std::size_t n, const std::int64_t* task_ids) const override {
    const std::size_t few = std::max<std::size_t>(64, beta_.rows());
    // Looking up every task can take longer than learning the examples, so it is done only if the result can matter.
    return beta_.limited() || 2 * n <= few || beta_.count_missing(0, n, task_ids, task_ids) <= few;
  }

  void reserve_rule(const Rows&, std::size_t from, std::size_t to, const std::int64_t* task_ids, const std::int64_t* clusters) override {
    beta_.reserve(beta_.count_missing(from, to, task_ids, clusters));
  }
  void end_reserve() noexcept override { beta_.end_reserve(); }

  void slot_removed(std::size_t slot, std::size_t last) override { beta_.slot_removed(slot, last); }
  void rows_moved() override { span_.rebuild(size(), rows()); }
  void kernel_changed() override {
    rows_moved();
    // The Gram matrix of nearly dependent examples is ill-conditioned: after one eviction, its updated inverse could be wrong in every digit.
    // So the inverse is rebuilt each time.
    span_.evict_dependent(eta_ * eta_, [this](std::size_t r) {
      evict(r);
      rows_moved();
    });
  }

  void save_rule(State& state) override {
    span_.save(state);
    beta_.save(state, size());
  }
  void load_rule(const State& state) override {
    span_.load(state, size(), rows());
    beta_.load(state, size(), workspace());
  }

 private:
  bool small_eta() const {
    const bool normalised = config_.kernel.kind == Kernel::Kind::gaussian || config_.kernel.normalize;
    return !normalised || eta_ < 1e-2;
  }

  Gram::RowOf rows() {
    return [this](std::size_t slot, double* row) { store_->kernel_row_of_slot(config_.kernel, slot, true, row); };
  }

  template <class RootDiagonal>
  std::size_t cheapest(RootDiagonal root_diagonal) {
    double* scores = span_.scores.data();
    const std::size_t n = size();
    beta_.squared_norms(n, scores);
    // The squares are updated step by step, so a square that should be 0 may be a small rounding error. Such squares count as 0.
    const double negligible = 1e-14 * *std::max_element(scores, scores + n);
    for (std::size_t j = 0; j < n; ++j)
      scores[j] = scores[j] > negligible ? std::sqrt(scores[j]) / root_diagonal(j) : 0.0;
    return argmin_oldest(scores, n);
  }

  void evict(std::size_t r) {
    span_.set_eviction(r);
    beta_.distribute(r, span_.gamma.data(), size(), workspace());
    span_.remove(r);
    remove(r);
  }

  const double eta_;
  Span span_;
  TaskCoefficients beta_;
};

const Registered registered("shared_projectron", {"eta", "max_task_rows"}, make_counted<SharedProjectron>);

}  // namespace

}  // namespace budgetron
