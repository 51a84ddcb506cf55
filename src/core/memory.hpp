// Counted memory: the containers of a learner count their allocations in the learner's `Bytes`, so memory_bytes needs no estimates. This
// file also has two functions that several stores and rules use: flushed() and keyed_hash().
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace budgetron {

// Numbers that decay step by step are set to 0 when their magnitude falls below this limit. Otherwise they would become subnormal, and arithmetic
// on subnormal numbers can be a hundred times slower.
constexpr double kTiny = 1e-300;
inline double flushed(double value) { return value < kTiny && value > -kTiny ? 0.0 : value; }

struct Bytes {
  std::size_t used = 0;
};

// Adds the size of an object to `Bytes` for as long as the object exists. Objects that are allocated separately have it as a member.
class CountedSize {
 public:
  CountedSize(Bytes& bytes, std::size_t size) : bytes_(&bytes), size_(size) { bytes.used += size; }
  CountedSize(const CountedSize&) = delete;
  CountedSize& operator=(const CountedSize&) = delete;
  ~CountedSize() { bytes_->used -= size_; }

 private:
  Bytes* bytes_;
  std::size_t size_;
};

// Asks Linux for huge pages of 2 MiB if an array has at least 4 MiB. Such arrays are often read in random order, and with pages of 4 KiB
// nearly every access would miss the TLB.
inline void use_huge_pages([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr std::size_t kPage = std::size_t{2} << 20;
  if (bytes < 2 * kPage) return;
  // Only the huge pages that lie completely inside the array. madvise() only gives a hint, so its failure is ignored.
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  const auto begin = (address + kPage - 1) / kPage * kPage, end = (address + bytes) / kPage * kPage;
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

// The allocator of Vec, which counts its bytes.
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
    use_huge_pages(p, n * sizeof(T));
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

// A std::vector whose memory is counted in `Bytes` and aligned for SIMD.
template <class T>
class Vec : public std::vector<T, Counted<T>> {
 public:
  explicit Vec(Bytes& bytes) : std::vector<T, Counted<T>>(Counted<T>(bytes)) {}
  Vec(Bytes& bytes, std::size_t n, T value = T{}) : std::vector<T, Counted<T>>(n, value, Counted<T>(bytes)) {}
};

// Resizes without the spare capacity that std::vector adds when it grows.
template <class T>
void resize_exactly(Vec<T>& values, std::size_t n) {
  values.reserve(n);
  values.resize(n);
}

// Frees a vector's memory. Unlike shrink_to_fit(), it never allocates.
template <class T>
void release(Vec<T>& values) noexcept {
  Vec<T>(*values.get_allocator().bytes).swap(values);
}

// Frees the unused capacity of a vector. This copies the values; if there is no memory for the copy, the capacity stays.
template <class T>
void shrink(Vec<T>& values) noexcept {
  try {
    values.shrink_to_fit();
  } catch (const std::bad_alloc&) {
  }
}

// A keyed 64-bit hash: two rounds of xor, multiply and shift. It is not cryptographic, but without the seed one cannot easily choose
// many values that fall into the same bucket of a hash table.
inline std::uint64_t keyed_hash(std::uint64_t x, std::uint64_t seed) {
  x ^= seed;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
  x ^= seed << 32 | seed >> 32;
  x = (x ^ (x >> 29)) * 0x9E3779B97F4A7C15ull;
  return x ^ (x >> 32);
}

}  // namespace budgetron
