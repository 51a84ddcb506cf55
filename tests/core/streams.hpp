// Random streams and all configurations of the core, for faults.cpp and stress.cpp, which test the core without Python.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "learner/model.hpp"

namespace budgetron {

// A dense store subtracts a reference point from rows that are far from 0 (see dense_store.hpp). This offset is so large that the Gaussian kernel
// of make_config() needs a reference point even in float64.
constexpr double kFar = 1000;

struct Stream {
  std::size_t n, d;
  std::vector<double> dense, data;
  std::vector<float> dense32, data32;
  std::vector<std::int64_t> indptr{0}, task_ids, clusters;
  std::vector<std::int32_t> indices, labels;

  // The values of the first `integer_rows` rows are integers. Some rows are zero, and some repeat the row before. Then `offset` is added to all
  // values from row 11 on, and subtracted instead in the last third of the stream, so that a reference point moves at least once, and usually
  // twice.
  Stream(std::size_t n_, std::size_t d_, int classes, std::int64_t tasks, bool by_cluster, std::size_t integer_rows, unsigned seed, double offset = 0)
      : n(n_), d(d_) {
    std::mt19937 rng(seed);
    std::normal_distribution<double> normal;
    std::uniform_int_distribution<int> percent(0, 99);
    for (std::size_t i = 0; i < n; ++i) {
      const bool is_zero = percent(rng) < 5, repeats = i && percent(rng) < 10;
      for (std::size_t f = 0; f < d; ++f) {
        double v = is_zero || percent(rng) < 40 ? 0.0 : normal(rng);
        if (i < integer_rows) v = std::round(3.0 * v);
        if (i >= 11) v += i < 2 * n / 3 ? offset : -offset;
        if (repeats) v = dense[(i - 1) * d + f];
        dense.push_back(v);
        dense32.push_back(static_cast<float>(v));
        if (v == 0) continue;
        indices.push_back(static_cast<std::int32_t>(f));
        data.push_back(v);
        data32.push_back(static_cast<float>(v));
      }
      indptr.push_back(static_cast<std::int64_t>(indices.size()));
      labels.push_back(percent(rng) % classes);
      task_ids.push_back(percent(rng) % tasks);
      clusters.push_back(by_cluster ? task_ids.back() % 2 : task_ids.back());
    }
  }

  Rows rows(const Config& c, std::size_t from, std::size_t to) const {
    Rows r;
    r.count = to - from;
    r.d = d;
    if (c.sparse) {
      r.indptr = indptr.data() + from;
      r.indices = indices.data();
      r.data_f64 = data.data();
      r.data_f32 = data32.data();
    } else {
      r.dense_f64 = dense.data() + from * d;
      r.dense_f32 = dense32.data() + from * d;
    }
    return r;
  }
};

// The rows of a saved model, as the bindings pass them to `load`.
struct SavedRows {
  explicit SavedRows(const Learner& learner)
      : count(learner.size()),
        d(learner.config().d),
        dump(learner.store().dump()),
        single(dump.values.begin(), dump.values.end()),
        indices(dump.indices.begin(), dump.indices.end()) {}

  Rows rows() const {
    Rows r;
    r.count = count;
    r.d = d;
    r.dense_f64 = r.data_f64 = dump.values.data();
    r.dense_f32 = r.data_f32 = single.data();
    r.indptr = dump.indptr.data();
    r.indices = indices.data();
    return r;
  }

  std::size_t count, d;
  Store::Dump dump;
  std::vector<float> single;
  std::vector<std::int32_t> indices;
};

// Whether a configuration also runs on a stream with the offset kFar. It does if its reference point can move. Of the other configurations, a
// fifth do.
inline bool runs_with_offset(const Config& c, unsigned seed) {
  return (c.kernel.kind == Kernel::Kind::gaussian && !c.sparse) || seed % 5 == 0;
}

// The part of a configuration that does not depend on the rule. `kernel`: 0 linear, 1 polynomial, 2 Gaussian, 3 none. `store`: 0 dense
// float64, 1 dense float32, 2 sparse float64, 3 sparse float32, 4 sparse float64 with a limit of stored non-zeros (`pool`) if there is a budget.
inline Config make_config(int kernel, int store, std::size_t outputs, std::size_t capacity) {
  Config c;
  c.kernel.kind = kernel == 0   ? Kernel::Kind::linear
                  : kernel == 1 ? Kernel::Kind::polynomial
                  : kernel == 2 ? Kernel::Kind::gaussian
                                : Kernel::Kind::none;
  c.kernel.degree = kernel == 1 ? 2 : 1;
  c.kernel.bias = kernel == 1 ? 1.0 : 0.0;
  c.kernel.gamma = 0.3;
  c.follow_scale = outputs == 3;  // has an effect only with a Gaussian kernel
  c.d = 9;
  c.n_outputs = outputs;
  c.sparse = store >= 2;
  c.single = store == 1 || store == 3;
  c.pool = store == 4 && capacity ? 40 : 0;
  c.capacity = capacity;
  return c;
}

// Calls use(config, by_cluster) for combinations of rule, kernel, store, graph, number of outputs and budget. Every rule
// occurs with every kernel and store that it accepts. `by_cluster` says whether several tasks of the stream share a cluster. Otherwise each task
// is its own cluster.
template <class Use>
void for_each_config(Use use) {
  const auto clique = std::make_shared<Clique>(1.0, 0.5);
  const auto disconnected = std::make_shared<Clique>(1.0, 0.0);
  // A path of five tasks in two forms: A⁻¹ as a dense table, and A as a sparse matrix, from which the core computes columns of A⁻¹.
  std::vector<double> a(25);
  Explicit::Sparse sparse;
  sparse.indptr.push_back(0);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      const double v = i == j ? (i == 0 || i == 4 ? 2.0 : 3.0) : (i + 1 == j || j + 1 == i ? -1.0 : 0.0);
      if (v == 0) continue;
      sparse.indices.push_back(static_cast<std::int32_t>(j));
      sparse.data.push_back(v);
    }
    sparse.indptr.push_back(static_cast<std::int64_t>(sparse.indices.size()));
    sparse.component.push_back(0);
  }
  const auto solved = std::make_shared<Explicit>(sparse, 5, 1.0, 1 << 16);
  Bytes temporary;
  const auto workspace = solved->new_workspace(temporary);
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = 0; j < 5; ++j) a[static_cast<std::size_t>(i * 5 + j)] = solved->column(i, workspace.get())[j];
  const auto dense = std::make_shared<Explicit>(a, 5, 1.0);
  const std::shared_ptr<const Similarity> graphs[] = {clique, disconnected, dense, solved};

  for (const char* name : {"perceptron", "random_budget_perceptron", "forgetron", "budget_projectron", "shared_projectron",
                           "shifting_perceptron", "second_order_perceptron"})
    for (int kernel = 0; kernel < 3; ++kernel)
      for (int store = 0; store < 5; ++store)
        for (int graph = 0; graph < 4; ++graph)
          for (std::size_t outputs : {std::size_t{1}, std::size_t{3}})
            for (std::size_t capacity : {std::size_t{1}, std::size_t{2}, std::size_t{12}, std::size_t{0}}) {
              const std::string rule = name;
              if (rule == "perceptron" && capacity) continue;
              if (rule != "shared_projectron" && capacity == 2) continue;
              Config c = make_config(kernel, store, outputs, capacity);
              c.rule = rule;
              c.kernel.normalize = kernel == 1;
              c.similarity = graphs[graph];
              if (rule == "budget_projectron" || rule == "shared_projectron") c.parameters.set("eta", 0.01);
              if (rule == "shifting_perceptron" && graph % 2 == 0) {
                c.parameters.set("shrink", std::uint64_t{0});
                c.parameters.set("amount", 0.5);
              }
              // A limit of at least 4 B rows allows batches of evictions: here for B = 1 and B = 2, but not for B = 12.
              if (rule == "shared_projectron" && capacity) c.parameters.set("max_task_rows", std::uint64_t{capacity == 2 ? 8u : 4u});
              c.n_tasks = graph >= 2 ? 5 : 0;
              use(c, graph == 0 || graph >= 2);
            }
  // Projectron: all three conventions for η, with and without margin updates (`plus`) and evictions.
  for (std::size_t kind = 0; kind < 12; ++kind)
    for (int kernel = 0; kernel < 3; ++kernel)
      for (int store = 0; store < 5; ++store)
        for (std::size_t outputs : {std::size_t{1}, std::size_t{3}})
          for (std::size_t capacity : {std::size_t{1}, std::size_t{12}, std::size_t{0}}) {
            Config c = make_config(kernel, store, outputs, capacity);
            const std::size_t graph = (kind + static_cast<std::size_t>(store)) % 4;
            c.rule = "projectron";
            c.kernel.normalize = kernel == 1;
            c.similarity = graphs[graph];
            c.parameters.set("eta", kind % 3 == 2 ? 0.0 : 0.05);
            c.parameters.set("convention", static_cast<double>(kind % 3));
            c.parameters.set("plus", std::uint64_t{kind / 3 % 2});
            c.parameters.set("evict", std::uint64_t{kind / 6});
            c.n_tasks = graph >= 2 ? 5 : 0;
            use(c, graph == 0 || graph >= 2);
          }
  // BudgetSgd: every kind of budget maintenance, each with some kinds of step size.
  for (std::size_t maintenance = 0; maintenance < 10; ++maintenance)
    for (int kernel = 0; kernel < 3; ++kernel)
      for (int store = 0; store < 5; ++store)
        for (int graph = 0; graph < 4; ++graph)
          for (std::size_t outputs : {std::size_t{1}, std::size_t{3}})
            for (std::size_t capacity : {std::size_t{1}, std::size_t{12}, std::size_t{0}}) {
              Config c = make_config(kernel, store, outputs, capacity);
              if (maintenance == 7 && kernel != 2) continue;  // merging needs the Gaussian kernel
              c.rule = "budget_sgd";
              c.kernel.normalize = kernel == 1;
              c.similarity = graphs[graph];
              c.parameters.set("maintenance", std::uint64_t{maintenance});
              c.parameters.set("step", std::uint64_t{(maintenance + static_cast<std::size_t>(kernel + graph)) % 4});
              c.parameters.set("rate", 0.5);
              c.parameters.set("regularization", 0.05);
              if (graph == 0) c.parameters.set("eta", 0.01);
              if (maintenance < 2 || maintenance == 8) c.parameters.set("radius", 0.3);
              c.n_tasks = graph >= 2 ? 5 : 0;
              use(c, graph == 0 || graph >= 2);
            }
  // LinearPerceptron and RelationPerceptron, which store no examples.
  for (int store = 0; store < 4; ++store)
    for (int graph = 0; graph < 4; ++graph)
      for (std::size_t outputs : {std::size_t{1}, std::size_t{3}})
        for (std::size_t kind = 0; kind < 14; ++kind) {
          Config c = make_config(3, store, outputs, 0);
          c.similarity = graphs[graph];
          c.n_tasks = graph >= 2 ? 5 : 0;
          if (kind < 2) {
            c.rule = "linear_perceptron";
            if (kind == 1) c.parameters.set("norm", 3.0);
          } else {
            if (graph != 1) continue;  // this rule learns the relations between tasks, so it takes only the disconnected graph
            c.rule = "relation_perceptron";
            c.parameters.set("relations", std::uint64_t{(kind - 2) % 5});
            c.parameters.set("start", std::uint64_t{10});
            if (kind >= 7 && (kind - 2) % 5 < 4) c.parameters.set("rank", std::uint64_t{2});
            if (kind >= 12) c.parameters.set("as_printed", std::uint64_t{1});
            if (kind >= 12) c.parameters.set("rank", std::uint64_t{3});
          }
          use(c, graph == 0 || graph >= 2);
        }
  // FourierSgd, and Budgetron. `parts` of a Budgetron: 0 shared and own weights, 1 shared only, 2 own only, 3 clusters of tasks, 4 a graph
  // given by a factor of A⁻¹.
  const auto factored = std::make_shared<Factored>(std::vector<std::int64_t>{0, 2, 5, 8, 11, 13},
                                                   std::vector<std::int32_t>{0, 1, 0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4},
                                                   std::vector<double>{0.9, 0.3, 0.3, 0.8, 0.3, 0.3, 0.8, 0.3, 0.3, 0.8, 0.3, 0.3, 0.9});
  for (int store = 0; store < 4; ++store)
    for (int graph = 0; graph < 3; ++graph)
      for (std::size_t outputs : {std::size_t{1}, std::size_t{3}}) {
        Config c = make_config(2, store, outputs, 1);
        c.rule = "fourier_sgd";
        c.parameters.set("frequencies", std::uint64_t{70});
        c.similarity = graph == 2 ? std::shared_ptr<const Similarity>(factored) : graphs[graph];
        c.n_tasks = graph == 2 ? 5 : 0;
        use(c, graph != 1);
      }
  for (int store = 0; store < 4; ++store)
    for (int parts = 0; parts < 5; ++parts)
      for (std::size_t outputs : {std::size_t{1}, std::size_t{3}})
        for (std::size_t rows : {std::size_t{5}, std::size_t{0}})
          for (bool full_covariance : {true, false})
            for (bool frequencies : {true, false}) {
              Config c = make_config(3, store, outputs, 1);
              // A Budgetron on sparse rows has a hashed table. With frequencies it also has the parts for dense rows, on three frequent columns.
              if (c.sparse && !full_covariance) continue;
              c.rule = "budgetron";
              c.similarity = clique;
              if (parts == 4) c.similarity = factored;
              c.n_tasks = parts == 4 ? 5 : 0;
              const auto count = [&](const char* name, std::size_t value) { c.parameters.set(name, std::uint64_t{value}); };
              count("max_task_rows", rows);
              count("shared", parts != 2);
              count("own", parts != 1);
              count("clustered", parts == 3);
              c.parameters.set("cluster_share", 0.5);
              if (c.sparse) {
                count("cells", rows ? 40 : 400);  // 40: too few for all features; 400: enough
                c.parameters.set("table_rates", std::vector<double>{0.15, 1.0});
                c.parameters.set("signs", std::vector<double>{0.0, 1.0});
                c.parameters.set("keeps", std::vector<double>{0.98, 1.0});
                if (parts != 2) count("pairs", 3);
                if (frequencies) c.parameters.set("frequent_columns", std::vector<double>{0, 2, 3});
              }
              if (!c.sparse || frequencies) {
                count("full_covariance", full_covariance);
                count("latent", 3);
                if (parts == 4) count("plain_filter", 0);
                count("short_rows", rows ? 3 : 0);
                c.parameters.set("filters", std::vector<double>{1, 0.1, 0, 3, 10, 0.1, 3, 0.1, 0, 3, 0.1, 0});
                if (rows) c.parameters.set("filter_rates", std::vector<double>{2, 0, 0, 0});
                if (rows && c.n_outputs == 1) c.parameters.set("filter_lapses", std::vector<double>{0.1, 0.2, 0, 0.05});
                if (parts != 2) {  // there are no bins without shared weights
                  count("bins", 8);
                  count("bin_pairs", rows > 0);
                  count("bin_cells", parts == 1 ? 0 : 24);
                }
                if (frequencies) {
                  count("frequencies", 7);
                  count("own_cells", rows ? 40 : 0);
                  if (full_covariance) {
                    count("fourier_filter", 2);
                    count("filter_frequencies", 5);
                    count("bank_frequencies", 4);
                    c.parameters.set("bandwidths", std::vector<double>{8});
                    count("fourier_cells", rows ? 3 : 0);
                  }
                  c.parameters.set("rates", std::vector<double>{0.1, 1.0});
                  c.parameters.set("owns", std::vector<double>{0.1, 1.0});
                }
              }
              use(c, parts == 3);
            }
}

// A name for a configuration: its rule, its kernel, its store, and whether it has a budget.
inline std::string name_of(const Config& c) {
  const char* const kernels[] = {"none", "linear", "polynomial", "gaussian"};
  std::string name = c.rule + ", kernel " + kernels[static_cast<int>(c.kernel.kind)];
  name += c.sparse ? ", sparse" : ", dense";
  name += c.single ? ", float32" : ", float64";
  name += c.pool ? ", pool" : "";
  name += c.capacity ? ", budget" : ", unbounded";
  return name;
}

// Returns the argument n of faults.cpp or stress.cpp, which run every n-th configuration. Without an argument n is 1, so all configurations run.
inline unsigned every_nth(int count, char** arguments) {
  return count > 1 ? static_cast<unsigned>(std::max(1, std::atoi(arguments[1]))) : 1;
}

// Calls use(config, by_cluster, number) for every n-th configuration, where n is `every`, and for the first configuration of each name.
template <class Use>
void for_each_sampled_config(unsigned every, Use use) {
  unsigned number = 0;
  std::set<std::string> names;
  for_each_config([&](const Config& c, bool by_cluster) {
    ++number;
    if (names.insert(name_of(c)).second || number % every == 0) use(c, by_cluster, number);
  });
}

}  // namespace budgetron
