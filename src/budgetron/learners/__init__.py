"""The learners: one file a rule, over one skeleton."""

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
