"""The linear block on sparse input: one table of m slots a belief, in it the shared weights and all own copies.

    h = mix(feature),  g = mix(h xor task)     feature: the column, or 2⁶⁴ − 1 for the bias;  mix: splitmix64
    slot(h) = ((h >> 32) m) >> 32,   sign(h) = −1 where h is odd, else +1
    e = a + (|x_j| − a)/8 where a = a[slot(h)] > 0, else |x_j|;   x̂ = (x_j/e)_j / ‖(x_j/e)_j‖,  then 1 for the bias
    φ:  x̂_j sign(h) at slot(h)  (shared),   √ρ_ℓ x̂_j sign(g) at slot(g)  (own), entry after entry
    after the example, entry after entry:   a[slot(h)] ← e, of a[slot(h)] as it is then

An explicit zero is as good as absent. Prior variance: s_ℓ. In a step every entry finds its slot as the entries
before it left it.         tables[b]  (m, outputs + 1): weights, then the variance
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.reference.budgetron.beliefs import Belief
from budgetron.engine.reference.budgetron.own import Row
from budgetron.engine.reference.budgetron.parts import Part, blank
from budgetron.engine.reference.rows import TINY, Array, Instance, Integers
from budgetron.engine.settings import Settings

Hashes = NDArray[np.uint64]
BIAS = 2**64 - 1
RATE = 1 / 8


@dataclass(frozen=True)
class Entries:
    """Slots and values (ρ_ℓ = 1) of an example's features, the bias last: shared, and own."""

    shared_slots: Integers
    shared: Array
    own_slots: Integers
    own: Array


class HashedLinear:
    """The typical |x| of each slot, and the table of each belief that has one."""

    def __init__(self, settings: Settings, beliefs: list[Belief]) -> None:
        self.m, self.n_outputs, self.dtype = int(settings.parameters.slots), settings.n_outputs, settings.dtype
        self.has_shared, self.has_own = bool(settings.parameters.shared), bool(settings.parameters.own)
        self.scale: NDArray[Any] = np.zeros(self.m, dtype=self.dtype)  # a
        self.tables = {b.index: blank(self.n_outputs, self.m, b.s_linear, self.dtype).T.copy() for b in beliefs}

    def features(self, x: Instance, key: int) -> Entries:
        columns, values = nonzeros(x)
        h = mix(np.append(columns, np.uint64(BIAS)))
        g = mix(h ^ np.array([key], dtype=np.int64).view(np.uint64))
        slots = slot(h, self.m)
        a = self.scale[slots[:-1]].astype(np.float64)
        scaled = values / moved(a, values)
        norm = np.sqrt((scaled**2).sum())
        x_hat = np.append(scaled / norm if norm > 0 else scaled, 1.0)
        return Entries(slots, x_hat * sign(h), slot(g, self.m), x_hat * sign(g))

    def parts(self, b: Belief, entries: Entries, row: Row) -> list[Part]:
        if b.index not in self.tables:
            return []
        own = np.sqrt(b.rho_linear) * entries.own
        pairs = [(entries.shared_slots, entries.shared)] * self.has_shared + [(entries.own_slots, own)] * self.has_own
        slots, phi = (np.stack(each, axis=1).ravel() for each in zip(*pairs, strict=True))
        return [Hashed(self.tables[b.index], slots, phi, b.floor * b.s_linear)]

    def observe(self, x: Instance) -> None:
        """The typical |x| after x."""
        columns, values = nonzeros(x)
        for j, value in zip(slot(mix(columns), self.m), values, strict=True):
            self.scale[j] = moved(self.scale[j : j + 1].astype(np.float64), np.array([value]))[0]

    def drop(self, b: Belief) -> None:
        self.tables.pop(b.index, None)

    def state(self) -> dict[str, Any]:
        shape = (len(self.tables), self.m, self.n_outputs + 1)
        tables = np.array(list(self.tables.values()), dtype=self.dtype).reshape(shape)
        return {"slot_scale": self.scale.copy(), "table": np.ascontiguousarray(tables.transpose(1, 0, 2))}

    def restore(self, state: dict[str, Any], beliefs: list[Belief]) -> None:
        self.scale = np.array(state["slot_scale"], dtype=self.dtype)
        tables = np.reshape(state["table"], (self.m, len(beliefs), self.n_outputs + 1)).transpose(1, 0, 2)
        self.tables = {b.index: np.array(table, dtype=self.dtype) for b, table in zip(beliefs, tables, strict=True)}

    @property
    def nbytes(self) -> int:
        return self.scale.nbytes + sum(table.nbytes for table in self.tables.values())


class Hashed(Part):
    """A table, and the slots and features of one example, in the order they are visited."""

    def __init__(self, table: NDArray[Any], slots: Integers, phi: Array, floor: float) -> None:
        self.table, self.slots, self.phi, self.floor = table, slots, phi, floor
        self.tiny = 1e-37 if table.dtype == np.float32 else TINY

    def predict(self) -> tuple[Array, float]:
        cells = self.table[self.slots].astype(np.float64)
        return self.phi @ cells[:, :-1], float((cells[:, -1] * self.phi**2).sum())

    def step(self, G: Array, h: float, c: float) -> None:
        for j, phi in zip(self.slots, self.phi, strict=True):
            cell = self.table[j].astype(np.float64)
            W, S = cell[:-1], cell[-1]
            t = S * phi
            self.table[j, :-1] = W + G * t
            less = S / (1 + h * t * phi)
            self.table[j, -1] = max(0.0 if less < self.tiny else less, self.floor)


def mix(x: Hashes) -> Hashes:
    """splitmix64's step."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def slot(h: Hashes, m: int) -> Integers:
    return ((h >> np.uint64(32)) * np.uint64(m) >> np.uint64(32)).astype(np.int64)


def sign(h: Hashes) -> Array:
    return np.where(h & np.uint64(1), -1.0, 1.0)


def moved(a: Array, values: Array) -> Array:
    """e: the typical size, moved towards |x|; |x| itself in a slot that was never seen."""
    size = np.abs(values)
    return np.where(a > 0, a + (size - a) * RATE, size)


def nonzeros(x: Instance) -> tuple[Hashes, Array]:
    """Columns and values, in the order of the row."""
    assert x.indices is not None
    there = x.values != 0
    return x.indices[there].astype(np.uint64), x.values[there]
