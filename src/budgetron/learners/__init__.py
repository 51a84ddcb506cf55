"""The learners: scikit-learn estimators, one file per learning rule.

`learner` is their base class; `validation`, `frames`, `classes`, `hashing` and `task_names` check and encode input;
`start` chooses the engine; `files` and `saved` load and save. The rules themselves are in `budgetron.engine`.
"""

from budgetron.learners.budget_projectron import BudgetProjectron
from budgetron.learners.budgetron import Belief, Budgetron
from budgetron.learners.forgetron import Forgetron
from budgetron.learners.perceptron import Perceptron
from budgetron.learners.random_budget_perceptron import RandomBudgetPerceptron
from budgetron.learners.shared_projectron import SharedProjectron

__all__ = [
    "Belief",
    "BudgetProjectron",
    "Budgetron",
    "Forgetron",
    "Perceptron",
    "RandomBudgetPerceptron",
    "SharedProjectron",
]
