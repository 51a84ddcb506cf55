"""BudgetSgd: steps on the hinge loss, with a choice of budget maintenance.

`rule` takes the steps. `maintenance` is the interface of the methods of budget maintenance; `removal`, `projecting`,
`merging`, `halving` and `nystrom` implement it. `parameters` declares the learner's parameters as
model files store them.
"""

from __future__ import annotations

from budgetron.engine.reference.rules.budget_sgd.rule import BudgetSgd as BudgetSgd
