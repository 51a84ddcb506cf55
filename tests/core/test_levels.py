"""The instruction-set levels of the compiled core: baseline, v3 and v4.

The best level of the CPU is chosen at import, unless BUDGETRON_LEVEL names a lower one. All levels give the same
results up to rounding.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from budgetron.engine import native

compiled = pytest.mark.skipif(not native.available, reason="built without a compiler")


def run_at(level, code, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "BUDGETRON_LEVEL"}
    if level is not None:
        environment["BUDGETRON_LEVEL"] = level
    return subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def best():
    """Return the level that is chosen without BUDGETRON_LEVEL."""
    result = run_at(None, "from budgetron.engine import native; print(native.level)")
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@compiled
@pytest.mark.parametrize("cap", ["", *native.LEVELS])
def test_the_level_in_the_environment_is_not_exceeded(cap, best):
    result = run_at(cap, "from budgetron.engine import native; print(native.level)")
    assert result.returncode == 0, result.stderr
    allowed = native.LEVELS[: native.LEVELS.index(cap or "v4") + 1]
    assert result.stdout.strip() == (best if best in allowed else allowed[-1])


@pytest.mark.parametrize("cap", ["fast", "V3", "v5", " v3"])
def test_an_unknown_level_is_refused(cap):
    result = run_at(cap, "import budgetron.engine.native")
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    for part in ("BUDGETRON_LEVEL must be baseline, v3 or v4", f"got {cap!r}.", "Unset it"):
        assert part in message


MARGINS = """
import sys
import numpy as np
from scipy import sparse
import budgetron
from budgetron import graphs, kernels

rng = np.random.default_rng(11)
n, d = 300, 13
X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
tasks = rng.integers(0, 7, n)
y = (X @ rng.normal(size=d) + rng.normal(size=7)[tasks] > 0).astype(int)
inputs = {"dense": X, "single": X.astype(np.float32), "sparse": sparse.csr_matrix(X)}
kinds = {"gaussian": kernels.Gaussian(0.1), "cubic": kernels.Polynomial(3, normalize=True), "linear": kernels.Linear()}
margins = {}
for name in ("Budgetron", "SharedProjectron", "BudgetProjectron", "Forgetron", "RandomBudgetPerceptron", "Perceptron"):
    for kind, kernel in kinds.items():
        if name == "Budgetron" and kind == "cubic":  # Budgetron does not accept this kernel
            continue
        for rows, x in inputs.items():
            budget = {} if name == "Perceptron" else {"budget": 40}
            model = getattr(budgetron, name)(kernel=kernel, graph=graphs.complete(), engine="core", **budget)
            margins[f"{name} {kind} {rows}"] = model.predict_then_learn(x, y, tasks=tasks)
np.savez(sys.argv[1], **margins)
"""


@compiled
def test_levels_agree_up_to_rounding(best, tmp_path):
    if best == "baseline":
        pytest.skip("this processor has no other level than the baseline")
    results = {}
    for level in native.LEVELS[: native.LEVELS.index(best) + 1]:
        path: Path = tmp_path / f"{level}.npz"
        result = run_at(level, MARGINS, str(path))
        assert result.returncode == 0, result.stderr
        results[level] = dict(np.load(path))
    baseline = results.pop("baseline")
    assert len(baseline) == 51  # 6 learners × 3 kernels × 3 kinds of rows, without the cubic kernel for Budgetron
    for level, margins in results.items():
        for case, expected in baseline.items():
            # Levels sum in different orders, and up to 300 updates with projections amplify the rounding errors by
            # several orders of magnitude. Budgetron has float32 weights for all kinds of rows.
            single = case.endswith("single") or case.startswith("Budgetron")
            tolerance = 1e-3 if single else 1e-10
            error = np.abs(margins[case] - expected).max() / np.abs(expected).max()
            assert error <= tolerance, f"{level}, {case}: {error}"


@compiled
def test_a_core_that_cannot_be_loaded_is_an_error():
    """The NumPy engine replaces the core only if the core is missing, not if it is broken."""
    broken = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "budgetron._core":
            raise ImportError("undefined symbol")
sys.meta_path.insert(0, Broken())
import budgetron.engine.native
"""
    result = run_at(None, broken)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == "ImportError: undefined symbol"
    absent = (
        "import sys; sys.modules['budgetron._core'] = None; from budgetron.engine import native; print(native.level)"
    )
    result = run_at(None, absent)
    assert result.stdout.strip() == "None", result.stderr


def test_builtins_of_compilers_are_only_in_files_with_an_alternative_in_plain_cpp():
    core = Path(__file__).parents[2] / "src" / "core"
    files = [file for file in core.rglob("*") if file.is_file() and "__builtin_" in file.read_text(encoding="utf-8")]
    assert {file.relative_to(core).as_posix() for file in files} == {"intrinsics.hpp", "simd/vectors.hpp"}
