// Functions that define the parts of the Python module _core. module.cpp calls each bind_ function once, except bind_single_rows(), which
// bind_model() calls.
#pragma once

#include <nanobind/nanobind.h>

#include "learner/model.hpp"

namespace budgetron {

Config config_of(const nanobind::dict& settings);  // throws std::invalid_argument for settings that no learner accepts

void bind_encoding(nanobind::module_& m);
void bind_graphs(nanobind::module_& m);
void bind_model(nanobind::module_& m);
void bind_readers(nanobind::module_& m);
void bind_single_rows(nanobind::module_& m, nanobind::class_<Model>& learner);

}  // namespace budgetron
