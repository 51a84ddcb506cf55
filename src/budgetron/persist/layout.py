"""The arrays of a learner's state: names, dtypes and shapes, as functions of its settings and a few counts.

    n  stored examples        outputs  1 for two classes, otherwise the number of classes
    r  rows of tasks          s        sums of clusters (SharedProjectron)
    b  beliefs left, of them  l  with a linear part,  q  with a kernel part (Budgetron)

Saving and loading both use `layout`, so a file has exactly these arrays. The two engines have nearly the same state.
Arrays that only the compiled engine has, or that older files lack, are optional in groups: all of a group, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.engine.settings import Settings
from budgetron.graphs import Clique
from budgetron.kernels import Gaussian
from budgetron.persist.file_errors import require

Layout = dict[str, tuple[str, tuple[int, ...]]]
SCALARS = frozenset({"n_seen", "n_mistakes", "rng", "factor_age", "scale", "q", "unit", "moments_count",
                     "reference_streak", "reference_moves", "unit_set"})
INVERSE = ("inverse", "inverse_diagonal")
FACTOR = ("factor", "inverse_diagonal", "factor_order", "factor_age")
PLACES = ("table_place", "sum_place", "table_squares")
BASIS = ("lambda",)
UNIT = ("unit_set",)
REFERENCE = ("reference", "reference_candidate", "reference_streak", "reference_moves")
REBUILDS = ("gram_rebuilds",)


@dataclass(frozen=True)
class Counts:
    """The numbers that shapes depend on, in addition to the settings."""

    stored: int
    nonzeros: int = 0
    rows: int = 0
    sums: int = 0
    beliefs: tuple[int, ...] = ()
    anchors: int = 0


def counted(settings: Settings, arrays: Mapping[str, NDArray[Any]]) -> Counts:
    """Read the counts from the arrays' lengths. The arrays are not validated yet, so only lengths are used."""

    def length(name: str) -> int:
        require(name in arrays and arrays[name].ndim == 1, f"state.{name}", "present and one-dimensional")
        return len(arrays[name])

    flagship = settings.rule == "budgetron"
    beliefs: tuple[int, ...] = ()
    if flagship:
        length("belief_index")
        index = arrays["belief_index"]
        known = len(settings.extra["beliefs"])
        require(index.dtype == np.int64 and len(index) >= 1 and index[0] >= 0 and index[-1] < known
                and (np.diff(index) > 0).all() and index.max() < known,
                "state.belief_index", f"ascending numbers of the {known} beliefs")  # fmt: skip
        beliefs = tuple(index.tolist())
    return Counts(
        stored=length("key"),
        nonzeros=length("indices") if settings.sparse else 0,
        rows=length("table_key") if flagship or settings.rule == "shared_projectron" else 0,
        sums=length("sum_cluster") if settings.rule == "shared_projectron" else 0,
        beliefs=beliefs,
        anchors=length("anchors") if flagship else 0,
    )


def layout(settings: Settings, counts: Counts, present: Iterable[str]) -> Layout:
    """Return the arrays of a state, including each optional group that has a name among `present`."""
    names = set(present)
    n, outputs = counts.stored, settings.n_outputs
    wanted: Layout = {name: ("int64", (n,)) for name in ("key", "cluster", "arrival")}
    wanted |= {"n_seen": ("int64", (1,)), "n_mistakes": ("int64", (1,))}
    if settings.sparse:
        wanted |= {"indptr": ("int64", (n + 1,)), "indices": ("int32", (counts.nonzeros,)),
                   "data": (settings.dtype, (counts.nonzeros,))}  # fmt: skip
    else:
        each_feature = (settings.dtype, (settings.n_features,))
        wanted["rows"] = (settings.dtype, (n, settings.n_features))  # minus the reference point
        if isinstance(settings.kernel, Gaussian):
            points: Layout = {"reference": each_feature, "reference_candidate": each_feature,
                              "reference_streak": ("int64", (1,)), "reference_moves": ("int64", (1,))}  # fmt: skip
            wanted |= _group(REFERENCE, points, names)
    if settings.rule == "budgetron":
        wanted |= _flagship(settings, counts)
        wanted |= _group(BASIS, {"lambda": ("float64", (_triangle(counts.anchors),))}, names)
        wanted |= _group(UNIT, {"unit_set": ("int64", (1,))}, names)
    elif settings.rule == "shared_projectron":
        wanted |= _shared(settings, counts, names)
    else:
        wanted |= {"coef": ("float64", (outputs, n)), "scale": ("float64", (1,))}
        wanted |= {"q": ("float64", (1,))} if settings.rule == "forgetron" else {}
        wanted |= {"rng": ("uint64", (1,))} if settings.rule == "random" else {}
    if settings.rule in ("projectron", "shared_projectron", "budgetron"):
        packed, each = ("float64", (_triangle(n),)), (n,)
        shapes: Layout = {"inverse": packed, "factor": packed, "inverse_diagonal": ("float64", each),
                          "factor_order": ("int64", each), "factor_age": ("int64", (1,))}  # fmt: skip
        wanted |= _group(FACTOR if "factor" in names else INVERSE, shapes, names)
        wanted |= _group(REBUILDS, {"gram_rebuilds": ("int64", (2,))}, names)
    return wanted


def has_sums(settings: Settings) -> bool:
    """Whether a SharedProjectron stores sums of clusters in addition to rows of tasks."""
    return isinstance(settings.graph, Clique) and settings.graph.off_diagonal != 0


def blocks(settings: Settings, counts: Counts) -> tuple[int, int]:
    """Return how many of the remaining beliefs have a linear part, and how many have a kernel part."""
    left = [settings.extra["beliefs"][index] for index in counts.beliefs]
    return sum(belief[0] > 0 for belief in left), sum(belief[2] > 0 for belief in left)


def _shared(settings: Settings, counts: Counts, names: set[str]) -> Layout:
    n, outputs, r, s = counts.stored, settings.n_outputs, counts.rows, counts.sums
    wanted: Layout = {name: ("int64", (r,)) for name in ("table_key", "table_cluster", "table_stamp")}
    wanted |= {"table": ("float64", (r, outputs, n)), "sum": ("float64", (s, outputs, n)),
               "sum_cluster": ("int64", (s,)), "sum_stamp": ("int64", (s,))}  # fmt: skip
    places: Layout = {"table_place": ("int64", (r,)), "sum_place": ("int64", (s,)), "table_squares": ("float64", (n,))}
    return wanted | _group(PLACES, places, names)


def _flagship(settings: Settings, counts: Counts) -> Layout:
    n, d, outputs, r, b = counts.stored, settings.n_features, settings.n_outputs, counts.rows, len(counts.beliefs)
    linear, kernel = blocks(settings, counts)
    shared, own, rank = settings.extra["shared"], settings.extra["own"], settings.extra["own_rank"]
    whole = settings.extra["whole"]
    both = outputs + 1  # the weights of each output, then the variance
    wanted: Layout = {"unit": ("float64", (1,)), "belief_index": ("int64", (b,)), "belief_idle": ("int64", (b,)),
                      "belief_weight": ("float64", (b,)), "anchors": ("int64", (counts.anchors,)),
                      "table_key": ("int64", (r,)), "table_stamp": ("int64", (r,))}  # fmt: skip
    if settings.sparse:
        slots = settings.extra["slots"]
        wanted |= {"slot_scale": (settings.dtype, (slots,)), "table": (settings.dtype, (slots, linear, both))}
    else:
        wanted |= {"moments_count": ("float64", (1,)), "moments_mean": ("float64", (d,)),
                   "moments_m2": ("float64", (d,)),
                   "linear": ("float64", (linear if shared else 0, outputs if whole else both, d + 1))}  # fmt: skip
    if whole:
        wanted["linear_covariance"] = ("float64", (linear, _triangle(d + 1)))
    own_linear = linear if own and not settings.sparse else 0
    wanted["own_linear"] = ("float64", (r, own_linear, both, d + 1 if own and not settings.sparse else 0))
    wanted["own_kernel"] = ("float64", (r, kernel if own and rank else 0, both, rank if own else 0))
    spans = kernel if shared else 0
    return wanted | {"u": ("float64", (spans, outputs, n)), "m": ("float64", (spans, _triangle(n)))}


def _group(group: tuple[str, ...], shapes: Layout, present: set[str]) -> Layout:
    return {name: shapes[name] for name in group} if present.intersection(group) else {}


def _triangle(n: int) -> int:
    """Return the number of entries of the lower triangle of an n × n matrix, which symmetric matrices are stored as."""
    return n * (n + 1) // 2
