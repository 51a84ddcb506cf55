// FourierSgd: gradient descent on random Fourier features (FOGD). It stores no examples. γ is the parameter of the Gaussian kernel, D the number of
// frequencies u_q, η the rate times the weight of the example, i its task, y its label, and w the weights of the features.
//
//   z(x)_q = (cos u_q·x, sin u_q·x),  u_q ~ N(0, 2γ I),  q = 1 … D,   ψ(x, i)_q = g_iq z(x)_q
//   y f < margin:   w ← w + (η/D) y ψ(x, i),    f_i(x) = w·ψ(x, i)
//
// In a clique, g_iq is a random sign of the cluster of task i for some frequencies, and of task i itself for the others. On an explicit graph, it is
// a weighted sum of the random signs of related tasks (see couple()). With these factors, ψ(x, i)·ψ(x', j)/D approximates the multitask kernel
// divided by c_G², the largest diagonal entry of A⁻¹; see the NumPy definition.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "learner/registry.hpp"
#include "rules/budgetron/features/hashing.hpp"

namespace budgetron {

namespace {

struct Features : RuleScratch {
  explicit Features(Bytes& bytes) : phase(bytes), g(bytes), psi(bytes) {}
  Vec<double> phase, g, psi;
};

class FourierSgd final : public Learner {
 public:
  explicit FourierSgd(const Config& config)
      : Learner(config),
        count_(config.parameters.count("frequencies", 1)),
        rate_(config.parameters.real("rate", 1.0)),
        margin_(config.parameters.real("margin", 1.0)),
        seed_(mix64(config.parameters.word("seed", 0))),
        clique_(dynamic_cast<const Clique*>(config.similarity.get())),
        factored_(dynamic_cast<const Factored*>(config.similarity.get())),
        frequencies_(bytes_, config.sparse ? 0 : config.d * count_),
        weights_(bytes_, config.n_outputs * 2 * count_) {
    if (config.kernel.kind != Kernel::Kind::gaussian || count_ == 0 || !(rate_ > 0) || !(margin_ > 0) || (!clique_ && !factored_))
      throw std::invalid_argument("_core.make: fourier_sgd needs a Gaussian kernel, a clique or factored graph, and frequencies, rate and margin above 0");
    for (std::size_t at = 0; at < frequencies_.size(); ++at) frequencies_[at] = static_cast<std::int8_t>(frequency(at));
    size_all(scratch());
  }

  void forget(std::int64_t) override {}
  void task_weights(Task, double*) const override {}
  void coefficients(double*) const override {}

 protected:
  bool stores() const override { return false; }
  void size_scratch(Scratch& s) const override {
    auto& work = s.rule_scratch<Features>();
    work.phase.resize(count_);
    work.g.resize(count_);
    work.psi.resize(2 * count_);
  }

  void score(const Instance& x, Task task, Scratch& s) const override {
    auto& work = s.rule_scratch<Features>();
    const double scale = std::sqrt(2.0 * config_.kernel.gamma) / 32.0;
    phases(x, work.phase.data());
    double largest = 0;
    for (std::size_t q = 0; q < count_; ++q) largest = std::max(largest, std::abs(work.phase[q]));
    if (largest * scale < 1e6) {  // simd().cos_sin is inaccurate for larger arguments
      simd().cos_sin(work.phase.data(), count_, scale, work.psi.data());
    } else {
      for (std::size_t q = 0; q < count_; ++q) {
        work.psi[2 * q] = std::cos(work.phase[q] * scale);
        work.psi[2 * q + 1] = std::sin(work.phase[q] * scale);
      }
    }
    couple(task, work.g.data());
    for (std::size_t q = 0; q < count_; ++q) {
      work.psi[2 * q] *= work.g[q];
      work.psi[2 * q + 1] *= work.g[q];
    }
    for (std::size_t o = 0; o < config_.n_outputs; ++o) s.margins[o] = simd().dot(weights(o), work.psi.data(), 2 * count_);
  }

  std::uint8_t update(const Example& example, Scratch& s) override {
    Step step;
    const std::uint8_t mistake = mistaken(example, s, step) ? kMistake : 0;
    const bool paired = step.minus < config_.n_outputs;
    const double y_f = paired ? s.margins[step.plus] - s.margins[step.minus] : step.sign * s.margins[0];
    if (!(margin_ - y_f > 1e-10 * margin_) || !(example.weight > 0)) return mistake;
    const double tau = step.sign * rate_ * example.weight / static_cast<double>(count_);
    const double* psi = s.rule_scratch<Features>().psi.data();
    simd().axpy(tau, psi, 2 * count_, weights(step.plus));
    if (paired) simd().axpy(-tau, psi, 2 * count_, weights(step.minus));
    return static_cast<std::uint8_t>(mistake | kUpdated);
  }

  void grow(std::size_t) override {}
  void slot_removed(std::size_t, std::size_t) override {}

  void save_rule(State& state) override { state.reals["weights"].assign(weights_.begin(), weights_.end()); }
  void load_rule(const State& state) override {
    const auto& saved = state.reals.at("weights");
    if (saved.size() != weights_.size() || size() != 0) throw std::invalid_argument("load: weights must have one entry per output and feature");
    std::copy(saved.begin(), saved.end(), weights_.begin());
  }

 private:
  double* weights(std::size_t o) { return weights_.data() + o * 2 * count_; }
  const double* weights(std::size_t o) const { return weights_.data() + o * 2 * count_; }

  int frequency(std::size_t at) const { return gaussian_integer(mix64(seed_ ^ mix64(static_cast<std::uint64_t>(at)))); }

  // Computes u_q·x/s for s = √(2γ)/32. u_q/s consists of 8-bit integers. For dense rows they are stored. For sparse rows they are computed each
  // time, because d can be so large that a table of d × D entries would not fit.
  void phases(const Instance& x, double* phase) const {
    if (!config_.sparse) {
      if (config_.single) return dense_phases(x.rows->dense_f32 + x.at * config_.d, phase);
      return dense_phases(x.rows->dense_f64 + x.at * config_.d, phase);
    }
    std::fill_n(phase, count_, 0.0);
    for (auto e = x.rows->indptr[x.at]; e < x.rows->indptr[x.at + 1]; ++e) {
      const double value = config_.single ? static_cast<double>(x.rows->data_f32[e]) : x.rows->data_f64[e];
      const std::size_t first = static_cast<std::size_t>(x.rows->indices[e]) * count_;
      for (std::size_t q = 0; q < count_; ++q) phase[q] += value * frequency(first + q);
    }
  }
  template <class T>
  void dense_phases(const T* x, double* phase) const {
    constexpr std::size_t kBlock = 64;  // columns converted to double at a time, so that the array fits on the stack
    double z[kBlock];
    std::fill_n(phase, count_, 0.0);
    for (std::size_t from = 0; from < config_.d; from += kBlock) {
      const std::size_t n = std::min(kBlock, config_.d - from);
      for (std::size_t j = 0; j < n; ++j) z[j] = static_cast<double>(x[from + j]);
      for (std::size_t j = 0; j < n; ++j) {
        if (z[j] == 0) continue;
        const std::int8_t* u = frequencies_.data() + (from + j) * count_;
#pragma omp simd
        for (std::size_t q = 0; q < count_; ++q) phase[q] += z[j] * u[q];
      }
    }
  }

  // Computes g of a task. In a clique, the first `shared` signs are the same for all tasks of a cluster. This gives them the similarity
  // off/diagonal.
  void couple(Task task, double* g) const {
    if (clique_) {
      const double share = clique_->off / clique_->diagonal;
      const auto shared = static_cast<std::size_t>(static_cast<double>(count_) * share + 0.5);
      signs(task.cluster, 0, std::min(shared, count_), [&](std::size_t q, double sign) { g[q] = sign; });
      signs(task.id, std::min(shared, count_), count_, [&](std::size_t q, double sign) { g[q] = sign; });
      return;
    }
    std::fill_n(g, count_, 0.0);
    const double c = std::sqrt(factored_->largest_self());
    const auto i = static_cast<std::size_t>(task.id);
    for (auto e = static_cast<std::size_t>(factored_->starts[i]); e < static_cast<std::size_t>(factored_->starts[i + 1]); ++e) {
      const double value = factored_->values[e] / c;
      signs(factored_->tasks[e], 0, count_, [&](std::size_t q, double sign) { g[q] += value * sign; });
    }
  }

  // Calls use(q, sign) with the random signs of a task or a cluster: the bits of its hashes, 64 at a time.
  template <class Use>
  static void signs(std::int64_t name, std::size_t from, std::size_t to, Use use) {
    const std::uint64_t name_hash = mix64(name);
    std::uint64_t bits = 0;
    for (std::size_t q = from; q < to; ++q) {
      if (q == from || q % 64 == 0) bits = mix64(name_hash ^ mix64(static_cast<std::uint64_t>(q / 64)));
      use(q, bits >> (q % 64) & 1 ? 1.0 : -1.0);
    }
  }

  const std::size_t count_;  // D
  const double rate_, margin_;
  const std::uint64_t seed_;
  const Clique* clique_;
  const Factored* factored_;
  Vec<std::int8_t> frequencies_;  // d × D
  Vec<double> weights_;           // outputs × 2D
};

const Registered registered("fourier_sgd", {"frequencies", "rate", "margin", "seed"}, make_counted<FourierSgd>);

}  // namespace

}  // namespace budgetron
