// The Python module _core. Arguments are blocks of rows as contiguous arrays, single rows (single_rows.cpp), texts, or plain settings. The GIL is
// released while a model learns or predicts.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "learner/model.hpp"
#include "learner/registry.hpp"
#include "simd/simd.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace budgetron {

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // an interrupted process does not destroy its models, and nanobind would report them as leaks
  m.def("level", [] { return simd().name; });
  bind_readers(m);
  bind_encoding(m);
  bind_graphs(m);
  bind_model(m);
  m.def("rules", &rule_names);
  m.def("make", [](const nb::typed<nb::dict, nb::str, nb::object>& settings) { return new Model(config_of(settings)); },
        "settings"_a, nb::rv_policy::take_ownership);
}

}  // namespace budgetron
