"""The paper's data files, if this checkout has them beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"


@pytest.fixture(scope="session")
def paper_files() -> Path:
    """The folder with the paper's three sets."""
    if not (SHARED / "data" / "school" / "school.mat").exists():
        pytest.skip("the paper's data are not in ../shared/data beside this checkout (they carry no licence)")
    return SHARED / "data"
