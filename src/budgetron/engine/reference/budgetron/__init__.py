"""Budgetron, NumPy definition: a Bayesian mixture of many small online models in a fixed number of bytes.

    f_i(x) = shared(x) + own_i(x)   for task i

Both are linear in one of: the input columns, random Fourier features of a Gaussian kernel, hashed sparse features.
A *belief* is one such model with its own assumptions, for example that all tasks are alike. A *part* is one or more
beliefs that share state.

- `rule`: prediction and update for one example
- `declaration`: the rule's parameters, saved arrays and memory use
- `plan`: which parts fit into the bytes; `shapes`: arrays and bytes of each part
- `parts`: the interface of a part; `filters`, `latent`, `adagrad`, `table`: its implementations
- `mixture`: the weights of the beliefs; `beliefs`: their descriptions for users
- `scaler`: scaling of columns; `fourier_features`: random Fourier features; `hashing`: hash functions
- `steps`: step sizes and class probabilities; `task_rows`: each task's own weights, with eviction of old ones

It is called through `budgetron.engine.reference`; `src/core/rules/budgetron` must compute the same.
"""

from __future__ import annotations

from budgetron.engine.reference.budgetron.rule import Budgetron

__all__ = ["Budgetron"]
