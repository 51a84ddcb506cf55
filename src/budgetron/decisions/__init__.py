"""Decisions from scores: thresholds, costs, and when to ask a person.

    score_grid    fixed bins of scores, so that a stream of scores is remembered in bounded memory

`budgetron.evaluate` ranks scores by the same bins. Nothing here knows a learner: a score is a number that is larger
for the positive class.
"""

from __future__ import annotations
