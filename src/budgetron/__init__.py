"""Online kernel classifiers for thousands of related tasks inside one fixed memory budget."""

from budgetron import graphs, kernels
from budgetron.learners import (
    Belief,
    BudgetProjectron,
    Budgetron,
    Forgetron,
    Perceptron,
    RandomBudgetPerceptron,
    SharedProjectron,
)

__version__ = "0.1.0"

__all__ = [
    "Belief",
    "BudgetProjectron",
    "Budgetron",
    "Forgetron",
    "Perceptron",
    "RandomBudgetPerceptron",
    "SharedProjectron",
    "graphs",
    "kernels",
]
