"""Which labels to ask for: those of the examples that the model is least sure about, a given share of all.

    lead ℓ = |f|, or the largest margin minus the second largest;   ask if ℓ ≤ θ
    θ ← θ + 2 η_n ℓ̄ ((1 − c) s − [ℓ ≤ θ]),   η_n = ½/√n, at least 0.01,   ℓ̄ the running mean of ℓ

θ is the quantile of recent leads that a part 1 − c of the share s corresponds to, by stochastic approximation: it
follows the margins as the model becomes surer. The other labels are asked for at random (not every tenth, which might
always be that of the same task), whatever the margin: a model that is confidently wrong would otherwise never find out,
and where classes overlap, the examples near the boundary are no better than others. c is four times the error that the
leads promise, between 0.1 and 1. The first 50 labels are asked for at once, since early labels save most errors; until
they are made up for, s is a twentieth smaller.
`Learner.should_ask` and the service's labelling queue use it.
"""

from __future__ import annotations

import math
import random
import threading
from typing import Any

import numpy as np

from budgetron.errors import input_error, shown

FIRST_LABELS = 50  # asked for whatever the margins: those of a new model mean nothing
_RATE, _LEAST_RATE = 0.5, 0.01  # η
_WINDOW = 500  # examples of the running mean of leads
_LEAST_RANDOM, _BY_DOUBT = 0.1, 4.0  # c


def checked_share(who: str, share: Any) -> float:
    """Return the share of labels, above 0 and at most 1."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 < share <= 1:
        raise input_error(
            who, "share", "a number above 0, at most 1", shown(share), "0.1 asks for a tenth of the labels."
        )
    return float(share)


def lead_of(margins: Any) -> float:
    """Return how far the predicted class is ahead of the next one."""
    values = np.ravel(margins)
    if len(values) == 1:
        return abs(float(values[0]))
    second, first = np.partition(values, -2)[-2:]
    return float(first - second)


class Asking:
    """Decides for one stream of examples. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.threshold: float | None = None
        self.mean_lead = self.mean_doubt = 0.0
        self.n = self.asked = 0
        self._random = random.Random(0)

    def wants(self, lead: float, n_labels: int, share: float) -> bool:
        """Whether to ask for the label of an example with this lead; `n_labels` is how many the model has learned."""
        with self._lock:
            self.n += 1
            if self.asked > share * self.n:
                share = 0.95 * share
            doubt = 1 / (1 + math.exp(min(lead, 700.0)))  # the chance of an error, if the lead is in log odds
            self.mean_doubt += (doubt - self.mean_doubt) / min(self.n, _WINDOW)
            part = min(max(_BY_DOUBT * self.mean_doubt, _LEAST_RANDOM), 1.0)
            by_chance = self._random.random() < share * part
            self.mean_lead += (lead - self.mean_lead) / min(self.n, _WINDOW)
            threshold = lead if self.threshold is None else self.threshold
            unsure = lead <= threshold
            rate = 2 * max(_RATE / math.sqrt(self.n), _LEAST_RATE) * self.mean_lead
            self.threshold = max(threshold + rate * ((1 - part) * share - unsure), 0.0)
            wanted = unsure or by_chance or n_labels < FIRST_LABELS
            self.asked += wanted
            return wanted

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
