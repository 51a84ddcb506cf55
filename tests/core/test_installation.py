"""Installation without a compiler, with a broken one, with an error in the core, and without the core on request.

Each test runs pip, which builds a wheel or fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
COMPILERS = ("c++", "CC", "g++", "aCC", "cl", "bcc", "xlC", "icpx", "icx", "clang++")  # as in CMakeLists.txt
INJECTED = "a mistake that the test made"


@pytest.fixture
def sources(tmp_path):
    """Return a folder with copies of the files that the build reads."""
    for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=ignored)
    return tmp_path


def break_the_core(sources):
    with (sources / "src/core/simd/simd_dispatch.cpp").open("a") as file:
        file.write(f"#error {INJECTED}\n")


def build_wheel(sources, **environment):
    """Build a wheel with pip. Returns the finished process and the names of the files in the wheel."""
    variables = {
        name: value for name, value in os.environ.items() if name not in ("CXX", "CMAKE_ARGS", "BUDGETRON_NO_CORE")
    }
    result = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--wheel-dir", "wheels", "."],
        cwd=sources, env={**variables, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    wheels = list((sources / "wheels").glob("*.whl"))
    names = ZipFile(wheels[0]).namelist() if wheels else []
    return result, names


def has_core(names):
    return any(name.startswith("budgetron/_core") and name.endswith((".so", ".pyd")) for name in names)


def hide_compilers_argument():
    """Return the CMake argument that hides every directory with a compiler in it."""
    searched = {*os.environ["PATH"].split(os.pathsep), "/usr/bin", "/bin", "/usr/local/bin"}
    hidden = [folder for folder in searched if any((Path(folder) / name).exists() for name in COMPILERS)]
    return f"-DCMAKE_IGNORE_PATH={';'.join(hidden)}"


def test_without_a_compiler_the_numpy_engine_is_installed(sources):
    break_the_core(sources)  # the test fails if the core is compiled
    result, names = build_wheel(sources, CMAKE_ARGS=hide_compilers_argument())
    assert result.returncode == 0, result.stdout
    assert "No C++ compiler found" in result.stdout
    assert "budgetron/__init__.py" in names and not has_core(names)


def test_a_compiler_error_fails_the_installation_with_its_message(sources):
    break_the_core(sources)
    result, names = build_wheel(sources)
    assert result.returncode != 0
    assert f"#error {INJECTED}" in result.stdout
    assert not names


@pytest.mark.parametrize("compiler", ["false", "no-such-compiler"])
def test_a_compiler_that_does_not_work_fails_the_installation(sources, compiler):
    result, names = build_wheel(sources, CXX=compiler)
    assert result.returncode != 0
    assert compiler in result.stdout
    assert not names


def test_the_core_is_left_out_on_request(sources):
    break_the_core(sources)
    result, names = build_wheel(sources, BUDGETRON_NO_CORE="1")
    assert result.returncode == 0, result.stdout
    assert "budgetron/__init__.py" in names and not has_core(names)
