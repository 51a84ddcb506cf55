"""Fixtures: a small stream of three users with two labels, and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from written_mail import write_mail

from budgetron.cli import main


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    return write_mail(tmp_path / "mail.csv")


Invoke = Callable[..., Result]


@pytest.fixture
def budgetron() -> Invoke:
    """Run a command and check its exit code, unless `code` is None."""

    def invoke(*words: Any, code: int | None = 0) -> Result:
        result = CliRunner().invoke(main, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert code is None or result.exit_code == code, result.output
        return result

    return invoke


@pytest.fixture
def as_json(budgetron: Invoke) -> Callable[..., Any]:
    """Run the command line with --json."""
    return lambda *words: json.loads(budgetron(*words, "--json").stdout)
