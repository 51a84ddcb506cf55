// Converts the settings of a learner from a dict to a Config, and checks the settings that all rules share.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"

namespace budgetron {

namespace {

// Looks a name up among the known ones, and returns its value.
template <class Value>
Value value_named(const char* what, const std::string& name, std::initializer_list<std::pair<const char*, Value>> known) {
  std::string names;
  for (const auto& [known_name, value] : known) {
    if (name == known_name) return value;
    names += (names.empty() ? "" : ", ") + std::string(known_name);
  }
  throw std::invalid_argument(std::string("_core.make: ") + what + " must be one of " + names + "; got " + name);
}

// A parameter is an integer of at least 0 (or a bool), another number, or an array of doubles.
Parameters parameters_of(const nb::dict& dict) {
  Parameters parameters;
  for (auto [key, value] : dict) {
    const auto name = nb::cast<std::string>(key);
    if (nb::isinstance<nb::bool_>(value) || (nb::isinstance<nb::int_>(value) && nb::cast<double>(value) >= 0)) {
      parameters.set(name, nb::isinstance<nb::bool_>(value) ? std::uint64_t{nb::cast<bool>(value)} : nb::cast<std::uint64_t>(value));
    } else if (nb::isinstance<nb::int_>(value) || nb::isinstance<nb::float_>(value)) {
      parameters.set(name, nb::cast<double>(value));
    } else {
      Array1d<double> array;
      if (!nb::try_cast(value, array)) throw std::invalid_argument("_core.make: parameters." + name + " must be a number or an array of doubles");
      parameters.set(name, std::vector<double>(array.data(), array.data() + array.shape(0)));
    }
  }
  return parameters;
}

}  // namespace

Config config_of(const nb::dict& d) {
  Config c;
  const auto text = [&](const char* name) { return nb::cast<std::string>(d[name]); };
  const auto size = [&](const char* name) { return nb::cast<std::size_t>(d[name]); };
  c.rule = text("rule");
  c.kernel.kind = value_named<Kernel::Kind>("kernel", text("kernel"),
                                      {{"none", Kernel::Kind::none},
                                       {"linear", Kernel::Kind::linear},
                                       {"polynomial", Kernel::Kind::polynomial},
                                       {"gaussian", Kernel::Kind::gaussian}});
  c.kernel.gamma = nb::cast<double>(d["gamma"]);
  c.follow_scale = nb::cast<bool>(d["follow_scale"]);
  c.kernel.bias = nb::cast<double>(d["bias"]);
  c.kernel.degree = nb::cast<int>(d["degree"]);
  c.kernel.normalize = nb::cast<bool>(d["normalize"]);
  c.similarity = nb::cast<std::shared_ptr<Similarity>>(d["similarity"]);
  c.d = size("d");
  c.n_outputs = size("n_outputs");
  c.sparse = nb::cast<bool>(d["sparse"]);
  c.single = nb::cast<bool>(d["single"]);
  c.capacity = size("capacity");
  c.pool = size("pool");
  c.hash_seed = nb::cast<std::uint64_t>(d["hash_seed"]);
  c.n_tasks = size("n_tasks");
  c.parameters = parameters_of(nb::cast<nb::dict>(d["parameters"]));
  constexpr std::size_t kMaxSize = std::size_t{1} << 40;
  require(c.similarity != nullptr, "_core.make: similarity must be a graph");
  require(c.n_outputs == 1 || (c.n_outputs > 2 && c.n_outputs <= kMaxSize),
          "_core.make: n_outputs must be 1 for two classes, otherwise the number of classes");
  require(c.d > 0 && c.d <= static_cast<std::size_t>(INT32_MAX), "_core.make: d must be from 1 to 2**31 - 1");
  require(c.capacity <= kMaxSize && c.pool <= kMaxSize, "_core.make: capacity and pool must be at most 2**40");
  require(c.pool == 0 || (c.sparse && c.capacity > 0), "_core.make: pool needs sparse rows and a capacity");
  require(c.kernel.degree >= 1 && c.kernel.degree <= 1000, "_core.make: degree must be from 1 to 1000");
  return c;
}

}  // namespace budgetron
