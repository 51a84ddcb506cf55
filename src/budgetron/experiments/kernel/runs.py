"""Run one learner on one order of one data set, and write one JSON file.

A run is skipped if its file exists and was written with the same parameters by the same version. *The study* is Lu et
al. (JMLR 2016).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.experiments.kernel.rows import ROWS, row_named
from budgetron.experiments.kernel.sets import Arrays, load, set_named
from budgetron.experiments.runs import load_json, machine, write_json
from budgetron.version import __version__

Json = dict[str, Any]


@dataclass(frozen=True)
class KernelRun:
    """One run: a data set, the number of its order, and a row of the table."""

    set_name: str
    order: int
    row: str

    round = 0  # no run depends on another

    def path(self, out: Path) -> Path:
        slug = self.row.lower().replace("+", "p").replace(", ", "-").replace(" ", "-")
        return out / "runs" / self.set_name / f"{self.order:02d}-{slug}.json"

    @property
    def parameters(self) -> Json:
        model = row_named(self.row).make(set_named(self.set_name), self.order)
        learner = f"{type(model).__name__}({_changed_parameters(model)})"
        return {"set": self.set_name, "order": self.order, "row": self.row, "learner": learner}

    @property
    def effort(self) -> float:
        return row_named(self.row).effort * set_named(self.set_name).n / 1000

    def __str__(self) -> str:
        return f"{self.set_name} {self.row}"

    def perform(self, out: Path, folder: str | None, stopped: Callable[[], bool] = lambda: False) -> None:
        """Perform the run and write its file."""
        data_set = set_named(self.set_name)
        arrays = _loaded(self.set_name, folder)
        order = arrays.order(self.order)
        X, y = arrays.X[order], arrays.y[order]
        model = row_named(self.row).make(data_set, self.order)
        begin = time.perf_counter()
        margins = model.predict_then_learn(X, y, classes=np.unique(arrays.y))
        seconds = time.perf_counter() - begin
        wrong = np.unique(arrays.y)[predicted(margins)] != y
        figures = {
            "error": round(float(wrong.mean()), 6),
            # The error of always predicting the most frequent class.
            "majority": round(1 - float(np.bincount(y - y.min()).max()) / len(y), 6),
            "stored": model.n_stored_, "bytes": model.memory_bytes_, "seconds": round(seconds, 3),
            # Whether the study published this order with the data; otherwise the order is random.
            "stored_order": self.order < len(arrays.orders),
        }  # fmt: skip
        write_json(
            self.path(out),
            {"parameters": self.parameters, "version": __version__, "machine": machine(), "cells": [figures]},
        )


def predicted(margins: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the predicted classes as in the study: a margin of 0 is positive; among equal margins the first wins."""
    return (margins >= 0).astype(np.int64) if margins.ndim == 1 else margins.argmax(axis=1)


def planned(sets: list[str], n_orders: int) -> list[KernelRun]:
    """Return all runs, the longest first, so that all cores are busy until the end."""
    runs = [KernelRun(name, order, row.name) for name in sets for order in range(n_orders) for row in ROWS]
    return sorted(runs, key=lambda run: -run.effort)


def is_done(run: KernelRun, out: Path) -> bool:
    """Return whether the run's file exists and was written with these parameters by this version."""
    content = load_json(run.path(out))
    return content is not None and (content.get("parameters"), content.get("version")) == (run.parameters, __version__)


def _changed_parameters(model: Any) -> str:
    """Return the parameters that are not defaults, as text."""
    defaults = type(model)().get_params(deep=False)
    return ", ".join(f"{name}={value!r}" for name, value in model.get_params(deep=False).items()
                     if repr(value) != repr(defaults[name]))  # fmt: skip


@lru_cache(maxsize=2)
def _loaded(name: str, folder: str | None) -> Arrays:
    return load(set_named(name), folder)
