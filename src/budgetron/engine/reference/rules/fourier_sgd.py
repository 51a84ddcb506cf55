"""FourierSgd: gradient descent on random Fourier features (FOGD). It stores no examples.

    u_q ~ N(0, 2γ I), q = 1 … D,   z(x)_q = (cos u_q·x, sin u_q·x),   E z(x)·z(x')/D = K'(x, x')
    y f < ϑ:   w ← w + (η/D) y ψ(x, i),    f_i(x) = w·ψ(x, i),   ψ(x, i)_q = g_iq z(x)_q

u_q are the frequencies, γ is the parameter of the Gaussian kernel K', i is the task, η is the parameter `rate`, and ϑ
the parameter `margin`. η is multiplied by the weight of the example. The factors g make ψ the features of the multitask
kernel, in fixed memory for any number of tasks:

    E g_iq g_jq = (A⁻¹)_ij / c_G²

In a graph in closed form, g_iq is a random sign. For a share (A⁻¹)_ij/(A⁻¹)_ii of the frequencies, the tasks of a
cluster have their random signs in common, one per frequency; i and j are two of these tasks. For the other frequencies,
each task has random signs of its own. So with one task the rule is exactly FOGD. In an explicit graph
g_i = Σ_l R_il s_l / c, where RRᵀ ≈ A⁻¹ up to a constant factor (`graphs.factor_of`), c is the largest norm of a row of
R, and s_l are random signs. A and c_G are defined in `reference.rule`.

    frequencies  u, in units of √(2γ)/32: small integers, as in `rules.budgetron.features.fourier_features`
    coupling(i)  g_i
    weights      w

A model file contains no random numbers, because all of them are computed again by hashing: the frequencies from the
seed, the signs from the task ids and clusters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from budgetron.engine import memory
from budgetron.engine.records import Outcome
from budgetron.engine.reference.declaration import Arrays, RuleParameters
from budgetron.engine.reference.examples.rows import Array, Instance, flushed
from budgetron.engine.reference.examples.store import Store
from budgetron.engine.reference.rule import Rule, direction
from budgetron.engine.reference.rules.budget_sgd.rule import SLACK
from budgetron.engine.reference.rules.budgetron.features.hashing import gaussian, mix64, mixed
from budgetron.engine.saved_state import Field, Layout, require
from budgetron.engine.settings import Settings
from budgetron.errors import input_error, shown
from budgetron.graphs import Clique, Explicit, factor_of
from budgetron.kernels import Gaussian

UNIT = 32.0  # frequencies are stored as integers in units of √(2γ)/UNIT


class Parameters(RuleParameters, frozen=True):
    frequencies: Annotated[int, Meta(ge=1, le=2**31)] = 1  # D
    rate: Annotated[float, Meta(gt=0.0)] = 1.0  # η
    margin: Annotated[float, Meta(gt=0.0)] = 1.0  # ϑ
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0


class FourierSgd(Rule):
    """A linear model on random features."""

    name = "fourier_sgd"
    Parameters = Parameters
    follows_factor = True

    # ---- the declaration

    @classmethod
    def check(cls, settings: Settings) -> None:
        super().check(settings)
        require(isinstance(settings.kernel, Gaussian), "kernel", "Gaussian", "another")
        got = "null" if settings.capacity is None else str(settings.capacity)
        # The core takes a capacity of 0 as no limit, so a rule that stores no examples has a capacity of 1.
        require(settings.capacity == 1, "capacity", "1 for FourierSgd, which stores no examples", got)

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        width = 2 * settings.parameters.frequencies
        return super().layout(settings, arrays) | {"weights": Field("float64", (settings.n_outputs, width))}

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        require(len(arrays["key"]) == 0, "state.key", "empty: nothing is stored", str(len(arrays["key"])))

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        return int(settings.parameters.frequencies * cls._bytes_each(settings)) + 1024

    @classmethod
    def _bytes_each(cls, settings: Settings) -> int:
        """Return the bytes of one frequency: one byte per column of dense rows, weights, and working memory."""
        # The working memory has the phase, the two features and g of one example.
        return (0 if settings.sparse else settings.n_features) + 16 * settings.n_outputs + 8 * (1 + 2 + 1)

    @classmethod
    def planned(cls, settings: Settings, limit: int, nonzeros: float, compiled: bool) -> Settings | None:
        smallest = replace(settings, capacity=1, pool=16 if settings.sparse else None).with_parameters(frequencies=1)
        more = (limit - memory.bytes_of(smallest, compiled)) // cls._bytes_each(settings)
        return smallest.with_parameters(frequencies=1 + more) if more >= 0 else None

    @classmethod
    def check_resize(cls, who: str, settings: Settings, budget: int | str) -> None:
        raise input_error(
            who, "budget", "unchanged, because its random features are fixed", shown(budget), "Train a new model."
        )

    # ---- learning

    def __init__(self, settings: Settings) -> None:
        p = settings.parameters
        self.settings, self.store, self.p = settings, Store(settings), p
        self.weights = np.zeros((settings.n_outputs, 2 * p.frequencies))
        self.frequencies = None if settings.sparse else self.frequencies_of(np.arange(settings.n_features))
        self.factor = factor_of(settings.graph) if isinstance(settings.graph, Explicit) else None
        if self.factor is not None:
            # The largest norm of a row of R. The squared norm of row i is (A⁻¹)_ii, up to the constant factor.
            self.c = float(np.sqrt(np.add.reduceat(self.factor.values**2, self.factor.starts[:-1]).max()))

    def frequencies_of(self, columns: Any) -> NDArray[np.int8]:
        """Return the frequencies of some columns (columns, D), in units of √(2γ)/32."""
        D = self.p.frequencies
        numbers = np.asarray(columns, dtype=np.int64)[:, None] * D + np.arange(D)
        return gaussian(mixed(mix64(self.p.seed), mix64(numbers))).astype(np.int8)

    def features(self, x: Instance, task_id: int, cluster: int) -> Array:
        """Return ψ(x, i)."""
        kernel = self.store.bandwidth.kernel
        assert isinstance(kernel, Gaussian)
        table = self.frequencies_of(x.indices) if self.frequencies is None else self.frequencies
        phase = (x.values @ table.astype(np.float64)) * (np.sqrt(2 * float(kernel.gamma)) / UNIT)
        g = self.coupling(task_id, cluster)
        return np.stack([g * np.cos(phase), g * np.sin(phase)], axis=1).ravel()

    def coupling(self, task_id: int, cluster: int) -> Array:
        """Return g_i, one number per frequency."""
        D, graph = self.p.frequencies, self.settings.graph
        if self.factor is not None:
            tasks, values = self.factor.row(task_id)
            g: Array = np.zeros(D)
            for task, value in zip(tasks, values, strict=True):
                g = g + float(value) / self.c * signs(int(task), D)
            return g
        assert isinstance(graph, Clique)
        shared = int(D * (graph.off_diagonal / graph.diagonal) + 0.5)
        return np.concatenate([signs(cluster, D)[:shared], signs(task_id, D)[shared:]])

    def predict(self, x: Instance, task_id: int, cluster: int) -> Array:
        return self.weights @ self.features(x, task_id, cluster)

    def learn(self, x: Instance, task_id: int, cluster: int, code: int, weight: float) -> tuple[Array, Outcome]:
        psi = self.features(x, task_id, cluster)
        f: Array = self.weights @ psi
        y = direction(f, code)
        margin = float(y @ f)
        outcome = Outcome.MISTAKE if margin <= 0 else Outcome(0)
        self.n_mistakes += bool(outcome)
        self.n_seen += 1
        if self.p.margin - margin > SLACK * self.p.margin and weight > 0:
            tau = self.p.rate * weight / self.p.frequencies
            self.weights = flushed(self.weights + np.outer(y * tau, psi))
            outcome |= Outcome.UPDATED
        return f, outcome

    def forget(self, task_id: int) -> None:
        """Nothing is stored per task."""

    # ---- state

    def state(self) -> dict[str, Any]:
        return super().state() | {"weights": self.weights.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.weights = np.array(state["weights"], dtype=np.float64)

    @property
    def nbytes(self) -> int:
        return self.weights.nbytes + (0 if self.frequencies is None else self.frequencies.nbytes)


def signs(name: int, n: int) -> Array:
    """Return n random signs for a task or a cluster: the bits of its hashes."""
    blocks = mixed(mix64(name), mix64(np.arange(-(-n // 64))))
    bits = (blocks[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    return 2.0 * bits.ravel()[:n].astype(np.float64) - 1.0
