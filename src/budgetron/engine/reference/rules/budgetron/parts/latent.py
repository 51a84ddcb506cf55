"""One belief that learns how tasks are related: every task is a point u_i in a space of r dimensions.

    f = Σ_{q=0..r} u_iq a_q + w_i·φ,                  a_q = θ_q·φ,   u_i0 = 1
    V = Σ_q u_iq² φᵀΣ_qφ + āᵀC_iā + Σ S_i φ²,         ā = Σ_c g_c a_·c / g_y   (two classes: a, or −a)
    θ_q += α u_iq Σ_qφ,   u_i += |α_y| C_iā,   w_i += α S_iφ;   all covariances shrink as in `filters`

For an example of task i with features φ and label y, f is the margin and V its variance. θ_q are the weights of
dimension q, with covariance Σ_q. All tasks use θ_0 equally (u_i0 = 1); the other θ_q are weighted by the coordinates
of the task's point. w_i are the own weights of task i with variances S_i, and C_i is the covariance of its point. g is
the gradient and α the step of `steps`; c is a class.

Σ_0 is a full matrix or a diagonal, as P in a filter. The other Σ_q and S_i are diagonal, and C_i is r × r. Because u
and θ change together, f changes by αV and by a further α²ε, ε = Σ_q u_iq (φᵀΣ_qφ)(C_iā)_q. The step is shortened until
α²ε is at most half of αV, so that the product of u and θ cannot diverge. Points and θ_1 … θ_r start at random values:
if all were equal, all dimensions would learn the same.

In code: `P` Σ_0, `sigma` Σ_1 … Σ_r, `direction` ā, `ca` C_iā, `size` |α_y|; `own_of` returns u_i, C_i, w_i and S_i.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.engine.reference.examples.rows import Array
from budgetron.engine.reference.rules.budgetron.features.hashing import gaussian, mix64, mixed
from budgetron.engine.reference.rules.budgetron.parts.filters import NEGLIGIBLE, shared_bytes
from budgetron.engine.reference.rules.budgetron.parts.part import OWN as OWN_TERMS
from budgetron.engine.reference.rules.budgetron.parts.part import RELATED, SHARED, Seen, Terms, WithoutFrequencies
from budgetron.engine.reference.rules.budgetron.parts.steps import gradient, per_class, step
from budgetron.engine.saved_state import packed, unpacked

PRIOR = 3.0
"""Prior variance of every θ_qj."""
OWN = 0.1
"""Prior variance of own weights, relative to `PRIOR`."""
START = 0.1
"""Standard deviation of the coordinates of a new task's point."""


class Latent(WithoutFrequencies):
    """A belief with `rank` learned dimensions on the linear features."""

    count = 1
    is_linear, learns_slowly = True, True
    sees_entries = False
    name = "latent"

    def __init__(self, rank: int, outputs: int, columns: int, full_covariance: bool) -> None:
        self.rank, self.outputs, self.columns, self.full_covariance = rank, outputs, columns, full_covariance
        start = gaussian(mix64(np.arange(rank * outputs * columns, dtype=np.int64) + 1_000_000)) / 32
        self.theta = np.zeros((rank + 1, outputs, columns))
        self.theta[1:] = 0.5 * np.sqrt(PRIOR) * start.reshape(rank, outputs, columns)
        self.P = np.eye(columns) * PRIOR if full_covariance else np.full(columns, PRIOR)
        self.sigma = np.full((rank, columns), PRIOR)
        self.row_width, self.at = rank + rank * rank + (outputs + 1) * columns, 0

    def own_of(self, row: Array) -> tuple[Array, Array, Array, Array]:
        """Return views of the numbers of a task in its row: point u, covariance C, own weights w and variances S."""
        r, part = self.rank, row[self.at : self.at + self.row_width]
        ends = np.cumsum([r, r * r, self.outputs * self.columns])
        u, c, w, s = np.split(part, ends)
        return u, c.reshape(r, r), w.reshape(self.outputs, self.columns), s

    def forget(self, task_id: int) -> None:
        pass

    def begin_row(self, row: Array, task_id: int) -> None:
        u, c, w, s = self.own_of(row)
        # The point is a hash of the task id. So in both engines an evicted task starts again at the same point.
        hashes = mix64(np.arange(self.rank, dtype=np.int64) + 2_000_000)
        u[:] = START / 32 * gaussian(mixed(mix64(np.int64(task_id)), hashes))
        c[:], w[:], s[:] = np.eye(self.rank), 0.0, PRIOR * OWN

    def end_row(self, row: Array, task_id: int) -> None:
        pass

    def margins(self, e: Seen) -> Array:
        u, _, w, _ = self.own_of(e.own_row)
        a = self.theta @ e.linear  # (rank + 1, outputs)
        return np.asarray(a[0] + u @ a[1:] + w @ e.linear)[None]

    def variances(self, e: Seen) -> Array:
        """Return V without the term of C_i, which depends on the label."""
        u, _, _, s = self.own_of(e.own_row)
        return np.array([self._shared_variances(e) @ np.concatenate([[1.0], u**2]) + s @ e.linear**2])

    def _shared_variances(self, e: Seen) -> Array:
        """Return φᵀΣ_qφ for q = 0 … r."""
        first = e.linear @ (self.P @ e.linear) if self.full_covariance else self.P @ e.linear**2
        return np.concatenate([[first], self.sigma @ e.linear**2])

    def learn(self, e: Seen, f: Array, code: int, omega: float) -> bool:
        f, phi = f[0], e.linear
        u, c, w, s = self.own_of(e.own_row)
        g = gradient(f, code)
        if g[code] == 0:
            return False
        a = self.theta[1:] @ phi
        direction = a @ g[-self.outputs:] / g[code] if self.outputs > 1 else (a[:, 0] if code else -a[:, 0])
        ca = c @ direction
        shared = self._shared_variances(e)
        v = float(shared[0] + u**2 @ shared[1:] + direction @ ca + s @ phi**2)
        if omega * g[code] * v < NEGLIGIBLE:
            return False
        alpha, h = step(f, code, omega, v)
        size = float(per_class(alpha)[code]) if self.outputs > 1 else abs(float(alpha[0]))
        epsilon = abs(float((u * shared[1:]) @ ca))
        # Without this limit, u and θ would enlarge each other from step to step.
        if size * epsilon > v / 2:
            alpha, size = alpha * (v / 2 / (size * epsilon)), v / 2 / epsilon
        # All updates use values from before the step, so `a` and `ca` were computed above.
        first = self.P @ phi if self.full_covariance else self.P * phi
        self.theta[0] += np.outer(alpha, first)
        if self.full_covariance:
            self.P -= h / (1 + h * v) * np.outer(first, first)
        else:
            self.P /= 1 + h * first * phi
        for q in range(self.rank):
            t = u[q] * self.sigma[q] * phi
            self.theta[1 + q] += np.outer(alpha, t)
            self.sigma[q] /= 1 + h * u[q] * t * phi
        u += size * ca
        c -= h / (1 + h * v) * np.outer(ca, ca)
        t = s * phi
        w += np.outer(alpha, t)
        s /= 1 + h * t * phi
        return True

    def bytes(self, frequencies: int) -> int:
        shared = shared_bytes(self.columns, self.outputs, self.full_covariance)
        return shared + self.theta[1:].nbytes + self.sigma.nbytes

    def terms(self, e: Seen) -> Terms:
        u, _, w, _ = self.own_of(e.own_row)
        terms = Terms.zeros(1, self.outputs, self.columns)
        # Σ_q u_iq θ_q (from q = 1) is learned mostly from tasks with similar points, so its source is related tasks.
        for source, weights in ((SHARED, self.theta[0]), (OWN_TERMS, w), (RELATED, np.tensordot(u, self.theta[1:], 1))):
            terms.columns[source, 0] = weights * e.linear
        return terms

    def state(self) -> dict[str, Any]:
        P = packed(self.P) if self.full_covariance else self.P
        return {"latent_weights": self.theta[0], "latent_covariance": P,
                "latent_dimensions": self.theta[1:], "latent_variances": self.sigma}  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        shape = (-1, self.outputs, self.columns)
        parts = [np.reshape(state[name], shape) for name in ("latent_weights", "latent_dimensions")]
        self.theta = np.concatenate(parts).astype(np.float64)
        self.sigma = np.array(state["latent_variances"]).reshape(self.sigma.shape)
        P = np.array(state["latent_covariance"], dtype=np.float64)
        self.P = unpacked(P) if self.full_covariance else P

    @property
    def nbytes(self) -> int:
        return self.theta.nbytes + self.P.nbytes + self.sigma.nbytes
