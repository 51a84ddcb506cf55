"""Decisions from scores: thresholds, costs, and when to ask a person.

    operating_point  `OperatingPoint`: counts scores and chooses thresholds
    point_figures    the costs of the thresholds of an operating point
    costs            the thresholds with the lowest cost
    risk_control     thresholds beyond which few decisions are wrong, with a stated confidence
    score_grid       fixed bins of scores, so that the distribution of a stream of scores needs bounded memory
    saved_point      an operating point in a model file
    words            an operating point in sentences

`budgetron.evaluate` ranks scores by the same bins. Nothing here depends on a learner: a score is a number that is
larger for the positive class.
"""

from __future__ import annotations

from budgetron.decisions.costs import Costs
from budgetron.decisions.operating_point import ASK, OperatingPoint

__all__ = ["ASK", "Costs", "OperatingPoint"]
