"""RelationPerceptron: a linear multitask Perceptron that learns how its tasks are related.

    on a mistake of task i:   w_j ← w_j + y C_ji x for every task j;   f_i(x) = w_i·x
    during the first `start` examples C = κI; afterwards each mistake also sets C to a function of the w before the step

w_i are the weights of task i, and G_ij = w_i·w_j. Σ is a sum over the mistakes after the first `start` examples: each
mistake adds the G before its step. A mistake on a row of zeros is counted, but changes nothing.

Four kinds of relations follow this rule. The left column of the table is the new C. The right column is the update as
printed in SRDV11, with A = C⁻¹. For logdet and von Neumann, both columns give the same C. For covariance and batch, the
right column is used with `as_printed`, and the left one otherwise.

    logdet          C = κI + ηΣ                                          A ← (A⁻¹ + ηG)⁻¹
    von Neumann     C = κ exp(ηΣ)                                        A ← exp(log A − ηG)
    covariance      C_ij = covariance of w_i and w_j over the features   A_ij ← that covariance
    batch           C = G^½ / tr G^½                                     A ← G^½ / tr G^½

Spectral relations are another rule, which uses C when it predicts: the 2p-norm matrix Perceptron of CCG10, with one
task per step. `start` and the scaling below do not apply to it.

    on a mistake of task i:   v_i ← v_i + y x;   f_i(x) = (C_i1 v_1 + … + C_ik v_k)·x
    C = tr(G^p)^{1/p−1} G^{p−1},   G_ij = v_i·v_j

SRDV11: Saha, Rai, Daumé and Venkatasubramanian. Online Learning of Multiple Tasks and Their Relationships. 2011.
CCG10: Cavallanti, Cesa-Bianchi and Gentile. Linear Algorithms for Online Multitask Classification. 2010.

Unless `as_printed`, C is scaled to the trace κk. Without scaling, only the C of batch would stay bounded: a larger C
makes w larger, and a larger w makes C larger. With `as_printed`, a new C whose trace exceeds 10^12 κk is ignored, and
the previous C stays. Without `as_printed`, a new C of trace 0 is ignored.

If the parameter `tasks` is set, κ and k are this number, as in SRDV11. But if more tasks than that make a mistake, k is
the number of these tasks. If `tasks` is not set, κ = 1, and k is the number of tasks with at least one mistake. If C_ii
is (nearly) 0, for example because task i has no weights yet, the steps of task i use C_ii = κ, also with `as_printed`.

With a `rank` r, C is stored in O(k r) numbers: C = base·I + F Fᵀ, where F has r columns. For logdet and von Neumann, Σ
is approximated by the method of frequent directions: Σ ≈ L Lᵀ, where L has r columns. For covariance and batch, base is
0, and the columns of F are the eigenvectors of the r largest eigenvalues of C, times the roots of these eigenvalues.

    rows.vectors  w or v     C  C     sigma  Σ     sketch  L     factor, base  F, base     unit  κ
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays, RuleParameters
from budgetron.engine.reference.examples.rows import Array, Instance, without
from budgetron.engine.reference.examples.store import Store
from budgetron.engine.reference.rule import Located, Rule, update_direction
from budgetron.engine.reference.task_vectors import TaskVectors, columns, explain_linear, vector_fields, verify_vectors
from budgetron.engine.saved_state import Field, Layout, length, optional, require
from budgetron.engine.settings import Settings

LOGDET, VON_NEUMANN, COVARIANCE, BATCH, SPECTRAL = range(5)
LARGEST_TRACE = 1e12  # in units of κk
NO_RELATION = 1e-9  # in units of κ: a smaller C_ii counts as 0


class Parameters(RuleParameters, frozen=True):
    relations: Annotated[int, Meta(ge=LOGDET, le=SPECTRAL)] = LOGDET
    rate: Annotated[float, Meta(gt=0.0)] = 0.01  # η
    start: Annotated[int, Meta(ge=0, le=2**62)] = 0
    power: Annotated[float, Meta(ge=1.0, le=64.0)] = 2.0  # p
    as_printed: bool = False
    tasks: Annotated[int, Meta(ge=1, le=2**53)] | None = None  # k, if it is known
    rank: Annotated[int, Meta(ge=1, le=2**20)] | None = None  # r


class RelationPerceptron(Rule):
    """Learns the weights of tasks and their relations from mistakes."""

    name = "relation_perceptron"
    Parameters = Parameters
    needs_kernel = False

    # ---- the declaration

    @classmethod
    def check(cls, settings: Settings) -> None:
        super().check(settings)
        p = settings.parameters
        inverted = p.as_printed and p.relations in (COVARIANCE, BATCH)
        accepted = "null for spectral relations, and for covariance and batch relations with as_printed"
        require(p.rank is None or not (inverted or p.relations == SPECTRAL), "rank", accepted, str(p.rank))

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        p, n = settings.parameters, length(arrays, "task")
        fields = super().layout(settings, arrays) | vector_fields(settings, arrays)
        # Only the core saves G: it updates G by a matrix of rank two at every mistake instead of computing it again.
        fields |= optional({"gram": Field("float64", (n, n))}, arrays)
        return fields | relation_fields(p, n)

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        verify_vectors(settings, arrays)
        if "base" in arrays:
            require(float(arrays["base"][0]) >= 0, "state.base", "0 or above", str(arrays["base"][0]))

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        return 8 * settings.n_outputs * settings.n_features

    # ---- learning

    def __init__(self, settings: Settings) -> None:
        self.settings, self.store, self.p = settings, Store(settings), settings.parameters
        self.rows = TaskVectors(settings)
        self.unit = float(self.p.tasks or 1)
        width = 0 if self.p.rank is None else self.p.rank
        self.C: Array = np.zeros((0, 0))
        self.sigma: Array = np.zeros((0, 0))
        self.factor: Array = np.zeros((0, width))
        self.sketch: Array = np.zeros((0, width))
        self.base = self.unit

    def predict(self, x: Instance, task_id: int, cluster: int) -> Array:
        r = self.rows.where.get(task_id)
        if r is None:
            return np.zeros(self.settings.n_outputs)
        if self.p.relations == SPECTRAL:
            return np.asarray(self.spectral()[r] @ self.rows.products(x))
        return np.asarray((self.rows.vectors[r][:, columns(x)] * x.values).sum(axis=1))

    def learn(self, x: Instance, task_id: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        f = self.predict(x, task_id, cluster)
        y = update_direction(f, code)
        self.n_seen += 1
        if y is None:
            return f, Outcome(0)
        self.n_mistakes += 1
        if x.square == 0:
            return f, Outcome.MISTAKE
        r = self.row_of(task_id, cluster)
        if self.p.relations == SPECTRAL:
            self.rows.vectors[r][:, columns(x)] += np.outer(y, x.values)
        else:
            c, before = self.column(r), self.rows.vectors.copy()
            self.rows.vectors[:, :, columns(x)] += np.multiply.outer(c, np.outer(y, x.values))
            if self.n_seen > self.p.start:
                self.relate(before)
        return f, Outcome.MISTAKE | Outcome.UPDATED

    def row_of(self, task_id: int, cluster: int) -> int:
        """Return the row of a task, which may be new. A new task begins unrelated to the others."""
        n, r = len(self.rows), self.rows.add(task_id, cluster)
        if r == n:
            self.C, self.sigma = (np.pad(matrix, (0, 1)) for matrix in (self.C, self.sigma))
            self.C[n, n] = self.unit
            self.factor, self.sketch = (np.pad(matrix, ((0, 1), (0, 0))) for matrix in (self.factor, self.sketch))
        return r

    def column(self, r: int) -> Array:
        """Return column r of C. If C_rr is (nearly) 0, it is κ instead, because otherwise task r would never learn."""
        if self.p.rank is None:
            c = self.C[:, r].copy()
        else:
            c = self.factor @ self.factor[r]
            c[r] += self.base
        if not c[r] > NO_RELATION * self.unit:
            c[r] = self.unit
        return c

    # ---- relations

    def relate(self, vectors: Array) -> None:
        """Compute C from the weights of the tasks, (n, n_outputs, d)."""
        n, d = len(vectors), vectors.shape[2]
        if self.p.relations == COVARIANCE:
            vectors = (vectors - vectors.mean(axis=2, keepdims=True)) / np.sqrt(max(d - 1, 1))
        W = vectors.reshape(n, -1)
        if self.p.rank is None:
            self.relate_full(W @ W.T)
        else:
            self.relate_low_rank(W, self.p.rank)

    def relate_full(self, G: Array) -> None:
        """Compute C as a full matrix."""
        n, kappa, eta, missing = len(G), self.unit, self.p.rate, self.n_tasks - len(G)
        if self.p.relations == LOGDET:
            self.sigma = self.sigma + G
            C, other_trace = kappa * np.eye(n) + eta * self.sigma, kappa * missing
        elif self.p.relations == VON_NEUMANN:
            self.sigma = self.sigma + G
            values, U = np.linalg.eigh(self.sigma)
            shift = 0.0 if self.p.as_printed else max(float(values[-1]), 0.0)  # exp() must not overflow
            with np.errstate(over="ignore", invalid="ignore"):
                C = kappa * (U * np.exp(eta * (values - shift))) @ U.T
            other_trace = kappa * missing * np.exp(-eta * shift)
        elif self.p.relations == COVARIANCE:
            C, other_trace = G, 0.0
        else:
            values, U = np.linalg.eigh(G)
            roots = np.sqrt(np.maximum(values, 0.0))
            C, other_trace = (U * roots) @ U.T / max(float(roots.sum()), 1e-300), 0.0
        if self.p.as_printed and self.p.relations in (COVARIANCE, BATCH):
            C = np.linalg.pinv(C, hermitian=True, rcond=1e-12)
        self.set_relations(C, other_trace)

    def set_relations(self, C: Array, other_trace: float) -> None:
        """Scale C and use it from now on, unless its trace is out of range (see `scale_for`).

        C has the tasks with at least one mistake. If the parameter `tasks` is set, other tasks are expected. Their part
        of C is not stored; `other_trace` is the trace of that part.
        """
        if scale := self.scale_for(float(np.trace(C)) + other_trace):
            self.C = C * scale

    def scale_for(self, trace: float) -> float:
        """Return the factor by which a new C with this trace is scaled, or 0 if the old C stays."""
        target = self.unit * self.n_tasks
        if self.p.as_printed:
            return 1.0 if trace <= LARGEST_TRACE * target else 0.0
        return target / trace if trace > 0 else 0.0

    def relate_low_rank(self, W: Array, r: int) -> None:
        """Compute C = base·I + F Fᵀ, where F has r columns, from the weights W (n, n_outputs · d)."""
        kappa, eta = self.unit, self.p.rate
        if uses_sigma(self.p):
            U, values = frequent_directions(np.concatenate([self.sketch, W], axis=1), r)
            self.sketch = padded(U * np.sqrt(values), r)
            if self.p.relations == LOGDET:
                base, factor = kappa, np.sqrt(eta) * self.sketch
            else:
                shift = 0.0 if self.p.as_printed else float(values.max(initial=0.0))
                base = kappa * float(np.exp(-eta * shift))
                with np.errstate(over="ignore"):
                    above_base = kappa * np.exp(eta * (values - shift)) - base
                factor = padded(U * np.sqrt(np.maximum(above_base, 0.0)), r)
        else:
            U, sizes, _ = np.linalg.svd(W, full_matrices=False)
            U, sizes = U[:, :r], sizes[:r]
            root = sizes if self.p.relations == COVARIANCE else np.sqrt(sizes / max(float(sizes.sum()), 1e-300))
            base, factor = 0.0, padded(U * root, r)
        if scale := self.scale_for(base * self.n_tasks + float((factor**2).sum())):
            self.base, self.factor = base * scale, factor * np.sqrt(scale)

    def spectral(self) -> Array:
        """Return C of the 2p-norm rule. Multiplying all weights by the same number does not change C."""
        W = self.rows.vectors.reshape(len(self.rows), -1)
        values, U = np.linalg.eigh(W @ W.T)
        z = np.maximum(values, 0.0) / max(float(values.max(initial=0.0)), 1e-300)
        p = self.p.power
        total = float((z**p).sum())
        return np.asarray((U * z ** (p - 1)) @ U.T * (total ** (1 / p - 1) if total > 0 else 0.0))

    @property
    def n_tasks(self) -> int:
        """k: the parameter `tasks`, or the number of tasks with a mistake if this number is larger."""
        return max(self.p.tasks or 0, len(self.rows))

    def query(self, name: str, examples: Iterable[Located]) -> dict[str, Any]:
        if name == "explain":
            return explain_linear(self, examples)
        if name != "relations":
            return super().query(name, examples)
        if self.p.relations == SPECTRAL:
            C = self.spectral()
        else:
            C = np.array([self.column(r) for r in range(len(self.rows))]).reshape(len(self.rows), len(self.rows))
        return {"task": self.rows.task.copy(), "relations": C.ravel()}

    # ---- state

    def forget(self, task_id: int) -> None:
        """Remove a task's weights and relations. The updates that its mistakes made to other tasks remain."""
        r = self.rows.where.get(task_id)
        if r is None:
            return
        self.rows.remove(r)
        self.C, self.sigma = (without(without(matrix, r, axis=0), r, axis=1) for matrix in (self.C, self.sigma))
        self.factor, self.sketch = (without(matrix, r, axis=0) for matrix in (self.factor, self.sketch))

    def state(self) -> dict[str, Any]:
        values = {"relations": self.C, "sigma": self.sigma, "factor": self.factor, "sketch": self.sketch}
        own = {name: values[name].copy() if name in values else self.base for name in relation_fields(self.p, 0)}
        return super().state() | self.rows.state() | own

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.rows.restore(state)
        n = len(self.rows)
        self.C, self.sigma = (np.array(state.get(name, np.zeros((n, n)))) for name in ("relations", "sigma"))
        width = self.factor.shape[1]
        self.factor, self.sketch = (np.array(state.get(name, np.zeros((n, width)))) for name in ("factor", "sketch"))
        self.base = float(state.get("base", self.unit))

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + sum(m.nbytes for m in (self.C, self.sigma, self.factor, self.sketch))


def relation_fields(p: Parameters, n: int) -> Layout:
    """Return the fields of the saved C, and of Σ if C is computed from it, for n tasks."""
    if p.relations == SPECTRAL:
        return {}
    shape = (n, n if p.rank is None else p.rank)
    names = ["relations"] if p.rank is None else ["factor"]
    if uses_sigma(p):
        names.append("sigma" if p.rank is None else "sketch")
    fields = {name: Field("float64", shape) for name in names}
    return fields if p.rank is None else fields | {"base": Field("float64")}


def uses_sigma(p: Parameters) -> bool:
    """Whether C is computed from Σ, which then has to be stored."""
    return p.relations in (LOGDET, VON_NEUMANN)


def frequent_directions(columns_: Array, r: int) -> tuple[Array, Array]:
    """Return the left singular vectors of the r largest singular values σ_i, and σ_i² − σ_{r+1}²."""
    U, sizes, _ = np.linalg.svd(columns_, full_matrices=False)
    squares = sizes**2
    next_square = float(squares[r]) if len(squares) > r else 0.0
    return U[:, :r], np.maximum(squares[:r] - next_square, 0.0)


def padded(matrix: Array, width: int) -> Array:
    """Return the matrix with columns of zeros up to a width."""
    return np.pad(matrix, ((0, 0), (0, width - matrix.shape[1])))
