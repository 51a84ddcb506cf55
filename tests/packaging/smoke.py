"""Smoke test of an installed package, without pytest and extras: learn, predict, save, load, and run the command line.

    python tests/packaging/smoke.py [--core]

The folder of this script, and not the current one, is on Python's path, so the installed package is tested and not a
checkout. With `--core`, the test fails if the package has no compiled engine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

import budgetron
from budgetron import Budgetron, Forgetron
from budgetron.engine import native


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--core", action="store_true")
    assert native.available or not parser.parse_args().core, "the compiled engine is missing"
    assert version("budgetron") == budgetron.__version__
    warnings.simplefilter("ignore", RuntimeWarning)  # without a compiler the first model warns that it uses NumPy
    rng = np.random.default_rng(0)
    n = 2000 if native.available else 300
    X, users = rng.normal(size=(n, 4)), rng.integers(20, size=n)
    y = np.where(X[:, 0] + 0.3 * (users % 2) * X[:, 1] > 0, "spam", "ham")
    with tempfile.TemporaryDirectory() as folder:
        for model in (Budgetron(budget="64 KiB"), Forgetron(budget=50)):
            margins = model.predict_then_learn(X, y, tasks=users)
            wrong = np.mean((margins > 0) != (y == "spam"))
            assert wrong < 0.35, f"{type(model).__name__}: {wrong:.0%} wrong"
            path = Path(folder) / "model.budgetron"
            model.save(path)
            again = budgetron.load(path)
            assert (again.decision_function(X, tasks=users) == model.decision_function(X, tasks=users)).all()
            print(f"{type(model).__name__}: {wrong:.1%} wrong, {model.memory_bytes_:,} bytes")
    command = [sys.executable, "-m", "budgetron", "--version"]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    print(f"Python {sys.version.split()[0]}, NumPy {np.__version__}, level {native.level}")


if __name__ == "__main__":
    main()
