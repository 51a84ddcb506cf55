#include "simd/simd.hpp"

namespace budgetron {

namespace baseline {
extern const Simd table;
}
#ifdef BUDGETRON_X86
namespace v3 {
extern const Simd table;
}
namespace v4 {
extern const Simd table;
}
#endif

const Simd& simd() {
#ifdef BUDGETRON_X86
  static const Simd& chosen = __builtin_cpu_supports("x86-64-v4")   ? v4::table
                             : __builtin_cpu_supports("x86-64-v3") ? v3::table
                                                                   : baseline::table;
  return chosen;
#else
  return baseline::table;
#endif
}

}  // namespace budgetron
