"""The NumPy engine: the definition of every learning rule, written to be read next to its formula.

The compiled core is tested against it, and learners use it where the core is missing or lacks the kernel. `engine`
passes each example to a rule. `rule` is the interface of rules, and each file or folder of `rules` defines one rule.
`examples` has the rows and the store of examples. `weights`, `shared_table` and `task_vectors` have the weights. `gram`
has the linear algebra of projections, `splitmix` the random numbers, and `declaration` what a rule declares to other
modules. Clarity is more important than speed here.
"""

from __future__ import annotations

from budgetron.engine.reference.engine import Engine

__all__ = ["Engine"]
