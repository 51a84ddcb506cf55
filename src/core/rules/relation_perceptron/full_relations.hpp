// The matrix C of a RelationPerceptron as a full matrix over the tasks that have a row of weights; w_i are the weights of task i. k is the number of
// these tasks, or the parameter `tasks` if that is larger.
//
//   logdet  C = κI + ηΣ      von Neumann  C = κ exp(ηΣ)      covariance  C = cov(w)      batch  C = G^½/tr G^½
//   spectral  C = tr(G^p)^{1/p−1} G^{p−1}          G_ij = w_i·w_j (spectral: v_i·v_j), updated at each step
//
// Σ is the sum of the G at all mistakes that recomputed C. κ, η and p are `unit`, `rate` and `power` of RelationSettings. Except for spectral, C
// is then scaled to the trace κk. With `as_printed`, C is computed as in the papers: it is not scaled, and covariance and batch use the
// pseudoinverse of the matrix above.
#pragma once

#include "algebra/eigen.hpp"
#include "rules/relation_perceptron/relations.hpp"

namespace budgetron {

class FullRelations final : public Relations {
 public:
  FullRelations(Bytes& bytes, const RelationSettings& settings)
      : Relations(settings), gram_(bytes), sigma_(bytes), c_(bytes), next_(bytes), vectors_(bytes), values_(bytes), work_(bytes), means_(bytes) {}

  void reserve(std::size_t n) override {
    if (n <= c_.stride) return;
    n = std::max(n, 2 * c_.stride);
    gram_.grow(n, n_);
    if (settings_.accumulates()) sigma_.grow(n, n_);
    for (auto* matrix : {&next_, &vectors_}) resize_exactly(*matrix, n * n);
    for (auto* vector : {&values_, &work_}) resize_exactly(*vector, n);
    if (settings_.kind == Relation::covariance) resize_exactly(means_, n * settings_.n_outputs);
    c_.grow(n, n_);
  }
  void add() override {
    ++n_;
    each_matrix([&](Square& matrix) { matrix.clear(n_ - 1, n_); });
    c_.at(n_ - 1, n_ - 1) = settings_.unit;
  }
  void drop(std::size_t r) override {
    each_matrix([&](Square& matrix) { matrix.move(n_ - 1, r, n_); });
    --n_;
    if (settings_.kind == Relation::spectral) spectral();
  }
  double entry(std::size_t i, std::size_t j) const override { return c_.at(i, j); }

  void recompute(const RowTable& rows) override {
    double missing_trace = 0;  // the trace of the diagonal block of the k − n_ tasks that are expected but have no row yet
    const double kappa = settings_.unit, eta = settings_.rate, missing = settings_.n_tasks(n_) - static_cast<double>(n_);
    if (settings_.accumulates()) each_pair([&](std::size_t i, std::size_t j) { sigma_.at(i, j) += gram_.at(i, j); });
    switch (settings_.kind) {
      case Relation::logdet:
        each_pair([&](std::size_t i, std::size_t j) { next(i, j) = (i == j ? kappa : 0.0) + eta * sigma_.at(i, j); });
        missing_trace = kappa * missing;
        break;
      case Relation::von_neumann: {
        decompose([&](std::size_t i, std::size_t j) { return sigma_.at(i, j); });
        const double shift = settings_.as_printed ? 0.0 : std::max(values_[n_ - 1], 0.0);  // exp() must not overflow
        compose([&](double value) { return kappa * std::exp(eta * (value - shift)); });
        missing_trace = kappa * missing * std::exp(-eta * shift);
        break;
      }
      case Relation::covariance:
        means(rows, means_.data());
        each_pair([&](std::size_t i, std::size_t j) {
          double product = 0;
          for (std::size_t o = 0; o < settings_.n_outputs; ++o) product += means_[i * settings_.n_outputs + o] * means_[j * settings_.n_outputs + o];
          next(i, j) = (gram_.at(i, j) - static_cast<double>(settings_.d) * product) / divisor();
        });
        break;
      default: {
        decompose([&](std::size_t i, std::size_t j) { return gram_.at(i, j); });
        double sum = 0;
        for (std::size_t q = 0; q < n_; ++q) sum += std::sqrt(std::max(values_[q], 0.0));
        compose([&](double value) { return std::sqrt(std::max(value, 0.0)) / std::max(sum, 1e-300); });
      }
    }
    if (settings_.as_printed && !settings_.accumulates()) invert();
    double trace = missing_trace;
    for (std::size_t i = 0; i < n_; ++i) trace += next(i, i);
    const double factor = factor_for(trace);
    if (factor > 0) each_pair([&](std::size_t i, std::size_t j) { c_.at(i, j) = factor * next(i, j); });
  }

  void after_step(const double* c, const double* g, double y, double square) override {
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = 0; j < n_; ++j) gram_.at(i, j) += y * (c[i] * g[j] + g[i] * c[j]) + square * c[i] * c[j];
  }

  // Computes C of the 2p-norm rule. C does not depend on the scale of G, so eigenvalues are divided by the largest to avoid overflow.
  void spectral() {
    if (n_ == 0) return;
    decompose([&](std::size_t i, std::size_t j) { return gram_.at(i, j); });
    const double largest = std::max(values_[n_ - 1], 1e-300), p = settings_.power;
    double total = 0;
    for (std::size_t q = 0; q < n_; ++q) total += std::pow(std::max(values_[q], 0.0) / largest, p);
    const double factor = total > 0 ? std::pow(total, 1.0 / p - 1.0) : 0.0;
    compose([&](double value) { return factor * (p > 1 ? std::pow(std::max(value, 0.0) / largest, p - 1.0) : 1.0); });
    each_pair([&](std::size_t i, std::size_t j) { c_.at(i, j) = next(i, j); });
  }

  void save(State& state) const override {
    save_matrix(state, "gram", gram_);
    if (settings_.kind != Relation::spectral) save_matrix(state, "relations", c_);
    if (settings_.accumulates()) save_matrix(state, "sigma", sigma_);
  }
  void load(const State& state, const RowTable& rows) override {
    if (state.reals.count("gram")) {
      load_square(state, "gram", gram_);
    } else {
      const std::size_t width = settings_.n_outputs * settings_.d;
      each_pair([&](std::size_t i, std::size_t j) { gram_.at(i, j) = simd().dot(rows.values(i), rows.values(j), width); });
    }
    if (settings_.kind == Relation::spectral) return spectral();
    load_square(state, "relations", c_);
    if (settings_.accumulates()) load_square(state, "sigma", sigma_);
  }

 private:
  // A square matrix with room to grow: row i begins at i · stride.
  struct Square {
    explicit Square(Bytes& bytes) : values(bytes) {}
    double& at(std::size_t i, std::size_t j) { return values[i * stride + j]; }
    double at(std::size_t i, std::size_t j) const { return values[i * stride + j]; }
    void grow(std::size_t wider, std::size_t n) {
      if (wider <= stride) return;
      Vec<double> grown(*values.get_allocator().bytes, wider * wider);
      for (std::size_t i = 0; i < n; ++i) std::copy_n(values.data() + i * stride, n, grown.data() + i * wider);
      values.swap(grown);
      stride = wider;
    }
    void clear(std::size_t r, std::size_t n) {
      for (std::size_t j = 0; j < n; ++j) at(r, j) = at(j, r) = 0.0;
    }
    void move(std::size_t from, std::size_t to, std::size_t n) {
      for (std::size_t j = 0; j < n; ++j) at(to, j) = at(from, j);
      for (std::size_t j = 0; j < n; ++j) at(j, to) = at(j, from);
    }
    Vec<double> values;
    std::size_t stride = 0;
  };

  template <class Use>
  void each_matrix(Use use) {
    use(gram_);
    use(c_);
    if (settings_.accumulates()) use(sigma_);
  }
  double& next(std::size_t i, std::size_t j) { return next_[i * n_ + j]; }
  template <class Use>
  void each_pair(Use use) {
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = 0; j < n_; ++j) use(i, j);
  }
  template <class Entry>
  void decompose(Entry entry) {
    each_pair([&](std::size_t i, std::size_t j) { vectors_[i * n_ + j] = entry(i, j); });
    symmetric_eigen(vectors_.data(), n_, values_.data(), work_.data());
  }
  // next = Σ_q function(λ_q) u_q u_qᵀ, for the eigenvalues λ_q and eigenvectors u_q that decompose() has computed.
  template <class Function>
  void compose(Function function) {
    for (std::size_t q = 0; q < n_; ++q) values_[q] = function(values_[q]);
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (std::size_t q = 0; q < n_; ++q) sum += values_[q] * vectors_[i * n_ + q] * vectors_[j * n_ + q];
        next(i, j) = next(j, i) = sum;
      }
  }
  // Replaces `next` by its pseudoinverse.
  void invert() {
    decompose([&](std::size_t i, std::size_t j) { return next(i, j); });
    double largest = 0;
    for (std::size_t q = 0; q < n_; ++q) largest = std::max(largest, std::abs(values_[q]));
    compose([&](double value) { return std::abs(value) > 1e-12 * largest ? 1.0 / value : 0.0; });
  }

  void save_matrix(State& state, const char* name, const Square& matrix) const {
    auto& out = state.reals[name];
    for (std::size_t i = 0; i < n_; ++i) out.insert(out.end(), matrix.values.data() + i * matrix.stride, matrix.values.data() + i * matrix.stride + n_);
  }
  void load_square(const State& state, const char* name, Square& matrix) {
    load_matrix(state, name, n_ * n_, next_.data());
    each_pair([&](std::size_t i, std::size_t j) { matrix.at(i, j) = next(i, j); });
  }

  Square gram_, sigma_, c_;
  Vec<double> next_, vectors_, values_, work_, means_;
};

}  // namespace budgetron
