// The loops of conjugate_gradients.hpp. Included by simd.cpp inside the namespace of its instruction set.
//
// A vector of W right-hand sides holds them side by side, row by row, so a group of kSide rows is kSide · W numbers in
// sequence. For W = 1 the lanes of a register are rows of one group, for W = kSide the right-hand sides of one row; either
// way each sum is one chain in the order of the entries, so an answer does not depend on W.

// A register of at most kSide numbers.
template <class T>
struct Side {
  static constexpr size_t bytes = BUDGETRON_VECTOR < kSide * sizeof(T) ? BUDGETRON_VECTOR : kSide * sizeof(T);
  static constexpr size_t lanes = bytes / sizeof(T), registers = kSide / lanes;
  typedef T type __attribute__((vector_size(bytes)));
  typedef T loose __attribute__((vector_size(bytes), aligned(alignof(T)), may_alias));
};

template <class T>
inline typename Side<T>::type side(const T* p) {
  return *reinterpret_cast<const typename Side<T>::loose*>(p);
}
template <class T>
inline void put(T* p, typename Side<T>::type v) {
  *reinterpret_cast<typename Side<T>::loose*>(p) = v;
}
// The same from numbers of another kind.
template <class T, class From>
inline typename Side<T>::type widened(const From* p) {
  typedef From narrow __attribute__((vector_size(Side<T>::lanes * sizeof(From)), aligned(alignof(From)), may_alias));
  return __builtin_convertvector(*reinterpret_cast<const narrow*>(p), typename Side<T>::type);
}
template <class T, class From>
inline typename Side<T>::type gathered(const From* from, const int32_t* to) {
  typename Side<T>::type v;
  for (size_t l = 0; l < Side<T>::lanes; ++l) v[l] = static_cast<T>(from[to[l]]);
  return v;
}

// The registers of a group, and a number for each right-hand side in as many registers as one row takes.
template <class T, size_t W>
struct Group {
  using V = typename Side<T>::type;
  static constexpr size_t count = W * Side<T>::registers, lanes = Side<T>::lanes;
  V v[count];
};
template <class T, size_t W>
struct Each {
  using V = typename Side<T>::type;
  V v[Side<T>::registers];
  template <class From>
  explicit Each(const From* value) {
    for (size_t h = 0; h < Side<T>::registers; ++h)
      for (size_t l = 0; l < Side<T>::lanes; ++l) v[h][l] = static_cast<T>(value[W == 1 ? 0 : h * Side<T>::lanes + l]);
  }
  V operator[](size_t b) const { return v[b % Side<T>::registers]; }
};

// sum −= the group's entries of the part, times `from`
template <class T, size_t W, class From>
inline void subtract(const SweepPart<T>& part, size_t group, const From* from, Group<T, W>& sum) {
  constexpr size_t lanes = Side<T>::lanes, registers = Side<T>::registers;
  for (size_t e = part.begin[group]; e < part.begin[group + 1]; ++e) {
    const int32_t* to = part.to + kSide * e;
    const T* value = part.value + kSide * e;
    if constexpr (W == 1) {
      for (size_t h = 0; h < registers; ++h) sum.v[h] -= side(value + h * lanes) * gathered<T>(from, to + h * lanes);
    } else {
      for (size_t row = 0; row < kSide; ++row)
        for (size_t h = 0; h < registers; ++h)
          sum.v[row * registers + h] -= value[row] * widened<T>(from + static_cast<size_t>(to[row]) * W + h * lanes);
    }
  }
}

// Σ over the rows, for each right-hand side: first over every kSide-th row, then over these.
template <class T, size_t W>
inline void total(const Group<T, W>& sum, double* out) {
  T value[kSide * W];
  for (size_t b = 0; b < Group<T, W>::count; ++b) put(value + b * Side<T>::lanes, sum.v[b]);
  for (size_t w = 0; w < W; ++w) {
    out[w] = 0;
    for (size_t row = 0; row < kSide; ++row) out[w] += static_cast<double>(value[row * W + w]);
  }
}

template <class T, size_t W>
void sweep_start(const SweepMatrix<T>& a, T* r, double* rr) {
  using G = Group<T, W>;
  G squares{};
  for (size_t g = 0; g < a.groups; ++g) {
    T* own = r + g * kSide * W;
    G sum;
    for (size_t b = 0; b < G::count; ++b) sum.v[b] = side(own + b * G::lanes);
    subtract(a.lower, g, r, sum);
    for (size_t b = 0; b < G::count; ++b) {
      put(own + b * G::lanes, sum.v[b]);
      squares.v[b] += sum.v[b] * sum.v[b];
    }
  }
  total(squares, rr);
}

template <class T, size_t W>
void sweep_image(const SweepMatrix<T>& a, const double* keep_of, const SweepVectors<T>& v, double* pq) {
  using G = Group<T, W>;
  const Each<T, W> keep(keep_of);
  for (size_t g = a.groups; g-- > 0;) {
    const size_t at = g * kSide * W;
    G sum;
    for (size_t b = 0; b < G::count; ++b) {
      T* p = v.p + at + b * G::lanes;
      sum.v[b] = side(v.r + at + b * G::lanes) + keep[b] * side(p);
      put(p, sum.v[b]);
    }
    subtract(a.upper, g, v.t, sum);
    for (size_t b = 0; b < G::count; ++b) put(v.t + at + b * G::lanes, sum.v[b]);
  }
  G products{};
  for (size_t g = 0; g < a.groups; ++g) {
    const size_t at = g * kSide * W;
    G sum{};
    subtract(a.inner, g, v.t, sum);
    for (size_t b = 0; b < G::count; ++b) sum.v[b] = side(v.p + at + b * G::lanes) - side(v.t + at + b * G::lanes) - sum.v[b];
    subtract(a.lower, g, v.s, sum);
    for (size_t b = 0; b < G::count; ++b) {
      put(v.s + at + b * G::lanes, sum.v[b]);
      products.v[b] += side(v.p + at + b * G::lanes) * (side(v.t + at + b * G::lanes) + sum.v[b]);
    }
  }
  total(products, pq);
}

template <class T, size_t W>
void sweep_advance(size_t groups, const double* step_of, const SweepVectors<T>& v, double* rr) {
  using G = Group<T, W>;
  const Each<T, W> step(step_of);
  G squares{};
  for (size_t g = 0; g < groups; ++g)
    for (size_t b = 0; b < G::count; ++b) {
      const size_t at = g * kSide * W + b * G::lanes;
      put(v.x + at, side(v.x + at) + step[b] * side(v.p + at));
      const typename G::V r = side(v.r + at) - step[b] * (side(v.t + at) + side(v.s + at));
      put(v.r + at, r);
      squares.v[b] += r * r;
    }
  total(squares, rr);
}

template <class T, size_t W>
void sweep_finish(const SweepMatrix<T>& a, T* x) {
  using G = Group<T, W>;
  for (size_t g = a.groups; g-- > 0;) {
    T* own = x + g * kSide * W;
    G sum;
    for (size_t b = 0; b < G::count; ++b) sum.v[b] = side(own + b * G::lanes);
    subtract(a.upper, g, x, sum);
    for (size_t b = 0; b < G::count; ++b) put(own + b * G::lanes, sum.v[b]);
  }
}

template <size_t W>
void sweep_residual(const SweepMatrix<double>& a, const float* d, const double* unit_of, double* r, double* rr) {
  using G = Group<double, W>;
  const Each<double, W> unit(unit_of);
  G squares{};
  for (size_t g = 0; g < a.groups; ++g) {
    const size_t at = g * kSide * W;
    G sum;
    for (size_t b = 0; b < G::count; ++b) sum.v[b] = -widened<double>(d + at + b * G::lanes);
    subtract(a.lower, g, d, sum);
    subtract(a.inner, g, d, sum);
    subtract(a.upper, g, d, sum);
    for (size_t b = 0; b < G::count; ++b) {
      const typename G::V left = side(r + at + b * G::lanes) + unit[b] * sum.v[b];
      put(r + at + b * G::lanes, left);
      squares.v[b] += left * left;
    }
  }
  total(squares, rr);
}

template <class T, size_t W>
constexpr SweepLoops<T> sweep_loops = {sweep_start<T, W>, sweep_image<T, W>, sweep_advance<T, W>, sweep_finish<T, W>};
