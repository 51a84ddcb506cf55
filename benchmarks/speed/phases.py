"""Where the time of one example goes: the engine, Python around it, and the core's functions as measured by perf.

The engine and Python are measured with mtrbp (`RandomBudgetPerceptron`), d=28, the Gaussian kernel and blocks of
examples, as three times: predicting; what learning takes in addition; what the call from Python takes in addition to
that. The functions are measured for several learners (`_workloads`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from learners import GAUSSIAN, scaled_budgetron
from measure import interleaved
from streams import ModelOnStream, noisy, random_labels, text

from budgetron import BudgetProjectron, Budgetron, RandomBudgetPerceptron, SharedProjectron, kernels

BLOCK = 2000


def _workloads() -> dict[str, ModelOnStream]:
    """Models, each with a stream to learn. Those that store examples have full budgets."""
    square = kernels.Polynomial(degree=2, bias=1.0, normalize=True)
    return {
        "mtrbp, B=1000": ModelOnStream(RandomBudgetPerceptron(1000, GAUSSIAN), noisy(8000), BLOCK).fill(1000),
        "mtrbp, B=100": ModelOnStream(RandomBudgetPerceptron(100, GAUSSIAN), noisy(8000), BLOCK).fill(100),
        "mtrbp on text, B=1000": ModelOnStream(RandomBudgetPerceptron(1000, square), text(4000), 500).fill(1000),
        "BudgetProjectron, B=500": ModelOnStream(BudgetProjectron(500, GAUSSIAN), random_labels(4000), 500).fill(500),
        "SharedProjectron, B=500, 5,000 tasks": ModelOnStream(
            SharedProjectron(500, GAUSSIAN), random_labels(8000, n_tasks=5000), 500
        ).fill(500),
        "Budgetron in 1 MiB": scaled_budgetron("1 MiB"),
        "Budgetron on text": ModelOnStream(Budgetron(), text(2000), 500),
    }


def measured(quick: bool) -> dict[str, Any]:
    return {"parts": {f"B={budget}": _parts(budget) for budget in (100, 1000)}, "functions": _functions(quick)}


def _parts(budget: int) -> dict[str, float]:
    """Microseconds per example: the engine predicting, what learning takes in addition, and Python around both."""
    stream = noisy(4 * BLOCK)
    runner = ModelOnStream(RandomBudgetPerceptron(budget=budget, kernel=GAUSSIAN), stream, BLOCK).fill(budget)
    model, part = runner.model, stream[:BLOCK]
    engine = model._engine
    task_ids, clusters = model.graph.locate(part.tasks.tolist())
    codes = part.y.astype(np.int32)
    works = [
        lambda: engine.margins(part.X, task_ids, clusters, 1),
        lambda: engine.learn(part.X, codes, task_ids, clusters),
        runner.learn,
    ]
    predicting, learning, whole = np.median(interleaved(works, 15), axis=0) / BLOCK * 1e6
    return {
        "row and margin (core)": predicting,
        "mistakes: storing, refreshing (core)": learning - predicting,
        "Python: checks, task ids, names of stored tasks": whole - learning,
    }


def _functions(quick: bool) -> dict[str, list[tuple[str, float]]] | None:
    """The functions with the largest shares of the time; None if perf does not run."""
    perf = shutil.which("perf")
    if perf is None:
        return None
    largest = {}
    for name, runner in _workloads().items():
        runner.learn()
        with tempfile.TemporaryDirectory() as folder:
            record = str(Path(folder) / "perf.data")
            sample = ["record", "-q", "-F", "997", "-p", str(os.getpid()), "-o", record, "sleep", "1" if quick else "2"]
            sampler = subprocess.Popen([perf, *sample], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while sampler.poll() is None:
                runner.learn()
            if sampler.returncode:
                return None
            text_report = [perf, "report", "-i", record, "--stdio", "--no-children", "-s", "dso,symbol"]
            lines = subprocess.run(text_report, capture_output=True, text=True).stdout
        largest[name] = _largest(lines)
    return largest


def _largest(report: str) -> list[tuple[str, float]]:
    """The largest shares in a report of perf: each function of the core, and the sum over each other library."""
    shares: Counter[str] = Counter()
    for share, library, symbol in re.findall(r"^\s+([\d.]+)%\s+(\S+)\s+\[[.k]\]\s+(.+?)[\s-]*$", report, re.MULTILINE):
        if not library.startswith("_core"):
            name = "Python" if library.startswith("python") else library.split(".")[0].removeprefix("_")
        elif symbol.startswith("0x"):
            name = "core: loops without a name"
        else:
            name = "core: " + re.sub(r"\(anonymous namespace\)::|budgetron::|\(.*", "", symbol)[:60]
        shares[name] += float(share)
    return shares.most_common(7)
