// MurmurHash3, which hashes the names of features to columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace budgetron {

// MurmurHash3_x86_32 with seed 0 (Austin Appleby, public domain), the hash of scikit-learn's murmurhash3_32.
inline std::uint32_t murmur(std::string_view s) {
  const auto rotate = [](std::uint32_t x, int r) { return (x << r) | (x >> (32 - r)); };
  const auto mix = [&](std::uint32_t k) { return rotate(k * 0xcc9e2d51u, 15) * 0x1b873593u; };
  std::uint32_t h = 0;
  std::size_t i = 0;
  for (; i + 4 <= s.size(); i += 4) {
    std::uint32_t k = 0;
    for (std::size_t j = 4; j-- > 0;) k = (k << 8) | static_cast<unsigned char>(s[i + j]);
    h = rotate(h ^ mix(k), 13) * 5 + 0xe6546b64u;
  }
  if (i < s.size()) {
    std::uint32_t k = 0;
    for (std::size_t j = s.size(); j-- > i;) k = (k << 8) | static_cast<unsigned char>(s[j]);
    h ^= mix(k);
  }
  h ^= static_cast<std::uint32_t>(s.size());
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}

}  // namespace budgetron
