// Tests the core when memory runs out: every rule and store learns a random stream. Each call is repeated with no successful allocation, with
// one, with two and so on, until the call succeeds. After each failed call the saved state must be unchanged, bit for bit. At the end the model
// must equal a second model whose allocations never failed. Built with the sanitizers by `make sanitize`. With an argument n, the program runs
// only every n-th configuration, and the first configuration of each rule, kernel and store.
//
// It also checks that `memory_bytes` covers the peak memory of learning, and that hash tables resist values that were chosen to collide.
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <string>

#include "stores/feature_index.hpp"
#include "stores/row_table.hpp"
#include "streams.hpp"

namespace {

// State of the allocator below. It needs no lock, because the program has one thread.
long until_failure = -1;  // how many further allocations succeed before all later ones fail; −1: none fails
long n_failed_allocations = 0;
std::size_t allocated = 0, peak = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  if (until_failure == 0) {
    ++n_failed_allocations;
    throw std::bad_alloc();
  }
  if (until_failure > 0) --until_failure;
  void* p = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (!p) throw std::bad_alloc();
  allocated += malloc_usable_size(p);
  if (allocated > peak) peak = allocated;
  return p;
}

void deallocate(void* p) noexcept {
  if (p) allocated -= malloc_usable_size(p);
  std::free(p);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) { return allocate(size, static_cast<std::size_t>(alignment)); }
void operator delete(void* p) noexcept { deallocate(p); }
void operator delete(void* p, std::size_t) noexcept { deallocate(p); }
void operator delete(void* p, std::align_val_t) noexcept { deallocate(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { deallocate(p); }

using namespace budgetron;

namespace {

long n_failed_calls = 0;
const Config* current = nullptr;

// Names of configurations. `covered`: allocations failed. `storing`: examples were stored (without stored examples there is no reference point).
// `moved`: the reference point moved in a call in which allocations had failed. A model with a budget allocates its memory beforehand, so the call
// that moves the point may allocate nothing and cannot fail. For such a model, a move in any call is enough.
std::set<std::string> covered, storing, moved;

void expect(bool condition, const char* failure) {
  if (condition) return;
  std::fprintf(stderr, "faults: %s\n", failure);
  if (const Config* c = current)
    std::fprintf(stderr, "%s, capacity %zu, %zu outputs, %s graph, at most %.0f task rows\n", name_of(*c).c_str(), c->capacity, c->n_outputs,
                 dynamic_cast<const Clique*>(c->similarity.get()) ? "clique" : "explicit", c->parameters.real("max_task_rows", 0));
  std::exit(1);
}

struct Saved {
  explicit Saved(Model& model) : rows(model.learner()) { model.learner().save(state); }
  State state;
  SavedRows rows;
};

template <class Values>
bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0);
}

bool same_state(const Saved& a, const Saved& b) {
  if (a.state.reals.size() != b.state.reals.size() || a.state.integers.size() != b.state.integers.size()) return false;
  for (const auto& [name, values] : a.state.reals)
    if (!b.state.reals.count(name) || !same_bits(values, b.state.reals.at(name))) return false;
  for (const auto& [name, values] : a.state.integers)
    if (!b.state.integers.count(name) || !same_bits(values, b.state.integers.at(name))) return false;
  return same_bits(a.rows.dump.values, b.rows.dump.values) && a.rows.dump.indptr == b.rows.dump.indptr &&
         a.rows.dump.indices == b.rows.dump.indices;
}

// Repeats a call until it succeeds. In repetition n, counted from 0, the first n allocations succeed and all later ones fail. After each failure
// the model must be unchanged.
template <class Call>
void with_every_failure(Model& model, Call call) {
  const Saved before(model);
  for (long n = 0;; ++n) {
    until_failure = n;
    try {
      call();
      until_failure = -1;
      return;
    } catch (const std::bad_alloc&) {
      until_failure = -1;
    }
    ++n_failed_calls;
    covered.insert(name_of(model.learner().config()));
    expect(same_state(before, Saved(model)), "a failed call has changed the model");
  }
}

void check_stream(const Config& c, bool by_cluster, unsigned seed, double offset) {
  const std::size_t n = 64, integer_rows = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 30 : n;
  const Stream s(n, c.d, c.n_outputs == 1 ? 2 : static_cast<int>(c.n_outputs), 5, by_cluster, integer_rows, seed, offset);
  Model model(c), undisturbed(c);
  std::vector<double> margins(n * c.n_outputs), undisturbed_margins(n * c.n_outputs), out(n * c.n_outputs);
  std::vector<std::uint8_t> flags(n), undisturbed_flags(n);
  const auto learn = [&](Model& learner, std::size_t from, std::size_t to, std::vector<double>& m, std::vector<std::uint8_t>& f) {
    learner.learn(s.rows(c, from, to), s.labels.data() + from, s.task_ids.data() + from, s.clusters.data() + from, nullptr,
              m.data() + from * c.n_outputs, f.data() + from);
  };
  // Single examples and blocks. The last block has more rows than all calls before it together.
  const std::size_t cuts[] = {0, 1, 2, 3, 12, 13, 29, 30, n};
  for (std::size_t i = 0; i + 1 < sizeof cuts / sizeof cuts[0]; ++i) {
    const std::size_t from = cuts[i], to = cuts[i + 1];
    const std::int64_t moves = model.learner().store().reference().moves;
    const long failed_before = n_failed_calls;
    with_every_failure(model, [&] { learn(model, from, to, margins, flags); });
    if (model.learner().size() > 0) storing.insert(name_of(c));
    const bool was_tested = n_failed_calls > failed_before || c.capacity;
    if (was_tested && model.learner().size() > 0 && model.learner().store().reference().moves > moves) moved.insert(name_of(c));
    learn(undisturbed, from, to, undisturbed_margins, undisturbed_flags);
    if (to == 13) {
      with_every_failure(model, [&] { model.learner().forget(2); });
      undisturbed.learner().forget(2);
      with_every_failure(model, [&] {
        model.learner().margins(s.rows(c, 0, n), 0, n, s.task_ids.data(), s.clusters.data(), out.data());
      });
      if (c.rule == "budgetron") {  // queries of a Budgetron may apply a pending update of a covariance
        const Rows rows = s.rows(c, 0, 6);  // few rows are enough, because every row allocates the same
        for (const char* name : {"variances", "linear_weights", "explain", "beliefs"}) {
          const Query query{name, &rows, s.task_ids.data(), s.clusters.data()};
          with_every_failure(model, [&] { model.learner().query(query); });
          undisturbed.learner().query(query);
        }
      }
      with_every_failure(model, [&] { Saved saved(model); });
    }
    if (to == 30) {
      const Saved saved(undisturbed);
      with_every_failure(model, [&] { model.load(saved.state, saved.rows.rows()); });
      undisturbed.load(saved.state, saved.rows.rows());
    }
  }
  expect(same_bits(margins, undisturbed_margins) && flags == undisturbed_flags, "margins differ after failed allocations");
  expect(same_state(Saved(model), Saved(undisturbed)), "the state differs after failed allocations");
}

// Checks that a model never allocates much more than it counts, at any time while it learns.
void check_memory(const Config& c, bool by_cluster, unsigned seed, double offset) {
  const std::size_t n = 200;
  const Stream s(n, c.d, c.n_outputs == 1 ? 2 : static_cast<int>(c.n_outputs), 5, by_cluster, seed % 2 ? n / 2 : 0, seed, offset);
  std::vector<double> margins(n * c.n_outputs);
  std::vector<std::uint8_t> flags(n);
  const std::size_t before = allocated;
  Model model(c);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t counted = model.learner().memory_bytes();
    peak = allocated;
    model.learn(s.rows(c, i, i + 1), s.labels.data() + i, s.task_ids.data() + i, s.clusters.data() + i, nullptr,
                margins.data() + i * c.n_outputs, flags.data() + i);
    const std::size_t after = model.learner().memory_bytes(), larger = std::max(counted, after);
    // The names in the settings, small objects and the overhead of malloc are not counted; an eighth and 4 KiB are allowed for them. While a
    // vector grows, its old memory exists too, so twice the new size is allowed.
    const std::size_t limit = after > counted ? 2 * after : larger;
    if (peak - before > limit + limit / 8 + 4 * 1024)
      std::fprintf(stderr, "rule %s: at most %zu bytes at once, counted %zu\n", c.rule.c_str(), peak - before, larger);
    expect(peak - before <= limit + limit / 8 + 4 * 1024, "more was allocated than is counted");
  }
}

enum class Growing { adagrad, filter, rows };  // what is about to grow: the frequencies of AdaGrad or of a filter, or the limit of task rows

// If allocations fail while a Budgetron is about to grow, the call either is refused and changes nothing, or learns without growing; the model grows
// later.
void check_growing(Growing what) {
  Config c;
  for_each_config([&](const Config& candidate, bool) {
    const Parameters& p = candidate.parameters;
    if (candidate.rule == "budgetron" && !candidate.sparse && candidate.n_outputs == 1 && !candidate.n_tasks &&
        p.count("filter_frequencies", 0) && p.flag("shared", false) && p.flag("own", false) && p.count("max_task_rows", 0) &&
        !p.flag("clustered", false))
      c = candidate;
  });
  c.parameters.set("frequencies", std::uint64_t{90});
  c.parameters.set("filter_frequencies", std::uint64_t{80});
  c.parameters.set("bank_frequencies", std::uint64_t{80});
  c.parameters.set("max_frequencies", std::uint64_t{120});
  c.parameters.set("max_filter_frequencies", std::uint64_t{120});
  c.parameters.set("own_cells", std::uint64_t{0});
  c.parameters.set("bins", std::uint64_t{0});  // so that the last belief is one of AdaGrad
  c.parameters.set("rows_may_grow", std::uint64_t{1});
  current = &c;
  const std::size_t n = 300, begin = 127;
  const Stream s(n, c.d, 2, 40, false, 0, 1, 0);
  std::vector<double> margins(n);
  std::vector<std::uint8_t> flags(n);
  const auto learn = [&](Model& learner, std::size_t from, std::size_t to) {
    learner.learn(s.rows(c, from, to), s.labels.data() + from, s.task_ids.data() + from, s.clusters.data() + from, nullptr,
                  margins.data() + from, flags.data() + from);
  };
  Model first(c);
  learn(first, 0, begin);
  Saved saved(first);
  // Gives nearly all weight to the part that is to grow, or to a linear filter if rows are to grow. Sizes are reviewed after the next
  // example, which is number `seen`.
  const auto prepare = [&](State& state, std::int64_t seen) {
    auto& weights = state.reals.at("belief_weight");
    const std::size_t heavy = what == Growing::adagrad ? weights.size() - 1 : what == Growing::filter ? 3 : 0;
    for (std::size_t b = 0; b < weights.size(); ++b) weights[b] = b == heavy ? 1 - 1e-6 * static_cast<double>(weights.size() - 1) : 1e-6;
    state.integers.at("n_seen") = {seen - 1};
    // A filter grows late in the stream only if the variances of its weights are small, so these variances are made smaller. The core stores them
    // in float32, so the new values must be float32 numbers.
    for (double& variance : state.reals.at("filter3_covariance")) variance = static_cast<double>(static_cast<float>(0.1 * variance));
  };
  prepare(saved.state, 128);
  saved.state.integers.at("spare_bytes") = {20000};
  const char* const grows = what == Growing::adagrad ? "adagrad1_frequencies" : what == Growing::filter ? "filter3_frequencies" : "row_limit";
  const auto size = [&](const Saved& saved_model) { return saved_model.state.integers.at(grows).at(0); };
  long n_not_grown = 0;
  for (long at = 0;; ++at) {
    Model model(c);
    model.load(saved.state, saved.rows.rows());
    until_failure = at;
    n_failed_allocations = 0;
    bool refused = false;
    try {
      learn(model, begin, begin + 1);
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    const bool failed = n_failed_allocations > 0;
    until_failure = -1;
    if (refused) {
      expect(same_state(saved, Saved(model)), "a refused call has changed a model that was about to grow");
      learn(model, begin, begin + 1);
    }
    const bool grown = size(Saved(model)) > size(saved);
    n_not_grown += !grown;
    expect(grown || (failed && !refused), "a model with memory has not grown");
    learn(model, begin + 1, n);
    for (const double margin : margins) expect(std::isfinite(margin), "a model that could not grow has lost its margins");
    Saved later(model);
    prepare(later.state, 512);
    model.load(later.state, later.rows.rows());
    learn(model, 0, 1);
    expect(size(Saved(model)) > size(saved), "a model that could not grow has not grown later");
    if (!failed) break;
  }
  expect(n_not_grown > 0, "no allocation of a model that grows has failed");
}

// A million ids are chosen so that all of them collide in the first of two million buckets under a hash without a seed, which the table does
// not use: (x ^ x >> 32) · φ >> 32, where φ is 2⁶⁴ divided by the golden ratio. The seeded hash of the table must separate the ids. The test counts
// probes instead of measuring time.
void check_crafted_ids() {
  constexpr std::size_t kIds = 1000000;
  Bytes bytes;
  RowTable table(bytes, 0, 0, 0x243F6A8885A308D3ull);
  std::vector<std::int64_t> ids;
  // Inverts the hash: both multiplying by φ and x ^ x >> 32 can be undone.
  const std::uint64_t inverse = 0xF1DE83E19937733Dull;  // of φ modulo 2⁶⁴
  static_assert(0x9E3779B97F4A7C15ull * 0xF1DE83E19937733Dull == 1, "not the inverse of φ");
  for (std::uint64_t j = 0; ids.size() < kIds; ++j) {
    const std::uint64_t x = j * inverse;  // j < 2³²: the upper half of the hash is 0
    const std::uint64_t before_shift = x ^ (x >> 32);
    if (before_shift & 1) continue;  // the name of a task's own row is even
    const auto id = static_cast<std::int64_t>(before_shift >> 1);
    if (static_cast<std::uint64_t>(id) >> 61) continue;  // beyond the range of integer tasks
    ids.push_back(id);
  }
  for (const std::int64_t id : ids) {
    std::uint64_t h = static_cast<std::uint64_t>(id) * 2;
    h = (h ^ (h >> 32)) * 0x9E3779B97F4A7C15ull;
    expect((h >> 32 & ((1u << 21) - 1)) == 0, "an id was crafted wrongly");
  }
  std::size_t total = 0, longest = 0;
  for (const std::int64_t id : ids) {
    table.reserve(1);
    table.add({id, false}, 0);
  }
  for (const std::int64_t id : ids) {
    const std::size_t probes = table.probes({id, false});
    total += probes;
    longest = std::max(longest, probes);
  }
  table.end_reserve();
  std::printf("crafted ids: %.2f probes on average, %zu at most\n", static_cast<double>(total) / kIds, longest);
  // For random ids, linear probing at a load of up to 2/3 needs 2 probes on average and a few hundred at most.
  expect(total < 3 * kIds && longest < 1000, "crafted ids cluster in the row table");
}

// Returns how many probes it takes on average to find one of these features in an index with this seed.
double probes_of(const std::vector<std::int32_t>& features, std::uint64_t seed) {
  Bytes bytes;
  FeatureIndex index(bytes, 0, seed);
  for (const std::int32_t feature : features) {
    index.reserve(1);
    index.add(feature, index.home(feature));
  }
  std::size_t total = 0;
  for (const std::int32_t feature : features) total += index.probes(feature);
  return static_cast<double>(total) / static_cast<double>(features.size());
}

// Features that collide under one seed must not collide under another seed. Features in arithmetic progression must not cluster under either
// of these two seeds; their steps are powers of two. The test counts probes.
void check_crafted_features() {
  constexpr std::size_t kFeatures = 4096;
  constexpr std::uint64_t known = 1, secret = 0x243F6A8885A308D3ull;
  Bytes bytes;
  FeatureIndex index(bytes, kFeatures, known);
  std::vector<const FeatureCell*> homes;
  for (std::int32_t feature = 0; feature < 6400; ++feature) homes.push_back(index.home(feature));
  std::nth_element(homes.begin(), homes.begin() + 100, homes.end());
  std::vector<std::int32_t> crafted;  // all in the first 1/64 of the cells
  for (std::int32_t feature = 0; crafted.size() < kFeatures; ++feature)
    if (index.home(feature) <= homes[100]) crafted.push_back(feature);
  const double attacked = probes_of(crafted, known), randomised = probes_of(crafted, secret);
  std::printf("crafted features: %.2f probes on average, %.0f if the seed were known\n", randomised, attacked);
  expect(attacked > 500, "features were crafted wrongly");
  // For random features, linear probing at a load of up to 1/2 needs 1.5 probes on average.
  expect(randomised < 3, "crafted features cluster in the feature index");
  for (std::int32_t step = 1; step <= 1 << 18; step *= 2) {
    std::vector<std::int32_t> regular;
    for (std::int32_t j = 0; j < static_cast<std::int32_t>(kFeatures); ++j) regular.push_back(j * step);
    expect(probes_of(regular, known) < 3 && probes_of(regular, secret) < 3, "features in arithmetic progression cluster");
  }
}

}  // namespace

int main(int count, char** arguments) {
  const unsigned every = every_nth(count, arguments);
  unsigned streams = 0;
  for_each_sampled_config(every, [&](const Config& c, bool by_cluster, unsigned seed) {
    current = &c;
    for (const double offset : {0.0, kFar}) {
      if (offset != 0 && !runs_with_offset(c, seed)) continue;
      check_stream(c, by_cluster, seed, offset);
      check_memory(c, by_cluster, seed, offset);
      ++streams;
    }
  });
  for_each_config([&](const Config& c, bool) {
    current = &c;
    expect(covered.count(name_of(c)) > 0, "no allocation failed in this configuration");
    if (c.kernel.kind == Kernel::Kind::gaussian && !c.sparse && storing.count(name_of(c)) > 0)
      expect(moved.count(name_of(c)) > 0, "no reference point has moved in this configuration");
  });
  check_growing(Growing::adagrad);
  check_growing(Growing::filter);
  check_growing(Growing::rows);
  current = nullptr;
  check_crafted_ids();
  check_crafted_features();
  std::printf("core_faults: %ld calls that ran out of memory, in %u streams, changed nothing; %zu kinds of rule, kernel and store\n",
              n_failed_calls, streams, covered.size());
  return 0;
}
