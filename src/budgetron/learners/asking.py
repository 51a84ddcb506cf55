"""Active learning: choose a given share of a stream's examples to ask labels for.

`Learner.should_ask` and the service's labelling queue use `Asking`. It asks for the labels of the examples that the
model is least certain about, and for some labels at random.

    lead ℓ = |f| with two classes, otherwise the largest margin minus the second largest
    ask if ℓ ≤ θ, or at random with probability c s; s is the share of labels that the caller can afford
    θ ← max(0, θ + 2 η_n ℓ̄ ((1 − c) s − [ℓ ≤ θ])),   η_n = max(½/√n, 0.01),   ℓ̄ the running mean of ℓ

n is the number of examples so far. The step on θ is stochastic approximation: θ tends to the quantile of the recent
leads below which a share (1 − c) s of them lies. So θ grows with the margins as the model becomes more certain.

There are two reasons to ask for some labels at random. A model that is confidently wrong would otherwise never find
out. And where classes overlap, examples near the boundary teach no more than others. These labels are drawn at random
and not at fixed intervals, because every tenth example could always be of the same task. c is four times the error rate
that the leads predict, clipped to [0.1, 1].

Until the model has learned 50 examples, every label is asked for, because early labels prevent the most errors. While
more than the share s of all labels has been asked for, s is reduced by a twentieth.
"""

from __future__ import annotations

import math
import random
import threading
from typing import Any

import numpy as np

from budgetron.errors import input_error, shown

FIRST_LABELS = 50  # every label is asked for until so many were learned, because early margins mean nothing
_RATE, _MIN_RATE = 0.5, 0.01  # η_n = max(_RATE / √n, _MIN_RATE)
_WINDOW = 500  # the number of examples that the running means cover
_MIN_RANDOM, _RANDOM_PER_ERROR = 0.1, 4.0  # c = _RANDOM_PER_ERROR · predicted error rate, from _MIN_RANDOM to 1


def checked_share(who: str, share: Any) -> float:
    """Return the share of labels, above 0 and at most 1."""
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 < share <= 1:
        raise input_error(
            who, "share", "a number above 0, at most 1", shown(share), "0.1 asks for a tenth of the labels."
        )
    return float(share)


def lead_of(margins: Any) -> float:
    """Return the lead of the predicted class: the largest margin minus the second largest; for two classes |margin|."""
    values = np.ravel(margins)
    if len(values) == 1:
        return abs(float(values[0]))
    second, first = np.partition(values, -2)[-2:]
    return float(first - second)


class Asking:
    """Decides which labels of one stream to ask for. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.threshold: float | None = None
        self.mean_lead = self.mean_error = 0.0
        self.n = self.asked = 0
        # A fixed seed, so that equal streams are asked the same questions.
        self._random = random.Random(0)

    def wants(self, lead: float, n_labels: int, share: float) -> bool:
        """Return whether to ask for the label of an example. `n_labels` is the number of labels learned so far."""
        with self._lock:
            self.n += 1
            if self.asked > share * self.n:  # too many so far, because of the first labels: ask a little less often
                share = 0.95 * share
            # The probability of an error, if the lead is in log odds. Beyond 700, exp would overflow.
            error = 1 / (1 + math.exp(min(lead, 700.0)))
            self.mean_error += (error - self.mean_error) / min(self.n, _WINDOW)
            random_part = min(max(_RANDOM_PER_ERROR * self.mean_error, _MIN_RANDOM), 1.0)
            by_chance = self._random.random() < share * random_part
            self.mean_lead += (lead - self.mean_lead) / min(self.n, _WINDOW)
            # The threshold starts at the first lead. A fixed start might ask for everything or nothing at first.
            threshold = lead if self.threshold is None else self.threshold
            uncertain = lead <= threshold
            # Steps are proportional to the mean lead, because the scale of margins differs between learners.
            rate = 2 * max(_RATE / math.sqrt(self.n), _MIN_RATE) * self.mean_lead
            self.threshold = max(threshold + rate * ((1 - random_part) * share - uncertain), 0.0)
            wanted = uncertain or by_chance or n_labels < FIRST_LABELS
            self.asked += wanted
            return wanted

    def __getstate__(self) -> dict[str, Any]:  # a lock cannot be pickled
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
