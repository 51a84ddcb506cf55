#include "learner/learner.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "stores/dense_store.hpp"
#include "stores/sparse_store.hpp"

namespace budgetron {

namespace {

std::unique_ptr<Store> make_store(Bytes& bytes, const Config& c) {
  const bool growing = c.capacity == 0;
  const std::size_t slots = growing ? 32 : c.capacity;
  if (c.kernel.kind == Kernel::Kind::none) return std::make_unique<DenseStore<double>>(bytes, 0, 0, false);
  if (c.sparse && c.single) return std::make_unique<SparseStore<float>>(bytes, slots, growing, c.pool, c.hash_seed);
  if (c.sparse) return std::make_unique<SparseStore<double>>(bytes, slots, growing, c.pool, c.hash_seed);
  if (c.single) return std::make_unique<DenseStore<float>>(bytes, c.d, slots, growing, c.kernel);
  return std::make_unique<DenseStore<double>>(bytes, c.d, slots, growing, c.kernel);
}

// The learner does not keep the parameters of the rule, because only the constructor of the rule reads them. The model keeps them for the
// learners that it creates later.
Config without_parameters(Config config) {
  config.parameters = Parameters();
  return config;
}

}  // namespace

Learner::Learner(const Config& config)
    : config_(without_parameters(config)),
      store_(make_store(bytes_, config)),
      task_ids_(bytes_),
      clusters_(bytes_),
      arrivals_(bytes_),
      capacity_(config.capacity ? config.capacity : 32),
      scratch_(bytes_) {
  bandwidth_.used = config.follow_scale && config.kernel.kind == Kernel::Kind::gaussian;
  task_ids_.reserve(capacity_);
  clusters_.reserve(capacity_);
  arrivals_.reserve(capacity_);
  allocate(scratch_, bytes_);
}

void Learner::require_kernel() const {
  if (config_.kernel.kind == Kernel::Kind::none) throw std::invalid_argument("_core.make: this rule needs a kernel");
}

void Learner::allocate(Scratch& scratch, Bytes& bytes) const {
  scratch.products = store_->new_products(bytes);
  scratch.workspace = config_.similarity->new_workspace(bytes);
  size_all(scratch);
}

void Learner::size_all(Scratch& scratch) const {
  store_->resize(*scratch.products);
  if (scratch.row.size() < capacity_) scratch.row.resize(capacity_);
  if (scratch.task_row.size() < capacity_) scratch.task_row.resize(capacity_);
  scratch.margins.resize(config_.n_outputs);
  size_scratch(scratch);
}

bool Learner::grows_little(const Rows& rows, const std::int64_t* task_ids) const {
  constexpr std::size_t kFewRows = 64, kFewBytes = 1 << 18;
  if (!rule_grows_little(rows.count, task_ids)) return false;
  if (!stores()) return true;
  return (!unbounded() || rows.count <= std::max(kFewRows, size())) &&
         // If this returns false, a copy of the model learns the block (learner.hpp). A block of text may need several times the bytes of a small
         // model. Up to four times is accepted, because making that copy would take longer than learning the block.
         store_->reserve_bytes(rows, 0, rows.count) <= std::max(kFewBytes, 4 * memory_bytes());
}

void Learner::reserve(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* task_ids, const std::int64_t* clusters) {
  reserve_slots(rows, from, to);
  reserve_rule(rows, from, to, task_ids, clusters);
}

void Learner::reserve_slots(const Rows& rows, std::size_t from, std::size_t to) {
  if (!stores()) return;
  const std::size_t wanted = size() + (to - from);
  const std::size_t slots = unbounded() && wanted > capacity_ ? std::max(2 * capacity_, wanted) : capacity_;
  store_->reserve(slots, rows, from, to);
  if (slots == capacity_) return;
  for (auto* column : {&task_ids_, &clusters_, &arrivals_}) column->reserve(slots);
  grow(slots);
  for (auto* row : {&scratch_.row, &scratch_.task_row}) row->resize(slots);
  store_->resize(*scratch_.products);
  capacity_ = slots;
}

// Without a kernel the store has no columns, and cannot compute squared norms. Squares of float32 rows are summed in double precision, because in
// float32 the squared norms of large rows would be infinite.
std::size_t Learner::first_bad_row_without_kernel(const Rows& rows) const {
  const auto norm = [](const auto* x, std::size_t n) {
    double sums[4] = {0, 0, 0, 0};  // four independent sums hide the latency of an addition
    std::size_t j = 0;
    for (; j + 4 <= n; j += 4)
      for (std::size_t k = 0; k < 4; ++k) sums[k] += static_cast<double>(x[j + k]) * static_cast<double>(x[j + k]);
    for (; j < n; ++j) sums[0] += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  };
  for (std::size_t i = 0; i < rows.count; ++i) {
    const std::size_t begin = config_.sparse ? static_cast<std::size_t>(rows.indptr[i]) : i * config_.d;
    const std::size_t n = config_.sparse ? static_cast<std::size_t>(rows.indptr[i + 1]) - begin : config_.d;
    const double square = config_.single ? norm((config_.sparse ? rows.data_f32 : rows.dense_f32) + begin, n)
                                         : norm((config_.sparse ? rows.data_f64 : rows.dense_f64) + begin, n);
    if (!(square <= kLargestSquare)) return i;
  }
  return rows.count;
}

std::size_t Learner::first_bad_row(const Rows& rows) const {
  if (config_.kernel.kind == Kernel::Kind::none) return first_bad_row_without_kernel(rows);
  // Above these limits, products of kernel values could overflow later. Dense float32 rows have a lower limit, because their inner products are
  // computed in float32.
  const double largest_square = config_.single && !config_.sparse ? 1e37 : kLargestSquare;
  const auto accepted = [&](double square) { return square <= largest_square && config_.kernel.raw_self(square) <= kLargestSquare; };
  double squares[Store::kMaxLookahead];
  for (std::size_t first = 0; first < rows.count; first += Store::kMaxLookahead) {
    const std::size_t count = std::min(Store::kMaxLookahead, rows.count - first);
    store_->rough_squares(rows, first, count, squares);
    // rough_squares() is accurate to far better than a factor of two. So if twice the square is accepted, the row needs no exact check.
    if (std::all_of(squares, squares + count, [&](double square) { return accepted(2.0 * square); })) continue;
    store_->squares(rows, first, count, squares);
    for (std::size_t q = 0; q < count; ++q)
      if (!accepted(squares[q])) return first + q;
  }
  return rows.count;
}

void Learner::learn(const Rows& rows, std::size_t from, std::size_t to, const std::int32_t* labels, const std::int64_t* task_ids,
                    const std::int64_t* clusters, const double* weights, double* margins, std::uint8_t* flags) {
  Scratch& s = scratch_;
  s.task_ids = task_ids;
  const std::size_t outputs = config_.n_outputs;
  std::size_t moved_at = SIZE_MAX;  // the last row that moved the store's reference point; it must not move the point again
  for (std::size_t first = from, q; first < to; first += q) {
    const std::size_t count = std::min(store_->lookahead(), to - first);
    store_->compute(rows, first, count, *s.products);
    for (q = 0; q < count; ++q) {
      const std::size_t i = first + q;
      const Instance x{&rows, i, s.products->squares[q]};
      if (i != moved_at && store_->update_reference(rows, i, x.sq)) {
        moved_at = i;
        rows_moved();
        break;  // the products of this row and of the later ones are computed again
      }
      const Example example{x, {task_ids[i], clusters[i]}, static_cast<std::size_t>(labels[i]),
                            weights ? weights[i] : 1.0, config_.kernel.self(x.sq)};
      store_->kernel_row(config_.kernel, *s.products, q, x.sq, s.row.data());
      score(x, example.task, s);
      std::copy(s.margins.begin(), s.margins.end(), margins + i * outputs);
      changed_ = kNoSlot;
      flags[i] = update(example, s);
      if (bandwidth_.counts(n_seen_)) observe(rows, i);
      ++n_seen_;
      if (flags[i] & kMistake) ++n_mistakes_;
      if (bandwidth_.due(n_seen_) && update_gamma()) {
        // This row's update or kernel_changed() may have changed slots, and refresh() below is skipped, so compute() runs again for the later rows.
        ++q;
        break;
      }
      if (changed_ != kNoSlot && q + 1 < count) store_->refresh(rows, first, q + 1, count, changed_, *s.products);
    }
  }
}

bool Learner::update_gamma() {
  const double gamma = bandwidth_.gamma(n_seen_, config_.d, config_.sparse);
  if (gamma == config_.kernel.gamma) return false;
  config_.kernel.gamma = gamma;
  store_->set_gamma(gamma);
  kernel_changed();
  return true;
}

void Learner::observe(const Rows& rows, std::size_t at) {
  if (!config_.sparse) {
    if (config_.single)
      bandwidth_.add(rows.dense_f32 + at * config_.d, config_.d, config_.d, n_seen_);
    else
      bandwidth_.add(rows.dense_f64 + at * config_.d, config_.d, config_.d, n_seen_);
    return;
  }
  const std::int64_t begin = rows.indptr[at];
  const auto count = static_cast<std::size_t>(rows.indptr[at + 1] - begin);
  if (config_.single)
    bandwidth_.add(rows.data_f32 + begin, count, config_.d, n_seen_);
  else
    bandwidth_.add(rows.data_f64 + begin, count, config_.d, n_seen_);
}

void Learner::margins(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* task_ids,
                      const std::int64_t* clusters, double* out) const {
  Bytes temporary;  // working memory of this call; it does not count as memory of the model
  Scratch s(temporary);
  allocate(s, temporary);
  margins_in(s, rows, from, to, task_ids, clusters, out);
}

void Learner::margins_of_short(const Rows& row, Task task, double* out) {
  margins_in(scratch_, row, 0, 1, &task.id, &task.cluster, out);
  scratch_.task_ids = nullptr;
}

void Learner::margins_in(Scratch& s, const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* task_ids,
                         const std::int64_t* clusters, double* out) const {
  s.task_ids = task_ids;
  const std::size_t outputs = config_.n_outputs, lookahead = store_->lookahead();
  for (std::size_t first = from; first < to; first += lookahead) {
    const std::size_t count = std::min(lookahead, to - first);
    store_->compute(rows, first, count, *s.products);
    for (std::size_t q = 0; q < count; ++q) {
      const std::size_t i = first + q;
      const Instance x{&rows, i, s.products->squares[q]};
      store_->kernel_row(config_.kernel, *s.products, q, x.sq, s.row.data());
      score(x, {task_ids[i], clusters[i]}, s);
      std::copy(s.margins.begin(), s.margins.end(), out + i * outputs);
    }
  }
}

State Learner::query(const Query& query) {
  if (query.name != "explain") throw std::invalid_argument("_core: this rule has no query " + query.name);
  State answer;
  auto& margins = answer.reals["margins"];
  auto& similarity = answer.reals["similarity"];  // K'(x_j, x)
  auto& terms = answer.reals["terms"];            // w_j K'(x_j, x) with w_j from task_weights(), outputs × size
  score_each(query, [&](std::size_t i, const Instance&, Scratch& s) {
    margins.insert(margins.end(), s.margins.begin(), s.margins.end());
    const auto first = static_cast<std::ptrdiff_t>(terms.size()), n = static_cast<std::ptrdiff_t>(size());
    similarity.insert(similarity.end(), s.row.begin(), s.row.begin() + n);
    terms.resize(terms.size() + config_.n_outputs * size());
    task_weights({query.task_ids[i], query.clusters[i]}, terms.data() + first);
    for (std::size_t k = 0; k < config_.n_outputs * size(); ++k) terms[static_cast<std::size_t>(first) + k] *= s.row[k % size()];
  });
  answer.integers["key"].assign(task_ids_.begin(), task_ids_.end());
  answer.integers["arrival"].assign(arrivals_.begin(), arrivals_.end());
  return answer;
}

bool Learner::mistaken(const Example& example, const Scratch& scratch, Step& step) const {
  const auto& f = scratch.margins;
  if (config_.n_outputs == 1) {
    step = {example.label ? 1.0 : -1.0, 0, 1};
    return step.sign * f[0] <= 0;
  }
  std::size_t rival = example.label == 0 ? 1 : 0;
  for (std::size_t c = 0; c < f.size(); ++c)
    if (c != example.label && f[c] > f[rival]) rival = c;
  step = {1.0, example.label, rival};
  return f[example.label] <= f[rival];
}

// Does not allocate, because reserve() has allocated the space.
std::size_t Learner::append(const Example& example) {
  store_->append(example.x, config_.kernel);
  task_ids_.push_back(example.task.id);
  clusters_.push_back(example.task.cluster);
  arrivals_.push_back(n_seen_);
  note_change(size() - 1);
  return size() - 1;
}

void Learner::replace(std::size_t slot, const Example& example) {
  store_->replace(slot, example.x, config_.kernel);
  task_ids_[slot] = example.task.id;
  clusters_[slot] = example.task.cluster;
  arrivals_[slot] = n_seen_;
  note_change(slot);
}

void Learner::overwrite(std::size_t slot, const double* row) {
  store_->overwrite(slot, row, config_.kernel);
  note_change(slot);
}

void Learner::overwrite(std::size_t slot, const Instance& x) {
  store_->replace(slot, x, config_.kernel);
  note_change(slot);
}

void Learner::remove(std::size_t slot) {
  const std::size_t last = size() - 1;
  store_->remove(slot);
  for (auto* column : {&task_ids_, &clusters_, &arrivals_}) {
    (*column)[slot] = (*column)[last];
    column->pop_back();
  }
  slot_removed(slot, last);
  changed_ = Store::kAllSlots;
}

std::size_t Learner::argmin_oldest(const double* scores, std::size_t n) const {
  return argmin_oldest(scores, n, simd().extremes(scores, n));
}

std::size_t Learner::argmin_oldest(const double* scores, std::size_t n, const Extremes& range) const {
  // Scores up to this limit count as equal to the least one. The second term makes scores equal that are negligible beside the largest: they are
  // 0 up to rounding.
  const double limit = range.least * (1.0 + 1e-10) + 1e-12 * range.largest;
  const std::size_t best = simd().oldest_within(scores, arrivals_.data(), n, limit);
  // If rounding has made the least score negative, or if all scores are NaN, there may be no score within the limit.
  return best < n ? best : static_cast<std::size_t>(std::min_element(scores, scores + n) - scores);
}

void Learner::task_row_of_slot(std::size_t slot, bool exact, double* row) {
  store_->kernel_row_of_slot(config_.kernel, slot, exact, row);
  config_.similarity->multiply({task_ids_[slot], clusters_[slot]}, task_ids_.data(), clusters_.data(), size(), row, workspace());
}

void Learner::forget(std::int64_t task_id) {
  for (std::size_t slot = 0; slot < size();) {
    if (task_ids_[slot] == task_id)
      remove(slot);
    else
      ++slot;
  }
}

void Learner::save(State& state) {
  state.integers["key"].assign(task_ids_.begin(), task_ids_.end());  // "key" is the name of the task ids in model files
  state.integers["cluster"].assign(clusters_.begin(), clusters_.end());
  state.integers["arrival"].assign(arrivals_.begin(), arrivals_.end());
  state.integers["n_seen"] = {n_seen_};
  state.integers["n_mistakes"] = {n_mistakes_};
  Reference reference = store_->reference();
  if (!reference.point.empty()) {
    state.integers["reference_streak"] = {reference.streak};
    state.integers["reference_moves"] = {reference.moves};
    state.reals["reference"] = std::move(reference.point);
    state.reals["reference_candidate"] = std::move(reference.candidate);
  }
  if (bandwidth_.used) {
    state.reals["gamma"] = {config_.kernel.gamma};
    state.reals["scale_mean"] = {bandwidth_.mean};
    state.reals["scale_m2"] = {bandwidth_.m2};
  }
  save_rule(state);
}

// Throws if a saved task id is out of range, or if there are stored examples but no kernel. The bindings have checked the rows.
void Learner::check_saved(const std::vector<std::int64_t>& task_ids) const {
  const auto require = [](bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
  };
  if (const auto* graph = dynamic_cast<const Explicit*>(config_.similarity.get()))
    for (const auto task_id : task_ids)
      require(task_id >= 0 && static_cast<std::size_t>(task_id) < graph->tasks(), "load: a saved task is not one of the graph's tasks");
  require(task_ids.empty() || config_.kernel.kind != Kernel::Kind::none, "load: a model without a kernel cannot have stored examples");
}

void Learner::load(const State& state, const Rows& rows) {
  const auto& task_ids = state.integers.at("key");
  const auto& clusters = state.integers.at("cluster");
  const auto& arrivals = state.integers.at("arrival");
  if (clusters.size() != task_ids.size() || arrivals.size() != task_ids.size() || rows.count != task_ids.size() ||
      (config_.capacity && task_ids.size() > config_.capacity))
    throw std::invalid_argument("load: rows, key, cluster and arrival must have the same length, at most the capacity");
  check_saved(task_ids);
  if (bandwidth_.used) {  // γ is then part of the state, not a setting
    config_.kernel.gamma = state.reals.at("gamma").at(0);
    bandwidth_.mean = state.reals.at("scale_mean").at(0);
    bandwidth_.m2 = state.reals.at("scale_m2").at(0);
    if (!(config_.kernel.gamma > 0)) throw std::invalid_argument("load: gamma must be above 0");
    store_->set_gamma(config_.kernel.gamma);
  }
  for (std::size_t j = 0; j < task_ids.size(); ++j) {
    n_seen_ = arrivals[j];
    Instance x{&rows, j, 0.0};
    store_->squares(rows, j, 1, &x.sq);
    if (!store_->fits(x)) throw std::invalid_argument("load: the saved rows exceed the model's own budget");
    reserve_slots(rows, j, j + 1);
    append(Example{x, {task_ids[j], clusters[j]}, 0, 1.0, config_.kernel.self(x.sq)});
  }
  if (const auto point = state.reals.find("reference"); point != state.reals.end())
    store_->set_reference({point->second, state.reals.at("reference_candidate"), state.integers.at("reference_streak").at(0),
                           state.integers.at("reference_moves").at(0)});
  n_seen_ = state.integers.at("n_seen").at(0);
  n_mistakes_ = state.integers.at("n_mistakes").at(0);
  load_rule(state);
  end_reserve();
}

}  // namespace budgetron
