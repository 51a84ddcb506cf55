"""Budgetron: many small models side by side, mixed by how well they predict, inside one fixed memory.

    f_i = shared + own_i,   on linear features, random Fourier features, or a hashed table of sparse features

`rule` one example's path · `declaration` parameters, state and bytes · `parts` the interface of a part ·
`filters`, `latent`, `adagrad`, `table` the parts · `mixture` their weights · `scaler`, `waves`, `hashing` features ·
`steps` the size of an update · `task_rows` what is known of each task.
"""

from __future__ import annotations

from budgetron.engine.reference.budgetron.rule import Budgetron

__all__ = ["Budgetron"]
