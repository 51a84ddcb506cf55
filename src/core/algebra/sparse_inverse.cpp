#include "algebra/sparse_inverse.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace budgetron {

namespace {

constexpr std::size_t kDegree = 4;      // the largest number of neighbours of a task that is eliminated
constexpr std::size_t kBytesPerEntry = 32;  // the factor and the remaining matrix may use this many bytes per entry of A
constexpr std::size_t kEntryBytes = 12;     // bytes of one entry in either of them: column and value

void require_symmetric(bool symmetric) {
  if (!symmetric) throw std::invalid_argument("a graph's matrix must be symmetric");
}

}  // namespace

// The matrix of the tasks that are not eliminated yet, as a graph: a row has one entry per neighbour.
struct SparseInverse::Elimination {
  std::vector<std::vector<Entry>> rows;
  std::vector<double> diagonal;
  std::vector<double> sum;  // of each row, including its diagonal; exactly 0 if A is a Laplacian
  bool no_positive_off_diagonal = true;  // as in a Laplacian plus a diagonal; elimination preserves this
  std::vector<std::int32_t> position_in_row;  // working memory of eliminate_in(): the position of a neighbour in a row, or −1
  std::vector<std::vector<std::int32_t>> queues;  // per number of neighbours, the tasks to eliminate; next() skips outdated entries
  std::vector<bool> eliminated;
  std::size_t entries = 0;

  Elimination(const SparseMatrix& a, bool singular)
      : rows(a.indptr.size() - 1),
        diagonal(rows.size()),
        sum(rows.size()),
        position_in_row(rows.size(), -1),
        queues(kDegree + 1),
        eliminated(rows.size()) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (auto e = static_cast<std::size_t>(a.indptr[i]); e < static_cast<std::size_t>(a.indptr[i + 1]); ++e) {
        if (static_cast<std::size_t>(a.indices[e]) == i)
          diagonal[i] = a.data[e];
        else if (a.data[e] != 0.0)
          rows[i].push_back({a.indices[e], a.data[e]});
        if (!singular) sum[i] += a.data[e];
        no_positive_off_diagonal &= static_cast<std::size_t>(a.indices[e]) == i || a.data[e] <= 0.0;
      }
      entries += rows[i].size();
      enqueue(static_cast<std::int32_t>(i));
    }
  }

  // Makes a task a candidate for elimination, unless it has more than kDegree neighbours.
  void enqueue(std::int32_t i) {
    const std::size_t degree = rows[static_cast<std::size_t>(i)].size();
    if (degree <= kDegree) queues[degree].push_back(i);
  }

  // Returns a task with the fewest neighbours, or −1 if every task has more than kDegree.
  std::int32_t next() {
    for (std::size_t degree = 0; degree <= kDegree; ++degree)
      while (!queues[degree].empty()) {
        const std::int32_t i = queues[degree].back();
        queues[degree].pop_back();
        if (!eliminated[static_cast<std::size_t>(i)] && rows[static_cast<std::size_t>(i)].size() == degree) return i;
      }
    return -1;
  }

  // Eliminates the task `from` from the row of the task `into`, where its entry is `value`. The neighbours of `from` become neighbours of `into`.
  void eliminate_in(std::size_t into, std::size_t from, double value) {
    auto& row = rows[into];
    const double share = value / diagonal[from];
    entries -= row.size();
    const auto entry = std::find_if(row.begin(), row.end(), [&](const Entry& e) { return static_cast<std::size_t>(e.to) == from; });
    require_symmetric(entry != row.end());
    row.erase(entry);
    for (std::size_t q = 0; q < row.size(); ++q) position_in_row[static_cast<std::size_t>(row[q].to)] = static_cast<std::int32_t>(q);
    const std::size_t old_size = row.size();
    for (const Entry& e : rows[from]) {
      if (static_cast<std::size_t>(e.to) == into) continue;
      const std::int32_t at = position_in_row[static_cast<std::size_t>(e.to)];
      if (at >= 0)
        row[static_cast<std::size_t>(at)].value -= share * e.value;
      else
        row.push_back({e.to, -share * e.value});
    }
    for (std::size_t q = 0; q < old_size; ++q) position_in_row[static_cast<std::size_t>(row[q].to)] = -1;
    diagonal[into] -= share * value;
    sum[into] -= share * sum[from];
    // The diagonal is computed again from the sum of the row. If A is a Laplacian plus a non-negative diagonal, all terms have the same sign, so
    // no digits cancel, even if the weights differ by orders of magnitude.
    if (no_positive_off_diagonal) {
      diagonal[into] = sum[into];
      for (const Entry& e : row) diagonal[into] -= e.value;
    }
    entries += row.size();
    enqueue(static_cast<std::int32_t>(into));
  }
};

SparseInverse::SparseInverse(const SparseMatrix& a, std::vector<std::int64_t> component, bool singular)
    : component_(std::move(component)), singular_(singular), l_begin_{0} {
  Elimination remaining(a, singular);
  const std::vector<double> original = remaining.diagonal;
  const std::size_t k = size(), memory_limit = kBytesPerEntry * a.indices.size();
  // One elimination adds at most kDegree (kDegree − 1) entries to the remaining matrix.
  while (kEntryBytes * (remaining.entries + kDegree * (kDegree - 1) + l_to_.size()) <= memory_limit) {
    const std::int32_t task = remaining.next();
    if (task < 0) break;
    const auto i = static_cast<std::size_t>(task);
    // Skip a task whose pivot is 0 (the last task in a component of a Laplacian) or mostly rounding error.
    if ((singular && remaining.rows[i].empty()) || !(remaining.diagonal[i] > (remaining.no_positive_off_diagonal ? 0.0 : 1e-10 * original[i]))) continue;
    remaining.eliminated[i] = true;
    order_.push_back(task);
    pivot_.push_back(remaining.diagonal[i]);
    for (const Entry& e : remaining.rows[i]) {
      l_to_.push_back(e.to);
      l_.push_back(e.value / remaining.diagonal[i]);
      remaining.eliminate_in(static_cast<std::size_t>(e.to), i, e.value);
    }
    remaining.entries -= remaining.rows[i].size();
    std::vector<Entry>().swap(remaining.rows[i]);
    l_begin_.push_back(static_cast<std::int64_t>(l_to_.size()));
  }
  const std::size_t n_eliminated = order_.size();
  std::vector<std::int32_t> position(k);
  for (std::size_t i = 0; i < k; ++i)
    if (!remaining.eliminated[i]) order_.push_back(static_cast<std::int32_t>(i));
  for (std::size_t p = 0; p < k; ++p) position[static_cast<std::size_t>(order_[p])] = static_cast<std::int32_t>(p);
  for (auto& to : l_to_) to = position[static_cast<std::size_t>(to)];
  // The remaining matrix of a Laplacian is singular: on each component, the solution is determined only up to a constant. Rounding turns the
  // right-hand side into one for which there is no solution, so the iteration would not converge. Therefore the solution is fixed at 0 for one
  // task per component, the one with the largest diagonal, and center() adds the right constant later.
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> fixed(singular ? k : 0, kNone);
  for (std::size_t p = n_eliminated; singular && p < k; ++p) {
    const auto i = static_cast<std::size_t>(order_[p]);
    auto& fixed_task = fixed[static_cast<std::size_t>(component_[i])];
    if (fixed_task == kNone || remaining.diagonal[i] > remaining.diagonal[fixed_task]) fixed_task = i;
  }
  SparseMatrix g;
  g.indptr.push_back(0);
  for (std::size_t p = n_eliminated; p < k; ++p) {
    const auto i = static_cast<std::size_t>(order_[p]);
    const bool is_fixed = singular && fixed[static_cast<std::size_t>(component_[i])] == i;
    g.indices.push_back(static_cast<std::int32_t>(p - n_eliminated));
    g.data.push_back(is_fixed ? 0.0 : remaining.diagonal[i]);
    for (const Entry& e : remaining.rows[i]) {
      require_symmetric(!remaining.eliminated[static_cast<std::size_t>(e.to)]);
      g.indices.push_back(position[static_cast<std::size_t>(e.to)] - static_cast<std::int32_t>(n_eliminated));
      g.data.push_back(e.value);
    }
    g.indptr.push_back(static_cast<std::int64_t>(g.indices.size()));
  }
  rest_ = ConjugateGradients(g);
  for (auto* list : {&l_to_, &order_}) list->shrink_to_fit();
  for (auto* list : {&l_, &pivot_}) list->shrink_to_fit();
  l_begin_.shrink_to_fit();
}

std::size_t SparseInverse::bytes() const {
  return 4 * (order_.size() + l_to_.size()) + 8 * (l_.size() + pivot_.size() + l_begin_.size() + component_.size()) + rest_.bytes();
}

void SparseInverse::apply(const double* b, double* out, Work& work) const {
  auto& y = work.y;
  for (std::size_t p = 0; p < size(); ++p) y[p] = b[static_cast<std::size_t>(order_[p])];
  if (singular_) center(work);
  const std::size_t n_eliminated = pivot_.size();
  for (std::size_t p = 0; p < n_eliminated; ++p) {
    if (y[p] == 0.0) continue;
    for (auto e = static_cast<std::size_t>(l_begin_[p]); e < static_cast<std::size_t>(l_begin_[p + 1]); ++e)
      y[static_cast<std::size_t>(l_to_[e])] -= l_[e] * y[p];
    y[p] /= pivot_[p];
  }
  rest_.solve(y.data() + n_eliminated, work.rest);
  for (std::size_t p = n_eliminated; p-- > 0;)
    for (auto e = static_cast<std::size_t>(l_begin_[p]); e < static_cast<std::size_t>(l_begin_[p + 1]); ++e)
      y[p] -= l_[e] * y[static_cast<std::size_t>(l_to_[e])];
  if (singular_) center(work);
  for (std::size_t p = 0; p < size(); ++p) out[static_cast<std::size_t>(order_[p])] = y[p];
}

void SparseInverse::column(std::int64_t i, double* out, Work& work) const {
  std::fill_n(out, size(), 0.0);
  out[i] = 1.0;
  apply(out, out, work);
}

// Projects onto the range of a Laplacian: subtracts the mean of each component.
void SparseInverse::center(Work& work) const {
  auto &y = work.y, &sum = work.sum, &count = work.count;
  std::fill(sum.begin(), sum.end(), 0.0);
  std::fill(count.begin(), count.end(), 0.0);
  for (std::size_t p = 0; p < size(); ++p) {
    const auto c = static_cast<std::size_t>(component_[static_cast<std::size_t>(order_[p])]);
    count[c] += 1;
    sum[c] += y[p];
  }
  for (std::size_t p = 0; p < size(); ++p) {
    const auto c = static_cast<std::size_t>(component_[static_cast<std::size_t>(order_[p])]);
    y[p] -= sum[c] / count[c];
  }
}

}  // namespace budgetron
