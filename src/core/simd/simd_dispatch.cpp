// Chooses the table of loops at the first call of simd().
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "simd/levels.hpp"
#include "simd/simd.hpp"

#if defined(__x86_64__) || defined(_M_X64)
#if defined(_MSC_VER)
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#define BUDGETRON_X86_64
#endif

namespace budgetron {

namespace baseline {
extern const Simd table;
}
#ifdef BUDGETRON_HAS_V3
namespace v3 {
extern const Simd table;
}
#endif
#ifdef BUDGETRON_HAS_V4
namespace v4 {
extern const Simd table;
}
#endif

namespace {

#ifdef BUDGETRON_X86_64
struct Registers {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(std::uint32_t leaf) {
  Registers r;
#if defined(_MSC_VER)
  int words[4];
  __cpuid(words, static_cast<int>(leaf & 0x80000000));
  if (static_cast<std::uint32_t>(words[0]) < leaf) return r;
  __cpuidex(words, static_cast<int>(leaf), 0);
  r = {static_cast<std::uint32_t>(words[0]), static_cast<std::uint32_t>(words[1]), static_cast<std::uint32_t>(words[2]),
       static_cast<std::uint32_t>(words[3])};
#else
  __get_cpuid_count(leaf, 0, &r.eax, &r.ebx, &r.ecx, &r.edx);  // leaves r unchanged if the leaf does not exist
#endif
  return r;
}

std::uint32_t xcr0() {
#if defined(_MSC_VER)
  return static_cast<std::uint32_t>(_xgetbv(0));
#else
  std::uint32_t low, high;  // inline assembly, because the intrinsic needs a compiler flag
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
#endif
}
#endif

constexpr std::uint32_t bits(std::initializer_list<int> positions) {
  std::uint32_t mask = 0;
  for (const int position : positions) mask |= std::uint32_t{1} << position;
  return mask;
}

[[maybe_unused]] constexpr std::uint32_t kOsxsave = bits({27});  // used on x86-64 only
// SSE3, SSSE3, FMA, CMPXCHG16B, SSE4.1, SSE4.2, MOVBE, POPCNT, OSXSAVE, AVX, F16C
constexpr std::uint32_t kLeaf1V3 = bits({0, 9, 12, 13, 19, 20, 22, 23, 27, 28, 29});
constexpr std::uint32_t kLeaf7V3 = bits({3, 5, 8});            // BMI1, AVX2, BMI2
constexpr std::uint32_t kExtendedV3 = bits({0, 5});            // LAHF, LZCNT
constexpr std::uint32_t kXcr0V3 = bits({1, 2});                // SSE and AVX registers
constexpr std::uint32_t kLeaf7V4 = bits({16, 17, 28, 30, 31});  // AVX512F, DQ, CD, BW, VL
constexpr std::uint32_t kXcr0V4 = bits({5, 6, 7});             // mask registers, the upper halves, registers 16 to 31

const Simd& table_of(Level level) {
#ifdef BUDGETRON_HAS_V4
  if (level == Level::v4) return v4::table;
#endif
#ifdef BUDGETRON_HAS_V3
  if (level >= Level::v3) return v3::table;
#endif
  static_cast<void>(level);
  return baseline::table;
}

}  // namespace

CpuWords cpu_words() {
  CpuWords words;
#ifdef BUDGETRON_X86_64
  words.leaf1_ecx = cpuid(1).ecx;
  words.leaf7_ebx = cpuid(7).ebx;
  words.extended_ecx = cpuid(0x80000001).ecx;
  if (words.leaf1_ecx & kOsxsave) words.xcr0 = xcr0();
#endif
  return words;
}

Level best_level(const CpuWords& cpu) {
  const auto has = [](std::uint32_t word, std::uint32_t mask) { return (word & mask) == mask; };
  if (!has(cpu.leaf1_ecx, kLeaf1V3) || !has(cpu.leaf7_ebx, kLeaf7V3) || !has(cpu.extended_ecx, kExtendedV3) ||
      !has(cpu.xcr0, kXcr0V3))
    return Level::baseline;
  return has(cpu.leaf7_ebx, kLeaf7V4) && has(cpu.xcr0, kXcr0V4) ? Level::v4 : Level::v3;
}

std::optional<Level> level_named(std::string_view name) {
  if (name == "baseline") return Level::baseline;
  if (name == "v3") return Level::v3;
  if (name == "v4") return Level::v4;
  return std::nullopt;
}

Level capped_level(Level best, std::string_view cap) {
  if (cap.empty()) return best;
  const std::optional<Level> limit = level_named(cap);
  if (!limit) throw std::invalid_argument("BUDGETRON_LEVEL must be baseline, v3 or v4; got " + std::string(cap));
  return std::min(best, *limit);
}

const Simd& simd() {
  static const Simd& chosen = [&]() -> const Simd& {
    const char* cap = std::getenv("BUDGETRON_LEVEL");
    return table_of(capped_level(best_level(cpu_words()), cap ? cap : ""));
  }();
  return chosen;
}

}  // namespace budgetron
