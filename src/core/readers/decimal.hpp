// Parses decimal numbers, independently of the locale.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include <locale.h>
#include <stdlib.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

namespace budgetron {

constexpr double kLargestNumber = 1e100;  // its square, and sums of such squares, are still finite

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Parses with strtod. This is for standard libraries that lack from_chars for doubles, and for numbers outside of its range. It uses the "C"
// locale, because strtod would parse "1.5" as 1 in a locale with a decimal comma.
inline double slow_double(std::string_view s) {
#if defined(_WIN32)
  static const _locale_t c_locale = _create_locale(LC_ALL, "C");
  return _strtod_l(std::string(s).c_str(), nullptr, c_locale);
#else
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  return strtod_l(std::string(s).c_str(), nullptr, c_locale);
#endif
}

// Parses a number without a sign: digits with at most one point, and an optional exponent. Returns false if `s` is not such a number. In the
// common case of at most 15 digits and no exponent, one division gives the correctly rounded result (Clinger 1990). The standard library
// parses all other numbers.
inline bool parse_unsigned_decimal(std::string_view s, double& out) {
  static constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  std::uint64_t digits = 0;
  std::size_t i = 0, n = 0, decimals = 0;
  for (; i < s.size() && is_digit(s[i]); ++i, ++n) digits = digits * 10 + static_cast<std::uint64_t>(s[i] - '0');
  if (i < s.size() && s[i] == '.')
    for (++i; i < s.size() && is_digit(s[i]); ++i, ++n, ++decimals)
      digits = digits * 10 + static_cast<std::uint64_t>(s[i] - '0');
  if (n == 0) return false;
  if (i == s.size() && n <= 15) {
    out = static_cast<double>(digits) / powers[decimals];
    return true;
  }
  if (i < s.size()) {
    if ((s[i] | 0x20) != 'e') return false;
    ++i;
    if (i < s.size() && (s[i] == '+' || s[i] == '-')) ++i;
    const std::size_t first = i;
    while (i < s.size() && is_digit(s[i])) ++i;
    if (i != s.size() || i == first) return false;
  }
#if defined(__cpp_lib_to_chars) && __cpp_lib_to_chars >= 201611L && !defined(BUDGETRON_NO_FROM_CHARS)
  if (std::from_chars(s.data(), s.data() + s.size(), out).ec != std::errc()) out = slow_double(s);
#else
  out = slow_double(s);
#endif
  return true;
}

// The same with an optional sign. Also returns false if the absolute value is above `kLargestNumber`.
inline bool parse_decimal(std::string_view s, double& out) {
  const bool negative = !s.empty() && s.front() == '-';
  if (negative || (!s.empty() && s.front() == '+')) s.remove_prefix(1);
  double value = 0;
  if (!parse_unsigned_decimal(s, value)) return false;
  out = negative ? -value : value;
  return value <= kLargestNumber;
}

}  // namespace budgetron
