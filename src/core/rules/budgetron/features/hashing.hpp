// Hashes, and random integers that are computed from them. Both engines compute the same integers, and no random numbers need to be saved.
#pragma once

#include <algorithm>
#include <cstdint>

namespace budgetron {

constexpr std::uint64_t mix64(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
constexpr std::uint64_t mix64(std::int64_t x) { return mix64(static_cast<std::uint64_t>(x)); }

// A nearly normal integer with standard deviation 32, between -127 and 127. The sum of the eight bytes of h has mean 1020 and standard
// deviation 209.
inline int gaussian_integer(std::uint64_t h) {
  int sum = -1020;
  for (int byte = 0; byte < 8; ++byte) sum += static_cast<int>(h >> (8 * byte) & 255);
  const int size = std::min(((sum < 0 ? -sum : sum) * 32 + 104) / 209, 127);
  return sum < 0 ? -size : size;
}

}  // namespace budgetron
