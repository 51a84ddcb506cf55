// Tests the core without Python: every rule, store, kernel and kind of graph learns a random stream, and invariants are checked after every
// block. Built with the sanitizers by `make sanitize`, and by every compiler named in portability.py. With an argument n, the program runs
// only every n-th configuration, the first configuration of each rule, kernel and store, and fewer graphs and texts than without n. To save
// time, `make sanitize` passes an n, and portability.py does so for programs that run under an emulator.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fair_lock.hpp"
#include "intrinsics.hpp"
#include "readers/decimal.hpp"
#include "readers/delimited.hpp"
#include "readers/sparse_lines.hpp"
#include "simd/levels.hpp"
#include "simd/simd.hpp"
#include "stores/row_table.hpp"
#include "streams.hpp"

using namespace budgetron;

namespace {

int checks = 0;

void expect(bool condition, const char* failure) {
  ++checks;
  if (condition) return;
  std::fprintf(stderr, "stress: %s\n", failure);
  std::exit(1);
}

std::vector<double> margins_of(const Learner& learner, const Stream& s, const Config& c) {
  std::vector<double> out(s.n * c.n_outputs);
  learner.margins(s.rows(c, 0, s.n), 0, s.n, s.task_ids.data(), s.clusters.data(), out.data());
  return out;
}

std::unique_ptr<Model> save_and_load(Model& model, const Config& c) {
  State state;
  model.learner().save(state);
  auto other = std::make_unique<Model>(c);
  other->load(state, SavedRows(model.learner()).rows());
  return other;
}

void check_stream(const Config& c, bool by_cluster, unsigned seed, double offset) {
  const std::size_t integer_rows = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 100 : 240;
  const Stream s(240, c.d, c.n_outputs == 1 ? 2 : static_cast<int>(c.n_outputs), 5, by_cluster, integer_rows, seed, offset);
  auto model = std::make_unique<Model>(c);
  std::vector<double> margins(s.n * c.n_outputs);
  std::vector<std::uint8_t> flags(s.n);
  for (std::size_t from = 0; from < s.n; from += 17) {
    const std::size_t to = std::min(from + 17, s.n);
    const Rows rows = s.rows(c, from, to);
    expect(model->learner().first_bad_row(rows) == rows.count, "a valid row was refused");
    model->learn(rows, s.labels.data() + from, s.task_ids.data() + from, s.clusters.data() + from, nullptr,
                 margins.data() + from * c.n_outputs, flags.data() + from);
    expect(!c.capacity || model->learner().size() <= c.capacity, "more stored than the budget allows");
    if (from == 119) model->learner().forget(2);
    if (from == 136) {
      auto other = save_and_load(*model, c);
      const auto a = margins_of(model->learner(), s, c), b = margins_of(other->learner(), s, c);
      expect(std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0, "a reloaded model differs");
      model = std::move(other);
    }
  }
  for (double m : margins) expect(m == m && m - m == 0, "a margin is not finite");
  if (c.rule == "budgetron") {
    const Rows rows = s.rows(c, 0, s.n);
    const State answer = model->learner().query({"variances", &rows, s.task_ids.data(), s.clusters.data()});
    expect(answer.reals.at("variance").size() == s.n * c.n_outputs, "a variance is missing");
    for (double v : answer.reals.at("variance")) expect(v >= 0 && v - v == 0, "a variance is not finite");
  }
  // Rules that store no examples have no reference point.
  if (offset != 0 && c.kernel.kind == Kernel::Kind::gaussian && !c.sparse && model->learner().size() > 0)
    expect(model->learner().store().reference().moves >= 1, "the reference point has not followed the stream");
  expect(model->learner().n_seen() == static_cast<std::int64_t>(s.n), "the number of examples is wrong");
}

// A call that learns many rows can be interrupted while rows remain, but not after the last row. An interruption at that point would discard a
// copy of the model that has already learned all rows.
void check_interruptions() {
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{12}})  // 0: no budget, so a copy of the model learns
    for (const std::size_t n : {std::size_t{4096}, std::size_t{4100}, std::size_t{8192}}) {
      Config c = make_config(2, 0, 1, capacity);
      c.rule = capacity ? "random_budget_perceptron" : "perceptron";
      c.similarity = std::make_shared<Clique>(1.0, 0.5);
      Stream s(n, c.d, 2, 5, true, 0, 1);
      std::fill(s.labels.begin(), s.labels.end(), 1);  // a few mistakes are enough
      std::vector<double> margins(n, NAN);
      std::vector<std::uint8_t> flags(n);
      int turns = 0;
      Model model(c);
      model.learn(s.rows(c, 0, n), s.labels.data(), s.task_ids.data(), s.clusters.data(), nullptr, margins.data(), flags.data(), [&] {
        ++turns;
        expect((model.learner().n_seen() == 0) == (capacity == 0), "the model itself has learned instead of its copy, or the reverse");
        expect(std::isnan(margins[n - 1]), "a call could be interrupted after it had learned all rows");
      });
      expect(turns > 0 || n == 4096, "a long call could not be interrupted");
      expect(model.learner().n_seen() == static_cast<std::int64_t>(n), "a long call has not learned all rows");
    }
}

// Delimited text of random pieces has the same records wherever it is cut into parts. Each part is in a buffer of exactly its size, so
// that a sanitizer notices reads beyond its end.
void scan_random_text(unsigned seed) {
  const std::vector<std::string> pieces = {"\"", "\"\"", ",", ",", "\n", "\r\n", "ab", "1.5", "-2e3", " ", "NA", "true", "\xc3\xa9",
                                           std::string(1, '\0'), "\xff", "1e999", "123456789012345678901234567890", "+.5"};
  std::mt19937 rng(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(rng); };
  std::string text;
  for (std::size_t n = below(80); n > 0; --n) text += pieces[below(pieces.size())];
  ScanOptions options;
  for (std::size_t n = below(4); n > 0; --n) options.field_types.push_back(static_cast<FieldType>(below(3)));
  options.max_line = 5 + below(40);
  options.max_bad = 1000;
  const std::vector<char> all(text.begin(), text.end());
  const Scan whole = scan_delimited(all.data(), all.size(), true, options);
  expect(whole.consumed == all.size(), "some text was not scanned");

  std::vector<double> numbers;
  std::vector<std::int64_t> lines;
  std::size_t n_bad = 0, at = 0, n_fed = 0;
  std::int64_t line = 0;
  bool in_long_line = false;
  for (bool last = false; !last;) {
    n_fed = std::min(text.size(), n_fed + 1 + below(20));
    last = n_fed == text.size();
    if (in_long_line) {
      const std::size_t end = text.find('\n', at);
      if (end >= n_fed) {
        at = n_fed;
        continue;
      }
      at = end + 1;
      in_long_line = false;
    }
    const std::vector<char> part(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(n_fed));
    const Scan scan = scan_delimited(part.data(), part.size(), last, options);
    for (const std::int64_t l : scan.lines) lines.push_back(line + l);
    numbers.insert(numbers.end(), scan.numbers.begin(), scan.numbers.end());
    n_bad += scan.bad.size();
    at += scan.consumed;
    line += scan.n_lines;
    in_long_line = scan.in_long_line;
  }
  expect(lines == whole.lines && n_bad == whole.bad.size(), "text that is cut has other records");
  expect(numbers.size() == whole.numbers.size() &&
             (numbers.empty() || std::memcmp(numbers.data(), whole.numbers.data(), numbers.size() * sizeof(double)) == 0),
         "text that is cut has other numbers");
}

// A sparse line of random pieces gives the same row whether it is scanned alone or together with other lines. Alone it is in a buffer of exactly
// its size, so that a sanitizer notices reads beyond its end.
void scan_random_lines(unsigned seed) {
  const std::vector<std::string> pieces = {" ", " ", "\t", ":", "|", "|w", "qid:", "#", "'t", "1", "12:3.5", "a:-2e3", "1e999",
                                           "\xc3\xa9", "99999999999:1", "|user", "ann", "bob c", "-", "+.5", ".", "5:", "0:0"};
  std::mt19937 rng(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(rng); };
  const auto from = static_cast<TaskFrom>(below(3));
  const bool is_vw = below(2);
  const auto scanned = [&](const std::vector<char>& text, const std::vector<std::int64_t>& begins,
                           const std::vector<std::int64_t>& ends) {
    const LineExtents lines{begins.data(), ends.data(), begins.size()};
    return is_vw ? scan_vw(text.data(), lines, from, "user") : scan_svmlight(text.data(), lines);
  };
  std::vector<char> all;
  std::vector<std::int64_t> begins, ends, indices;
  std::vector<double> values;
  std::vector<std::uint8_t> kinds;
  for (std::size_t n = 1 + below(6); n > 0; --n) {
    std::string line;
    for (std::size_t k = below(12); k > 0; --k) line += pieces[below(pieces.size())];
    begins.push_back(static_cast<std::int64_t>(all.size()));
    all.insert(all.end(), line.begin(), line.end());
    ends.push_back(static_cast<std::int64_t>(all.size()));
    const std::vector<char> alone(line.begin(), line.end());
    const SparseLines single = scanned(alone, {0}, {static_cast<std::int64_t>(line.size())});
    kinds.push_back(single.kinds[0]);
    indices.insert(indices.end(), single.indices.begin(), single.indices.end());
    values.insert(values.end(), single.values.begin(), single.values.end());
  }
  const SparseLines together = scanned(all, begins, ends);
  std::size_t rows = 0;
  for (const std::uint8_t kind : kinds) rows += kind == static_cast<std::uint8_t>(LineKind::row);
  expect(together.kinds == kinds && together.indices == indices && together.values == values, "a line is read differently among others");
  expect(together.indptr.size() == rows + 1 && together.weights.size() == rows && together.labels.codes.size() == rows &&
             together.tasks.codes.size() == rows,
         "a row has no weight, label or task");
  expect(together.indptr.back() == static_cast<std::int64_t>(indices.size()), "the entries do not end with the last row");
}

// Returns the Laplacian of a random graph of k tasks with edge weights from 1/spread to spread; unless `singular`, plus I. If k is large enough,
// thirty of the tasks form a clique.
Explicit::Sparse random_graph(std::size_t k, double spread, bool singular, unsigned seed) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<double> exponent(-1.0, 1.0);
  std::vector<std::map<std::size_t, double>> rows(k);
  const auto join = [&](std::size_t i, std::size_t j) {
    if (i == j || rows[i].count(j)) return;
    const double weight = std::pow(spread, exponent(rng));
    rows[i][j] = rows[j][i] = -weight;
    rows[i][i] += weight;
    rows[j][j] += weight;
  };
  for (std::size_t i = 1; i < k; ++i) join(i, i - 1);
  for (std::size_t e = 0; e < 3 * k; ++e) join(rng() % k, rng() % k);
  for (std::size_t i = k / 3; i < k / 3 + 30 && i < k; ++i)
    for (std::size_t j = k / 3; j < i; ++j) join(i, j);
  Explicit::Sparse a;
  a.singular = singular;
  a.component.assign(k, 0);
  a.indptr.push_back(0);
  for (std::size_t i = 0; i < k; ++i) {
    if (!singular) rows[i][i] += 1.0;
    for (const auto& [j, value] : rows[i]) {
      a.indices.push_back(static_cast<std::int32_t>(j));
      a.data.push_back(value);
    }
    a.indptr.push_back(static_cast<std::int64_t>(a.indices.size()));
  }
  return a;
}

// Computes columns of the inverse. The residual of each system must be small.
void check_inverse(std::size_t k, double spread, bool singular, unsigned seed) {
  const Explicit::Sparse a = random_graph(k, spread, singular, seed);
  const SparseInverse inverse(a, a.component, singular);
  Bytes temporary;
  SparseInverse::Work work(temporary, inverse);
  std::vector<double> column(k);
  for (std::size_t c = 0; c < 11; ++c) {
    const std::size_t task = c * (k - 1) / 10;
    inverse.column(static_cast<std::int64_t>(task), column.data(), work);
    double residual = 0, largest = 0;
    for (std::size_t i = 0; i < k; ++i) {
      double sum = singular ? 1.0 / static_cast<double>(k) : 0.0;  // for a connected graph, A A⁺ has the entries of I, minus 1/k
      for (auto e = static_cast<std::size_t>(a.indptr[i]); e < static_cast<std::size_t>(a.indptr[i + 1]); ++e) {
        sum += a.data[e] * column[static_cast<std::size_t>(a.indices[e])];
        largest = std::max(largest, std::abs(a.data[e] * column[static_cast<std::size_t>(a.indices[e])]));
      }
      residual = std::max(residual, std::abs(sum - (i == task ? 1.0 : 0.0)));
    }
    expect(residual <= 1e-11 * std::max(1.0, largest), "a column does not solve its system");
  }
}

// Removes one feature at a time from a CPU: all levels that need the feature must become unavailable.
void check_levels() {
  const CpuWords haswell{0x38D83201, 0x00000128, 0x00000021, 0x06};  // exactly the features of x86-64-v3
  const CpuWords skylake_x{0x38D83201, 0xD0030128, 0x00000021, 0xE6};  // exactly the features of x86-64-v4
  expect(best_level({}) == Level::baseline, "a CPU without features does not get the baseline");
  expect(best_level(haswell) == Level::v3 && best_level(skylake_x) == Level::v4, "a CPU with all features of a level does not get it");
  std::uint32_t CpuWords::*const words[] = {&CpuWords::leaf1_ecx, &CpuWords::leaf7_ebx, &CpuWords::extended_ecx, &CpuWords::xcr0};
  for (const auto word : words)
    for (int bit = 0; bit < 32; ++bit) {
      const std::uint32_t mask = std::uint32_t{1} << bit;
      if (!(skylake_x.*word & mask)) continue;
      CpuWords less = skylake_x;
      less.*word &= ~mask;
      expect(best_level(less) == (haswell.*word & mask ? Level::baseline : Level::v3), "a CPU gets a level without one of its features");
    }
  for (const Level best : {Level::baseline, Level::v3, Level::v4}) {
    expect(capped_level(best, "") == best && capped_level(best, "v4") == best, "a cap above the best level changes it");
    expect(capped_level(best, "v3") == std::min(best, Level::v3), "a cap is exceeded");
    expect(capped_level(best, "baseline") == Level::baseline, "the baseline is not available");
  }
  bool refused = false;
  try {
    capped_level(Level::v4, "v5");
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  expect(refused && !level_named("V3") && !level_named(""), "an unknown level is accepted");
  expect(level_named(simd().name).has_value(), "the table of loops does not have the name of a level");
}

// Adds dense columns of integers for 0 to 299 slots, so that vector loops end with every possible remainder, and compares with plain sums.
void check_columns() {
  std::mt19937 rng(2);
  std::uniform_int_distribution<std::int32_t> entry(-50, 50), factor(-20, 20), before(-1000000, 1000000);
  for (std::size_t n = 0; n < 300; ++n) {
    const std::size_t count = n % 33;  // at most 32 * 20 * 50 = 32,000 per slot, which fits into 16 bits
    std::vector<std::vector<std::int16_t>> values(count, std::vector<std::int16_t>(n));
    std::vector<IntegerRun> columns;
    std::vector<std::int32_t> sums(n), expected;
    for (auto& sum : sums) sum = before(rng);
    expected = sums;
    for (auto& column : values) {
      for (auto& value : column) value = static_cast<std::int16_t>(entry(rng));
      columns.push_back({nullptr, column.data(), n, factor(rng)});
      for (std::size_t j = 0; j < n; ++j) expected[j] += columns.back().x * column[j];
    }
    simd().columns_integers(columns.data(), count, n, sums.data());
    expect(sums == expected, "columns of integers are added wrongly");
    std::vector<double> doubles(n);
    simd().to_doubles(sums.data(), n, doubles.data());
    expect(std::equal(sums.begin(), sums.end(), doubles.begin()), "integers are converted wrongly");
  }
}

// Rows that are added after narrow(), from memory that was reserved before narrow(), must take no more bytes than rows of a table that was narrow
// from the beginning.
void check_narrowed_rows() {
  const auto bytes_of = [](std::size_t width_before) {
    Bytes bytes;
    RowTable rows(bytes, width_before, 0, 1);
    rows.reserve(8);
    rows.add({0, false}, 0);
    rows.narrow(10, [](double*) {});
    for (std::int64_t id = 1; id < 8; ++id) rows.add({id, false}, 0);
    rows.end_reserve();
    return bytes.used;
  };
  expect(bytes_of(100) == bytes_of(10), "rows that were reserved before narrow() take too many bytes");
}

// Numbers for each code path of the parser, compared with the compiler's values.
void check_numbers() {
  const struct {
    const char* text;
    double value;
  } cases[] = {{"0", 0},
               {"1.5", 1.5},
               {"123456789012345", 123456789012345},
               {"0.1234567890123456789", 0.1234567890123456789},
               {"123456789012345678901234567890", 123456789012345678901234567890.0},
               {"2.5e-3", 2.5e-3},
               {"1.7976931348623157e308", 1.7976931348623157e308},
               {"1.5e400", HUGE_VAL},
               {"2.2250738585072014e-308", 2.2250738585072014e-308},
               {"4.9406564584124654e-324", 4.9406564584124654e-324},
               {"1.5e-400", 0.0}};
  for (const auto& c : cases) {
    double fast = -1;
    expect(parse_unsigned_decimal(c.text, fast) && fast == c.value, "a number is read wrongly");
    expect(slow_double(c.text) == c.value, "the fallback parser reads a number wrongly");
  }
}

void check_intrinsics() {
  std::mt19937_64 rng(1);
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit, x = rng();
    expect(floor_log2(power) == bit && floor_log2(power | (power - 1)) == bit, "a logarithm is wrong");
    expect(high_product(x, power) == (bit ? x >> (64 - bit) : 0), "a product with a power of two is wrong");
    expect(high_product(power, x) == high_product(x, power), "a product does not commute");
  }
  const std::uint64_t largest = ~std::uint64_t{0};
  expect(high_product(largest, largest) == largest - 1, "the largest product is wrong");  // (2^64 - 1)^2 = 2^128 - 2^65 + 1
}

// The lock is granted in the order of the requests: a reader after a waiting writer gets it after the writer, and a writer
// after waiting readers gets it after them. Each thread starts when the one before it waits, so the order does not depend on
// timing.
void check_lock_order(const std::string& arrivals) {
  FairLock lock;
  std::string entered;
  std::mutex entered_mutex;
  const auto note = [&](char kind) {
    const std::lock_guard<std::mutex> hold(entered_mutex);
    entered += kind;
  };
  const auto enter = [&](char kind) {
    if (kind == 'w') {
      const std::unique_lock<FairLock> hold(lock);
      note(kind);
    } else {
      const std::shared_lock<FairLock> hold(lock);
      note(kind);
    }
  };
  const auto none_entered = [&] {
    const std::lock_guard<std::mutex> hold(entered_mutex);
    return entered.empty();
  };
  std::vector<std::thread> threads;
  {
    const std::shared_lock<FairLock> first(lock);  // a prediction in progress
    for (const char kind : arrivals) {
      threads.emplace_back(enter, kind);
      while (lock.queued() != threads.size() && none_entered()) std::this_thread::yield();
      expect(none_entered(), "a thread got the lock before a waiting writer");
    }
  }
  for (auto& thread : threads) thread.join();
  expect(entered == arrivals, "the lock is not granted in the order of the requests");
  expect(lock.queued() == 0, "the lock is not free when all threads have left");
}

// Several readers hold the lock at the same time: each waits inside until all are inside.
void check_shared_lock() {
  FairLock lock;
  std::atomic<int> inside{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      const std::shared_lock<FairLock> hold(lock);
      ++inside;
      while (inside != 3) std::this_thread::yield();
    });
  for (auto& thread : threads) thread.join();
  expect(inside == 3, "three readers did not hold the lock together");
}

}  // namespace

int main(int count, char** arguments) {
  const unsigned every = every_nth(count, arguments);
  check_levels();
  check_numbers();
  check_intrinsics();
  check_columns();
  check_narrowed_rows();
  for (const char* arrivals : {"w", "wr", "wrw", "wrrw", "wwr", "wrwrwr"}) check_lock_order(arrivals);
  check_shared_lock();
  check_interruptions();

  for (std::size_t k : {std::size_t{2}, std::size_t{9}, std::size_t{40}, std::size_t{700}, std::size_t{2500}})
    for (double spread : {1.0, 100.0, 1e6})
      for (bool singular : {false, true})
        if (every == 1 || k < (every < 20 ? 1000 : 100)) check_inverse(k, spread, singular, static_cast<unsigned>(k));

  unsigned streams = 0;
  for_each_sampled_config(every, [&](const Config& c, bool by_cluster, unsigned seed) {
    check_stream(c, by_cluster, seed, 0);
    ++streams;
    if (!runs_with_offset(c, seed)) return;
    check_stream(c, by_cluster, seed, kFar);
    ++streams;
  });
  for (unsigned n = 0; n < 20000; n += every) scan_random_text(n);
  for (unsigned n = 0; n < 20000; n += every) scan_random_lines(n);
  std::printf("core_stress: %u streams at level %s, %d checks passed\n", streams, simd().name, checks);
  return 0;
}
