#include "sparse_inverse.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace budgetron {

namespace {

constexpr std::size_t kDegree = 5;
constexpr double kEnough = 1e-14;  // residual of the iteration, relative to its right-hand side

void require_symmetric(bool holds) {
  if (!holds) throw std::invalid_argument("a graph's matrix must be symmetric");
}

}  // namespace

// The graph that is left while tasks are eliminated.
struct SparseInverse::Elimination {
  std::vector<std::vector<Entry>> rows;
  std::vector<double> diagonal;
  std::vector<double> sum;  // of each row, its diagonal included
  bool laplacian = true;    // no positive entry beside the diagonal, and that stays so
  std::vector<std::int32_t> where;
  std::vector<std::vector<std::int32_t>> waiting;  // by number of neighbours; what is out of date is passed over
  std::vector<bool> gone;
  std::size_t entries = 0;

  Elimination(const SparseMatrix& a, bool singular)
      : rows(a.indptr.size() - 1), diagonal(rows.size()), sum(rows.size()), where(rows.size(), -1), waiting(kDegree + 1), gone(rows.size()) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (auto e = static_cast<std::size_t>(a.indptr[i]); e < static_cast<std::size_t>(a.indptr[i + 1]); ++e) {
        if (static_cast<std::size_t>(a.indices[e]) == i)
          diagonal[i] = a.data[e];
        else if (a.data[e] != 0.0)
          rows[i].push_back({a.indices[e], a.data[e]});
        if (!singular) sum[i] += a.data[e];
        laplacian &= static_cast<std::size_t>(a.indices[e]) == i || a.data[e] <= 0.0;
      }
      entries += rows[i].size();
      wait(static_cast<std::int32_t>(i));
    }
  }

  void wait(std::int32_t i) {
    const std::size_t degree = rows[static_cast<std::size_t>(i)].size();
    if (degree <= kDegree) waiting[degree].push_back(i);
  }

  // A task with the fewest neighbours, or −1.
  std::int32_t next() {
    for (std::size_t degree = 0; degree <= kDegree; ++degree)
      while (!waiting[degree].empty()) {
        const std::int32_t i = waiting[degree].back();
        waiting[degree].pop_back();
        if (!gone[static_cast<std::size_t>(i)] && rows[static_cast<std::size_t>(i)].size() == degree) return i;
      }
    return -1;
  }

  // Row `into` takes what it has to do with the neighbours of `from`, whose entry in it is value.
  void absorb(std::size_t into, std::size_t from, double value) {
    auto& row = rows[into];
    const double share = value / diagonal[from];
    entries -= row.size();
    const auto back = std::find_if(row.begin(), row.end(), [&](const Entry& e) { return static_cast<std::size_t>(e.to) == from; });
    require_symmetric(back != row.end());
    row.erase(back);
    for (std::size_t q = 0; q < row.size(); ++q) where[static_cast<std::size_t>(row[q].to)] = static_cast<std::int32_t>(q);
    const std::size_t before = row.size();
    for (const Entry& e : rows[from]) {
      if (static_cast<std::size_t>(e.to) == into) continue;
      const std::int32_t at = where[static_cast<std::size_t>(e.to)];
      if (at >= 0)
        row[static_cast<std::size_t>(at)].value -= share * e.value;
      else
        row.push_back({e.to, -share * e.value});
    }
    for (std::size_t q = 0; q < before; ++q) where[static_cast<std::size_t>(row[q].to)] = -1;
    diagonal[into] -= share * value;
    sum[into] -= share * sum[from];
    if (laplacian) {  // all terms have one sign: nothing cancels, however uneven the weights
      diagonal[into] = sum[into];
      for (const Entry& e : row) diagonal[into] -= e.value;
    }
    entries += row.size();
    wait(static_cast<std::int32_t>(into));
  }
};

SparseInverse::SparseInverse(const SparseMatrix& a, std::vector<std::int64_t> component, bool singular)
    : component_(std::move(component)), singular_(singular), l_begin_{0}, g_begin_{0} {
  Elimination left(a, singular);
  const std::vector<double> original = left.diagonal;
  const std::size_t k = size(), most = 2 * a.indices.size();
  while (left.entries + l_to_.size() + kDegree * (kDegree - 1) <= most) {
    const std::int32_t task = left.next();
    if (task < 0) break;
    const auto i = static_cast<std::size_t>(task);
    // What is left of a Laplacian's component, or of a pivot that cancelled, is not divided by.
    if ((singular && left.rows[i].empty()) || !(left.diagonal[i] > (left.laplacian ? 0.0 : 1e-10 * original[i]))) continue;
    left.gone[i] = true;
    order_.push_back(task);
    pivot_.push_back(left.diagonal[i]);
    for (const Entry& e : left.rows[i]) {
      l_to_.push_back(e.to);
      l_.push_back(e.value / left.diagonal[i]);
      left.absorb(static_cast<std::size_t>(e.to), i, e.value);
    }
    left.entries -= left.rows[i].size();
    std::vector<Entry>().swap(left.rows[i]);
    l_begin_.push_back(static_cast<std::int64_t>(l_to_.size()));
  }
  const std::size_t eliminated = order_.size();
  std::vector<std::int32_t> place(k);
  for (std::size_t i = 0; i < k; ++i)
    if (!left.gone[i]) order_.push_back(static_cast<std::int32_t>(i));
  // Rows of one length after each other: the processor knows when each ends.
  std::stable_sort(order_.begin() + static_cast<std::ptrdiff_t>(eliminated), order_.end(), [&](std::int32_t i, std::int32_t j) {
    return left.rows[static_cast<std::size_t>(i)].size() < left.rows[static_cast<std::size_t>(j)].size();
  });
  for (std::size_t p = 0; p < k; ++p) place[static_cast<std::size_t>(order_[p])] = static_cast<std::int32_t>(p);
  for (auto& to : l_to_) to = place[static_cast<std::size_t>(to)];
  for (std::size_t p = eliminated; p < k; ++p) {
    const auto i = static_cast<std::size_t>(order_[p]);
    const bool alone = singular && left.rows[i].empty();  // the zero that is left of a component: its answer is 0
    root_.push_back(alone || !(left.diagonal[i] > 0) ? 0.0 : 1.0 / std::sqrt(left.diagonal[i]));
  }
  for (std::size_t p = eliminated; p < k; ++p) {
    for (const Entry& e : left.rows[static_cast<std::size_t>(order_[p])]) {
      require_symmetric(!left.gone[static_cast<std::size_t>(e.to)]);
      const auto to = static_cast<std::size_t>(place[static_cast<std::size_t>(e.to)]) - eliminated;
      g_to_.push_back(static_cast<std::int32_t>(to));
      g_.push_back(e.value * root_[p - eliminated] * root_[to]);
    }
    g_begin_.push_back(static_cast<std::int64_t>(g_to_.size()));
  }
  for (auto* list : {&l_to_, &g_to_, &order_}) list->shrink_to_fit();
  for (auto* list : {&l_, &g_, &pivot_, &root_}) list->shrink_to_fit();
  for (auto* list : {&l_begin_, &g_begin_}) list->shrink_to_fit();
}

std::size_t SparseInverse::bytes() const {
  return 4 * (order_.size() + l_to_.size() + g_to_.size()) + 8 * (l_.size() + g_.size() + pivot_.size() + root_.size()) +
         8 * (l_begin_.size() + g_begin_.size() + component_.size());
}

std::vector<double> SparseInverse::apply(const std::vector<double>& b) const {
  std::vector<double> x = b;
  solve<1>(x);
  return x;
}

std::vector<std::vector<double>> SparseInverse::columns(const std::vector<std::int64_t>& of) const {
  std::vector<std::vector<double>> out(of.size());
  if (of.size() == 1) {
    out[0].assign(size(), 0.0);
    out[0][static_cast<std::size_t>(of[0])] = 1.0;
    solve<1>(out[0]);
    return out;
  }
  std::vector<double> x(size() * kTogether);
  for (std::size_t w = 0; w < of.size(); ++w) x[static_cast<std::size_t>(of[w]) * kTogether + w] = 1.0;
  solve<kTogether>(x);
  for (std::size_t w = 0; w < of.size(); ++w) {
    out[w].resize(size());
    for (std::size_t i = 0; i < size(); ++i) out[w][i] = x[i * kTogether + w];
  }
  return out;
}

template <std::size_t W>
void SparseInverse::center(std::vector<double>& x) const {  // onto the range of a Laplacian: mean 0 on every component
  std::vector<double> sum(size() * W), count(size());
  for (std::size_t i = 0; i < size(); ++i) {
    const auto c = static_cast<std::size_t>(component_[i]);
    count[c] += 1;
    for (std::size_t w = 0; w < W; ++w) sum[c * W + w] += x[i * W + w];
  }
  for (std::size_t i = 0; i < size(); ++i) {
    const auto c = static_cast<std::size_t>(component_[i]);
    for (std::size_t w = 0; w < W; ++w) x[i * W + w] -= sum[c * W + w] / count[c];
  }
}

template <std::size_t W>
void SparseInverse::solve(std::vector<double>& x) const {
  if (singular_) center<W>(x);
  const std::size_t k = size(), eliminated = pivot_.size();
  std::vector<double> y(k * W);
  for (std::size_t p = 0; p < k; ++p)
    for (std::size_t w = 0; w < W; ++w) y[p * W + w] = x[static_cast<std::size_t>(order_[p]) * W + w];
  for (std::size_t p = 0; p < eliminated; ++p) {
    double* own = &y[p * W];
    if (std::all_of(own, own + W, [](double value) { return value == 0.0; })) continue;
    for (auto e = static_cast<std::size_t>(l_begin_[p]); e < static_cast<std::size_t>(l_begin_[p + 1]); ++e)
      for (std::size_t w = 0; w < W; ++w) y[static_cast<std::size_t>(l_to_[e]) * W + w] -= l_[e] * own[w];
    for (std::size_t w = 0; w < W; ++w) own[w] /= pivot_[p];
  }
  iterate<W>(y.data() + eliminated * W);
  for (std::size_t p = eliminated; p-- > 0;) {
    double sum[W];
    for (std::size_t w = 0; w < W; ++w) sum[w] = y[p * W + w];
    for (auto e = static_cast<std::size_t>(l_begin_[p]); e < static_cast<std::size_t>(l_begin_[p + 1]); ++e)
      for (std::size_t w = 0; w < W; ++w) sum[w] -= l_[e] * y[static_cast<std::size_t>(l_to_[e]) * W + w];
    for (std::size_t w = 0; w < W; ++w) y[p * W + w] = sum[w];
  }
  for (std::size_t p = 0; p < k; ++p)
    for (std::size_t w = 0; w < W; ++w) x[static_cast<std::size_t>(order_[p]) * W + w] = y[p * W + w];
  if (singular_) center<W>(x);
}

// Conjugate gradients on the scaled G', each right-hand side until its own residual is small.
template <std::size_t W>
void SparseInverse::iterate(double* y) const {
  const std::size_t m = root_.size();
  std::vector<double> x(m * W), r(m * W), p(m * W), q(m * W);
  double rr[W] = {}, goal[W];
  for (std::size_t j = 0; j < m; ++j)
    for (std::size_t w = 0; w < W; ++w) {
      p[j * W + w] = r[j * W + w] = y[j * W + w] * root_[j];
      rr[w] += r[j * W + w] * r[j * W + w];
    }
  for (std::size_t w = 0; w < W; ++w) goal[w] = kEnough * kEnough * rr[w];
  const auto unfinished = [&] {
    for (std::size_t w = 0; w < W; ++w)
      if (rr[w] > goal[w]) return true;
    return false;
  };
  for (std::size_t step = 0; step < 10 * m + 100 && unfinished(); ++step) {
    double pq[W] = {}, now[W] = {}, a[W], keep[W];
    for (std::size_t j = 0; j < m; ++j) {
      double sum[W];
      for (std::size_t w = 0; w < W; ++w) sum[w] = p[j * W + w];
      for (auto e = static_cast<std::size_t>(g_begin_[j]); e < static_cast<std::size_t>(g_begin_[j + 1]); ++e)
        for (std::size_t w = 0; w < W; ++w) sum[w] += g_[e] * p[static_cast<std::size_t>(g_to_[e]) * W + w];
      for (std::size_t w = 0; w < W; ++w) {
        q[j * W + w] = sum[w];
        pq[w] += sum[w] * p[j * W + w];
      }
    }
    bool any = false;
    for (std::size_t w = 0; w < W; ++w) {
      const bool on = rr[w] > goal[w] && pq[w] > 0;  // else there is nothing left, or nothing but rounding
      a[w] = on ? rr[w] / pq[w] : 0.0;
      any |= on;
    }
    if (!any) break;
    for (std::size_t j = 0; j < m; ++j)
      for (std::size_t w = 0; w < W; ++w) {
        x[j * W + w] += a[w] * p[j * W + w];
        r[j * W + w] -= a[w] * q[j * W + w];
        now[w] += r[j * W + w] * r[j * W + w];
      }
    for (std::size_t w = 0; w < W; ++w) {
      keep[w] = a[w] != 0.0 ? now[w] / rr[w] : 0.0;
      if (a[w] != 0.0) rr[w] = now[w];
    }
    for (std::size_t j = 0; j < m; ++j)
      for (std::size_t w = 0; w < W; ++w) p[j * W + w] = r[j * W + w] + keep[w] * p[j * W + w];
  }
  for (std::size_t j = 0; j < m; ++j)
    for (std::size_t w = 0; w < W; ++w) y[j * W + w] = x[j * W + w] * root_[j];
}

}  // namespace budgetron
