"""What the scripts of this folder share: the streams, one pass of a learner, means, and the JSON they leave behind."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from budgetron import Belief, Perceptron, __version__, data, evaluate, graphs
from budgetron.kernels import Gaussian, Kernel, Polynomial

HERE = Path(__file__).parent
RESULTS = HERE / "results"
Row = dict[str, Any]
Make = Callable[[], Any]


@dataclass(frozen=True)
class Stream:
    """A set with the kernel and the budget it is run with."""

    name: str
    title: str
    kernel: Kernel
    share: int  # B in % of what the unlimited k Perceptrons store
    fixed_budget: int | None = None  # or B itself
    take: int | None = None

    @property
    def is_text(self) -> bool:
        return self.name in ("spam", "sentiment")

    def ordered(self, seed: int) -> data.DataSet:
        dataset = _prepared(self.name).shuffled(seed)
        if self.is_text:  # other numbers for the words in every order: luck in hashing is averaged too
            columns = np.random.default_rng(seed).permutation(dataset.d)
            dataset = replace(dataset, X=dataset.X[:, columns])
        return dataset if self.take is None else dataset.take(self.take)

    def budget(self, seed: int, share: int | None = None) -> int:
        """B of this order: a share of the active set of the k Perceptrons on it."""
        if share is None and self.fixed_budget is not None:
            return self.fixed_budget
        return max(1, round((share or self.share) / 100 * _active(self, seed)))


# Kernels of the paper's sets as in `budgetron reproduce`; elsewhere the default.
STREAMS = (
    Stream("exam", "Exam", Gaussian(), share=10),
    Stream("school", "School", Gaussian(0.05), share=5),
    Stream("chem97", "Chem97", Gaussian(), share=10, fixed_budget=300, take=16_000),
    Stream("spam", "Spam A", Polynomial(2, 1.0, normalize=True), share=5),
    Stream("sentiment", "Sentiment", Polynomial(3, 1.0, normalize=True), share=5),
)


@lru_cache
def _prepared(name: str) -> data.DataSet:
    """Measurements with columns of unit variance, word counts with rows of unit length, School as the paper has it."""
    dataset = data.load(name)
    if name in ("spam", "sentiment"):
        return replace(dataset, X=data.unit_norm(dataset.X))
    return replace(dataset, X=data.standardized(dataset.X)) if name in ("exam", "chem97") else dataset


@lru_cache
def _active(stream: Stream, seed: int) -> int:
    ordered = stream.ordered(seed)
    return int(
        Perceptron(stream.kernel, graphs.disconnected())
        .partial_fit(ordered.X, ordered.y, tasks=ordered.tasks)
        .n_stored_
    )


def present(streams: Iterable[Stream]) -> Iterator[Stream]:
    """Those whose data are here; the others are named and left out."""
    for stream in streams:
        if data.is_here(stream.name):
            yield stream
        else:
            print(f"{stream.title}: data not here (budgetron datasets fetch {stream.name}), left out")


def named(belief: Belief) -> str:
    """A belief in few words."""
    parts = []
    if belief.linear:
        parts.append(f"linear {belief.linear:g} own ×{belief.linear_own:g}")
    if belief.kernel:
        parts.append(f"kernel {belief.kernel:g} own ×{belief.kernel_own:g}")
    return " + ".join(parts) + (f" floor {belief.floor:g}" if belief.floor else "")


def one_pass(model: Any, dataset: data.DataSet) -> Row:
    """Predict, count and learn every example once: %, nats, bytes, µs."""
    begin = time.perf_counter()
    result = evaluate.progressive(model, dataset)
    micros = 1e6 * (time.perf_counter() - begin) / dataset.n
    row: Row = {"error": 100 * result.overall.error, "f": 100 * (result.overall.f_measure or 0.0)}
    if result.calibration is not None:
        row |= {"log_loss": result.overall.log_loss, "ece": result.calibration.ece}
    return row | {"bytes": model.memory_bytes_, "stored": model.n_stored_, "micros": micros}


def averaged(rows: list[Row]) -> Row:
    """Mean and standard error of every figure over the orders."""
    out: Row = {"orders": len(rows)}
    for name in rows[0]:
        values = np.array([row[name] for row in rows], dtype=np.float64)
        spread = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
        out[name] = round(float(values.mean()), 4)
        out[f"{name}_se"] = round(spread, 4)
    return out


def compared(title: str, learners: Mapping[str, Callable[[int], Any]], ordered: Callable[[int], data.DataSet],
             seeds: Iterable[int], orders_of: Callable[[str], int | None] = lambda _: None) -> list[Row]:  # fmt: skip
    """Every learner on every order of one stream; one averaged row a learner, printed as it comes."""
    streams = {seed: ordered(seed) for seed in seeds}
    rows = []
    for name, make in learners.items():
        chosen = list(streams)[: orders_of(name)]
        row = {"stream": title, "learner": name} | averaged(
            [one_pass(make(seed), streams[seed]) for seed in chosen]
        )
        print(f"{title:14s} {name:46s} {shown(row)}", flush=True)
        rows.append(row)
    return rows


def shown(row: Row) -> str:
    text = f"error {row['error']:6.2f} ± {row['error_se']:.2f}  F {row['f']:5.1f}"
    if "ece" in row:
        text += f"  log loss {row['log_loss']:.4f}  ECE {row['ece']:.3f}"
    return text + f"  {row['bytes'] / 1024:7.0f} KiB  {row['micros']:6.1f} µs"


def check(checks: list[Row], what: str, holds: bool, detail: str) -> None:
    """Write down whether something that was promised is so."""
    checks.append({"what": what, "holds": bool(holds), "detail": detail})
    print(f"{'holds' if holds else 'FAILS'}  {what}: {detail}", flush=True)


def quick() -> bool:
    """The command line of every script: --quick takes fewer orders and is not written down."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one order or two, nothing written")
    return bool(parser.parse_args().quick)


def save(name: str, rows: list[Row], checks: list[Row] | None = None, was_quick: bool = False) -> None:
    """The JSON of a script; a quick run leaves none."""
    if was_quick:
        return
    RESULTS.mkdir(exist_ok=True)
    content = {
        "version": __version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "checks": checks or [],
        "rows": rows,
    }
    (RESULTS / f"{name}.json").write_text(
        json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def saved(name: str) -> Row | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
