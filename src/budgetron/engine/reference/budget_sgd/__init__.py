"""BudgetSgd: steps on the hinge loss, and a choice of what to do when the budget is full.

`rule` has the steps. `removal`, `projecting`, `merging`, `halving` and `nystrom` are the ways to stay within the
budget.
"""

from __future__ import annotations

from budgetron.engine.reference.budget_sgd.rule import BudgetSgd as BudgetSgd
