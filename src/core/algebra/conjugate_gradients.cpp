#include "algebra/conjugate_gradients.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <tuple>

namespace budgetron {

namespace {

constexpr double kEnough = 2e-13;  // residual relative to the right-hand side
constexpr std::size_t kEasy = 16;  // steps of the first round. More: the answer is further off than the residual tells,
constexpr double kEnoughHard = 1e-14;  // and this is asked for
constexpr double kCut = 3e-7;    // what float can take off a residual at once
constexpr double kSound = 1e-5;  // a true cut as good as this: the next one need not be looked at
constexpr double kPoor = 1e-2;   // and as bad as this: float is no good here
constexpr int kRounds = 8;
constexpr std::size_t kFloatSteps = 500;  // in one round
constexpr std::size_t kWindow = 1024, kSpread = 633;  // the golden ratio of a window: near ones come far apart

using PerColumn = std::array<double, kSide>;

// Rows by length, so that the groups need little filling up. Of each window of them those with equally many entries before it
// go side by side, and neighbours in the graph's own numbering, which are often neighbours in the graph, far apart.
std::vector<std::int32_t> sweep_order(const SparseMatrix& g) {
  const std::size_t m = g.indptr.size() - 1;
  std::vector<std::int32_t> order(m), window_of(m);
  std::vector<std::tuple<std::int64_t, std::int64_t, std::size_t, std::int32_t>> window;
  for (std::size_t i = 0; i < m; ++i) order[i] = static_cast<std::int32_t>(i);
  const auto length = [&](std::int32_t i) { return g.indptr[static_cast<std::size_t>(i) + 1] - g.indptr[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t i, std::int32_t j) { return length(i) < length(j); });
  for (std::size_t p = 0; p < m; ++p) window_of[static_cast<std::size_t>(order[p])] = static_cast<std::int32_t>(p / kWindow);
  std::vector<std::int64_t> before(m);
  for (std::size_t i = 0; i < m; ++i)
    for (auto e = static_cast<std::size_t>(g.indptr[i]); e < static_cast<std::size_t>(g.indptr[i + 1]); ++e)
      before[i] += window_of[static_cast<std::size_t>(g.indices[e])] < window_of[i];
  for (std::size_t begin = 0; begin < m; begin += kWindow) {
    const std::size_t end = std::min(m, begin + kWindow);
    window.clear();
    for (std::size_t p = begin; p < end; ++p) {
      const auto i = static_cast<std::size_t>(order[p]);
      window.push_back({length(order[p]), before[i], (p - begin) * kSpread % kWindow, order[p]});
    }
    std::sort(window.begin(), window.end());
    for (std::size_t p = begin; p < end; ++p) order[p] = std::get<3>(window[p - begin]);
  }
  return order;
}

template <class T>
struct Scratch {
  explicit Scratch(std::size_t n)
      : memory(new T[5 * n]), v{memory.get(), memory.get() + n, memory.get() + 2 * n, memory.get() + 3 * n, memory.get() + 4 * n} {}
  std::unique_ptr<T[]> memory;
  SweepVectors<T> v;
};

bool any(const std::array<bool, kSide>& of) {
  return std::any_of(of.begin(), of.end(), [](bool one) { return one; });
}

// From x = 0 until each column's r·r is at most `cut`² of what it is at first; then v.x is the answer. A column that is there, or
// has nothing left but rounding, stays as it is.
struct Descent {
  std::array<bool, kSide> there{};
  std::array<std::size_t, kSide> steps{};
};
template <class T>
Descent descend(const SweepMatrix<T>& a, const SweepLoops<T>& loops, const SweepVectors<T>& v, std::size_t columns, const PerColumn& cut,
                std::size_t steps) {
  std::fill_n(v.p, kSide * a.groups * columns, T{});
  std::fill_n(v.x, kSide * a.groups * columns, T{});
  PerColumn rr{}, keep{}, wanted{};
  std::array<bool, kSide> going{};
  Descent done;
  loops.start(a, v.r, rr.data());
  for (std::size_t w = 0; w < columns; ++w) {
    wanted[w] = rr[w] * cut[w] * cut[w];
    going[w] = rr[w] > wanted[w];
  }
  for (std::size_t step = 0; step < steps && any(going); ++step) {
    PerColumn pq{}, now{}, length{};
    loops.image(a, keep.data(), v, pq.data());
    for (std::size_t w = 0; w < columns; ++w) {
      going[w] = going[w] && pq[w] > 0;
      done.steps[w] += going[w];
      length[w] = going[w] ? rr[w] / pq[w] : 0.0;
    }
    loops.advance(a.groups, length.data(), v, now.data());
    for (std::size_t w = 0; w < columns; ++w) {
      keep[w] = going[w] ? now[w] / rr[w] : 0.0;
      if (going[w]) rr[w] = now[w];
      going[w] = going[w] && rr[w] > wanted[w];
    }
  }
  loops.finish(a, v.x);
  for (std::size_t w = 0; w < columns; ++w) done.there[w] = rr[w] <= wanted[w];
  return done;
}

}  // namespace

ConjugateGradients::ConjugateGradients(const SparseMatrix& g) : order_(sweep_order(g)), root_(order_.size()), groups_((order_.size() + kSide - 1) / kSide) {
  for (std::size_t p = 0; p < order_.size(); ++p) {
    const auto i = static_cast<std::size_t>(order_[p]);
    for (auto e = static_cast<std::size_t>(g.indptr[i]); e < static_cast<std::size_t>(g.indptr[i + 1]); ++e)
      if (static_cast<std::size_t>(g.indices[e]) == i && g.data[e] > 0) root_[p] = 1.0 / std::sqrt(g.data[e]);
  }
  lay_out(g);
}

void ConjugateGradients::lay_out(const SparseMatrix& g) {
  const std::size_t m = order_.size();
  std::vector<std::size_t> place(m);
  for (std::size_t p = 0; p < m; ++p) place[static_cast<std::size_t>(order_[p])] = p;
  Part* const parts[] = {&lower_, &inner_, &upper_};
  std::array<std::array<std::vector<std::size_t>, kSide>, 3> entries;
  for (std::size_t group = 0; group < groups_; ++group) {
    const std::size_t first = kSide * group;
    for (std::size_t row = 0; row < kSide && first + row < m; ++row) {
      const auto i = static_cast<std::size_t>(order_[first + row]);
      for (auto e = static_cast<std::size_t>(g.indptr[i]); e < static_cast<std::size_t>(g.indptr[i + 1]); ++e) {
        const std::size_t to = place[static_cast<std::size_t>(g.indices[e])];
        if (to != first + row) entries[to < first ? 0 : to < first + kSide ? 1 : 2][row].push_back(e);
      }
    }
    // What fills a group up is multiplied by 0, and must be a number by then.
    const std::size_t filling[] = {0, first, kSide * (groups_ - 1)};
    for (std::size_t part = 0; part < 3; ++part) {
      std::size_t longest = 0;
      for (const auto& row : entries[part]) longest = std::max(longest, row.size());
      for (std::size_t e = 0; e < longest; ++e)
        for (std::size_t row = 0; row < kSide; ++row) {
          const bool has = e < entries[part][row].size();
          const std::size_t to = has ? place[static_cast<std::size_t>(g.indices[entries[part][row][e]])] : filling[part];
          const double value = has ? g.data[entries[part][row][e]] * root_[first + row] * root_[to] : 0.0;
          parts[part]->to.push_back(static_cast<std::int32_t>(to));
          parts[part]->value.push_back(value);
          parts[part]->rounded.push_back(static_cast<float>(value));
        }
      parts[part]->begin.push_back(static_cast<std::uint32_t>(parts[part]->to.size() / kSide));
      for (auto& row : entries[part]) row.clear();
    }
  }
  for (Part* part : parts) {
    part->begin.shrink_to_fit();
    part->to.shrink_to_fit();
    part->value.shrink_to_fit();
    part->rounded.shrink_to_fit();
  }
}

std::size_t ConjugateGradients::bytes() const {
  std::size_t total = 4 * order_.size() + 8 * root_.size();
  for (const Part* part : {&lower_, &inner_, &upper_}) total += 4 * part->begin.size() + 16 * part->to.size();
  return total;
}

SweepMatrix<double> ConjugateGradients::exact() const {
  const auto of = [](const Part& part) { return SweepPart<double>{part.begin.data(), part.to.data(), part.value.data()}; };
  return {groups_, of(lower_), of(inner_), of(upper_)};
}

SweepMatrix<float> ConjugateGradients::rounded() const {
  const auto of = [](const Part& part) { return SweepPart<float>{part.begin.data(), part.to.data(), part.rounded.data()}; };
  return {groups_, of(lower_), of(inner_), of(upper_)};
}

// W right-hand sides in the making: r is what is left of them, x the answers so far.
template <std::size_t W>
struct ConjugateGradients::Columns {
  explicit Columns(std::size_t rows) : x(rows * W), r(rows * W) {}
  std::vector<double> x, r;
  PerColumn size{}, enough{};  // ‖r‖, and what it must come to
};

void ConjugateGradients::solve(double* y, std::size_t together) const {
  if (order_.empty()) return;
  if (together == 1)
    solve_together<1>(y);
  else
    solve_together<kSide>(y);
}

template <std::size_t W>
void ConjugateGradients::solve_together(double* y) const {
  Columns<W> columns(kSide * groups_);
  for (std::size_t j = 0; j < order_.size(); ++j)
    for (std::size_t w = 0; w < W; ++w) {
      const double r = y[static_cast<std::size_t>(order_[j]) * W + w] * root_[j];
      columns.r[j * W + w] = r;
      columns.size[w] += r * r;
    }
  for (std::size_t w = 0; w < W; ++w) {
    columns.size[w] = std::sqrt(columns.size[w]);
    columns.enough[w] = kEnough * columns.size[w];
  }
  refine(columns);
  for (std::size_t w = 0; w < W; ++w)
    if (columns.size[w] > columns.enough[w]) solve_in_double(y, w, columns);
  for (std::size_t j = 0; j < order_.size(); ++j)
    for (std::size_t w = 0; w < W; ++w) y[static_cast<std::size_t>(order_[j]) * W + w] = columns.x[j * W + w] * root_[j];
}

// In float. A column is left alone once it is done, or once float can do no more for it.
template <std::size_t W>
void ConjugateGradients::refine(Columns<W>& columns) const {
  const auto& loops = W == 1 ? simd().sweeps_f32 : simd().sweeps_f32_side;
  const auto residual = W == 1 ? simd().sweep_residual : simd().sweep_residual_side;
  const std::size_t n = columns.r.size();
  const Scratch<float> scratch(n);
  const SweepVectors<float>& v = scratch.v;
  std::array<bool, kSide> open{}, sound{};
  PerColumn goal = columns.enough;
  for (std::size_t w = 0; w < W; ++w) open[w] = columns.size[w] > 0 && std::isfinite(columns.size[w]);
  for (int round = 0; round < kRounds && any(open); ++round) {
    PerColumn unit{}, inverse{}, cut{}, square{};
    for (std::size_t w = 0; w < W; ++w) {
      if (!open[w]) continue;
      unit[w] = columns.size[w];
      inverse[w] = 1.0 / unit[w];
      cut[w] = std::max(kCut, goal[w] / unit[w]);
    }
    for (std::size_t j = 0; j < n; j += W)
      for (std::size_t w = 0; w < W; ++w) v.r[j + w] = static_cast<float>(columns.r[j + w] * inverse[w]);
    const Descent done = descend(rounded(), loops, v, W, cut, kFloatSteps);
    for (std::size_t j = 0; j < n; j += W)
      for (std::size_t w = 0; w < W; ++w) columns.x[j + w] += unit[w] * static_cast<double>(v.x[j + w]);
    for (std::size_t w = 0; w < W; ++w)
      if (round == 0 && done.steps[w] > kEasy) goal[w] *= kEnoughHard / kEnough;
    for (std::size_t w = 0; w < W; ++w)
      if (open[w] && sound[w] && done.there[w] && cut[w] > kCut) {
        columns.size[w] = goal[w];
        open[w] = false;
      }
    if (!any(open)) break;
    residual(exact(), v.x, unit.data(), columns.r.data(), square.data());
    for (std::size_t w = 0; w < W; ++w) {
      if (!open[w]) continue;
      columns.size[w] = std::sqrt(square[w]);
      sound[w] = columns.size[w] <= kSound * unit[w];
      open[w] = columns.size[w] > goal[w] && columns.size[w] <= kPoor * unit[w];
    }
  }
}

template <std::size_t W>
void ConjugateGradients::solve_in_double(const double* y, std::size_t column, Columns<W>& columns) const {
  const std::size_t rows = kSide * groups_;
  const Scratch<double> scratch(rows);
  std::fill_n(scratch.v.r, rows, 0.0);
  for (std::size_t j = 0; j < order_.size(); ++j) scratch.v.r[j] = y[static_cast<std::size_t>(order_[j]) * W + column] * root_[j];
  descend(exact(), simd().sweeps_f64, scratch.v, 1, {kEnoughHard}, 10 * rows + 100);
  for (std::size_t j = 0; j < rows; ++j) columns.x[j * W + column] = scratch.v.x[j];
}

}  // namespace budgetron
