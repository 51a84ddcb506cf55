// The queries of a Budgetron: the weights of its beliefs, the variance of a prediction, linear weights, and explanations.
//
// Queries do not change predictions; "variances" may apply postponed updates of covariances. An explanation splits a weighted sum of the beliefs'
// margins into terms: one per feature, and one for all Fourier features of a part. The margin of the model is the logit of an average of
// probabilities instead, so the terms do not add up to it exactly.
#include "rules/budgetron/budgetron.hpp"

#include <algorithm>
#include <cmath>

namespace budgetron {

State Budgetron::query(const Query& query) {
  State answer;
  if (query.name == "beliefs") {
    for (std::size_t p = 0, b = 0; p < parts_.size(); ++p)
      for (std::size_t k = 0; k < parts_[p]->count(); ++k, ++b) {
        answer.integers["part"].push_back(index_[p]);
        answer.integers["belief"].push_back(static_cast<std::int64_t>(k));
        answer.reals["weight"].push_back(mixture_.weights[b]);
      }
    return answer;
  }
  if (query.name == "variances") {
    auto& out = answer.reals["variance"];
    score_each(query, [&](std::size_t, const Instance&, Scratch& s) { add_variances(s, out); });
    return answer;
  }
  if (query.name == "linear_weights") {
    auto& out = answer.reals["weights"];
    score_each(query, [&](std::size_t, const Instance&, Scratch& s) { add_linear_weights(s, out); });
    return answer;
  }
  if (query.name == "explain") return explain(query);
  return Learner::query(query);
}

// Appends the variance of the calibrated mixture: s^2 (sum_b w_b (V_b + f_b^2) - (sum_b w_b f_b)^2), one number per output.
// s is the scale of the calibration; w_b, f_b and V_b are the weight, the margin and the variance of belief b. A lapse rate is
// a share of labels that are assumed to be random. Margins and variances include the effect of the beliefs' lapse rates. They do not include the
// effect of the calibration's lapse rate, which would make margins smaller.
void Budgetron::add_variances(Scratch& s, std::vector<double>& out) const {
  auto& work = s.rule_scratch<Working>();
  std::vector<double> v(n_beliefs());
  std::size_t at = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (!is_awake(p)) continue;
    parts_[p]->variances(work.seen, v.data() + at);
    at += parts_[p]->count();
  }
  const std::vector<double> factors = lapse_factors(work);
  const double squared_scale = calibration_.scale() * calibration_.scale(), total = mixture_.weight_of(work.awake);
  for (std::size_t o = 0; o < outputs(); ++o) {
    double mean = 0, square = 0;
    for (std::size_t k = 0; k < work.awake.size(); ++k) {
      const double f = factors[k] * work.values[k * outputs() + o], w = mixture_.weights[work.awake[k]] / total;
      mean += w * f;
      square += w * (factors[k] * factors[k] * v[k] + f * f);
    }
    out.push_back(squared_scale * std::max(0.0, square - mean * mean));
  }
}

// Returns, for each belief that is awake, the factor by which its lapse rate shrinks its margin f: the logit of its probability, divided by f.
std::vector<double> Budgetron::lapse_factors(const Working& work) const {
  std::vector<double> factors(work.awake.size(), 1.0);
  std::size_t at = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (!is_awake(p)) continue;
    for (std::size_t k = 0; k < parts_[p]->count(); ++k, ++at) {
      const double lapse = parts_[p]->lapse();
      if (lapse == 0) continue;
      const double f = work.values[at], shrunk = std::log(work.probabilities[2 * at + 1] / work.probabilities[2 * at]);
      factors[at] = std::abs(f) > 1e-6 ? std::max(0.0, std::min(1.0, shrunk / f)) : 1.0 - lapse;  // the limit of the quotient at f = 0
    }
  }
  return factors;
}

// Returns the coefficient of the margin of each belief that is awake; see Combination::coefficients().
std::vector<double> Budgetron::coefficients(const Working& work) const {
  std::vector<double> w(work.awake.size()), out(work.awake.size());
  const double total = mixture_.weight_of(work.awake);
  for (std::size_t k = 0; k < w.size(); ++k) w[k] = mixture_.weights[work.awake[k]] / total;
  combination_.coefficients(w, work.awake, out.data());
  return out;
}

// Returns where the terms of a part belong among the n terms of an explanation, whose last one is the constant. An explanation of a sparse row
// has a term for each of its entries. A frequent column that is not among them is 0, and its term is added to the constant.
std::vector<std::size_t> Budgetron::places_of_terms(const Part& part, const Instance& x, std::size_t n) const {
  const bool is_mapped = config_.sparse && !part.sees_entries();
  std::vector<std::size_t> places(is_mapped ? columns_ + 1 : n, n - 1);
  for (std::size_t j = 0; !is_mapped && j < n; ++j) places[j] = j;
  for (std::size_t j = 0; is_mapped && j < columns_; ++j) {
    const std::int32_t* first = x.rows->indices + x.rows->indptr[x.at];
    const std::int32_t* found = std::lower_bound(first, first + n - 1, frequent_[j]);
    if (found != first + n - 1 && *found == frequent_[j]) places[j] = static_cast<std::size_t>(found - first);
  }
  return places;
}

// Appends the terms of s sum_b c_b f_b + offset, the calibrated sum over the beliefs that are awake with their coefficients c_b. The terms of
// the features go to `columns` (sources × outputs × n). The terms of the Fourier features of each part go to `fourier` (parts × sources × outputs).
// The sources are the shared weights, the own weights and so on; see part.hpp.
// `factors` has one number per belief that is awake, which multiplies its terms; see lapse_factors().
void Budgetron::add_terms(const Seen& e, const Working& work, const std::vector<double>& factors, std::size_t n, std::vector<double>& columns, std::vector<double>& fourier) const {
  const std::size_t first = columns.size();
  columns.resize(first + kSources * outputs() * n);
  const std::vector<double> coefficient = coefficients(work);
  std::size_t at = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const Part& part = *parts_[p];
    const std::size_t at_fourier = fourier.size();
    fourier.resize(at_fourier + kSources * outputs());
    if (!is_awake(p)) continue;
    const std::vector<std::size_t> places = places_of_terms(part, e.x, n);
    Terms terms(part.count(), outputs(), places.size());
    part.terms(e, terms);
    for (std::size_t k = 0; k < part.count(); ++k, ++at)
      for (std::size_t so = 0; so < kSources * outputs(); ++so) {  // so = source · outputs + output
        const double weight = calibration_.scale() * coefficient[at] * factors[at];
        const std::size_t row = k * outputs() + so % outputs();
        const double* of_part = terms.columns(so / outputs(), row);
        for (std::size_t j = 0; j < places.size(); ++j) columns[first + so * n + places[j]] += weight * of_part[j];
        fourier[at_fourier + so] += weight * terms.fourier(so / outputs(), row);
      }
  }
  for (std::size_t o = 0; o < outputs(); ++o) columns[first + (kShared * outputs() + o + 1) * n - 1] += calibration_.offset(o);
}

// Appends the weights of the linear features for the task, outputs × (d + 1). These are the terms of a row whose features are all 1.
void Budgetron::add_linear_weights(Scratch& s, std::vector<double>& out) const {
  if (config_.sparse) return;
  const std::size_t n = columns_ + 1;
  const std::vector<double> ones(n, 1.0);
  const std::vector<float> fourier_ones(2 * fourier_.count(), 1.0f);
  const auto& work = s.rule_scratch<Working>();
  Seen e = work.seen;
  e.linear = ones.data();
  e.fourier = fourier_ones.data();
  const std::vector<const float*> banks(fourier_.banks(), fourier_ones.data());
  e.banks = banks.data();
  e.bins = nullptr;
  std::vector<double> terms, fourier;
  std::vector<double> factors(work.awake.size());
  std::size_t at = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p)  // near the decision boundary, a lapse rate shrinks all margins by the same factor
    for (std::size_t k = 0; is_awake(p) && k < parts_[p]->count(); ++k) factors[at++] = 1.0 - parts_[p]->lapse();
  add_terms(e, work, factors, n, terms, fourier);
  const std::size_t first = out.size();
  out.resize(first + outputs() * n);
  for (std::size_t k = 0; k < terms.size(); ++k) out[first + k % (outputs() * n)] += terms[k];
}

// The margin and the terms of each example.
State Budgetron::explain(const Query& query) const {
  State answer;
  auto& margins = answer.reals["margins"];
  auto& columns = answer.reals["columns"];
  auto& fourier = answer.reals["fourier"];
  score_each(query, [&](std::size_t i, const Instance& x, Scratch& s) {
    const auto n = config_.sparse ? static_cast<std::size_t>(x.rows->indptr[i + 1] - x.rows->indptr[i]) : columns_;
    margins.insert(margins.end(), s.margins.begin(), s.margins.end());
    const auto& work = s.rule_scratch<Working>();
    const double shrinkage = calibration_.shrinkage(work.combined.data(), s.margins[0]);
    const std::vector<double> factors = lapse_factors(work), coefficient = coefficients(work);
    double factor = 0;  // the mean lapse factor; it applies to the row's offset (Rows::offsets), which is part of every belief's margin
    for (std::size_t k = 0; k < factors.size(); ++k) factor += factors[k] * coefficient[k];
    for (std::size_t o = 0; x.rows->offsets && o < outputs(); ++o)
      answer.reals["offsets"].push_back(shrinkage * calibration_.scale() * factor * x.rows->offsets[i * outputs() + o]);
    const std::size_t first_column = columns.size(), first_fourier = fourier.size();
    add_terms(work.seen, work, factors, n + 1, columns, fourier);
    for (std::size_t k = first_column; k < columns.size(); ++k) columns[k] *= shrinkage;
    for (std::size_t k = first_fourier; k < fourier.size(); ++k) fourier[k] *= shrinkage;
  });
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    answer.integers["part"].push_back(index_[p]);
    answer.integers["part_frequencies"].push_back(static_cast<std::int64_t>(parts_[p]->frequencies()));
  }
  return answer;
}

}  // namespace budgetron
