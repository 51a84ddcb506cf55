// Learner, the base class of all rules. For each example it computes the kernel values with all stored examples once, then calls
// the rule for the margins (score) and the update (update). A Model owns a Learner, adds locks, and sees to it that a block is learned completely
// or, if memory runs out, not at all.
//
// Terms: a block is the batch of rows that one call learns or scores. A slot holds one stored example; capacity() is the number of
// allocated slots. The kernel of two examples is K([x, i], [x', j]) = (A⁻¹)_ij K'(x, x'): the similarity of their tasks times the kernel
// of their features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bandwidth.hpp"
#include "kernel.hpp"
#include "learner/parameters.hpp"
#include "memory.hpp"
#include "similarity.hpp"
#include "state.hpp"
#include "stores/store.hpp"

namespace budgetron {

struct Config {
  std::string rule;  // the name of the rule, see registry.hpp
  Kernel kernel;
  bool follow_scale = false;  // γ is estimated from the first rows, see bandwidth.hpp
  std::shared_ptr<const Similarity> similarity;
  std::size_t d = 0;          // the number of columns of a row
  std::size_t n_outputs = 1;  // 1 for two classes, otherwise one per class
  bool sparse = false;
  bool single = false;        // rows are passed and stored in float32, otherwise in float64
  std::size_t capacity = 0;   // B, the largest number of stored examples; 0: unbounded
  std::size_t pool = 0;       // sparse: the number of non-zeros that can be stored; 0: no limit
  std::uint64_t hash_seed = 0;  // randomises the hash tables; only speed depends on it
  std::size_t n_tasks = 0;      // k, if the graph has a fixed list of tasks; 0: tasks may be added at any time
  Parameters parameters;        // the parameters of the rule, by name
};

// The outcome of learning an example; flags are combined with |.
constexpr std::uint8_t kMistake = 1, kUpdated = 2, kStored = 4;

// The direction of an update: +`sign` for the output `plus`, −`sign` for the output `minus`. With two classes there is only one
// output; `minus` is then n_outputs, which means none.
struct Step {
  double sign;
  std::size_t plus, minus;
};

// One labelled example.
struct Example {
  Instance x;
  Task task;
  std::size_t label;
  double weight;
  double self;  // K'(x, x)
};

// Base class of the working memory that a rule needs in addition to Scratch.
struct RuleScratch {
  virtual ~RuleScratch() = default;
};

// Working memory. The learner owns one for learn(); every call of margins() has its own, so that predictions can run concurrently.
struct Scratch {
  explicit Scratch(Bytes& counted) : bytes(counted), row(counted), task_row(counted), margins(counted) {}
  Bytes& bytes;  // counts the bytes of everything below
  std::unique_ptr<Store::Products> products;
  std::unique_ptr<Similarity::Workspace> workspace;
  Vec<double> row;       // K'(x_j, x)
  Vec<double> task_row;  // K([x_j, i_j], [x, i])
  Vec<double> margins;   // one per output
  const std::int64_t* task_ids = nullptr;  // one per row of the current block
  std::unique_ptr<RuleScratch> of_rule;    // use rule_scratch()

  // The working memory of the rule, of the rule's own type. The first call of this function creates it; the rule's size_scratch() makes that call.
  template <class Type>
  Type& rule_scratch() {
    if (!of_rule) {
      of_rule = std::make_unique<Type>(bytes);
      bytes.used += sizeof(Type);
    }
    return static_cast<Type&>(*of_rule);
  }
};

// A question about a model, such as "explain". Some questions, such as "variances", are answered by some rules only.
struct Query {
  std::string name;
  const Rows* rows = nullptr;  // null if the question is not about rows
  // One task id and cluster per row.
  const std::int64_t* task_ids = nullptr;
  const std::int64_t* clusters = nullptr;
};

class Learner {
 public:
  explicit Learner(const Config& config);
  virtual ~Learner() = default;

  // Learning has two steps, so that running out of memory leaves the learner unchanged. reserve() allocates all memory that the rows may
  // need. If it throws, the memory that it has already allocated stays allocated, but unused. learn() does not throw. It may allocate memory that
  // only saves time, such as a cached column of A⁻¹. If memory runs out, it does without.
  //
  // If a block could make the model much larger, Model does not reserve memory for all of its rows. Instead, a copy of the learner learns
  // them, a few rows at a time. grows_little() returns true if no copy is needed. For a rule that stores examples there are two
  // conditions. First, the model has a budget, or the block has few rows or at most doubles the number of stored examples. Second, the rows need
  // little memory, or at most four times the bytes of the model. A rule can add a condition of its own, see rule_grows_little().
  bool grows_little(const Rows& rows, const std::int64_t* task_ids) const;
  void reserve(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* task_ids, const std::int64_t* clusters);
  virtual void end_reserve() noexcept {}  // frees memory that was reserved but not used
  void learn(const Rows& rows, std::size_t from, std::size_t to, const std::int32_t* labels, const std::int64_t* task_ids,
             const std::int64_t* clusters, const double* weights, double* margins, std::uint8_t* flags);
  std::size_t lookahead() const { return store_->lookahead(); }  // how many rows the store multiplies in one pass

  // The index of the first row that must be rejected, because it is not finite, or so large that its products with other rows, or products of
  // its kernel values, could overflow. Returns rows.count if there is no such row.
  std::size_t first_bad_row(const Rows& rows) const;
  void margins(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* task_ids,
               const std::int64_t* clusters, double* out) const;
  // Like margins() for one row, but faster, because it uses the working memory of learn() instead of allocating its own. So no other thread
  // may call this function or learn() at the same time; other threads may call margins(). A sparse row may have at most kShortRow non-zeros,
  // for which the working memory always has room.
  void margins_of_short(const Rows& row, Task task, double* out);
  static constexpr std::int64_t kShortRow = 64;
  // Answers a Query. It does not change predictions, but it may apply pending updates, so it is not const.
  virtual State query(const Query& query);
  // Removes what was learned for a task: its stored examples or its own weights, if the rule has any. If it throws, nothing is removed.
  virtual void forget(std::int64_t task_id);
  // The weight of every stored example in the margins of one task, n_outputs × size.
  virtual void task_weights(Task task, double* out) const = 0;
  // The coefficient of every stored example, n_outputs × size. SharedProjectron has a coefficient per task, and writes their sum.
  virtual void coefficients(double* out) const = 0;

  void save(State& state);
  void load(const State& state, const Rows& rows);

  std::size_t size() const { return task_ids_.size(); }
  std::size_t memory_bytes() const { return bytes_.used; }
  std::int64_t n_seen() const { return n_seen_; }
  std::int64_t n_mistakes() const { return n_mistakes_; }
  // Sets the counts of a new learner that replaces another one (engine/first_rows.py). The new learner has learned only the kept first rows of
  // the stream, but its counts must include all rows that the replaced learner has learned.
  void set_counts(std::int64_t n_seen, std::int64_t n_mistakes) {
    n_seen_ = n_seen;
    n_mistakes_ = n_mistakes;
  }
  const Config& config() const { return config_; }
  const Vec<std::int64_t>& task_ids() const { return task_ids_; }
  const Vec<std::int64_t>& clusters() const { return clusters_; }
  const Vec<std::int64_t>& arrivals() const { return arrivals_; }  // n_seen() at the time each example was stored
  const Store& store() const { return *store_; }
  double gamma() const { return config_.kernel.gamma; }

 protected:
  virtual void score(const Instance& x, Task task, Scratch& scratch) const = 0;  // computes scratch.margins; a rule that stores examples reads scratch.row
  virtual std::uint8_t update(const Example& example, Scratch& scratch) = 0;  // the update; returns the flags kMistake, …
  // Allocates the rule's arrays for this many slots. If it throws, some arrays may be larger than needed; nothing else has changed.
  virtual void grow(std::size_t capacity) = 0;
  virtual bool stores() const { return config_.kernel.kind != Kernel::Kind::none; }  // whether the rule stores examples
  // The rule's part of grows_little() and reserve(), for the memory that it needs besides slots, such as a row of weights per task.
  virtual bool rule_grows_little(std::size_t, const std::int64_t*) const { return true; }
  virtual void reserve_rule(const Rows&, std::size_t, std::size_t, const std::int64_t*, const std::int64_t*) {}
  // Creates or resizes the rule's own working memory. A rule that overrides it must call size_all(scratch()) in its constructor, because the
  // constructor of the base class cannot call a virtual function of the rule.
  virtual void size_scratch(Scratch&) const {}
  // Computes the kernel row and the margins of every row of a query, then calls use(i, x, scratch).
  template <class Use>
  void score_each(const Query& query, Use use) const;
  virtual void slot_removed(std::size_t slot, std::size_t last) = 0;  // the example of slot `last` is now in `slot`
  virtual void rows_moved() {}  // the store's reference point has moved: recompute stored kernel values, because new ones are more accurate
  virtual void kernel_changed() {}  // γ has changed: recompute everything that depends on kernel values
  virtual void save_rule(State& state) = 0;
  virtual void load_rule(const State& state) = 0;

  void require_kernel() const;  // throws if there is none; for constructors of rules that need a kernel
  std::size_t capacity() const { return capacity_; }
  bool unbounded() const { return config_.capacity == 0; }
  bool full() const { return !unbounded() && size() == config_.capacity; }
  // Whether the margins predict another class than the label; a margin of 0, or a tie for the largest margin, counts as a mistake. Sets `step`
  // to the direction of an update, also without a mistake.
  bool mistaken(const Example& example, const Scratch& scratch, Step& step) const;

  std::size_t append(const Example& example);
  void replace(std::size_t slot, const Example& example);
  // Replaces only the row of a slot, not its task and arrival. A dense row must have the reference point already subtracted.
  void overwrite(std::size_t slot, const double* row);
  void overwrite(std::size_t slot, const Instance& x);  // sparse
  void remove(std::size_t slot);  // the example of the last slot moves into this slot
  Similarity::Workspace* workspace() { return scratch_.workspace.get(); }
  // remove() moves the example of the last slot into the removed slot. This function does the same to a row of kernel values computed earlier.
  static void move_last(Vec<double>& row, std::size_t slot, std::size_t last) { row[slot] = row[last]; }
  // The slot with the lowest score; among scores that are equal up to rounding, the slot of the example that arrived first. A caller that
  // already knows the extremes of the scores passes them as `range`.
  std::size_t argmin_oldest(const double* scores, std::size_t n) const;
  std::size_t argmin_oldest(const double* scores, std::size_t n, const Extremes& range) const;
  void task_row_of_slot(std::size_t slot, bool exact, double* row);  // K of one stored example with all stored examples

  Bytes bytes_;
  Config config_;
  std::unique_ptr<Store> store_;
  Vec<std::int64_t> task_ids_, clusters_, arrivals_;
  std::int64_t n_seen_ = 0, n_mistakes_ = 0;

  void size_all(Scratch& scratch) const;
  Scratch& scratch() { return scratch_; }

 private:
  template <class Rule>
  friend std::unique_ptr<Learner> make_counted(const Config& config);

  std::size_t first_bad_row_without_kernel(const Rows& rows) const;  // first_bad_row() for rules without a kernel
  bool update_gamma();  // estimates γ again; returns whether it has changed
  void observe(const Rows& rows, std::size_t at);  // adds one row to the estimate of γ
  void reserve_slots(const Rows& rows, std::size_t from, std::size_t to);
  void allocate(Scratch& scratch, Bytes& bytes) const;
  void margins_in(Scratch& scratch, const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* task_ids,
                  const std::int64_t* clusters, double* out) const;
  // Records that the current example has changed a slot, so that learn() recomputes only the inner products with that slot.
  void note_change(std::size_t slot) { changed_ = changed_ == kNoSlot ? slot : Store::kAllSlots; }
  void check_saved(const std::vector<std::int64_t>& task_ids) const;

  static constexpr std::size_t kNoSlot = SIZE_MAX - 1;
  static constexpr double kLargestSquare = 1e150;  // the product of two larger kernel values could overflow

  std::size_t capacity_;
  std::size_t changed_ = kNoSlot;  // the slot that the current example changed; kAllSlots if it changed several or removed one
  Bandwidth bandwidth_;
  Scratch scratch_;
};

template <class Use>
void Learner::score_each(const Query& query, Use use) const {
  Bytes temporary;
  Scratch s(temporary);
  allocate(s, temporary);
  s.task_ids = query.task_ids;
  for (std::size_t i = 0; query.rows && i < query.rows->count; ++i) {
    store_->compute(*query.rows, i, 1, *s.products);
    const Instance x{query.rows, i, s.products->squares[0]};
    store_->kernel_row(config_.kernel, *s.products, 0, x.sq, s.row.data());
    score(x, {query.task_ids[i], query.clusters[i]}, s);
    use(i, x, s);
  }
}

}  // namespace budgetron
