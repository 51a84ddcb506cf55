"""Budget maintenance that projects the smaller half of the stored examples on the larger half (Ahpatron).

    if |S| = B, before t is stored, with ν = ‖f‖:
        L = the B/2 examples (rounded down) with the largest ‖β_j‖ √K_jj (among ties the oldest),   D = the others
        β_L ← β_L + (H_LL + ϱI)⁻¹ H_LD β_D,   S ← L,   β_L ← β_L ν/‖f_L‖

H is the Gram matrix of S in K̃ = K/c_G², where K is the multitask kernel, and ϱ is the parameter `ridge`. (The code
computes H in K, with the ridge ϱ c_G².) Just after a full store was halved and t was stored, |S| is B/2 + 1. If sparse
rows share a pool of non-zeros, the store is also halved until x_t fits.
"""

from __future__ import annotations

import numpy as np

from budgetron.engine.records import Outcome
from budgetron.engine.reference.examples.rows import Array, Integers, without
from budgetron.engine.reference.gram import TIED, recompute_gram
from budgetron.engine.reference.rule import Example
from budgetron.engine.reference.rules.budget_sgd.maintenance import STORED
from budgetron.engine.reference.rules.budget_sgd.removal import Remove
from budgetron.engine.saved_state import triangle
from budgetron.engine.settings import Settings


class Halve(Remove):
    """A full store is halved before an example is stored."""

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        assert settings.capacity is not None
        half = settings.capacity // 2
        # The factor of H_LL, vectors of working memory, and which examples stay.
        return triangle(half) * 8 + half * 8 * 9 + settings.capacity * 8 * 4

    def learn(self, t: Example, y: Array, tau: float, weight: float) -> Outcome:
        rule = self.rule
        if not rule.store.fits_alone(t.x):
            return Outcome(0)
        while len(rule.store) == rule.settings.capacity or not rule.store.fits(t.x):
            for arrival in self.halve():
                r = rule.store.slot(arrival)
                rule.remove(r)
                t.k = without(t.k, r)
        rule.append(t, y * tau / rule.unit)
        return STORED

    def halve(self) -> list[int]:
        """Project the smaller half on the larger half; return the arrival numbers of the smaller half."""
        rule = self.rule
        beta, nu = rule.weights.beta, rule.norm()
        L = largest_slots(self.sizes(), rule.store.arrival, len(rule.store) // 2)
        D = np.setdiff1d(np.arange(len(rule.store)), L)
        if len(L):
            H = recompute_gram(rule.store.arrival, rule.gram_row)
            ridge = rule.p.ridge * rule.unit * np.eye(len(L))
            beta[:, L] += np.linalg.solve(H[np.ix_(L, L)] + ridge, H[np.ix_(L, D)] @ beta[:, D].T).T
            square = float(np.einsum("cj,jk,ck->", beta[:, L], H[np.ix_(L, L)], beta[:, L])) * rule.unit
            if square > 0:
                beta[:, L] *= nu / np.sqrt(square)
        beta[:, D] = 0.0
        return [int(arrival) for arrival in rule.store.arrival[D]]


def largest_slots(sizes: Array, arrival: Integers, count: int) -> Integers:
    """Return the slots of the `count` largest sizes, in ascending order; among ties the oldest examples."""
    if count == 0:
        return np.empty(0, dtype=np.int64)
    last = np.sort(sizes)[-count]
    above = np.flatnonzero(sizes > last * TIED)
    tied = np.flatnonzero((sizes <= last * TIED) & (sizes * TIED >= last))
    tied = tied[np.argsort(arrival[tied])][: count - len(above)]
    return np.sort(np.concatenate([above, tied]))
