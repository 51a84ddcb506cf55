"""BudgetSgd: steps on the hinge loss, with a choice of budget maintenance.

`rule` has the steps, `maintenance` the interface of the methods. `removal`, `projecting`, `merging`, `halving` and
`nystrom` implement it.
"""

from __future__ import annotations

from budgetron.engine.reference.rules.budget_sgd.rule import BudgetSgd as BudgetSgd
