/* y = exp(x) over a row, vectorised by the compiler with the library's vector exp. The row stays in the cache. */
#include <stddef.h>
__attribute__((simd("notinbranch"))) double exp(double);
__attribute__((simd("notinbranch"))) float expf(float);
void exp_f64(const double* x, double* y, size_t n, size_t times) {
  for (size_t t = 0; t < times; ++t) {
    for (size_t j = 0; j < n; ++j) y[j] = exp(x[j]);
    __asm__ volatile("" : : "r"(y) : "memory");
  }
}
void exp_f32(const float* x, float* y, size_t n, size_t times) {
  for (size_t t = 0; t < times; ++t) {
    for (size_t j = 0; j < n; ++j) y[j] = expf(x[j]);
    __asm__ volatile("" : : "r"(y) : "memory");
  }
}
