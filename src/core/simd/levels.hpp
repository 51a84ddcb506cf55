// The levels of x86-64 (instruction sets) that simd.cpp is compiled for, and the choice among them. On other processors there is only the
// baseline.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace budgetron {

enum class Level { baseline, v3, v4 };

// The feature bits of the processor and the operating system; all are 0 on processors other than x86-64.
struct CpuWords {
  std::uint32_t leaf1_ecx = 0;     // CPUID leaf 1
  std::uint32_t leaf7_ebx = 0;     // CPUID leaf 7
  std::uint32_t extended_ecx = 0;  // CPUID leaf 0x80000001
  std::uint32_t xcr0 = 0;          // the registers that the operating system saves
};
CpuWords cpu_words();

// The highest level that the processor supports completely. Features are tested one by one, because only GCC 12, Clang 18 and later
// know the names of the levels.
Level best_level(const CpuWords& cpu);

std::optional<Level> level_named(std::string_view name);  // "baseline", "v3" or "v4"

// The lower of `best` and the level named `cap`; an empty cap sets no limit. Throws std::invalid_argument if the name is unknown.
Level capped_level(Level best, std::string_view cap);

}  // namespace budgetron
