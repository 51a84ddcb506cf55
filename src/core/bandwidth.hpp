// Estimates γ of a Gaussian kernel from the first 64 rows: 1/(d v), where d is the number of columns and v the variance of all entries.
//
// γ is computed from running sums after 1, 2, 4, … 64 rows, and is constant from then on. So no row has to be buffered, and the result does not
// depend on how the stream is divided into blocks. A few dense rows give a poor estimate of v, so for dense rows γ is 1/d until 32 of them have
// been seen. For sparse rows, d v is nearly the mean of ‖x‖², and even one row gives a good estimate of it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace budgetron {

struct Bandwidth {
  static constexpr std::int64_t kRows = 64, kMinDenseRows = 32;

  bool used = false;  // whether γ is estimated (a Gaussian kernel with Config::follow_scale); otherwise γ is a setting
  double mean = 0, m2 = 0;  // of the entries so far: the mean, and the sum of squared differences from it

  // Whether γ is to be estimated after n rows.
  bool due(std::int64_t n) const { return used && n > 0 && n <= kRows && (n & (n - 1)) == 0; }
  // Whether row n (from 0) is part of the estimate.
  bool counts(std::int64_t n) const { return used && n < kRows; }

  // The estimate of γ after n rows.
  double gamma(std::int64_t n, std::size_t d, bool sparse) const {
    const double scale = m2 / static_cast<double>(n);  // d v
    // γ is 1/d as long as the rows are too few, or if d v is negligible or overflows.
    const bool usable = (sparse || n >= kMinDenseRows) && scale > 1e-300 && scale < HUGE_VAL;
    return 1.0 / (usable ? scale : static_cast<double>(d));
  }

  // Adds row n (from 0), which has `count` given values and d − count zeros. Updates mean and m2 as in Chan, Golub and LeVeque (1983).
  template <class T>
  void add(const T* values, std::size_t count, std::size_t d, std::int64_t n) {
    const double width = static_cast<double>(d);
    double sum = 0, row_m2 = 0;
    for (std::size_t e = 0; e < count; ++e) sum += static_cast<double>(values[e]);
    const double row_mean = sum / width, rows = static_cast<double>(n + 1);
    for (std::size_t e = 0; e < count; ++e) row_m2 += (static_cast<double>(values[e]) - row_mean) * (static_cast<double>(values[e]) - row_mean);
    row_m2 += static_cast<double>(d - count) * row_mean * row_mean;
    const double difference = row_mean - mean;
    mean += difference / rows;
    m2 += row_m2 + difference * difference * width * static_cast<double>(n) / rows;
  }
};

}  // namespace budgetron
