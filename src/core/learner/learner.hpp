// The base class of all rules. It computes the kernel row of an example once, then calls the rule for the margins and the update.
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
  std::string rule;  // its name, see registry.hpp
  Kernel kernel;
  bool follow_scale = false;  // γ is estimated from the first rows, see bandwidth.hpp
  std::shared_ptr<const Similarity> similarity;
  std::size_t d = 0;
  std::size_t n_outputs = 1;  // 1 for two classes, otherwise one per class
  bool sparse = false;
  bool single = false;        // rows are stored in float32
  std::size_t capacity = 0;   // B; 0: unbounded
  std::size_t pool = 0;       // sparse: the number of non-zeros that can be stored; 0: no limit
  std::uint64_t hash_seed = 0;  // randomises the hash tables; only speed depends on it
  std::size_t n_tasks = 0;      // k, if the graph fixes it; 0: tasks may be added at any time
  Parameters parameters;        // the rule's own
};

constexpr std::uint8_t kMistake = 1, kUpdated = 2, kStored = 4;

// The direction of an update: `sign` for the output `plus`, −`sign` for the output `minus`. With two classes there is one output,
// and `minus` is n_outputs.
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

// The part of a caller's working memory that only one rule needs; the rule derives its own struct.
struct RuleScratch {
  virtual ~RuleScratch() = default;
};

// Working memory of one caller.
struct Scratch {
  explicit Scratch(Bytes& counted) : bytes(counted), row(counted), task_row(counted), margins(counted) {}
  Bytes& bytes;  // counts all of it
  std::unique_ptr<Store::Products> products;
  std::unique_ptr<Similarity::Workspace> workspace;
  Vec<double> row;       // K'(x_j, x)
  Vec<double> task_row;  // K([x_j, i_j], [x, i])
  Vec<double> margins;   // one per output
  const std::int64_t* task_ids = nullptr;  // of the rows of the block
  std::unique_ptr<RuleScratch> own;    // created by the rule's size_scratch()

  // The rule's own part, created at the first call.
  template <class Own>
  Own& made() {
    if (!own) {
      own = std::make_unique<Own>(bytes);
      bytes.used += sizeof(Own);
    }
    return static_cast<Own&>(*own);
  }
};

// A read-only question that only some rules answer, such as "variances"; the answer is a State.
struct Query {
  std::string name;
  const Rows* rows = nullptr;  // may be none
  // The task ids and clusters of the rows.
  const std::int64_t* task_ids = nullptr;
  const std::int64_t* clusters = nullptr;
  State arrays;
};

class Learner {
 public:
  explicit Learner(const Config& config);
  virtual ~Learner() = default;

  // Learning has two steps, so that running out of memory leaves the learner unchanged. reserve() allocates everything that the
  // rows may need, and only it may throw; learn() allocates nothing. If reserve() throws, memory that it has allocated so far
  // stays, unused. See Model for whole blocks.
  bool grows_little(const Rows& rows, const std::int64_t* task_ids) const;  // whether reserve() would at most about double the memory
  void reserve(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* task_ids, const std::int64_t* clusters);
  virtual void end_reserve() noexcept {}  // frees what was reserved and not used
  void learn(const Rows& rows, std::size_t from, std::size_t to, const std::int32_t* labels, const std::int64_t* task_ids,
             const std::int64_t* clusters, const double* weights, double* margins, std::uint8_t* flags);
  std::size_t lookahead() const { return store_->lookahead(); }

  // The index of the first row that is rejected (not finite, or the kernel would overflow), or rows.count.
  std::size_t first_bad_row(const Rows& rows) const;
  void margins(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* task_ids,
               const std::int64_t* clusters, double* out) const;
  // The same for one row, in the working memory of learning: no other thread may use that meanwhile, but others may predict.
  // A sparse row must have at most kShortRow non-zeros: there is always room for these.
  void margins_of_short(const Rows& row, Task task, double* out);
  static constexpr std::int64_t kShortRow = 64;
  // Answers a question that only some rules know, such as "variances". Predictions do not change, but pending updates may be
  // applied, so it is not const.
  virtual State query(const Query& query);
  virtual void forget(std::int64_t task_id);  // if it throws, nothing is forgotten
  virtual void task_weights(Task task, double* out) const = 0;  // n_outputs × size
  virtual void coefficients(double* out) const = 0;             // n_outputs × size

  void save(State& state);
  void load(const State& state, const Rows& rows);

  std::size_t size() const { return task_ids_.size(); }
  std::size_t memory_bytes() const { return bytes_.used; }
  std::int64_t n_seen() const { return n_seen_; }
  std::int64_t n_mistakes() const { return n_mistakes_; }
  const Config& config() const { return config_; }
  const Vec<std::int64_t>& task_ids() const { return task_ids_; }
  const Vec<std::int64_t>& clusters() const { return clusters_; }
  const Vec<std::int64_t>& arrivals() const { return arrivals_; }
  const Store& store() const { return *store_; }
  double gamma() const { return config_.kernel.gamma; }

 protected:
  virtual void score(const Instance& x, Task task, Scratch& scratch) const = 0;  // scratch.row → scratch.margins
  virtual std::uint8_t absorb(const Example& example, Scratch& scratch) = 0;  // the update; returns kMistake, kUpdated, kStored
  // Allocates space for more slots. If it throws, some parts may be larger than needed; nothing else has changed.
  virtual void grow(std::size_t capacity) = 0;
  virtual bool stores() const { return config_.kernel.kind != Kernel::Kind::none; }  // whether the rule stores examples
  // grows_little() and reserve() for what the rule stores in addition to slots, such as rows of task weights.
  virtual bool rule_grows_little(std::size_t, const std::int64_t*) const { return true; }
  virtual void reserve_rule(const Rows&, std::size_t, std::size_t, const std::int64_t*, const std::int64_t*) {}
  // Creates or resizes the rule's own working memory. A rule that has some calls size_all(scratch()) in its constructor, because
  // a virtual function of the rule cannot be called from the constructor of its base class.
  virtual void size_scratch(Scratch&) const {}
  // Computes the kernel row and the margins of every row of a query, then calls use(i, x, scratch).
  template <class Use>
  void score_each(const Query& query, Use use) const;
  virtual void slot_removed(std::size_t slot, std::size_t last) = 0;
  virtual void rows_moved() {}  // the store's reference point has moved: kernel values now have a smaller rounding error
  virtual void kernel_changed() {}  // γ has changed: everything computed from kernel values must be computed again
  virtual void save_rule(State& state) = 0;
  virtual void load_rule(const State& state) = 0;

  void require_kernel() const;  // throws if there is none; for constructors of rules that need a kernel
  std::size_t capacity() const { return capacity_; }
  bool unbounded() const { return config_.capacity == 0; }
  bool full() const { return !unbounded() && size() == config_.capacity; }
  bool mistaken(const Example& example, const Scratch& scratch, Step& step) const;

  std::size_t append(const Example& example);
  void replace(std::size_t slot, const Example& example);
  void overwrite(std::size_t slot, const double* row);  // another row, minus the reference point; task and arrival stay
  void overwrite(std::size_t slot, const Instance& x);  // the same with a sparse row
  void remove(std::size_t slot);  // the last slot moves into its place
  void release_store() noexcept;  // for rules that will not store examples any more
  Similarity::Workspace* workspace() { return scratch_.workspace.get(); }
  // Moves the last entry in the same way, in a row of kernel values that was computed before `remove`.
  static void move_last(Vec<double>& row, std::size_t slot, std::size_t last) { row[slot] = row[last]; }
  // The slot with the least score; of ties, the one that arrived first. `of` are the extremes of the scores, if they are known.
  std::size_t lowest_arrival(const double* scores, std::size_t n) const;
  std::size_t lowest_arrival(const double* scores, std::size_t n, const Extremes& of) const;
  void task_row_of_slot(std::size_t slot, bool exact, double* row);  // K of one stored example with all of them

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

  std::size_t first_without_norm(const Rows& rows) const;
  bool rescale();
  void observe(const Rows& rows, std::size_t at);
  void reserve_slots(const Rows& rows, std::size_t from, std::size_t to);
  void allocate(Scratch& scratch, Bytes& bytes) const;
  void margins_in(Scratch& scratch, const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* task_ids,
                  const std::int64_t* clusters, double* out) const;
  void changed(std::size_t slot) { changed_ = changed_ == kNowhere ? slot : Store::kAllSlots; }
  void check_saved(const std::vector<std::int64_t>& task_ids, const Rows& rows) const;

  static constexpr std::size_t kNowhere = SIZE_MAX - 1;
  static constexpr double kLargestSquare = 1e150;  // larger kernel values would overflow in products of two of them

  std::size_t capacity_;
  std::size_t changed_ = kNowhere;  // the slot that this example has changed, or Store::kAllSlots
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
