"""SecondOrderPerceptron: the second-order Perceptron on the multitask kernel, in dual form; also within a budget.

    R = (aI + K_SS)⁻¹ over the mistakes S,   β = R y_S,   f = Σ_j β_j K(x_j, ·)
    on a mistake:  ρ = R k_t,  s = a + K_tt − k_tᵀρ,   e = (ρ, −1)
        R ← [R 0; 0 0] + e eᵀ/s,   β ← (β, 0) − e (y_t − f)/s,   S ← S ∪ {t}

f is the margin of Cavallanti, Cesa-Bianchi and Gentile 2010 multiplied by s/a. This factor is positive, so the mistakes
are the same. In that paper, a is 1. `reference.rule` explains S, B, K, k_t and K_tt.

Within a budget, f and R belong to a Gaussian process that is restricted to the span of S. H is the Gram matrix of S,
P = H⁻¹, α = P k_t, and δ² = K_tt − k_tᵀα is the squared distance of x_t from the span:
    an x_t with δ² = 0 (up to rounding) is not stored:   e = ρ − α,  and R and β as above
    if |S| = B + 1:   r = argmin ‖β_j‖/√P_jj over all,   γ = −P_·r/P_rr,   β_j ← β_j + γ_j β_r,
                      R_ij ← R_ij + γ_i R_rj + R_ir γ_j + γ_i R_rr γ_j,   S ← S \\ {r}
The last step leaves f and R as if x_r were replaced by its projection on the others. With more than two classes y_t is
+1 for the label, −1 for the other class with the largest margin, and 0 for the rest; all classes share R.

    weights.beta  β     labels  y_S     gram.H  H     ridge  a

The labels are needed if the kernel's γ changes during the first rows (``gamma="scale"``): R and β are then computed
again from the stored examples.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from budgetron.engine import memory
from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays, RuleParameters
from budgetron.engine.reference.examples.rows import Array, flushed, without
from budgetron.engine.reference.gram import Gram, cheapest, noise_of, recompute_gram
from budgetron.engine.reference.rule import Example, MistakeDriven
from budgetron.engine.reference.weights import Coefficients
from budgetron.engine.saved_state import Field, Layout, gram_fields, packed, require, triangle, unpacked, verify_gram
from budgetron.engine.settings import Settings


class Parameters(RuleParameters, frozen=True):
    ridge: Annotated[float, Meta(gt=0.0)] = 1.0  # a


class SecondOrderPerceptron(MistakeDriven):
    """Every mistake is stored and changes all weights, as in ridge regression on the mistakes."""

    name = "second_order_perceptron"
    Parameters = Parameters
    weights: Coefficients

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        n = len(arrays["key"])
        own = {"labels": Field("float64", (settings.n_outputs, n)), "precision": Field("float64", (triangle(n),))}
        gram = {} if settings.capacity is None else gram_fields(arrays)
        return super().layout(settings, arrays) | own | gram

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        super().verify(settings, arrays)
        require(bool((np.abs(arrays["labels"]) <= 1).all()), "state.labels", "from −1 to 1")
        n = len(arrays["key"])
        diagonal = arrays["precision"][np.cumsum(np.arange(1, n + 1)) - 1]
        require(bool((diagonal >= 0).all()), "state.precision", "without negative numbers on its diagonal")
        if settings.capacity is not None:
            verify_gram(arrays)

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        assert settings.capacity is not None
        B = settings.capacity
        # R, the labels, and working memory for ρ, e and a row of R.
        own = 8 * (B + 1) ** 2 + 8 * B * settings.n_outputs + 3 * 8 * (B + 1)
        return super().bytes_beyond(settings, compiled) + own + memory.gram_bytes(B, compiled)

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, Coefficients(settings))
        self.ridge = settings.parameters.ridge
        self.R: Array = np.empty((0, 0))
        self.labels: Array = np.empty((settings.n_outputs, 0))
        # Without a budget nothing is projected, and the Gram matrix is not needed.
        self.gram = None if settings.capacity is None else Gram(noise_of(settings))

    def correct(self, t: Example, y: Array) -> Outcome:
        alpha, delta2 = (None, 1.0) if self.gram is None else self.gram.project(t.k, t.k_tt)
        if delta2 == 0:
            assert alpha is not None
            rho, s = self.innovation(t)
            self.update(rho - alpha, y - self.weights.beta @ t.k, s)
            return Outcome.UPDATED
        if not self.store.fits_alone(t.x):
            return Outcome(0)
        while not self.store.fits(t.x):
            t.k = without(t.k, self.evict())
        rho, s = self.innovation(t)
        residual = y - self.weights.beta @ t.k
        self.append(t, np.zeros_like(y))
        self.labels[:, -1] = y
        self.update(np.append(rho, -1.0), residual, s)
        if self.store.exceeds_capacity():
            n = len(self.store)
            if self.evict() == n - 1:
                return Outcome.UPDATED
        return Outcome.UPDATED | Outcome.STORED

    def innovation(self, t: Example) -> tuple[Array, float]:
        """Return ρ, and s, the variance of y_t given the mistakes so far, which is at least a.

        In exact arithmetic, two bounds hold: s ≥ a‖ρ‖² without a budget, because R is at most I/a, and k_tᵀR k_t ≤ K_tt
        within a budget. For huge kernel values, rounding can violate them, and R would then grow without bound. So s is
        raised, or R is scaled down, until they hold.
        """
        rho = self.R @ t.k
        explained = float(t.k @ rho)
        if self.gram is not None and explained > t.k_tt:
            share = t.k_tt / explained
            self.R, rho, explained = share * self.R, share * rho, t.k_tt
        s = self.ridge + max(t.k_tt - explained, 0.0)
        return rho, float(s if self.gram is not None else max(s, self.ridge * float(rho @ rho)))

    def update(self, e: Array, residual: Array, s: float) -> None:
        """R ← R + e eᵀ/s,  β ← β − e (y_t − f)/s."""
        self.R = self.R + np.outer(e, e) / s
        self.weights.beta = flushed(self.weights.beta - np.outer(residual, e) / s)

    def evict(self) -> int:
        """Project the example of least loss on the others, in f and in R; return its slot."""
        assert self.gram is not None
        P = self.gram.inverse()
        r = cheapest(self.weights.norms(), P, self.store.arrival)
        gamma = -P[r] / P[r, r]
        gamma[r] = 0.0
        self.weights.distribute(r, gamma)
        cross = np.outer(gamma, self.R[r])
        self.R = self.R + cross + cross.T + self.R[r, r] * np.outer(gamma, gamma)
        self.remove(r)
        return r

    def evict_one(self) -> bool:
        if self.gram is None:
            return False
        self.evict()
        return True

    def append(self, t: Example, y: Array) -> None:
        super().append(t, y)
        self.R = np.pad(self.R, (0, 1))
        self.labels = np.column_stack([self.labels, y])
        if self.gram is not None:
            self.gram.append(t.k, t.k_tt)

    def remove(self, r: int) -> None:
        super().remove(r)
        self.R = without(without(self.R, r, axis=0), r, axis=1)
        self.labels = without(self.labels, r)
        if self.gram is not None:
            self.gram.remove(r)

    def forget(self, task_id: int) -> None:
        """Remove a task's stored examples as if they had never been learned.

        What earlier evictions have projected on other examples remains.
        """
        while (slots := np.flatnonzero(self.store.task_id == task_id)).size:
            r = int(slots[0])
            if self.R[r, r] > 0:
                row = self.R[r] / self.R[r, r]
                self.weights.beta = flushed(self.weights.beta - np.outer(self.weights.beta[:, r], row))
                self.R = self.R - np.outer(row, self.R[r])
            self.remove(r)

    # ---- called after the kernel values of stored examples have changed

    def rows_moved(self) -> None:
        if self.gram is not None:
            self.gram.H = recompute_gram(self.store.arrival, self.gram_row)

    def kernel_changed(self) -> None:
        """Compute R and β again from the stored examples, after dropping those that became linearly dependent."""
        self.rows_moved()
        while self.gram is not None and len(self.store) > 1:
            P = self.gram.inverse()
            r = int(np.argmax(np.diagonal(P)))
            if P[r, r] * self.gram.noise < 1:  # `noise` is for K_rr of about 1
                break
            self.remove(r)
        H = recompute_gram(self.store.arrival, self.gram_row)
        R = np.linalg.inv(self.ridge * np.eye(len(H)) + H)
        self.R = np.asarray((R + R.T) / 2, dtype=np.float64)
        self.weights.beta = self.labels @ self.R

    # ---- state

    def state(self) -> dict[str, Any]:
        return super().state() | {"labels": self.labels.copy(), "precision": packed(self.R)}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.labels = np.array(state["labels"], dtype=np.float64)
        self.R = unpacked(np.asarray(state["precision"], dtype=np.float64))
        self.rows_moved()

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.R.nbytes + self.labels.nbytes + (0 if self.gram is None else self.gram.H.nbytes)
