// The levels of x86-64 that simd.cpp is compiled for, and the choice among them. Other processors have only the baseline.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace budgetron {

enum class Level { baseline, v3, v4 };

// What the processor and the operating system say of themselves; all zero where they are not asked.
struct CpuWords {
  std::uint32_t leaf1_ecx = 0;     // CPUID leaf 1
  std::uint32_t leaf7_ebx = 0;     // CPUID leaf 7
  std::uint32_t extended_ecx = 0;  // CPUID leaf 0x80000001
  std::uint32_t xcr0 = 0;          // the registers that the operating system saves
};
CpuWords cpu_words();

// The highest level whose features are all there. They are tested one by one: compilers know the names of the levels
// only since GCC 12 and Clang 18.
Level best_level(const CpuWords& cpu);

std::optional<Level> level_named(std::string_view name);  // "baseline", "v3" or "v4"

// `best`, but not above the level named `cap`; an empty cap is none. Throws std::invalid_argument at an unknown name.
Level capped_level(Level best, std::string_view cap);

}  // namespace budgetron
