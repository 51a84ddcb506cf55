// The sizes of a Budgetron's parts: parts of large weight may grow, and parts of negligible weight are dropped.
//
// Python plans the byte budget before the first example. Later, this file moves bytes between parts within that plan. `spare_` counts the bytes of
// dropped parts, and of frequencies that parts have given up. These bytes become rows for more tasks, or frequencies. A part may grow up to its own
// plan. Only the heaviest part with Fourier features may grow beyond its plan, by using spare bytes.
#include "rules/budgetron/budgetron.hpp"

#include <algorithm>
#include <new>

namespace budgetron {

namespace {

constexpr std::int64_t kDropAfter = 5000;    // a part is dropped after this many idle examples
constexpr double kEnoughWeight = 0.9;        // parts with Fourier features may grow once together they have this share of the weight; see use_bytes()
constexpr std::int64_t kFirstReview = 128;   // sizes are reviewed after 128, 256, 512 ... examples
constexpr std::size_t kPartOverhead = 768;   // bytes that the plan counts for a part in addition to its arrays
constexpr std::size_t kStepsBytes = 4 * sizeof(double);  // working memory of Steps, per output
constexpr std::int64_t kReclaimAfter = 4096;  // after this many examples, the bytes of unused frequencies may become rows for more tasks

bool is_review_due(std::int64_t seen) { return seen >= kFirstReview && (seen & (seen - 1)) == 0; }

}  // namespace

void Budgetron::use_bytes_when_due(bool dropped) {
  if (dropped || is_review_due(n_seen_ + 1)) use_bytes();
}

// Parts begin with few frequencies, because more would waste time and bytes on a stream that a linear model describes. Once the parts with
// Fourier features have nearly all of the weight, they use as many frequencies as are useful, and the heaviest of them gets the bytes of
// dropped parts. Until then, these bytes become rows for more tasks. If memory runs out, the remaining changes wait for the next review.
//
// The weight of parts that are neither linear nor have Fourier features does not count: early in a stream, such parts may be better
// than parts with few frequencies, and worse than parts with more frequencies.
void Budgetron::use_bytes() {
  double compared_weight = 0, fourier_weight = 0, largest_weight = -1;
  std::size_t b = 0, heaviest = parts_.size();
  for (std::size_t p = 0; p < parts_.size(); b += parts_[p++]->count()) {
    const double weight = mixture_.weight_of(b, parts_[p]->count());
    if (parts_[p]->is_linear() || parts_[p]->max_frequencies() > 0) compared_weight += weight;
    if (parts_[p]->max_frequencies() == 0) continue;
    fourier_weight += weight;
    if (weight > largest_weight) {
      largest_weight = weight;
      heaviest = p;
    }
  }
  try {
    if (heaviest == parts_.size() || fourier_weight < kEnoughWeight * compared_weight) {
      if (n_seen_ + 1 >= kReclaimAfter && rows_.wants_more()) reclaim_frequencies();
      spare_ = rows_.take(spare_);
      return;
    }
    for (const Kind kind : {Kind::filter, Kind::adagrad}) grow_kind(kind, *parts_[heaviest], compared_weight);
  } catch (const std::bad_alloc&) {
  }
}

// Grows the parts of a kind. `favoured`, the heaviest part with Fourier features, may use spare bytes. Weights are relative to `compared_weight`.
void Budgetron::grow_kind(Kind kind, const Part& favoured, double compared_weight) {
  double largest_weight = -1, sum = 0;
  std::size_t b = 0, heaviest = parts_.size();
  const auto is_of_kind = [&](std::size_t p) { return parts_[p]->kind() == kind && parts_[p]->max_frequencies() > 0; };
  for (std::size_t p = 0; p < parts_.size(); b += parts_[p++]->count()) {
    if (!is_of_kind(p)) continue;
    const double weight = mixture_.weight_of(b, parts_[p]->count());
    sum += weight;
    if (weight > largest_weight) {
      largest_weight = weight;
      heaviest = p;
    }
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (!is_of_kind(p)) continue;
    Part& part = *parts_[p];
    const std::size_t wanted = part.useful_frequencies(p == heaviest ? sum / compared_weight : 0.0, n_seen_ + 1), planned = part.max_frequencies();
    if (&part != &favoured || wanted <= planned) {
      grow(part, std::min(wanted, planned));
      continue;
    }
    const std::size_t before = cost(part, planned), frequencies = affordable(part, wanted);
    grow(part, frequencies);
    spare_ -= cost(part, frequencies) - before;
  }
}

// Turns the bytes that were planned for frequencies but are not in use into spare bytes. Parts can no longer grow into them.
void Budgetron::reclaim_frequencies() {
  const std::size_t frequencies = frequency_bytes();
  for (const auto& part : parts_) {
    spare_ += part->bytes(part->max_frequencies()) - part->bytes(part->frequencies());
    part->stop_growing();
  }
  spare_ += frequencies - frequency_bytes();
}

// ---- what a size costs

std::size_t Budgetron::frequencies_in_use() const {
  std::size_t max_count = 0;
  for (const auto& part : parts_) max_count = std::max(max_count, part->frequencies());
  return max_count;
}

// The bytes of the frequencies, which all parts share, if every part used as many as its plan allows.
std::size_t Budgetron::frequency_bytes() const {
  std::size_t max_count = 0;
  for (const auto& part : parts_) max_count = std::max(max_count, part->max_frequencies());
  return max_count * FourierFeatures::bytes_each(columns_);
}

// The bytes of a part with this many frequencies, and of the frequencies themselves.
std::size_t Budgetron::cost(const Part& part, std::size_t frequencies) const {
  return part.bytes(frequencies) + std::max(frequency_bytes(), frequencies * FourierFeatures::bytes_each(columns_));
}

// How many frequencies, up to `wanted`, a part can have if it uses all spare bytes.
std::size_t Budgetron::affordable(const Part& part, std::size_t wanted) const {
  const std::size_t now = cost(part, part.max_frequencies());
  std::size_t frequencies = part.max_frequencies();
  while (frequencies < wanted && cost(part, frequencies + 1) - now <= spare_) ++frequencies;
  return frequencies;
}

// ---- changing sizes

void Budgetron::grow(Part& part, std::size_t frequencies) {
  if (frequencies <= part.frequencies()) return;
  // Working memory grows first. If a later allocation fails, working memory is larger than necessary, which is harmless.
  if (part.bank()) resize_exactly(scratch().rule_scratch<Working>().bank_features, bank_widths() + 2 * (frequencies - part.frequencies()));
  if (frequencies > fourier_.count()) {
    size_features(scratch().rule_scratch<Working>(), frequencies);
    fourier_.resize(frequencies);
  }
  part.set_frequencies(frequencies);
}

bool Budgetron::drop_idle() {
  std::size_t b = 0, longest_idle = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    idle_[p] = mixture_.weight_of(b, parts_[p]->count()) < kNegligible ? idle_[p] + 1 : 0;
    b += parts_[p]->count();
    // A linear belief that learns by AdaGrad is cheap and is never dropped: no other belief could follow a stream that changes late. The table of
    // sparse rows is not dropped either: only it learns features that are new or rare.
    if (!parts_[p]->stays() && (parts_[longest_idle]->stays() || idle_[p] > idle_[longest_idle])) longest_idle = p;
  }
  if (parts_[longest_idle]->stays() || idle_[longest_idle] < kDropAfter) return false;
  drop_part(longest_idle);
  return true;
}

void Budgetron::drop_part(std::size_t p) {
  std::size_t b = 0;
  for (std::size_t q = 0; q < p; ++q) b += parts_[q]->count();
  mixture_.drop(b, parts_[p]->count());
  combination_.drop(b, parts_[p]->count());
  const std::size_t row_offset = parts_[p]->row_offset, width = parts_[p]->row_width(), frequencies = frequency_bytes();
  const auto position = static_cast<std::ptrdiff_t>(p);
  bytes_.used -= parts_[p]->object_bytes;
  spare_ += parts_[p]->bytes(parts_[p]->max_frequencies()) + kPartOverhead + kStepsBytes * outputs();
  parts_.erase(parts_.begin() + position);
  index_.erase(index_.begin() + position);
  idle_.erase(idle_.begin() + position);
  spare_ += frequencies - frequency_bytes();
  spare_ += rows_.drop_part(parts_, row_offset, width);
  Vec<float>& bank_features = scratch().rule_scratch<Working>().bank_features;
  bank_features.resize(bank_widths());  // fewer than before, so nothing is allocated
  shrink(bank_features);
  try {
    fourier_.resize(frequencies_in_use());
  } catch (const std::bad_alloc&) {  // out of memory: more frequencies than are used stay allocated
  }
}

}  // namespace budgetron
