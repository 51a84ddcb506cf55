"""The NumPy engine: the definition of every learning rule, written to be read next to its formula.

The compiled core is tested against it, and learners use it if the core is missing. An example passes through `engine`,
`examples` (the rows and the store), the weights (`weights`, `shared_table` or `task_vectors`), `rule`, and one file or
folder of `rules`. `gram` has the linear algebra of projections, `declaration` the declarations that every rule makes.
Clarity is more important than speed here.
"""

from __future__ import annotations

from budgetron.engine.reference.engine import Engine

__all__ = ["Engine"]
