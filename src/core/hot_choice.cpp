#include "hot.hpp"

namespace budgetron {

namespace baseline {
extern const Hot table;
}
#ifdef BUDGETRON_X86
namespace v3 {
extern const Hot table;
}
namespace v4 {
extern const Hot table;
}
#endif

const Hot& hot() {
#ifdef BUDGETRON_X86
  static const Hot& chosen = __builtin_cpu_supports("x86-64-v4")   ? v4::table
                             : __builtin_cpu_supports("x86-64-v3") ? v3::table
                                                                   : baseline::table;
  return chosen;
#else
  return baseline::table;
#endif
}

}  // namespace budgetron
