// Checks of the arguments of the bindings. Python has already validated user input, with messages for users; these checks prevent a wrong call
// from reading or writing out of bounds.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "bindings/arrays.hpp"
#include "learner/model.hpp"

namespace budgetron {

// Raises a TypeError unless the rows are of the model's kind. Without this check, rows of another kind would be read through a null pointer.
inline void require_kind(const Config& c, bool sparse, bool single) {
  if (sparse == c.sparse && single == c.single) return;
  const auto kind = [](bool is_sparse, bool is_single) {
    return std::string(is_sparse ? "sparse" : "dense") + " float" + (is_single ? "32" : "64");
  };
  throw nb::type_error(("_core: this model takes " + kind(c.sparse, c.single) + " rows; got " + kind(sparse, single)).c_str());
}

// For calls that read the values of rows, but not their columns.
inline void require_values(const Config& c, const RowBlock& block) {
  require(!block.rows.offsets || block.outputs == c.n_outputs, "_core: there must be one offset per row and output");
  require_kind(c, block.sparse, block.single);
  if (!block.sparse) require(block.rows.d == c.d, "_core: the rows must have as many columns as the model");
}

inline void require_rows(const Config& c, const RowBlock& block) {
  require_values(c, block);
  if (!block.sparse) return;
  const Rows& rows = block.rows;
  for (std::size_t i = 0; i < rows.count; ++i) {
    std::int64_t previous = -1;
    for (std::int64_t e = rows.indptr[i]; e < rows.indptr[i + 1]; ++e) {
      require(rows.indices[e] > previous, "_core: the columns of a sparse row must be ascending, from 0 on");
      previous = rows.indices[e];
    }
    // The columns are ascending, so the last one is the largest.
    require(previous < static_cast<std::int64_t>(c.d), "_core: the rows must not have more columns than the model");
  }
}

// Graphs with named tasks use the task id as an index, so it must be checked.
inline void require_tasks(const Config& c, const std::int64_t* task_ids, std::size_t n) {
  const auto* graph = dynamic_cast<const Explicit*>(c.similarity.get());
  const auto* factor = dynamic_cast<const Factored*>(c.similarity.get());
  if (!graph && !factor) return;
  const std::size_t tasks = graph ? graph->tasks() : factor->n_tasks();
  for (std::size_t i = 0; i < n; ++i)
    require(task_ids[i] >= 0 && static_cast<std::size_t>(task_ids[i]) < tasks, "_core: a task id is not one of the graph's tasks");
}

inline void require_label(const Config& c, std::int32_t label) {
  require(label >= 0 && static_cast<std::size_t>(label) < (c.n_outputs == 1 ? 2 : c.n_outputs),
          "_core: a label must be the number of a class, counted from 0");
}

inline void require_weight(double weight) {
  require(weight >= 0 && std::isfinite(weight), "_core: a weight must be a finite number of at least 0");
}

}  // namespace budgetron
