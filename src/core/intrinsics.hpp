// Processor operations that have no name in C++17: compiler built-ins where they exist, plain C++ elsewhere.
#pragma once

#include <cstdint>

namespace budgetron {

// Prefetches the cache line at p. It is a hint and affects speed only.
inline void prefetch(const void* p) {
#if defined(__GNUC__) || defined(__clang__)
  __builtin_prefetch(p);
#else
  static_cast<void>(p);
#endif
}

// ⌊log₂ n⌋ for n ≥ 1.
inline int floor_log2(std::uint64_t n) {
#if defined(__GNUC__) || defined(__clang__)
  return 63 - __builtin_clzll(n);
#else
  int log = 0;
  while (n >>= 1) ++log;
  return log;
#endif
}

// The upper 64 bits of a · b, computed from 32-bit halves, because not every compiler has a 128-bit integer type.
inline std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t low = 0xFFFFFFFF;
  const std::uint64_t middle = (a >> 32) * (b & low) + ((a & low) * (b & low) >> 32);  // cannot overflow: it is below 2^64 - 2^32
  const std::uint64_t other = (a & low) * (b >> 32) + (middle & low);
  return (a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32);
}

}  // namespace budgetron
