"""The NumPy engine: the definition of every learning rule, written to be read next to its formula.

The compiled core is tested against it, and learners use it where the core is missing. In the order in which an example
passes through them: rows, bandwidth, reference_point, store, weights (or shared_table), rule, gram, one file per rule
(a folder for Budgetron), engine. `declaration` is what a rule says about itself to everything outside of it. Clarity is
more important than speed here.
"""

from __future__ import annotations

from budgetron.engine.reference.engine import Engine

__all__ = ["Engine"]
