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

inline void keep_marked(Vec<Covariance>& all, const std::vector<bool>& keep) {
  Vec<Covariance> kept(*all.get_allocator().bytes);
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) kept.push_back(std::move(all[i]));
  all.swap(kept);
}

// Takes away the blocks of the beliefs that are not kept, in every place, and gives their memory back.
template <class T>
void Budgetron<T>::drop(const std::vector<bool>& keep, Scratch& s) {
  std::vector<bool> keep_linear, keep_kernel;
  for (std::size_t b = 0; b < live().size(); ++b) {
    if (live()[b].belief.linear > 0) keep_linear.push_back(keep[b]);
    if (live()[b].belief.kernel > 0) keep_kernel.push_back(keep[b]);
  }
  if (config_.sparse) {
    table_.narrow(bytes_, keep_linear);
  } else if (config_.whole) {
    keep_marked(linear_covariances_, keep_linear);
  } else if (config_.shared) {
    Vec<double> kept(bytes_);
    const std::size_t n = (outputs() + 1) * width();
    for (std::size_t l = 0; l < keep_linear.size(); ++l)
      if (keep_linear[l]) kept.insert(kept.end(), linear_.begin() + static_cast<std::ptrdiff_t>(l * n), linear_.begin() + static_cast<std::ptrdiff_t>((l + 1) * n));
    kept.shrink_to_fit();
    linear_.swap(kept);
  }
  if (row_width_) {
    const std::size_t linear_block = (outputs() + 1) * width(), kernel_block = (outputs() + 1) * config_.own_rank;
    rows_.reshape([&](const double* row, Vec<double>& out) {
      for (std::size_t l = 0; l < row_linear_; ++l, row += linear_block)
        if (keep_linear[l]) out.insert(out.end(), row, row + linear_block);
      for (std::size_t q = 0; q < row_kernel_; ++q, row += kernel_block)
        if (keep_kernel[q]) out.insert(out.end(), row, row + kernel_block);
    });
  }
  if (config_.shared) keep_marked(covariances_, keep_kernel);
  std::vector<Mixture::Live> kept;
  std::vector<double> values;
  double total = 0;
  for (std::size_t b = 0; b < live().size(); ++b)
    if (keep[b]) {
      kept.push_back(live()[b]);
      total += live()[b].weight;
      values.insert(values.end(), s.values.begin() + static_cast<std::ptrdiff_t>(b * outputs()),
                    s.values.begin() + static_cast<std::ptrdiff_t>((b + 1) * outputs()));
    }
  for (auto& one : kept) one.weight /= total;
  mixture_.live = kept;
  std::copy(values.begin(), values.end(), s.values.begin());
  lay_out();
  rows_.widen(row_width_);
  mixture_.logs(s.values.data(), outputs(), s.logs);
  if (config_.sparse) read_table(s);
  if (has_kernel()) return;
  release_store();
  span_ = Span(bytes_, 0, false, config_.eta < 1e-2, config_.single && !config_.sparse);
  lambda_.clear();
  lambda_.shrink_to_fit();
  anchors_.clear();
  std::fill(s.psi.begin(), s.psi.end(), 0.0);
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
    if (config_.whole)
      for (auto& one : linear_covariances_) one.save(state.reals["linear"], state.reals["linear_covariance"]);
  }
  auto& keys = state.integers["table_key"];
  auto& stamps = state.integers["table_stamp"];
  auto& clusters = state.integers["table_cluster"];
  auto& linear = state.reals["own_linear"];
  auto& kernel = state.reals["own_kernel"];
  const std::size_t split = (outputs() + 1) * row_linear_ * width();
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    keys.push_back(rows_.row(at).name.id);
    stamps.push_back(rows_.row(at).stamp);
    clusters.push_back(rows_.row(at).cluster);
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
  std::vector<bool> keep(config_.beliefs.size(), false);
  for (std::size_t i = 0; i < index.size(); ++i) {
    agree(index[i] >= 0 && static_cast<std::size_t>(index[i]) < keep.size() && (i == 0 || index[i] > index[i - 1]));
    keep[static_cast<std::size_t>(index[i])] = true;
  }
  // Which beliefs are left decides the shapes; stored examples came in before this, at the skeleton's hand.
  const std::size_t stored = size();
  if (index.size() < keep.size()) {
    Bytes passing;
    Scratch s(passing);
    s.values.resize(live().size() * outputs());
    drop(keep, s);
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
    if (config_.whole) {
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
  const auto clusters = state.integers.find("table_cluster");
  const std::size_t split = (outputs() + 1) * row_linear_ * width(), rest = row_width_ - split;
  agree(stamps.size() == keys.size() && linear.size() == keys.size() * split && kernel.size() == keys.size() * rest &&
        (!config_.max_task_rows || keys.size() <= config_.max_task_rows));
  std::vector<std::uint32_t> by_age(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    agree(rows_.find({keys[i], false}) == RowTable::kNone);
    const bool known = clusters != state.integers.end() && clusters->second.size() == keys.size();
    const auto at = rows_.add({keys[i], false}, known ? clusters->second[i] : 0);
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
  agree(anchors.size() <= config_.own_rank);
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

std::unique_ptr<Learner> make_budgetron(const Config& config) {
  if (config.single) return std::make_unique<Budgetron<float>>(config);
  return std::make_unique<Budgetron<double>>(config);
}

}  // namespace budgetron
