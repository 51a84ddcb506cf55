// Memory that is counted: every container of an engine allocates through a Bytes, so that
// `memory_bytes` is the truth by construction.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace budgetron {

// Numbers that decay step by step end as 0, not as subnormal numbers, which are a hundred times slower to compute with.
constexpr double kTiny = 1e-300;
inline double flushed(double value) { return value < kTiny && value > -kTiny ? 0.0 : value; }

struct Bytes {
  std::size_t used = 0;
};

template <class T>
struct Counted {
  using value_type = T;
  Bytes* bytes;

  explicit Counted(Bytes& counter) : bytes(&counter) {}
  template <class U>
  Counted(const Counted<U>& other) : bytes(other.bytes) {}

  static constexpr std::align_val_t alignment{64};  // a cache line, and the widest register

  T* allocate(std::size_t n) {
    T* p = static_cast<T*>(::operator new(n * sizeof(T), alignment));
    bytes->used += n * sizeof(T);
    return p;
  }
  void deallocate(T* p, std::size_t n) {
    bytes->used -= n * sizeof(T);
    ::operator delete(p, alignment);
  }
  template <class U>
  bool operator==(const Counted<U>& other) const {
    return bytes == other.bytes;
  }
  template <class U>
  bool operator!=(const Counted<U>& other) const {
    return bytes != other.bytes;
  }
};

template <class T>
class Vec : public std::vector<T, Counted<T>> {
 public:
  explicit Vec(Bytes& bytes) : std::vector<T, Counted<T>>(Counted<T>(bytes)) {}
  Vec(Bytes& bytes, std::size_t n, T value = T{}) : std::vector<T, Counted<T>>(n, value, Counted<T>(bytes)) {}
};

}  // namespace budgetron
