// RelationPerceptron: a linear multitask Perceptron that learns how its tasks are related.
//
//   f_i(x) = w_i·x;   on a mistake of task i:   w_j ← w_j + y C_ji x for every task j
//
// x is the row of the example, y its label, w_j the weights of task j, and C the matrix that relates the tasks. A mistake after the first
// `start` examples also recomputes C from the w before the update; this update still uses the old C.
//
// Spectral relations use C in the prediction instead. Weights v_j take the place of w_j, and every mistake recomputes C after the update:
//
//   f_i(x) = Σ_j C_ij v_j·x;   on a mistake of task i:   v_i ← v_i + y x
//
// full_relations.hpp and low_rank_relations.hpp compute C.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "learner/primal_learner.hpp"
#include "rules/relation_perceptron/full_relations.hpp"
#include "rules/relation_perceptron/low_rank_relations.hpp"

namespace budgetron {

namespace {

class RelationPerceptron final : public PrimalLearner {
 public:
  explicit RelationPerceptron(const Config& config)
      : PrimalLearner(config), settings_(config), start_(config.parameters.word("start", 0)), column_(bytes_), products_(bytes_) {
    if (settings_.rank)
      relations_ = std::make_unique<LowRankRelations>(bytes_, settings_);
    else
      relations_ = std::make_unique<FullRelations>(bytes_, settings_);
    bytes_.used += settings_.rank ? sizeof(LowRankRelations) : sizeof(FullRelations);
  }

  State query(const Query& query) override {
    if (query.name != "relations") return PrimalLearner::query(query);
    State answer;
    const std::size_t n = rows_.size();
    auto& out = answer.reals["relations"];
    auto& tasks = answer.integers["task"];
    out.resize(n * n);
    for (std::size_t r = 0; r < n; ++r) {
      tasks.push_back(rows_.row(r).name.id);
      if (spectral())
        for (std::size_t j = 0; j < n; ++j) out[r * n + j] = relations_->entry(r, j);
      else
        relations_->column(r, out.data() + r * n);
    }
    return answer;
  }

  void forget(std::int64_t task_id) override {
    const std::uint32_t r = row_of(task_id);
    if (r == RowTable::kNone) return;
    rows_.drop(r);
    relations_->drop(r);
  }

 protected:
  void reserve_rule(const Rows&, std::size_t from, std::size_t to, const std::int64_t* task_ids, const std::int64_t*) override {
    const std::size_t more = count_new_tasks(from, to, task_ids);
    rows_.reserve(more);
    reserve_relations(rows_.size() + more);
  }

  void score(const Instance& x, Task task, Scratch& s) const override {
    const std::uint32_t r = row_of(task.id);
    for (std::size_t o = 0; o < config_.n_outputs; ++o) {
      double& f = s.margins[o] = 0.0;
      if (r == RowTable::kNone) continue;
      const std::size_t at = o * config_.d;
      if (!spectral()) {
        f = product(rows_.values(r) + at, x);
        continue;
      }
      for (std::size_t j = 0; j < rows_.size(); ++j) f += relations_->entry(r, j) * product(rows_.values(j) + at, x);
    }
  }

  std::uint8_t update(const Example& example, Scratch& s) override {
    Step step;
    if (!mistaken(example, s, step)) return 0;
    const double norm2 = square(example.x);
    if (norm2 == 0) return kMistake;
    std::uint32_t r = row_of(example.task.id);
    if (r == RowTable::kNone) {
      r = rows_.add({example.task.id, false}, example.task.cluster);
      relations_->add();
    }
    const std::size_t n = rows_.size();
    if (spectral()) {
      std::fill_n(column_.data(), n, 0.0);
      column_[r] = 1.0;
    } else {
      relations_->column(r, column_.data());
      if (n_seen_ >= 0 && static_cast<std::uint64_t>(n_seen_) >= start_) relations_->recompute(rows_);
    }
    for_each_output(step, [&](std::size_t o, double y) {
      for (std::size_t j = 0; j < n; ++j) {
        double* w = rows_.values(j) + o * config_.d;
        if (settings_.rank == 0) products_[j] = product(w, example.x);
        const double step_size = y * column_[j];
        if (step_size != 0) for_each_value(example.x, [&](std::size_t f, double value) { w[f] += step_size * value; });
      }
      relations_->after_step(column_.data(), products_.data(), y, norm2);
    });
    if (spectral()) static_cast<FullRelations&>(*relations_).spectral();
    return kMistake | kUpdated;
  }

  void save_rule(State& state) override {
    save_rows(state);
    relations_->save(state);
  }
  void load_rule(const State& state) override {
    load_rows(state, [&](std::size_t n) { reserve_relations(n); });
    while (relations_->size() < rows_.size()) relations_->add();
    relations_->load(state, rows_);
  }

 private:
  bool spectral() const { return settings_.kind == Relation::spectral; }
  void reserve_relations(std::size_t n) {
    if (column_.size() < n) column_.resize(n);
    if (products_.size() < n) products_.resize(n);
    relations_->reserve(n);
  }

  const RelationSettings settings_;
  const std::uint64_t start_;
  std::unique_ptr<Relations> relations_;
  Vec<double> column_;    // column i of C; if the relations are spectral, 1 for task i and 0 for the others
  Vec<double> products_;  // w_j·x (spectral: v_j·x) for every task j, before the update
};

const Registered registered("relation_perceptron", {"relations", "rate", "start", "power", "as_printed", "tasks", "rank"},
                            make_counted<RelationPerceptron>);

}  // namespace

}  // namespace budgetron
