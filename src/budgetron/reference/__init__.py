"""The reference engine: the paper's rules in plain NumPy, each readable next to its formula.

It is the definition, and it serves where no compiler was found. In the order an example meets them:
rows · store · weights (shared_table) · rule · gram · one file a rule · engine.
"""

from __future__ import annotations

from budgetron.reference.engine import Engine

__all__ = ["Engine"]
