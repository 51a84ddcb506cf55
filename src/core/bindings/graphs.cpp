// Bindings of task graphs: functions that make a Similarity from numbers or NumPy arrays, and that count its bytes.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "similarity.hpp"

using namespace nb::literals;

namespace budgetron {

void bind_graphs(nb::module_& m) {
  nb::class_<Similarity>(m, "Similarity").def("bytes", [](const Similarity& s) -> std::size_t {
    const auto* graph = dynamic_cast<const Explicit*>(&s);
    return graph ? graph->bytes() : 0;
  });
  m.def("clique", [](double diagonal, double off) -> std::shared_ptr<Similarity> {
    return std::make_shared<Clique>(diagonal, off);
  }, "diagonal"_a, "off_diagonal"_a);
  m.def("dense_graph", [](const In<double, nb::ndim<2>>& a, double c_g2) -> std::shared_ptr<Similarity> {
    require(a.shape(0) == a.shape(1) && a.shape(0) > 0, "_core.dense_graph: the matrix must be square");
    return std::make_shared<Explicit>(std::vector<double>(a.data(), a.data() + a.size()), a.shape(0), c_g2);
  }, "table"_a, "c_g2"_a);
  m.def("sparse_graph",
        [](const Array1d<std::int64_t>& indptr, const Array1d<std::int32_t>& indices, const Array1d<double>& data,
           const Array1d<std::int64_t>& component, bool singular, double c_g2,
           std::size_t cache_bytes) -> std::shared_ptr<Similarity> {
          const std::size_t k = component.shape(0);
          require(k > 0 && indptr.shape(0) == k + 1 && indices.shape(0) == data.shape(0), "_core.sparse_graph: the lengths of the arrays do not match");
          require_starts(indptr.data(), k + 1, indices.shape(0));
          for (std::size_t e = 0; e < indices.shape(0); ++e)
            require(indices.data()[e] >= 0 && static_cast<std::size_t>(indices.data()[e]) < k, "_core.sparse_graph: an index is not one of the tasks");
          for (std::size_t i = 0; i < k; ++i)
            require(component.data()[i] >= 0 && static_cast<std::size_t>(component.data()[i]) < k,
                    "_core.sparse_graph: components must be numbers below the number of tasks");
          Explicit::Sparse a;
          a.indptr.assign(indptr.data(), indptr.data() + indptr.size());
          a.indices.assign(indices.data(), indices.data() + indices.size());
          a.data.assign(data.data(), data.data() + data.size());
          a.component.assign(component.data(), component.data() + component.size());
          a.singular = singular;
          return std::make_shared<Explicit>(std::move(a), component.size(), c_g2, cache_bytes);
        },
        "indptr"_a, "indices"_a, "data"_a, "component"_a, "singular"_a, "c_g2"_a, "cache_bytes"_a);
  m.def("factored_graph",
        [](const Array1d<std::int64_t>& starts, const Array1d<std::int32_t>& tasks, const Array1d<double>& values) -> std::shared_ptr<Similarity> {
          require(starts.shape(0) > 1 && tasks.shape(0) == values.shape(0), "_core.factored_graph: the lengths of the arrays do not match");
          const std::size_t k = starts.shape(0) - 1;
          require_starts(starts.data(), k + 1, tasks.shape(0));
          for (std::size_t e = 0; e < tasks.shape(0); ++e)
            require(tasks.data()[e] >= 0 && static_cast<std::size_t>(tasks.data()[e]) < k, "_core.factored_graph: an index is not one of the tasks");
          return std::make_shared<Factored>(std::vector<std::int64_t>(starts.data(), starts.data() + starts.size()),
                                            std::vector<std::int32_t>(tasks.data(), tasks.data() + tasks.size()),
                                            std::vector<double>(values.data(), values.data() + values.size()));
        },
        "starts"_a, "tasks"_a, "values"_a);
  m.def("graph_bytes", [](const std::shared_ptr<Similarity>& similarity) {
    const auto* graph = dynamic_cast<const Explicit*>(similarity.get());
    return graph ? graph->bytes() + graph->workspace_bytes() : std::size_t{0};
  }, "graph"_a);
}

}  // namespace budgetron
