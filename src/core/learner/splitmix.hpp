// splitmix64 (Steele, Lea and Flood 2014): a random number generator. Its state is a single number, which a model can save. The NumPy engine
// uses the same generator and draws the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "intrinsics.hpp"

namespace budgetron {

struct Splitmix {
  std::uint64_t state;

  std::uint64_t draw() {
    std::uint64_t z = state += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(high_product(draw(), n)); }
  double uniform() { return static_cast<double>(draw() >> 11) * 0x1p-53; }  // from 0 to below 1
};

}  // namespace budgetron
