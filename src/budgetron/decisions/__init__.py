"""Decisions from scores: thresholds, costs, and when to ask a person.

    operating_point  `OperatingPoint`: counts scores and chooses thresholds; `point_figures`: what they cost
    costs            the cheapest thresholds
    risk_control     thresholds from which on few decisions are wrong, with a stated confidence
    score_grid       fixed bins of scores, so that a stream of scores is remembered in bounded memory

`budgetron.evaluate` ranks scores by the same bins. Nothing here knows a learner: a score is a number that is larger
for the positive class.
"""

from __future__ import annotations

from budgetron.decisions.costs import Costs
from budgetron.decisions.operating_point import ASK, OperatingPoint

__all__ = ["ASK", "Costs", "OperatingPoint"]
