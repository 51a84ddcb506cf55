"""Compute the paper's mistake bounds for your own run: choose a comparator, and see how many mistakes are allowed.

A comparator has one reference classifier per task, chosen in advance. The theorems bound the learner's mistakes by
the comparator's hinge loss and norm. `guarantee` computes the bound for a run, `bounds` has the paper's theorems,
`classic` the bounds of related learners, and `plotting` draws the paper's remarks.

>>> import numpy as np
>>> from budgetron import Forgetron, graphs, kernels, theory
>>> rng = np.random.default_rng(0)
>>> users, y = rng.integers(0, 20, size=3000), rng.choice([-1, 1], size=3000)
>>> noise = rng.standard_normal((3000, 2))
>>> X = np.column_stack([0.6 * y, 0.8 * noise / np.linalg.norm(noise, axis=1, keepdims=True)])
>>> model = Forgetron(budget=800, kernel=kernels.Linear(), graph=graphs.complete(n_tasks=20)).fit(X, y, tasks=users)
>>> first = np.eye(1, 3).repeat(20, axis=0)  # one weight vector for every user: the first feature
>>> comparator = theory.linear_comparator(range(20), first, model.graph)
>>> print(theory.guarantee(model, (X, y, users), comparator, scale="best"))
made 2 mistakes; at most 60 against this comparator
"""

from budgetron.theory.bounds import (
    Bound,
    forgetron_bound,
    forgetron_radius,
    longest,
    random_budget_bound,
    random_budget_radius,
)
from budgetron.theory.classic import fixed_shrink_bound, p_norm_bound, perceptron_bound, second_order_bound
from budgetron.theory.comparator import Comparator, Shifting, linear_comparator, model_comparator
from budgetron.theory.guarantee import Guarantee, guarantee

__all__ = [
    "Bound",
    "Comparator",
    "Guarantee",
    "Shifting",
    "fixed_shrink_bound",
    "forgetron_bound",
    "forgetron_radius",
    "guarantee",
    "linear_comparator",
    "longest",
    "model_comparator",
    "p_norm_bound",
    "perceptron_bound",
    "random_budget_bound",
    "random_budget_radius",
    "second_order_bound",
]
