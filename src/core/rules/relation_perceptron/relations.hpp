// Interface of the matrix C of a RelationPerceptron, which relates its tasks and is computed from their weights.
//
// Rows of C are in the order of the rows of weights. Learning allocates only in reserve().
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "learner/registry.hpp"
#include "stores/row_table.hpp"

namespace budgetron {

enum class Relation : std::size_t { logdet, von_neumann, covariance, batch, spectral };

struct RelationSettings {
  explicit RelationSettings(const Config& c)
      : kind(static_cast<Relation>(c.parameters.count("relations", 0))),
        rate(c.parameters.real("rate", 0.01)),
        power(c.parameters.real("power", 2.0)),
        as_printed(c.parameters.flag("as_printed", false)),
        tasks(c.parameters.count("tasks", 0)),
        rank(c.parameters.count("rank", 0)),
        n_outputs(c.n_outputs),
        d(c.d),
        unit(tasks ? static_cast<double>(tasks) : 1.0) {
    const bool full_only = kind == Relation::spectral || (as_printed && (kind == Relation::covariance || kind == Relation::batch));
    if (kind > Relation::spectral || !(rate > 0) || !(power >= 1 && power <= 64) || (rank && full_only))
      throw std::invalid_argument(
          "_core.make: relation_perceptron needs relations from 0 to 4, rate > 0, power from 1 to 64, and no rank for spectral relations, or for "
          "covariance and batch relations as printed");
  }
  bool accumulates() const { return kind == Relation::logdet || kind == Relation::von_neumann; }
  double n_tasks(std::size_t n) const { return static_cast<double>(std::max(tasks, n)); }  // k, if n tasks have made a mistake

  Relation kind;
  double rate, power;  // η, p
  bool as_printed;
  std::size_t tasks, rank;  // the learner's parameters `n_tasks` and `rank`; 0: not given
  std::size_t n_outputs, d;
  double unit;  // κ: the diagonal of C before anything is learned
};

constexpr double kLargestTrace = 1e12;  // with `as_printed`, a new C whose trace exceeds this (in units of κk) is ignored
constexpr double kNoRelation = 1e-9;    // a smaller C_ii (in units of κ) counts as 0

class Relations {
 public:
  explicit Relations(const RelationSettings& settings) : settings_(settings) {}
  virtual ~Relations() = default;

  std::size_t size() const { return n_; }
  virtual void reserve(std::size_t n) = 0;  // allocates memory for n tasks in total. If it throws, C is unchanged
  virtual void add() = 0;                   // adds a task that is unrelated to all others
  virtual void drop(std::size_t r) = 0;     // removes a task; the last task takes its index
  virtual double entry(std::size_t i, std::size_t j) const = 0;
  // Computes C from the current weights. Called before the step of each mistake after the first `start` examples, except for spectral relations.
  // This step still uses the old C.
  virtual void recompute(const RowTable& rows) = 0;
  // Called after a step that adds y c_j x to the weights of each task j in one output. g_j is w_j·x before the step, `square` is ‖x‖².
  virtual void after_step(const double* c, const double* g, double y, double square) = 0;
  virtual void save(State& state) const = 0;
  virtual void load(const State& state, const RowTable& rows) = 0;

  // Column r of C. If C_rr counts as 0, it is κ instead, because otherwise task r would never learn.
  void column(std::size_t r, double* out) const {
    for (std::size_t j = 0; j < n_; ++j) out[j] = entry(j, r);
    if (!(out[r] > kNoRelation * settings_.unit)) out[r] = settings_.unit;
  }

 protected:
  // The mean weight of each task and output, over the columns.
  void means(const RowTable& rows, double* out) const {
    for (std::size_t j = 0; j < n_; ++j)
      for (std::size_t o = 0; o < settings_.n_outputs; ++o) {
        double sum = 0;
        for (std::size_t f = 0; f < settings_.d; ++f) sum += rows.values(j)[o * settings_.d + f];
        out[j * settings_.n_outputs + o] = sum / static_cast<double>(settings_.d);
      }
  }
  // d − 1, as in the unbiased estimate of a covariance.
  double divisor() const { return static_cast<double>(settings_.d > 1 ? settings_.d - 1 : 1); }
  // The factor by which a new C with this trace is scaled; 0 if the old C stays.
  double factor_for(double trace) const {
    const double target = settings_.unit * settings_.n_tasks(n_);
    if (settings_.as_printed) return trace <= kLargestTrace * target ? 1.0 : 0.0;
    return trace > 0 ? target / trace : 0.0;
  }
  static void load_matrix(const State& state, const std::string& name, std::size_t size, double* out) {
    const auto& saved = state.reals.at(name);
    if (saved.size() != size) throw std::invalid_argument("saved model: wrong number of relations");
    std::copy(saved.begin(), saved.end(), out);
  }

  const RelationSettings settings_;
  std::size_t n_ = 0;  // the number of tasks with a row of weights; a task gets a row at its first mistake
};

}  // namespace budgetron
