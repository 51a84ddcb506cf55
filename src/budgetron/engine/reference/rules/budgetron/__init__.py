"""Budgetron, NumPy definition: a Bayesian mixture of many small online models in a fixed number of bytes.

    f_i(x) = shared(x) + own_i(x)   for task i

shared and own_i are linear functions of features of x. The features are the input columns, random Fourier features of
a Gaussian kernel, bins of columns, or hashed sparse features. A *belief* is one such model with its own assumptions,
for example that all tasks are alike. A *part* is one or more beliefs that share state.

- `rule`: prediction and update for one example
- `declaration`: the rule's parameters, saved arrays and memory use
- `verification`: rejects saved models with numbers that learning cannot produce
- `mixture`: updates the weights of the beliefs and mixes their probabilities
- `combination`: combines the margins of the beliefs linearly, beside the mixture
- `calibration`: corrects the average of mixture and combination
- `growth`: lets parts with weight grow, and drops parts without weight
- `beliefs`: describes the beliefs for users
- `terms`: writes a margin as a sum of terms, for explanations
- `features/`: `scaler` standardises columns, `fourier_features` computes random features, `hashing` hashes integers
- `parts/`: `part` is the interface; `filters`, `latent`, `adagrad`, `bins` and `table` implement it.
  `adagrad_and_bayes` is what `bins` and `table` have in common. `pairs` finds the pairs of features of a sparse row.
  `steps` computes step sizes and class probabilities. `task_rows` stores the own weights of the tasks that are updated
  most often, and `short_rows` the own weights of some other tasks
- `sizes/`: `belief_sets` says which beliefs a model may have. `plan` and `column_plan` choose among them and divide the
  bytes. `frequent_columns` chooses columns of sparse rows, `shapes` lists the arrays and bytes of each part, and
  `resize` changes a model to another size

`budgetron.engine.reference.engine` creates and calls the rule. The compiled core in `src/core/rules/budgetron` must
compute the same.
"""

from __future__ import annotations

from budgetron.engine.reference.rules.budgetron.rule import Budgetron

__all__ = ["Budgetron"]
