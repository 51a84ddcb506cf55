"""The sizes of a Budgetron's parts: parts of large weight grow, and parts of negligible weight are dropped.

`sizes/plan.py` plans the byte budget before the first example. Later, this file moves bytes between parts within that
plan. `spare` counts the bytes that dropped parts, and parts that have given up frequencies, leave to others.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.reference.examples.rows import Array, Integers
from budgetron.engine.reference.rules.budgetron import mixture
from budgetron.engine.reference.rules.budgetron.combination import Combination
from budgetron.engine.reference.rules.budgetron.declaration import BudgetronDeclaration
from budgetron.engine.reference.rules.budgetron.features.fourier_features import FourierFeatures
from budgetron.engine.reference.rules.budgetron.parts.part import Part
from budgetron.engine.reference.rules.budgetron.parts.task_rows import TaskRows
from budgetron.engine.reference.rules.budgetron.sizes.shapes import dense_columns, filter_rate, part_overhead

FIRST_REVIEW = 128
"""After this many examples, the sizes of the parts are reviewed for the first time."""
ENOUGH_WEIGHT = 0.9
"""Parts with Fourier features may grow once they together have this share of the weight; see `_use_bytes`."""
RECLAIM_AFTER = 4096
"""From this many examples on, the bytes of unused frequencies may become rows for more tasks."""


def sizes_are_reviewed(seen: int) -> bool:
    """Whether the sizes of the parts are reviewed after this many examples: 128, 256, 512 …"""
    return seen >= FIRST_REVIEW and seen & (seen - 1) == 0


class GrowingParts(BudgetronDeclaration):
    """The parts of a Budgetron, their weights, and the bytes that they share. `Budgetron` creates the attributes."""

    parts: list[Part]
    index: Integers
    idle: Integers
    w: Array
    combination: Combination
    rows: TaskRows
    fourier: FourierFeatures | None
    outputs: int
    spare: int

    def review_sizes(self) -> None:
        """Drop a part that has had negligible weight for long. After a drop, and at some examples, let parts grow."""
        if self._drop_idle() or sizes_are_reviewed(self.n_seen + 1):
            self._use_bytes()

    def _shares(self) -> list[float]:
        """Return the weight of every part."""
        ends = np.cumsum([part.count for part in self.parts])
        return [float(share.sum()) for share in np.split(self.w, ends[:-1])]

    def _cost(self, part: Part, frequencies: int) -> int:
        """Return the bytes of a part with this many frequencies, and of the frequencies themselves."""
        return part.bytes(frequencies) + max(self._frequency_bytes(), frequencies * self._bytes_each())

    def _frequency_bytes(self) -> int:
        """Return the planned bytes of the frequencies. All parts share them, so the part that may use most decides."""
        return max(part.max_frequencies for part in self.parts) * self._bytes_each()

    def _bytes_each(self) -> int:
        """Return the bytes of a frequency: 1 per column, and 4 for its phase and for each of its two features."""
        return dense_columns(self.settings) + 3 * 4

    def _use_bytes(self) -> None:
        """Let parts with Fourier features grow, or tasks have more rows.

        Parts begin with few frequencies, because more would waste time and bytes on a stream that a linear model
        describes. Once the parts with Fourier features have nearly all of the weight, they use as many frequencies as
        are useful, and the heaviest of them gets the bytes of dropped parts. Until then, these bytes become rows for
        more tasks.

        Shares are of the weight of parts that are linear or have Fourier features. Other parts do not count: early in a
        stream they may be better than Fourier features with few frequencies, but worse than with many.
        """
        shares = list(zip(self._shares(), self.parts, strict=True))
        fourier = [(share, part) for share, part in shares if part.max_frequencies]
        compared = sum(share for share, part in shares if part.is_linear or part.max_frequencies)
        if not fourier or sum(share for share, _ in fourier) < ENOUGH_WEIGHT * compared:
            if self.n_seen + 1 >= RECLAIM_AFTER and self.rows.wants_more:
                self._reclaim_frequencies()
            self.spare = self.rows.take(self.spare)
            return
        _, heaviest = max(fourier, key=lambda pair: pair[0])
        for kind in dict.fromkeys(type(part) for _, part in fourier):
            of_kind = [(share, part) for share, part in fourier if type(part) is kind]
            _, best = max(of_kind, key=lambda pair: pair[0])
            for _, part in of_kind:
                # Only the heaviest part of a kind gets the weight of the kind, see `Part.useful_frequencies`.
                weight = sum(share for share, _ in of_kind) / compared if part is best else 0.0
                frequencies = part.useful_frequencies(weight, self.n_seen + 1)
                if part is heaviest:
                    self._use_spare(part, frequencies)
                self._grow(part, min(frequencies, part.max_frequencies))

    def _use_spare(self, part: Part, frequencies: int) -> None:
        """Grant a part more frequencies than were planned for it, as many as the spare bytes allow."""
        before, granted = self._cost(part, part.max_frequencies), part.max_frequencies
        while granted < frequencies and self._cost(part, granted + 1) - before <= self.spare:
            granted += 1
        self.spare -= self._cost(part, granted) - before
        part.max_frequencies = granted

    def _reclaim_frequencies(self) -> None:
        """Turn the bytes of planned but unused frequencies into spare bytes."""
        frequencies = self._frequency_bytes()
        for part in self.parts:
            self.spare += part.bytes(part.max_frequencies) - part.bytes(part.frequencies)
            part.max_frequencies = part.frequencies
        self.spare += frequencies - self._frequency_bytes()

    def _grow(self, part: Part, frequencies: int) -> None:
        if frequencies > part.frequencies:
            part.set_frequencies(frequencies)
            self._fit_frequencies()

    def _fit_frequencies(self) -> None:
        if self.fourier is not None:
            self.fourier.resize(max(part.frequencies for part in self.parts))

    def _stays(self, k: int, part: Part) -> bool:
        """Whether the part that was part k at the beginning never sleeps and is never dropped.

        A filter that learns by AdaGrad is cheap. It stays, so that the model can follow a stream that changes late. The
        table of sparse rows stays, because only it learns features that are new or rare.
        """
        parameters = self.settings.parameters
        return part.sees_entries or (k < len(parameters.filters) and filter_rate(parameters, k) > 0)

    def sleeps_after(self, k: int, part: Part) -> int:
        """Return the number of idle examples after which a part sleeps: it then sees few examples, but enough of them
        to regain weight.

        Unless the combination is worse than the mixture, idle parts may contribute to it, so only parts with Fourier
        features sleep, because they take the most time. Otherwise idle parts hardly change a prediction, and sleep much
        sooner. If tasks share no weights, 500 examples may be few for each task, so no part sleeps sooner.
        """
        if self._stays(k, part):
            return mixture.NEVER
        if self.combination.is_no_worse or not self.settings.parameters.shared:
            return mixture.SLEEP_AFTER if part.frequencies else mixture.NEVER
        return mixture.SLEEP_SOON_IF_SLOW if part.learns_slowly else mixture.SLEEP_SOON

    def _drop_idle(self) -> bool:
        self.idle = np.where(np.array(self._shares()) < mixture.NEGLIGIBLE, self.idle + 1, 0)
        stays = [self._stays(k, part) for k, part in zip(self.index.tolist(), self.parts, strict=True)]
        longest = int(np.argmax(np.where(stays, 0, self.idle)))
        if stays[longest] or self.idle[longest] < mixture.DROP_AFTER:
            return False
        self._drop(longest)
        return True

    def _drop(self, k: int) -> None:
        """Remove part k and its beliefs, and add its bytes to the spare bytes."""
        part, bytes_before = self.parts[k], self._frequency_bytes()
        first = sum(other.count for other in self.parts[:k])
        self.w = np.delete(self.w, range(first, first + part.count))
        # The weight of the dropped beliefs goes to the others, in proportion to their weights.
        self.w /= self.w.sum()
        self.combination.drop(range(first, first + part.count))
        del self.parts[k]
        self.spare += self.rows.drop_part(part) + part.bytes(part.max_frequencies) + part_overhead(self.outputs)
        self.spare += bytes_before - self._frequency_bytes()
        self.index, self.idle = np.delete(self.index, k), np.delete(self.idle, k)
        self._fit_frequencies()
