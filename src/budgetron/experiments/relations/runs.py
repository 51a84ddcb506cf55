"""Run all learners on one draw of one stream, and write one JSON file.

A run is skipped if its file exists and was written with the same learners by the same version.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.experiments.relations.rows import Row, rows_for
from budgetron.experiments.relations.streams import TRAIN, Drawn, stream_named
from budgetron.experiments.runs import load_json, machine, write_json
from budgetron.learners.stored_weights import cosines
from budgetron.version import __version__

Json = dict[str, Any]
Floats = NDArray[np.float64]
PIECES = 40  # the number of points of an error curve
SHOWN = 12  # the number of tasks in the picture of a matrix


@dataclass(frozen=True)
class RelationRun:
    """One run: a stream and the number of its draw."""

    stream: str
    seed: int

    round = 0  # no run depends on another

    def path(self, out: Path) -> Path:
        return out / "runs" / self.stream / f"{self.seed:03d}.json"

    @property
    def parameters(self) -> Json:
        learners = {row.name: repr(row.make(self.stream)) for row in rows_for(self.stream)}
        return {"stream": self.stream, "seed": self.seed, "learners": learners}

    @property
    def effort(self) -> float:
        return {"opposed": 1.0, "kinds": 60.0, "grid": 400.0}.get(self.stream, 20.0)

    def __str__(self) -> str:
        return f"{self.stream} {self.seed}"

    def perform(self, out: Path, folder: str | None, stopped: Callable[[], bool] = lambda: False) -> None:
        """Run all learners and write the file."""
        drawn = stream_named(self.stream).draw(self.seed)
        cells = [_cell(row, self.stream, drawn, self.seed) for row in rows_for(self.stream)]
        content: Json = {"parameters": self.parameters, "version": __version__, "machine": machine(), "cells": cells}
        if drawn.similarity is not None and self.seed == 0:
            content["similarity"] = _submatrix(drawn.similarity, shown_tasks(self.stream))
        write_json(self.path(out), content)


def shown_tasks(stream: str) -> list[int]:
    """Return the tasks whose relations are plotted. In the stream "kinds", tasks of one kind are side by side."""
    if stream == "kinds":
        return [kind + 4 * i for kind in range(4) for i in range(SHOWN // 4)]
    return list(range(3 if stream == "opposed" else SHOWN))


def _cell(row: Row, stream: str, drawn: Drawn, seed: int) -> Json:
    """Run one learner on one draw of a stream, and return its figures."""
    model, data = row.make(stream), drawn.dataset
    # Only "opposed" has a test set, as in Saha et al. (2011); the other streams are validated progressively.
    train = slice(0, TRAIN if stream == "opposed" else None)
    begin = time.perf_counter()
    margins = model.predict_then_learn(data.X[train], data.y[train], tasks=data.tasks[train], classes=[False, True])
    seconds = time.perf_counter() - begin
    wrong = (margins > 0) != data.y[train]
    cell: Json = {"row": row.name, "error": round(float(wrong.mean()), 6), "seconds": round(seconds, 4),
                  "bytes": model.memory_bytes_}  # fmt: skip
    if stream == "opposed":
        test = slice(TRAIN, None)
        right = model.predict(data.X[test], tasks=data.tasks[test]) == data.y[test]
        cell["accuracy"] = round(float(right.mean()), 6)
        similarity = similarity_of(model, [0, 1, 2], centred=True)
        cell["correlations"] = [round(float(similarity[pair]), 6) for pair in ((0, 1), (0, 2), (1, 2))]
    elif drawn.similarity is None:
        cell["curve"] = [round(float(piece.mean()), 4) for piece in np.array_split(wrong, PIECES)]
    if drawn.similarity is not None and seed == 0:
        tasks = shown_tasks(stream)
        cell["similarity"] = similarity_of(model, tasks).round(4).tolist()
        if hasattr(model, "task_relations"):
            cell["relations"] = _correlations(model.task_relations(tasks)).round(4).tolist()
    return cell


def similarity_of(model: Any, tasks: list[int], centred: bool = False) -> Floats:
    """Return the cosines between the tasks' weights; with `centred`, the correlations of the weights."""
    # A Budgetron mixes several models, whose functions need not be linear, so its own method is used. That method
    # returns cosines, also if `centred` asks for correlations.
    if hasattr(model, "beliefs_"):
        return np.asarray(model.task_similarity(tasks))
    d = model.n_features_in_
    # The margins of a linear function without a constant, on the unit vectors, are its weights.
    w = np.array([model.decision_function(np.eye(d), tasks=[task] * d) for task in tasks])
    if centred:
        w = w - w.mean(axis=1, keepdims=True)
    return cosines(w)


def _correlations(C: Floats) -> Floats:
    """Scale a covariance matrix to correlations, with 1 on the diagonal."""
    scale = np.sqrt(np.maximum(np.diag(C), 1e-300))
    return np.asarray(C / np.outer(scale, scale))


def _submatrix(matrix: Floats, tasks: list[int]) -> list[list[float]]:
    """Return the rows and columns of these tasks, as lists for JSON."""
    values: list[list[float]] = matrix[np.ix_(tasks, tasks)].round(4).tolist()
    return values


def planned(streams: list[str], draws: int, seeds: int) -> list[RelationRun]:
    """Return all runs, the longest first: `draws` runs of "opposed", and `seeds` runs of every other stream."""
    runs = [RelationRun(name, seed) for name in streams for seed in range(draws if name == "opposed" else seeds)]
    return sorted(runs, key=lambda run: -run.effort)


def is_done(run: RelationRun, out: Path) -> bool:
    """Return whether the run's file exists and was written with these learners by this version."""
    content = load_json(run.path(out))
    return content is not None and (content.get("parameters"), content.get("version")) == (run.parameters, __version__)
