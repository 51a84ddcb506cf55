"""The reference engine: the paper's rules, and Budgetron's, in plain NumPy, each readable next to its formula.

It is the definition, and it serves where no compiler was found. In the order an example meets them:
rows · store · weights (shared_table) · rule · gram · one file a rule (a folder for Budgetron) · engine.
"""

from __future__ import annotations

from budgetron.engine.reference.engine import Engine

__all__ = ["Engine"]
