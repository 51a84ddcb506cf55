"""The NumPy engine: the definition of every learning rule, written to be read next to its formula.

The compiled core is tested against it, and learners use it if the core is missing. The parts, in the order in which an
example passes through them: rows, bandwidth, reference_point, store, weights (or shared_table), rule, gram, `rules`
(one file or folder per rule), engine. `declaration` has what a rule declares about itself. Clarity is
more important than speed here.
"""

from __future__ import annotations

from budgetron.engine.reference.engine import Engine

__all__ = ["Engine"]
