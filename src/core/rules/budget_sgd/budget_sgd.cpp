// BudgetSgd: gradient steps on the hinge loss (margin_learner.hpp). The parameter `maintenance` selects what happens when the store is full.
#include <cstddef>
#include <memory>
#include <stdexcept>

#include "rules/budget_sgd/halving.hpp"
#include "rules/budget_sgd/merging.hpp"
#include "rules/budget_sgd/nystrom.hpp"
#include "rules/budget_sgd/projecting.hpp"
#include "rules/budget_sgd/removal.hpp"

namespace budgetron {

namespace {

// The methods have the same numbers as in `Maintenance` of the NumPy definition.
std::unique_ptr<Learner> make(const Config& config) {
  const std::size_t maintenance = config.parameters.count("maintenance", 5);
  if (config.parameters.real("radius", 0.0) > 0 && maintenance != 0 && maintenance != 1 && maintenance != 8)
    throw std::invalid_argument("_core.make: budget_sgd needs maintenance 0, 1 or 8 if radius > 0");  // other methods do not update ‖f‖²
  switch (maintenance) {
    case 0: return make_counted<Removing<false>>(config);             // evicts the smallest example
    case 1: return make_counted<Removing<true>>(config);              // evicts the oldest
    case 2: return make_counted<RandomRemoving<false>>(config);       // evicts a random one (BOGD)
    case 3: return make_counted<RandomRemoving<true>>(config);        // evicts a random one, weighted (BOGD++)
    case 4: return make_counted<Replacing>(config);                   // projects one example on the new one (BPA-S)
    case 5: return make_counted<Projecting<false>>(config);           // projects the example whose projection changes f least
    case 6: return make_counted<Projecting<true>>(config);            // projects the smallest
    case 7: return make_counted<Merging>(config);                     // merges the smallest
    case 8: return make_counted<Halving>(config);                     // projects the smaller half (Ahpatron)
    case 9: return make_counted<Nystrom>(config);                     // keeps all, projects steps (NOGD)
    default: throw std::invalid_argument("_core.make: maintenance must be from 0 to 9");
  }
}

const Registered registered("budget_sgd",
                            {"step", "maintenance", "rate", "regularization", "margin", "radius", "clip", "rescale", "skip", "eta",
                             "ridge", "rank", "seed"},
                            make);

}  // namespace

}  // namespace budgetron
