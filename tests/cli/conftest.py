"""A small stream with three users and two labels, and the command line to run it through."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from budgetron.cli import main


def write_mail(path: Path, n: int = 600, seed: int = 0, labels: tuple[str, ...] = ("ham", "spam")) -> Path:
    """n mails of ann, bob and cid: long ones with links are spam, for cid less so."""
    rng = np.random.default_rng(seed)
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["user", "size", "links", "colour", "label"])
        for _ in range(n):
            user = ["ann", "bob", "cid"][rng.integers(3)]
            size, links = rng.normal(), rng.normal()
            score = size + links * (0.2 if user == "cid" else 1.0) + 0.3 * rng.normal()
            place = min(int((score > 0) + (len(labels) > 2 and score > 1)), len(labels) - 1)
            table.writerow([user, f"{size:.4f}", f"{links:.4f}", ["red", "blue"][rng.integers(2)], labels[place]])
    return path


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    return write_mail(tmp_path / "mail.csv")


Invoke = Callable[..., Result]


@pytest.fixture
def budgetron() -> Invoke:
    """Run the command line; the exit code is checked unless it is None."""

    def invoke(*words: Any, code: int | None = 0) -> Result:
        result = CliRunner().invoke(main, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert code is None or result.exit_code == code, result.output
        return result

    return invoke


@pytest.fixture
def told(budgetron: Invoke) -> Callable[..., Any]:
    """Run the command line with --json."""
    return lambda *words: json.loads(budgetron(*words, "--json").stdout)
