"""The learners: scikit-learn estimators.

`estimators` has one file per learner, and `registry` finds these files. `learner` has the base class of all learners,
and `block_learner` its methods for blocks of examples. `input` checks and encodes the arguments of calls, `inspection`
shows the content of a fitted model, `lifecycle` creates, locks, resizes, saves and loads models. The learning rules
themselves are in `budgetron.engine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from budgetron.learners.registry import learner_class, learner_names

if TYPE_CHECKING:  # for editors and type checkers; at run time `registry` finds the learners
    from budgetron.learners.estimators.budget_projectron import BudgetProjectron as BudgetProjectron
    from budgetron.learners.estimators.budget_sgd import BudgetSgd as BudgetSgd
    from budgetron.learners.estimators.budgetron import Belief as Belief
    from budgetron.learners.estimators.budgetron import Budgetron as Budgetron
    from budgetron.learners.estimators.forgetron import Forgetron as Forgetron
    from budgetron.learners.estimators.fourier_sgd import FourierSgd as FourierSgd
    from budgetron.learners.estimators.linear_perceptron import LinearPerceptron as LinearPerceptron
    from budgetron.learners.estimators.perceptron import Perceptron as Perceptron
    from budgetron.learners.estimators.projectron import Projectron as Projectron
    from budgetron.learners.estimators.random_budget_perceptron import RandomBudgetPerceptron as RandomBudgetPerceptron
    from budgetron.learners.estimators.relation_perceptron import RelationPerceptron as RelationPerceptron
    from budgetron.learners.estimators.second_order_perceptron import SecondOrderPerceptron as SecondOrderPerceptron
    from budgetron.learners.estimators.shared_projectron import SharedProjectron as SharedProjectron
    from budgetron.learners.estimators.shifting_perceptron import ShiftingPerceptron as ShiftingPerceptron

__all__ = ["Belief"]
__all__ += learner_names()


def __getattr__(name: str) -> Any:
    """Import a learner on first use."""
    if name in learner_names():
        return learner_class(name)
    if name == "Belief":
        from budgetron.learners.estimators.budgetron import Belief

        return Belief
    raise AttributeError(f"module 'budgetron.learners' has no attribute {name!r}")
