// What a Budgetron does besides learning: beliefs that are dropped, saving and loading.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rules/budgetron/budgetron.hpp"

namespace budgetron {

// Moves those that keep[i] marks to the front and removes the others. Returns how many stay.
template <class Values>
std::size_t keep_marked(Values& all, const std::uint8_t* keep) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (keep[i]) {
      if (kept != i) all[kept] = std::move(all[i]);
      ++kept;
    }
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(kept), all.end());
  return kept;
}

// The same for blocks of `size` numbers; returns the end of those that stay.
inline double* keep_blocks(double* to, const double* from, std::size_t n, std::size_t size, const std::uint8_t* keep) noexcept {
  for (std::size_t i = 0; i < n; ++i, from += size)
    if (keep[i]) to = std::copy_n(from, size, to);
  return to;
}

// Takes away the blocks of the beliefs that keep_ does not mark, in every place, and gives their memory back. All of it is
// done in place, so that it cannot fail in the middle of an example.
template <class T>
void Budgetron<T>::drop(Scratch& s) noexcept {
  std::uint8_t *keep_linear = keep_.data() + given_.beliefs.size(), *keep_kernel = keep_linear + given_.beliefs.size();
  for (std::size_t b = 0, l = 0, q = 0; b < live().size(); ++b) {
    if (live()[b].belief.linear > 0) keep_linear[l++] = keep_[b];
    if (live()[b].belief.kernel > 0) keep_kernel[q++] = keep_[b];
  }
  const std::size_t linear_block = (outputs() + 1) * width(), kernel_block = (outputs() + 1) * given_.own_rank;
  const std::size_t n_linear = count_linear(), before_linear = row_linear_, before_kernel = row_kernel_, before = row_width_;
  if (config_.sparse) {
    table_.narrow([&](std::size_t b) { return keep_linear[b] != 0; });
  } else if (given_.whole) {
    keep_marked(linear_covariances_, keep_linear);
  } else if (given_.shared) {
    const double* end = keep_blocks(linear_.data(), linear_.data(), n_linear, linear_block, keep_linear);
    linear_.resize(static_cast<std::size_t>(end - linear_.data()));
    shrink(linear_);
  }
  if (given_.shared) keep_marked(covariances_, keep_kernel);
  keep_blocks(mine(s).values.data(), mine(s).values.data(), live().size(), outputs(), keep_.data());
  keep_marked(mixture_.live, keep_.data());
  double total = 0;
  for (const auto& one : live()) total += one.weight;
  for (auto& one : mixture_.live) one.weight /= total;
  lay_out();
  if (before)
    rows_.narrow(row_width_, [&](double* row) {
      double* next = keep_blocks(row, row, before_linear, linear_block, keep_linear);
      keep_blocks(next, row + before_linear * linear_block, before_kernel, kernel_block, keep_kernel);
    });
  mixture_.logs(mine(s).values.data(), outputs(), mine(s).logs);
  if (config_.sparse) read_table(s);
  if (has_kernel()) return;
  release_store();
  span_.release();
  release(lambda_);
  release(anchor_factor_);
  anchors_.clear();
  std::fill(mine(s).psi.begin(), mine(s).psi.end(), 0.0);
}

// The hashed table in the order of a model file: slot by slot the typical |x|; slot by slot, belief by belief the weights
// and the variance. Calls use(sizes, number) or use(cells, number).
template <class T>
template <class To, class Use>
void Budgetron<T>::for_each_number(To& sizes, To& cells, Use use) {
  for (std::size_t slot = 0; slot < table_.slots(); ++slot) {
    use(sizes, table_.typical(slot));
    for (std::size_t l = 0; l < roots_.size(); ++l)
      for (std::size_t o = 0; o <= outputs(); ++o) use(cells, table_.weight(slot, l, o));
  }
}

template <class T>
void Budgetron<T>::save_rule(State& state) {
  for (const auto& one : live()) {
    state.integers["belief_index"].push_back(static_cast<std::int64_t>(one.index));
    state.integers["belief_idle"].push_back(one.idle);
    state.reals["belief_weight"].push_back(one.weight);
  }
  state.reals["unit"] = {unit_};
  state.integers["unit_set"] = {unit_set_};
  if (config_.sparse) {
    auto& typical = state.reals["slot_scale"];
    auto& table = state.reals["table"];
    for_each_number(typical, table, [](std::vector<double>& to, T& number) { to.push_back(static_cast<double>(number)); });
  } else {
    state.reals["moments_count"] = {moments_.count_};
    state.reals["moments_mean"].assign(moments_.mean_.begin(), moments_.mean_.end());
    state.reals["moments_m2"].assign(moments_.m2_.begin(), moments_.m2_.end());
    state.reals["linear"].assign(linear_.begin(), linear_.end());
    if (given_.whole)
      for (auto& one : linear_covariances_) one.save(state.reals["linear"], state.reals["linear_covariance"]);
  }
  auto& keys = state.integers["table_key"];
  auto& stamps = state.integers["table_stamp"];
  auto& linear = state.reals["own_linear"];
  auto& kernel = state.reals["own_kernel"];
  const std::size_t split = (outputs() + 1) * row_linear_ * width();
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    keys.push_back(rows_.row(at).name.id);
    stamps.push_back(rows_.row(at).stamp);
    linear.insert(linear.end(), rows_.values(at), rows_.values(at) + split);
    kernel.insert(kernel.end(), rows_.values(at) + split, rows_.values(at) + row_width_);
  }
  auto& u = state.reals["u"];
  auto& m = state.reals["m"];
  for (auto& covariance : covariances_) covariance.save(u, m);
  state.integers["anchors"].assign(anchors_.begin(), anchors_.end());
  state.reals["lambda"].assign(lambda_.begin(), lambda_.end());
  if (has_kernel()) span_.save(state);
}

template <class T>
void Budgetron<T>::load_rule(const State& state) {
  const auto agree = [](bool holds) {
    if (!holds) throw std::invalid_argument("a saved Budgetron whose parts do not agree in size");
  };
  const auto fill = [&](Vec<double>& to, const char* name) {
    const auto& from = state.reals.at(name);
    agree(from.size() == to.size());
    std::copy(from.begin(), from.end(), to.begin());
  };
  const auto& index = state.integers.at("belief_index");
  const auto& idle = state.integers.at("belief_idle");
  const auto& weight = state.reals.at("belief_weight");
  agree(!index.empty() && idle.size() == index.size() && weight.size() == index.size());
  std::fill(keep_.begin(), keep_.end(), std::uint8_t{0});
  for (std::size_t i = 0; i < index.size(); ++i) {
    agree(index[i] >= 0 && static_cast<std::size_t>(index[i]) < live().size() && (i == 0 || index[i] > index[i - 1]));
    keep_[static_cast<std::size_t>(index[i])] = 1;
  }
  // Which beliefs are left decides the shapes; stored examples came in before this, at the skeleton's hand.
  const std::size_t stored = size();
  if (index.size() < live().size()) {
    mine(scratch()).values.resize(live().size() * outputs());
    drop(scratch());
    agree(has_kernel() || stored == 0);
  }
  for (std::size_t b = 0; b < live().size(); ++b) {
    mixture_.live[b].weight = weight[b];
    mixture_.live[b].idle = idle[b];
  }
  unit_ = state.reals.at("unit").at(0);
  agree(unit_ > 0);
  // Older files do not say whether the unit was set: a unit of 1 with nothing stored meant that it was not.
  const auto set = state.integers.find("unit_set");
  unit_set_ = set == state.integers.end() ? unit_ != 1.0 || stored > 0 : set->second.at(0) != 0;
  if (config_.sparse) {
    const auto& typical = state.reals.at("slot_scale");
    const auto& table = state.reals.at("table");
    agree(typical.size() == table_.slots() && table.size() == table_.slots() * roots_.size() * (outputs() + 1));
    auto next_typical = typical.begin(), next = table.begin();
    for_each_number(next_typical, next, [](auto& from, T& number) { number = static_cast<T>(*from++); });
  } else {
    moments_.count_ = state.reals.at("moments_count").at(0);
    fill(moments_.mean_, "moments_mean");
    fill(moments_.m2_, "moments_m2");
    if (given_.whole) {
      const auto& weights = state.reals.at("linear");
      const auto& packed = state.reals.at("linear_covariance");
      const std::size_t n = linear_covariances_.size(), each = outputs() * width();
      agree(weights.size() == n * each && packed.size() == n * triangle(width()));
      for (std::size_t l = 0; l < n; ++l)
        linear_covariances_[l].load(weights.data() + l * each, packed.data() + l * triangle(width()), width());
    } else {
      fill(linear_, "linear");
    }
  }
  const auto& keys = state.integers.at("table_key");
  const auto& stamps = state.integers.at("table_stamp");
  const auto& linear = state.reals.at("own_linear");
  const auto& kernel = state.reals.at("own_kernel");
  const std::size_t split = (outputs() + 1) * row_linear_ * width(), rest = row_width_ - split;
  agree(stamps.size() == keys.size() && linear.size() == keys.size() * split && kernel.size() == keys.size() * rest &&
        (!given_.max_task_rows || keys.size() <= given_.max_task_rows));
  std::vector<std::uint32_t> by_age(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    agree(rows_.find({keys[i], false}) == RowTable::kNone);
    rows_.reserve(1);
    const auto at = rows_.add({keys[i], false}, 0);
    std::copy_n(linear.begin() + static_cast<std::ptrdiff_t>(i * split), split, rows_.values(at));
    std::copy_n(kernel.begin() + static_cast<std::ptrdiff_t>(i * rest), rest, rows_.values(at) + split);
    by_age[i] = at;
  }
  std::sort(by_age.begin(), by_age.end(), [&](auto a, auto b) { return stamps[a] < stamps[b]; });
  for (const auto at : by_age) rows_.touch(at, stamps[at]);
  if (!has_kernel()) return;
  span_.load(state, size(), kernel_rows());
  const auto& u = state.reals.at("u");
  const auto& m = state.reals.at("m");
  agree(u.size() == covariances_.size() * outputs() * size() && m.size() == covariances_.size() * triangle(size()));
  for (std::size_t q = 0; q < covariances_.size(); ++q)
    covariances_[q].load(u.data() + q * outputs() * size(), m.data() + q * triangle(size()), size());
  const auto& anchors = state.integers.at("anchors");
  agree(anchors.size() <= given_.own_rank);
  for (auto slot : anchors) {
    agree(slot >= 0 && static_cast<std::size_t>(slot) < size() && !is_anchor(static_cast<std::size_t>(slot)));
    anchors_.push_back(static_cast<std::uint32_t>(slot));
  }
  const auto lambda = state.reals.find("lambda");
  if (lambda != state.reals.end() && lambda->second.size() == triangle(anchors.size()))
    lambda_.assign(lambda->second.begin(), lambda->second.end());
  else
    rebuild_lambda();
}

template class Budgetron<float>;
template class Budgetron<double>;

namespace {

const Registered registered(
    "budgetron",
    {"eta", "max_task_rows", "beliefs", "shared", "own", "own_rank", "slots", "patience", "whole", "sure"},
    [](const Config& config) {
      return config.single ? make_counted<Budgetron<float>>(config) : make_counted<Budgetron<double>>(config);
    });

}  // namespace

}  // namespace budgetron
