"""What Budgetron declares: parameters, arrays of its state, and bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from budgetron.engine import memory
from budgetron.engine.reference.declaration import Arrays, RuleParameters
from budgetron.engine.reference.rule import Rule
from budgetron.engine.saved_state import (
    Field,
    Layout,
    clusters_of,
    gram_fields,
    length,
    optional,
    require,
    triangle,
    verify_gram,
    verify_task_rows,
)
from budgetron.engine.settings import Settings
from budgetron.errors import refuse, shown
from budgetron.graphs import Clique

NotNegative = Annotated[float, Meta(ge=0.0)]
BeliefNumbers = tuple[NotNegative, NotNegative, NotNegative, NotNegative, NotNegative]


class Parameters(RuleParameters, frozen=True):
    eta: NotNegative = 0.0
    max_task_rows: Annotated[int, Meta(ge=2, le=2**53)] | None = None
    beliefs: Annotated[list[BeliefNumbers], Meta(max_length=10_000)] = []  # noqa: RUF012
    shared: bool = True
    own: bool = True
    own_rank: Annotated[int, Meta(ge=0, le=2**53)] = 0
    slots: Annotated[int, Meta(ge=0, le=2**31)] = 0
    patience: Annotated[int, Meta(ge=1, le=2**53)] = 10_000
    whole: bool = False  # whether the shared linear part has a full covariance
    sure: Annotated[float, Meta(ge=0, le=1)] = 0.0  # a kernel belief is not updated where ω max|g| is below this


class BudgetronDeclaration(Rule):
    """The class methods of `Budgetron` that others read."""

    Parameters = Parameters
    needs_kernel = False

    @classmethod
    def check(cls, settings: Settings) -> None:
        graph, given = settings.graph, settings.parameters
        require(isinstance(graph, Clique) and graph.mapped is None, "graph", "complete or disconnected for Budgetron")
        assert isinstance(graph, Clique)
        parts = (graph.coupling != 0, graph.coupling != float("inf"))
        require(parts == (given.shared, given.own), "shared and own", "as the graph implies")
        require(given.beliefs, "beliefs", "at least one")
        for linear, _, kernel, *_ in given.beliefs:
            require(linear > 0 or kernel > 0, "beliefs", "with a linear or a kernel part each")
        require((n_kernel(settings) > 0) == (settings.kernel is not None), "kernel",
                "present if and only if a belief uses it")  # fmt: skip
        require((given.slots > 0) == settings.sparse, "slots", "above 0 if and only if rows are sparse",
                str(given.slots))  # fmt: skip
        has_whole = given.shared and not settings.sparse and n_linear(settings)
        require(has_whole or not given.whole, "whole", "false where there is no shared linear part on dense rows")
        most = 0 if settings.kernel is None or not given.own else settings.capacity
        require(most is None or given.own_rank <= most, "own_rank", f"at most {most}", str(given.own_rank))

    # ---- state

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        given, outputs, d = settings.parameters, settings.n_outputs, settings.n_features
        left = _beliefs_left(settings, arrays)
        n, r, b = length(arrays, "key"), length(arrays, "table_key"), len(left)
        linear, kernel = sum(belief[0] > 0 for belief in left), sum(belief[2] > 0 for belief in left)
        both = outputs + 1  # the weights of each output, then the variance
        fields = {"unit": Field("float64"), "belief_index": Field("int64", (b,)), "belief_idle": Field("int64", (b,)),
                  "belief_weight": Field("float64", (b,)), "anchors": Field("int64", (length(arrays, "anchors"),)),
                  "table_key": Field("int64", (r,)), "table_stamp": Field("int64", (r,))}  # fmt: skip
        if settings.sparse:
            fields |= {"slot_scale": Field(settings.dtype, (given.slots,)),
                       "table": Field(settings.dtype, (given.slots, linear, both))}  # fmt: skip
        else:
            rows = outputs if given.whole else both
            fields |= {"moments_count": Field("float64"), "moments_mean": Field("float64", (d,)),
                       "moments_m2": Field("float64", (d,)),
                       "linear": Field("float64", (linear if given.shared else 0, rows, d + 1))}  # fmt: skip
        if given.whole:
            fields["linear_covariance"] = Field("float64", (linear, triangle(d + 1)))
        dense, rank = given.own and not settings.sparse, given.own_rank if given.own else 0
        spans = kernel if given.shared else 0
        fields |= {"own_linear": Field("float64", (r, linear if dense else 0, both, d + 1 if dense else 0)),
                   "own_kernel": Field("float64", (r, kernel if rank else 0, both, rank)),
                   "u": Field("float64", (spans, outputs, n)), "m": Field("float64", (spans, triangle(n)))}  # fmt: skip
        basis = optional({"lambda": Field("float64", (triangle(length(arrays, "anchors")),))}, arrays)
        unit = optional({"unit_set": Field("int64")}, arrays)
        return super().layout(settings, arrays) | fields | basis | unit | gram_fields(arrays)

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        given, n, seen = settings.parameters, len(arrays["key"]), int(arrays["n_seen"][0])
        rows = len(arrays["table_key"])
        assert isinstance(settings.graph, Clique)
        verify_task_rows(settings, rows, arrays, clusters_of(settings.graph, arrays["table_key"]))
        left = _beliefs_left(settings, arrays)
        linear, kernel = any(belief[0] > 0 for belief in left), any(belief[2] > 0 for belief in left)
        has_rows = given.own and ((linear and not settings.sparse) or (kernel and given.own_rank))
        require(has_rows or rows == 0, "state.table_key", "empty if tasks have no weights of their own")
        require(kernel or n == 0, "state.key", "empty if no belief has a kernel part")
        weights = arrays["belief_weight"]
        fine = (weights > 0).all() and abs(weights.sum() - 1) < 1e-6
        require(fine, "state.belief_weight", "positive weights that add up to 1")
        idle = arrays["belief_idle"]
        require(((idle >= 0) & (idle <= seen)).all(), "state.belief_idle", "counts of at most n_seen")
        unit = float(arrays["unit"][0])
        require(0 < unit <= 1e150, "state.unit", "above 0", str(unit))
        if "unit_set" in arrays:
            require(int(arrays["unit_set"][0]) in (0, 1), "state.unit_set", "0 or 1")
        anchors = arrays["anchors"]
        fine = len(anchors) <= given.own_rank and len(np.unique(anchors)) == len(anchors)
        require(fine and ((anchors >= 0) & (anchors < n)).all(), "state.anchors", "different slots of stored examples")
        if "lambda" in arrays:
            diagonal = np.cumsum(np.arange(1, len(anchors) + 1)) - 1
            require((arrays["lambda"][diagonal] > 0).all(), "state.lambda", "with a positive diagonal")
        _verify_variances(settings, arrays, seen)
        verify_gram(arrays)

    @classmethod
    def sized_for(cls, settings: Settings, arrays: Arrays) -> Settings:
        return settings.with_parameters(max_task_rows=len(arrays["table_key"]))

    # ---- memory

    @classmethod
    def is_bounded(cls, settings: Settings) -> bool:
        return settings.capacity is not None and settings.parameters.max_task_rows is not None

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        given, linear, kernel = settings.parameters, n_linear(settings), n_kernel(settings)
        slots, outputs, item = settings.capacity, settings.n_outputs, np.dtype(settings.dtype).itemsize
        assert slots is not None
        total = 64 * (linear + kernel) * (outputs + 2)
        if settings.kernel is not None:
            total += memory.gram_bytes(slots, compiled)
        if settings.sparse:
            total += given.slots * item * (linear * (outputs + 1) + 1)
            total += 2 * 16 * 192  # hashed features of two rows; rows of more than 192 allocate temporarily
        else:
            # Per feature, and for the constant: weights and a variance per linear belief, and three moments.
            total += (settings.n_features + 1) * 8 * (linear * (outputs + 1) + 3) + _whole(settings, compiled)
        if settings.kernel is not None and given.shared:
            total += kernel * (memory.matrix_bytes(slots, compiled) + slots * 8 * (2 * outputs + 2))
        # Triangle and vectors of the anchors' basis, twice: one to use and one to rebuild.
        total += 2 * 8 * (triangle(given.own_rank) + 2 * given.own_rank)
        row = _row_bytes(settings)
        return int(total + (given.max_task_rows * row if row else 0))

    @classmethod
    def planned(cls, settings: Settings, limit: int, nonzeros: float, compiled: bool) -> Settings | None:
        # 3/4 for the hashed table, whose linear part is what makes it accurate on sparse rows. A full covariance of the
        # linear part only if it needs at most 1/8.
        if settings.sparse:
            settings = settings.with_parameters(slots=slots_of(settings, limit * 3 // 4))
        if _whole(settings, compiled) > limit // 8:
            settings = settings.with_parameters(whole=False)
        found = super().planned(settings, limit, nonzeros, compiled)
        if found is None and settings.kernel is not None and n_linear(settings):
            # Too few bytes to store one example: leave out the kernel part.
            beliefs = [belief for belief in settings.parameters.beliefs if belief[2] == 0]
            if beliefs:
                linear = replace(settings, kernel=None).with_parameters(beliefs=beliefs, own_rank=0)
                return cls.planned(linear, limit, nonzeros, compiled)
        return found

    @classmethod
    def with_capacity(cls, settings: Settings, capacity: int, limit: int, nonzeros: float) -> Settings:
        given = settings.parameters
        if not given.shared:
            capacity = min(capacity, max(1, given.own_rank))  # it stores only anchors
        settings = super().with_capacity(settings, capacity, limit, nonzeros)
        # Anchors are stored examples that are never evicted. Next to shared examples they get at most an eighth of the
        # slots, or there would be nothing left to evict.
        if given.own and settings.kernel is not None:
            most = capacity // 8 if given.shared else capacity
            settings = settings.with_parameters(own_rank=min(given.own_rank, most))
        # Task rows get 3/4: they do not grow with the capacity, which grows only as the root of the bytes, because of
        # B × B matrices, while every task needs a row.
        left = limit - (limit * 3 // 4 if settings.sparse and n_linear(settings) else 0)
        return memory.with_task_rows(settings, _row_bytes(settings), left * 3 // 4, limit)

    @classmethod
    def check_resize(cls, who: str, settings: Settings, capacity: int) -> None:
        anchored = settings.parameters.own_rank
        if not settings.parameters.shared or capacity <= anchored:
            raise refuse(
                who, "budget", f"more than the {anchored} anchors, on a graph that relates tasks", shown(capacity),
                "Anchors are never evicted, and a Budgetron on a disconnected graph stores nothing else.",
            )  # fmt: skip


def n_linear(settings: Settings) -> int:
    """Return how many beliefs have a linear part: their first number, its prior variance, is above 0."""
    return sum(belief[0] > 0 for belief in settings.parameters.beliefs)


def n_kernel(settings: Settings) -> int:
    """Return how many beliefs have a kernel part: their third number, its prior variance, is above 0."""
    return sum(belief[2] > 0 for belief in settings.parameters.beliefs)


def slots_of(settings: Settings, size: int) -> int:
    """Return the number of cells of a hashed table of `size` bytes."""
    if not n_linear(settings):
        return 1  # without a linear part there is no table
    # A cell holds, per belief with a linear part, the weights of all outputs and a variance; and one scale in common.
    cell = np.dtype(settings.dtype).itemsize * (n_linear(settings) * (settings.n_outputs + 1) + 1)
    return min(size // cell, 2**31)


def _whole(settings: Settings, compiled: bool) -> int:
    """Return the bytes of full covariances of the shared linear part, with two vectors per covariance to update it."""
    if not settings.parameters.whole:
        return 0
    width = settings.n_features + 1
    return n_linear(settings) * (memory.matrix_bytes(width, compiled) + 2 * 8 * width + 128)


def _row_bytes(settings: Settings) -> int:
    if not settings.parameters.own:
        return 0
    linear = 0 if settings.sparse else n_linear(settings) * (settings.n_features + 1)
    kernel = n_kernel(settings) * settings.parameters.own_rank
    return memory.task_row_bytes((settings.n_outputs + 1) * (linear + kernel))


def _beliefs_left(settings: Settings, arrays: Arrays) -> list[Any]:
    length(arrays, "belief_index")
    index, known = arrays["belief_index"], len(settings.parameters.beliefs)
    require(index.dtype.kind == "i" and len(index) >= 1 and index[0] >= 0 and index[-1] < known
            and (np.diff(index) > 0).all() and index.max() < known,
            "state.belief_index", f"ascending numbers of the {known} beliefs")  # fmt: skip
    return [settings.parameters.beliefs[place] for place in index.tolist()]


def _verify_variances(settings: Settings, arrays: Arrays, seen: int) -> None:
    variances: list[NDArray[Any]] = [arrays["own_linear"][..., -1, :], arrays["own_kernel"][..., -1, :]]
    if settings.sparse:
        variances += [arrays["table"][..., -1], arrays["slot_scale"]]
    else:
        if settings.parameters.whole:
            corners = np.cumsum(np.arange(1, settings.n_features + 2)) - 1
            variances.append(arrays["linear_covariance"][:, corners])
        else:
            variances.append(arrays["linear"][..., -1, :])
        require(0 <= arrays["moments_count"][0] <= seen, "state.moments_count", "a count of at most n_seen")
    require(all((variance >= 0).all() for variance in variances), "variances", "not negative")
