"""Budgetron: approximate Bayesian filtering on the paper's model, in one fixed memory.

    f_i = shared + own_i,   each a linear and a kernel part;   a belief says how large each part is expected to be

`beliefs` what is believed and how beliefs are mixed · `parts` a block of weights with its variances ·
`dense`, `hashed` the linear blocks · `span`, `kernel` the stored examples and the kernel blocks on them ·
`own` one row a task · `rule` one example's path through all of them.
"""

from __future__ import annotations

from budgetron.engine.reference.budgetron.rule import Budgetron

__all__ = ["Budgetron"]
