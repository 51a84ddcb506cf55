// The interface of the parts of a Budgetron, and an example as they see it.
//
// A part holds one or more beliefs: models of the same stream, each with its own margin f. The rule mixes the beliefs of all parts, weighted by
// how well they predict, and uses parts only through this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "learner/learner.hpp"
#include "memory.hpp"

namespace budgetron {

// A task or cluster whose weights the example's task uses. These weights, in `row`, enter f with the factor `coefficient`.
struct Related {
  double coefficient;
  std::int64_t id;
  double* row;
  bool own;  // whether this is the example's task itself; comparing ids is not enough, since a cluster may have the id of a task
};

// A non-zero feature of a sparse row, or the constant: its hash, its |x| (`size`), and its two scaled values phi (see table.hpp). `cell` is the cell
// of its shared weights in the table, and `own` the cell of its own weights for the first related task. Most tasks are related only to themselves.
// The cells for further related tasks are looked up when needed.
struct TableEntry {
  std::uint64_t hash;
  std::uint32_t cell, own;
  double size;
  double phi[2];
};

// A pair of features of a sparse row: its hash, its cell and its value (pairs.hpp).
struct PairEntry {
  std::uint64_t hash;
  std::uint32_t cell;
  float phi;
};

// One example: its features, computed once, and the rows of weights of its task and the related tasks.
struct Seen {
  Instance x;
  std::int64_t task_id = 0;
  const double* row = nullptr;  // the columns that parts for dense rows see
  const double* linear = nullptr;  // the linear features: the standardised columns / sqrt(d), and 1 for the bias
  const float* fourier = nullptr;  // the Fourier features of bank 0: cos and sin of each frequency (fourier_features.hpp)
  const float* const* banks = nullptr;  // the Fourier features of banks 1, 2 ...
  double* mine = nullptr;            // the row of the task itself
  const Related* related = nullptr;
  std::size_t n_related = 0;
  // Sparse rows: filled by the table's margins, and used again by its update.
  Vec<TableEntry>* entries = nullptr;
  Vec<PairEntry>* pairs = nullptr;
  double* evidence = nullptr;  // of naive Bayes, one number per output
  std::uint8_t* bins = nullptr;  // the fine bin of every column, written by BinnedColumns::margins()
  double* bin_evidence = nullptr;  // the evidence of these bins
};

// Reads how many frequencies a saved part uses (`which` = 0), or may use (`which` = 1).
inline std::size_t saved_frequencies(const State& state, const std::string& name, std::size_t which) {
  const std::int64_t frequencies = state.integers.at(name).at(which);
  if (frequencies < 0 || frequencies > 1 << 20) throw std::invalid_argument("saved model: the number of frequencies is out of range");
  return static_cast<std::size_t>(frequencies);
}

// Where a term of f comes from: weights of all tasks, of the task itself, or of tasks that it is related to.
constexpr std::size_t kShared = 0, kOwn = 1, kRelated = 2, kSources = 3;

// f of every belief of a part as a sum of terms: one per feature (the last feature is the constant), and one for all Fourier features together.
class Terms {
 public:
  Terms(std::size_t beliefs, std::size_t outputs, std::size_t features)
      : n(features), rows_(beliefs * outputs), columns_(kSources * rows_ * n), fourier_(kSources * rows_) {}

  // `row` is belief * outputs + output.
  double* columns(std::size_t source, std::size_t row) { return columns_.data() + (source * rows_ + row) * n; }
  double& fourier(std::size_t source, std::size_t row) { return fourier_[source * rows_ + row]; }

  const std::size_t n;

 private:
  std::size_t rows_;
  std::vector<double> columns_, fourier_;
};

// Element by element: out += factor · weight · phi.
template <class Weight>
void multiply_add(double factor, const Weight* weights, const double* phi, std::size_t n, double* out) {
  for (std::size_t j = 0; j < n; ++j) out[j] += factor * static_cast<double>(weights[j]) * phi[j];
}

constexpr double kNegligible = 0.01;  // a part whose beliefs together have less weight is idle

enum class Kind { linear, filter, adagrad };  // only filter and adagrad can have Fourier features; `linear` stands for all other parts

class Part {
 public:
  virtual ~Part() = default;

  virtual std::size_t count() const { return 1; }      // number of beliefs
  virtual std::size_t row_width() const { return 0; }  // how many numbers it stores per task
  // Fills this part's numbers in a new row of a task: with the prior, or with what end_row() has kept.
  virtual void begin_row(double* /*row*/, std::int64_t /*task_id*/) const {}
  // If the part has short rows (short_rows.hpp), copies its numbers of a row that is not stored, or is about to be evicted, to a short row.
  virtual void end_row(const double* /*row*/, std::int64_t /*task_id*/) noexcept {}
  // Clears the own weights of a task in short rows and hashed arrays. Tasks that share numbers of a hashed array with it lose them too. HashedTable
  // clears nothing, because its cells do not tell which of them belong to a task.
  virtual void forget(std::int64_t /*task_id*/) noexcept {}

  virtual void margins(const Seen& e, double* f) const = 0;  // beliefs × outputs
  virtual void variances(const Seen& e, double* v) = 0;      // one per belief
  // `f` has the margins of the same example, `omega` is its weight. Returns whether weights have changed; statistics, such as counts, may change
  // even if weights have not. Must not allocate.
  virtual bool learn(const Seen& e, const double* f, std::size_t label, double omega) = 0;
  // Adds the terms of f to `to`, which contains zeros. Call it after margins() of the same example.
  virtual void terms(const Seen& e, Terms& to) const = 0;

  virtual bool stays() const { return false; }  // whether it never sleeps and is never dropped
  virtual bool learns_slowly() const { return frequencies() > 0; }  // whether it often predicts badly in its first 1,000 or so examples
  virtual double lapse() const { return 0; }  // the share of labels that its beliefs assume to be random
  virtual std::size_t frequencies() const { return 0; }      // random frequencies that it uses
  // How many it may use: at first the planned number. Spare bytes can raise it, and stop_growing() lowers it.
  virtual std::size_t max_frequencies() const { return 0; }
  // How many it should use, if there are bytes for them. If it is the heaviest part of its kind, `weight` is the weight of all parts of the kind
  // together, relative to the parts that Budgetron::use_bytes() compares; otherwise `weight` is 0. `seen` is the number of examples so far.
  virtual std::size_t useful_frequencies(double /*weight*/, std::int64_t /*seen*/) { return 0; }
  virtual bool sees_entries() const { return false; }  // whether its features are the entries of a sparse row, and not columns
  virtual bool is_linear() const { return max_frequencies() == 0; }  // whether it counts as linear in Budgetron::use_bytes()
  virtual std::size_t bank() const { return 0; }  // the bank of Fourier features that it uses
  virtual Kind kind() const { return Kind::linear; }
  virtual void stop_growing() {}  // lowers max_frequencies() to frequencies()
  virtual void set_frequencies(std::size_t) {}  // must not be fewer than before; if it throws, nothing has changed
  virtual std::size_t bytes(std::size_t frequencies) const = 0;  // bytes of its arrays with this many frequencies, without the rows of tasks

  virtual void save(State& state) = 0;
  virtual void load(const State& state) = 0;

  std::size_t object_bytes = 0;  // of the object itself, counted by the rule
  std::size_t row_offset = 0;  // where the numbers of this part begin in the row of a task
};

}  // namespace budgetron
