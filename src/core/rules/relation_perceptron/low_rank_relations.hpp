// The matrix C of a RelationPerceptron as base·I + F Fᵀ, where F has r columns: O(k r) numbers for k tasks. Row i of W has the weights of task i.
//
// For logdet and von Neumann, Σ (full_relations.hpp) is approximated by L Lᵀ with frequent directions (Liberty, KDD 2013). Whenever C is recomputed,
// column q of L becomes u_q √(s_q² − s_{r+1}²) for q = 1 … r, where s_1 ≥ s_2 ≥ … are the singular values of [L W] and u_q its left singular vectors.
// For covariance and batch, the columns of F are the eigenvectors of the r largest eigenvalues of C, times the square roots of these eigenvalues.
//
// Singular vectors are computed from the Gram matrix of the tasks or from the Gram matrix of the columns, whichever is smaller. This matrix is
// working memory, in addition to the O(k r) numbers.
#pragma once

#include "algebra/eigen.hpp"
#include "rules/relation_perceptron/relations.hpp"

namespace budgetron {

class LowRankRelations final : public Relations {
 public:
  LowRankRelations(Bytes& bytes, const RelationSettings& settings)
      : Relations(settings), rank_(settings.rank), columns_(settings.n_outputs * settings.d + (settings.accumulates() ? settings.rank : 0)),
        base_(settings.unit), factor_(bytes), sketch_(bytes), left_(bytes), squares_(bytes), gram_(bytes), values_(bytes), work_(bytes), means_(bytes) {
    resize_exactly(squares_, rank_ + 1);
  }

  void reserve(std::size_t n) override {
    if (n * rank_ <= factor_.size()) return;
    n = std::max(n, 2 * (factor_.size() / rank_));
    const std::size_t m = std::min(n, columns_);
    resize_exactly(left_, n * rank_);
    resize_exactly(gram_, m * m);
    for (auto* vector : {&values_, &work_}) resize_exactly(*vector, m);
    if (settings_.kind == Relation::covariance) resize_exactly(means_, n * settings_.n_outputs);
    if (settings_.accumulates()) resize_exactly(sketch_, n * rank_);
    resize_exactly(factor_, n * rank_);
  }
  void add() override {
    ++n_;
    std::fill_n(factor_.data() + (n_ - 1) * rank_, rank_, 0.0);
    if (settings_.accumulates()) std::fill_n(sketch_.data() + (n_ - 1) * rank_, rank_, 0.0);
  }
  void drop(std::size_t r) override {
    --n_;
    std::copy_n(factor_.data() + n_ * rank_, rank_, factor_.data() + r * rank_);
    if (settings_.accumulates()) std::copy_n(sketch_.data() + n_ * rank_, rank_, sketch_.data() + r * rank_);
  }
  double entry(std::size_t i, std::size_t j) const override {
    return (i == j ? base_ : 0.0) + simd().dot(factor_.data() + i * rank_, factor_.data() + j * rank_, rank_);
  }

  void recompute(const RowTable& rows) override {
    if (settings_.kind == Relation::covariance) means(rows, means_.data());
    decompose(rows);
    const double kappa = settings_.unit, eta = settings_.rate;
    double base = 0;
    if (settings_.accumulates()) {
      const double subtracted = squares_[rank_];
      for (std::size_t q = 0; q < rank_; ++q) squares_[q] = std::max(squares_[q] - subtracted, 0.0);
      for (std::size_t j = 0; j < n_; ++j)
        for (std::size_t q = 0; q < rank_; ++q) sketch_[j * rank_ + q] = left_[j * rank_ + q] * std::sqrt(squares_[q]);
      const bool logdet = settings_.kind == Relation::logdet;
      const double shift = logdet || settings_.as_printed ? 0.0 : squares_[0];
      base = kappa * std::exp(-eta * shift);
      for (std::size_t q = 0; q < rank_; ++q)
        squares_[q] = logdet ? eta * squares_[q] : std::max(kappa * std::exp(eta * (squares_[q] - shift)) - base, 0.0);
    } else if (settings_.kind == Relation::batch) {
      double sum = 0;
      for (std::size_t q = 0; q < rank_; ++q) sum += squares_[q] = std::sqrt(squares_[q]);
      for (std::size_t q = 0; q < rank_; ++q) squares_[q] /= std::max(sum, 1e-300);
    }
    double trace = base * settings_.n_tasks(n_);
    for (std::size_t j = 0; j < n_; ++j)
      for (std::size_t q = 0; q < rank_; ++q) trace += left_[j * rank_ + q] * left_[j * rank_ + q] * squares_[q];
    const double factor = factor_for(trace);
    if (!(factor > 0)) return;
    base_ = factor * base;
    for (std::size_t j = 0; j < n_; ++j)
      for (std::size_t q = 0; q < rank_; ++q) factor_[j * rank_ + q] = left_[j * rank_ + q] * std::sqrt(factor * squares_[q]);
  }
  void after_step(const double*, const double*, double, double) override {}  // decompose() computes G from the weights when needed

  void save(State& state) const override {
    state.reals["factor"].assign(factor_.begin(), factor_.begin() + static_cast<std::ptrdiff_t>(n_ * rank_));
    state.reals["base"] = {base_};
    if (settings_.accumulates()) state.reals["sketch"].assign(sketch_.begin(), sketch_.begin() + static_cast<std::ptrdiff_t>(n_ * rank_));
  }
  void load(const State& state, const RowTable&) override {
    load_matrix(state, "factor", n_ * rank_, factor_.data());
    base_ = state.reals.at("base").at(0);
    if (settings_.accumulates()) load_matrix(state, "sketch", n_ * rank_, sketch_.data());
  }

 private:
  // Entry a of row j of the matrix to decompose: [L W] for logdet and von Neumann, W for batch, and the centred W over √(d − 1) for covariance.
  double element(const RowTable& rows, std::size_t j, std::size_t a) const {
    if (settings_.accumulates()) return a < rank_ ? sketch_[j * rank_ + a] : rows.values(j)[a - rank_];
    if (settings_.kind == Relation::batch) return rows.values(j)[a];
    return (rows.values(j)[a] - means_[j * settings_.n_outputs + a / settings_.d]) / std::sqrt(divisor());
  }

  // Computes the left singular vectors of the rank_ largest singular values as left_ (n × rank), and the squares of the rank_ + 1
  // largest singular values.
  void decompose(const RowTable& rows) {
    const std::size_t m = std::min(n_, columns_);
    const bool over_tasks = n_ <= columns_;
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = 0;
        if (over_tasks)
          for (std::size_t a = 0; a < columns_; ++a) sum += element(rows, i, a) * element(rows, j, a);
        else
          for (std::size_t t = 0; t < n_; ++t) sum += element(rows, t, i) * element(rows, t, j);
        gram_[i * m + j] = gram_[j * m + i] = sum;
      }
    symmetric_eigen(gram_.data(), m, values_.data(), work_.data());
    std::fill(left_.begin(), left_.end(), 0.0);
    std::fill(squares_.begin(), squares_.end(), 0.0);
    for (std::size_t q = 0; q <= rank_ && q < m; ++q) {
      const std::size_t at = m - 1 - q;
      if (!(values_[at] > 1e-14 * values_[m - 1])) break;
      squares_[q] = values_[at];
      if (q == rank_) break;
      for (std::size_t j = 0; j < n_; ++j) {
        double u = over_tasks ? gram_[j * m + at] : 0.0;
        for (std::size_t a = 0; !over_tasks && a < m; ++a) u += element(rows, j, a) * gram_[a * m + at] / std::sqrt(values_[at]);
        left_[j * rank_ + q] = u;
      }
    }
  }

  const std::size_t rank_, columns_;
  double base_;
  Vec<double> factor_, sketch_;                                    // F and L, tasks × rank
  Vec<double> left_, squares_, gram_, values_, work_, means_;      // working memory; decompose() sets left_ and squares_
};

}  // namespace budgetron
