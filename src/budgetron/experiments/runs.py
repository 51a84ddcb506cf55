"""Run one algorithm on one random order of one block, in all cells of its row, and write one JSON file.

A run is skipped if its JSON file exists and was written with the same parameters by the same version. Files are written
atomically, so an interrupted run leaves no JSON file behind.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from budgetron import evaluate, graphs
from budgetron.data import DataSet
from budgetron.experiments.algorithms import (
    ALGORITHMS,
    BASELINE,
    BUDGETRON_SAME_BYTES,
    ETA,
    SAME_BYTES_AS,
    Algorithm,
    CellSettings,
    algorithm_named,
)
from budgetron.experiments.blocks import BLOCKS, TableBlock, block_named, ordered
from budgetron.experiments.printed import COLUMNS
from budgetron.version import __version__

Json = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run: a block, the seed of its order, and an algorithm."""

    block: str
    seed: int
    algorithm: str

    def path(self, out: Path) -> Path:
        slug = self.algorithm.lower().replace(", ", "-").replace(" ", "-")
        return out / "runs" / self.block / f"{self.seed:02d}-{slug}.json"

    @property
    def parameters(self) -> Json:
        block = block_named(self.block)
        return {
            "block": self.block,
            "set": block.set_name,
            "kernel": repr(block.kernel),
            "unit_norm": block.unit_norm,
            "eta": ETA,
            "seed": self.seed,
            "algorithm": self.algorithm,
        }

    @property
    def round(self) -> int:
        """The number of the round. Runs of lower rounds come first, because later ones depend on them."""
        return len(algorithm_named(self.algorithm).after)

    def __str__(self) -> str:
        return f"{self.block} {self.algorithm}"

    def perform(self, out: Path, folder: str | None, stopped: Callable[[], bool] = lambda: False) -> None:
        """Perform the run and write its file."""
        perform(self, out, folder, stopped)

    @property
    def effort(self) -> float:
        # Rough measurements, only for the estimate of the time left.
        effort_of_block = {"school": 2.0, "school-0.5": 3.0, "sentiment": 2.0}.get(self.block, 0.5)
        return effort_of_block * algorithm_named(self.algorithm).effort


def planned(blocks: Iterable[TableBlock], n_orders: int, paper_only: bool = False) -> list[Run]:
    """Return all runs of a table; runs that others depend on come first. `paper_only` leaves out Budgetron."""
    block_list = list(blocks)
    rounds = sorted({len(algorithm.after) for algorithm in ALGORITHMS})
    return [
        Run(block.name, seed, algorithm.name)
        for round_ in rounds
        for block in block_list
        for seed in range(n_orders)  # runs on the same order follow each other, because `ordered` caches one order
        for algorithm in ALGORITHMS
        if len(algorithm.after) == round_ and not (paper_only and algorithm.name == BUDGETRON_SAME_BYTES)
    ]


def is_done(run: Run, out: Path) -> bool:
    """Return whether the run's JSON file exists and was written with these parameters by this version."""
    content = load_json(run.path(out))
    return content is not None and (content.get("parameters"), content.get("version")) == (
        run.parameters,
        __version__,
    )


def all_done(out: Path) -> list[Json]:
    """Load the JSON files of all runs below a folder, in order of block and seed."""
    contents = [content for path in (out / "runs").glob("*/*.json") if (content := load_json(path)) is not None]
    order_of_blocks = {block.name: number for number, block in enumerate(BLOCKS)}
    return sorted(
        (content for content in contents if content["parameters"]["block"] in order_of_blocks),
        key=lambda content: (order_of_blocks[content["parameters"]["block"]], content["parameters"]["seed"]),
    )


def perform(
    run: Run, out: Path, folder: str | None = None, stopped: Callable[[], bool] = lambda: False
) -> Json | None:
    """Run all cells of one row and write the JSON file. If stopped, return None and write nothing."""
    block, algorithm = block_named(run.block), algorithm_named(run.algorithm)
    earlier_runs = {name: load_json(Run(run.block, run.seed, name).path(out)) for name in algorithm.after}
    stream = ordered(block.set_name, block.unit_norm, run.seed, folder)
    cells = []
    for graph, share in [("D", None)] if run.algorithm == BASELINE else COLUMNS:
        if stopped():
            return None
        cells.append(_cell(run, block, algorithm, stream, earlier_runs, graph, share))
    content = {
        "parameters": run.parameters,
        "version": __version__,
        "machine": machine(),
        "examples": stream.n,
        "tasks": stream.k,
        "cells": cells,
    }
    write_json(run.path(out), content)
    return content


def _cell(
    run: Run,
    block: TableBlock,
    algorithm: Algorithm,
    stream: DataSet,
    earlier_runs: dict[str, Json | None],
    graph: str,
    share: int | None,
) -> Json:
    """Run the algorithm in one cell of its row, and return the figures."""
    # Budgets are relative to other runs on the same order: to the number of examples that the baseline stored, or to
    # the bytes of mtbprj-2.
    baseline, same_bytes = earlier_runs.get(BASELINE), earlier_runs.get(SAME_BYTES_AS)
    budget = max_bytes = 0
    if baseline is not None and share is not None:
        budget = max(1, round(share / 100 * baseline["cells"][0]["stored"]))
    if same_bytes is not None:
        cells = same_bytes["cells"]
        max_bytes = next(cell["bytes"] for cell in cells if (cell["graph"], cell["share"]) == (graph, share))
    task_graph = graphs.complete(n_tasks=stream.k) if graph == "C" else graphs.disconnected()
    model = algorithm.make(CellSettings(block.kernel, task_graph, budget, max_bytes, run.seed))
    begin = time.perf_counter()
    result = evaluate.progressive(model, stream)
    seconds = time.perf_counter() - begin
    figures = {name: _rounded(value) for name, value in result.overall.to_dict().items() if name != "n"}
    by_task = {f"macro_{name}": _rounded(result.macro[name]) for name in ("f_measure", "error")}
    ece = {} if result.calibration is None else {"ece": _rounded(result.calibration.ece)}
    limit = {"bytes_allowed": max_bytes} if run.algorithm == BUDGETRON_SAME_BYTES else {"budget": budget or None}
    size = {"stored": model.n_stored_, "bytes": model.memory_bytes_, "seconds": round(seconds, 3)}
    return {"graph": graph, "share": share} | limit | figures | by_task | ece | size


def machine() -> Json:
    """Describe this machine, for the JSON file of a run."""
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    return {"cpus": os.cpu_count(), "arch": platform.machine()} | versions


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def load_json(path: Path) -> Json | None:
    """Return the content of a run's file; None if it does not exist or cannot be read."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and "parameters" in content else None


def write_json(path: Path, content: Json) -> None:
    """Write a run's file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    # One line per cell, so that a change in version control shows which cell it is.
    lines = ",\n  ".join(_compact(cell) for cell in content["cells"])
    head = _compact({name: value for name, value in content.items() if name != "cells"})
    # head[:-1] drops the closing brace, so that the cells can be appended.
    part.write_text(f'{head[:-1]},"cells":[\n  {lines}]}}\n', encoding="utf-8")
    os.replace(part, path)


def _compact(content: Json) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
