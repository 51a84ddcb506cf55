// For each slot j, the squared norm Σ_l β_lj² of its weights over the tasks l, where β = A⁻¹C (task_coefficients.hpp). The norms are updated with C,
// because computing them from C would take tasks × slots operations per eviction. In a clique of n tasks, A⁻¹ = (d − o) I + o J, where d is its
// diagonal, o its other entries and J all ones. s is the sum of the tasks' rows of C.
//
//   clique:        Σ_l β_lj² = (d − o)² Σ_l C_lj² + (2(d − o) o + n o²) s_j²
//   other graphs:  Σ_l β_lj² = C_jᵀ A⁻² C_j
//
// The norms are stored in one of two forms. `squares_` is Σ_l C_lj² for cliques, and Σ_l β_lj² for other graphs. With many tasks, `gram_` = βᵀβ is
// stored instead: for cliques the sum of the products C_lᵀC_l and sᵀs with the factors above, for other graphs CᵀA⁻²C. An eviction then reads
// none of the rows and solves no linear system.
//
// Call step(), remove() and evict() before changing the rows. The rows that change must be up to date (see CoefficientRows).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "learner/learner.hpp"
#include "rules/shared_projectron/weight_gram.hpp"
#include "stores/row_table.hpp"

namespace budgetron {

// A step adds a multiple of a direction to a row. The direction is a vector, or 1 in one slot and 0 in all others.
struct Direction {
  const double* values;  // nullptr: 1 in `slot`
  std::size_t slot;
};

class WeightNorms {
 public:
  WeightNorms(Bytes& bytes, const Config& config, const RowTable& table, std::size_t capacity)
      : clique_(dynamic_cast<const Clique*>(config.similarity.get())),
        explicit_(dynamic_cast<const Explicit*>(config.similarity.get())),
        n_outputs_(config.n_outputs),
        n_tasks_(config.n_tasks),
        table_(table),
        stride_(capacity),
        squares_(bytes, capacity),
        cross_(bytes, explicit_ ? capacity : 0),
        gram_(bytes) {}

  void grow(std::size_t capacity) {
    if (squares_.size() < capacity) squares_.resize(capacity);
    if (explicit_ && cross_.size() < capacity) cross_.resize(capacity);
  }
  void set_stride(std::size_t stride) noexcept { stride_ = stride; }

  bool uses_gram() const { return uses_gram_; }
  void use_gram() { uses_gram_ = true; }  // only while there are no rows
  void allocate_gram(std::size_t capacity) { gram_.allocate(capacity); }
  bool gram_allocated() const { return gram_.allocated(); }

  // out_j = Σ_l β_lj² up to a common factor, summed over the outputs.
  void read(std::size_t n, double* out) const {
    if (uses_gram_) return gram_.diagonal(n, out);
    std::copy_n(squares_.begin(), n, out);
    if (!coupled()) return;
    for (std::size_t j = 0; j < n; ++j) out[j] *= own_weight();
    for (std::size_t at = 0; at < table_.size(); ++at) {
      if (!table_.row(at).name.common) continue;
      const double share = weight(at);
      for (std::size_t o = 0; o < n_outputs_; ++o) {
        const double* s = values(at, o);
        for (std::size_t j = 0; j < n; ++j) out[j] += share * s[j] * s[j];
      }
    }
  }

  // Call it before the row of a task, and the common row of its cluster unless `common` is kNone, change by step · v.
  void step(std::uint32_t own, std::uint32_t common, const Step& step, Direction v, std::size_t n, Similarity::Workspace* workspace) {
    const Signed outputs[] = {{step.plus, step.sign}, {step.minus, -step.sign}};
    change(own, common, outputs, step.minus < n_outputs_ ? 2 : 1, v, n, workspace);
  }

  // Call it before a row is removed from the table.
  void remove(std::uint32_t at, std::size_t n, Similarity::Workspace* workspace) {
    for (std::size_t o = 0; o < n_outputs_; ++o) {
      if (uses_gram_ && clique_) {
        gram_.add(-weight(at), values(at, o), n);
      } else if (!table_.row(at).name.common) {
        const Signed output{o, -1.0};
        change(at, RowTable::kNone, &output, 1, {values(at, o), 0}, n, workspace);
      }
    }
  }
  // Adds a common row to the norms (factor 1), or subtracts it (factor −1).
  void add_common(std::uint32_t at, double factor, std::size_t n) {
    for (std::size_t o = 0; o < n_outputs_ && uses_gram_; ++o) gram_.add(factor * weight(at), values(at, o), n);
  }
  // The cluster of a common row gains `more` tasks; it loses tasks if `more` is negative.
  void add_members(std::uint32_t at, std::int64_t more, std::size_t n) {
    if (n_tasks_ || !uses_gram_) return;
    const double change = static_cast<double>(more) * clique_->off * clique_->off;
    for (std::size_t o = 0; o < n_outputs_; ++o) gram_.add(change, values(at, o), n);
  }

  // C_lj += γ_j C_lr in every row l, and C_lr becomes γ_r C_lr.
  void evict(std::size_t r, const double* gamma, std::size_t n, Similarity::Workspace* workspace) {
    if (uses_gram_) return gram_.evict(r, gamma, n);
    if (clique_) {  // the caller adds up the squares again, see squares_to_recompute()
      std::fill_n(squares_.begin(), n, 0.0);
      return;
    }
    std::fill_n(cross_.begin(), n, 0.0);  // C_jᵀA⁻²C_r
    double* twice = explicit_->vector(workspace);
    for (std::size_t o = 0; o < n_outputs_; ++o) {
      std::fill_n(twice, explicit_->tasks(), 0.0);
      for (std::size_t at = 0; at < table_.size(); ++at) twice[table_.row(at).name.id] = values(at, o)[r];
      explicit_->apply(twice, workspace);
      explicit_->apply(twice, workspace);
      add_rows(twice, o, 1.0, 0, n, cross_.data());
    }
    const double square = cross_[r];
    for (std::size_t j = 0; j < n; ++j) squares_[j] += gamma[j] * (2.0 * cross_[j] + gamma[j] * square);
    squares_[r] = gamma[r] * gamma[r] * square;
  }
  // The array to which the caller adds the squares of all task rows after an eviction; nullptr if this is not necessary.
  double* squares_to_recompute() { return clique_ && !uses_gram_ ? squares_.data() : nullptr; }

  void slot_removed(std::size_t slot, std::size_t last) {
    if (uses_gram_) return gram_.slot_removed(slot, last);
    squares_[slot] = squares_[last];
    squares_[last] = 0.0;
  }

  // Applies a pending change. Call it at the end of every operation that changes rows. A saved model has no pending changes, so a change that
  // is still pending would make the loaded model round differently.
  void settle(std::size_t n) {
    if (uses_gram_) gram_.settle(n);
  }

  // q_j += sign Σ_l factor_l C_lj, for the slots from `begin` to `end`. With `cluster`, only the rows of that cluster are read: the factors
  // of all other tasks are 0.
  static constexpr std::int64_t kAllClusters = -1;
  void add_rows(const double* factor, std::size_t output, double sign, std::size_t begin, std::size_t end, double* q,
                std::int64_t cluster = kAllClusters) const {
    constexpr std::size_t kBlock = 64;
    const double* block[kBlock];
    double factors[kBlock];
    std::size_t count = 0;
    for (std::size_t at = 0; at < table_.size(); ++at) {
      if (cluster != kAllClusters && table_.row(at).cluster != cluster) continue;
      block[count] = values(at, output) + begin;
      factors[count++] = sign * factor[table_.row(at).name.id];
      if (count < kBlock) continue;
      simd().add_rows(block, factors, count, end - begin, q + begin);
      count = 0;
    }
    simd().add_rows(block, factors, count, end - begin, q + begin);
  }

  // Computes the norms from all rows, in the form of a Gram matrix (which must be allocated) if `as_gram`.
  void rebuild(bool as_gram, std::size_t n, Similarity::Workspace* workspace) {
    uses_gram_ = as_gram;
    std::fill(squares_.begin(), squares_.end(), 0.0);
    for (std::uint32_t at = 0; at < table_.size(); ++at)
      for (std::size_t o = 0; o < n_outputs_; ++o) {
        const double* row = values(at, o);
        if (clique_ && uses_gram_) {
          gram_.add(weight(at), row, n);
        } else if (clique_) {
          for (std::size_t j = 0; j < n && !table_.row(at).name.common; ++j) squares_[j] += row[j] * row[j];
        } else {
          double* q = begin_sum(n);
          add_rows(squared_column(table_.row(at).name.id, workspace), o, 1.0, 0, n, q, table_.row(at).cluster);
          for (std::size_t j = 0; j < n; ++j) squares_[j] += q[j] * row[j];
          if (!uses_gram_) continue;
          for (std::size_t j = 0; j < n; ++j) q[j] *= 0.5;
          gram_.add_step(row, n);
        }
      }
    settle(n);
  }

  void save(State& state, std::size_t n) const {
    if (uses_gram_)
      state.reals["table_gram"] = gram_.saved(n);
    else
      state.reals["table_squares"].assign(squares_.begin(), squares_.begin() + static_cast<std::ptrdiff_t>(n));
  }
  // Returns false if the state has no norms, or has them in the form that this model does not use.
  bool load(const State& state, bool as_gram, std::size_t n) {
    const auto saved = state.reals.find(as_gram ? "table_gram" : "table_squares");
    if (saved == state.reals.end() || saved->second.size() != (as_gram ? WeightGram::triangle(n) : n)) return false;
    uses_gram_ = as_gram;
    if (as_gram)
      gram_.load(saved->second, n);
    else
      std::copy(saved->second.begin(), saved->second.end(), squares_.begin());
    return true;
  }

 private:
  struct Signed {
    std::size_t output;
    double sign;
  };

  const double* values(std::size_t at, std::size_t output) const { return table_.values(at) + output * stride_; }
  bool coupled() const { return clique_ && clique_->off != 0.0; }

  // Factors in the formula for cliques above: own_weight() for the row of a task, weight() for any row. If o = 0, the common factor d² is left out.
  double own_weight() const {
    if (!coupled()) return 1.0;
    const double d = clique_->diagonal - clique_->off;
    return d * d;
  }
  double weight(std::size_t at) const {
    if (!table_.row(at).name.common) return own_weight();
    const double d = clique_->diagonal - clique_->off, o = clique_->off;
    const double members = static_cast<double>(n_tasks_ ? static_cast<std::int64_t>(n_tasks_) : table_.row(at).members);
    return 2.0 * d * o + members * o * o;
  }

  // The row of a task, and its common row, change by sign · v in `count` outputs. βᵀβ is quadratic in C: it changes by v qᵀ + q vᵀ +
  // self · v vᵀ, where q is a weighted sum of rows of C.
  void change(std::uint32_t own, std::uint32_t common, const Signed* outputs, std::size_t count, Direction v, std::size_t n,
              Similarity::Workspace* workspace) {
    // If only the squares of one slot change, only that slot of the rows is read.
    const std::size_t begin = v.values || uses_gram_ ? 0 : v.slot, end = v.values || uses_gram_ ? n : v.slot + 1;
    double self = static_cast<double>(count);
    if (clique_ && !uses_gram_) {
      for (std::size_t i = 0; i < count; ++i) {
        const double* c = values(own, outputs[i].output);
        for (std::size_t j = begin; j < end; ++j) {
          const double x = v.values ? v.values[j] : 1.0;
          squares_[j] += x * (x + 2.0 * outputs[i].sign * c[j]);
        }
      }
      return;
    }
    double* q = begin_sum(n);
    if (clique_) {
      const double task_weight = own_weight(), common_weight = common == RowTable::kNone ? 0.0 : weight(common);
      for (std::size_t i = 0; i < count; ++i) {
        simd().axpy(outputs[i].sign * task_weight, values(own, outputs[i].output), n, q);
        if (common != RowTable::kNone) simd().axpy(outputs[i].sign * common_weight, values(common, outputs[i].output), n, q);
      }
      self *= task_weight + common_weight;
    } else {
      const double* twice = squared_column(table_.row(own).name.id, workspace);
      for (std::size_t i = 0; i < count; ++i) add_rows(twice, outputs[i].output, outputs[i].sign, begin, end, q, table_.row(own).cluster);
      self *= twice[table_.row(own).name.id];
    }
    if (!uses_gram_) {
      for (std::size_t j = begin; j < end; ++j) {
        const double x = v.values ? v.values[j] : 1.0;
        squares_[j] += x * (2.0 * q[j] + self * x);
      }
    } else if (v.values) {
      for (std::size_t j = 0; j < n; ++j) q[j] += 0.5 * self * v.values[j];
      gram_.add_step(v.values, n);
    } else {
      q[v.slot] += 0.5 * self;
      gram_.add_step(v.slot, n);
    }
  }

  // A vector of zeros for a sum of rows. With a Gram matrix it is the vector m that WeightGram::add_step() reads.
  double* begin_sum(std::size_t n) {
    double* q = uses_gram_ ? gram_.vector() : cross_.data();
    std::fill_n(q, n, 0.0);
    return q;
  }
  // Column i of A⁻². Column i of A⁻¹ was computed for the margin, so this costs one further solve.
  const double* squared_column(std::int64_t task_id, Similarity::Workspace* workspace) {
    double* twice = explicit_->vector(workspace);
    std::copy_n(explicit_->column(task_id, workspace), explicit_->tasks(), twice);
    explicit_->apply(twice, workspace);
    return twice;
  }
  const Clique* clique_;  // one of the two is set
  const Explicit* explicit_;
  const std::size_t n_outputs_, n_tasks_;
  const RowTable& table_;
  std::size_t stride_;
  Vec<double> squares_;
  Vec<double> cross_;  // working memory for sums of rows, if the graph is not a clique
  bool uses_gram_ = false;
  WeightGram gram_;
};

}  // namespace budgetron
