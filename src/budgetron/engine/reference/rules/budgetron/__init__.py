"""Budgetron, NumPy definition: a Bayesian mixture of many small online models in a fixed number of bytes.

    f_i(x) = shared(x) + own_i(x)   for task i

Both are linear in one of: the input columns, random Fourier features of a Gaussian kernel, hashed sparse features.
A *belief* is one such model with its own assumptions, for example that all tasks are alike. A *part* is one or more
beliefs that share state.

- `rule`: prediction and update for one example
- `declaration`: the rule's parameters, saved arrays and memory use
- `mixture`: the weights of the beliefs; `calibration`: of the mixture's margin; `beliefs`: their descriptions for users
- `terms`: a margin as a sum of terms, for explanations
- `features/`: `scaler` of columns, `fourier_features`, and `hashing` of sparse features
- `parts/`: the interface `part`; `filters`, `latent`, `adagrad` and `table` implement it. `steps` has step sizes and
  class probabilities, `task_rows` each task's own weights, with eviction of old ones
- `sizes/`: `plan` decides which parts fit into the bytes, `shapes` has arrays and bytes of each part, `resize` makes a
  model of another size

It is called through `budgetron.engine.reference`; `src/core/rules/budgetron` must compute the same.
"""

from __future__ import annotations

from budgetron.engine.reference.rules.budgetron.rule import Budgetron

__all__ = ["Budgetron"]
