"""Synthetic runs with known results, for the tests of the table and its renderings."""

from __future__ import annotations

from typing import Any

import numpy as np

from budgetron.experiments.algorithms import BASELINE, PAPER
from budgetron.experiments.blocks import BLOCKS
from budgetron.experiments.printed import COLUMNS, printed


def synthetic_runs(n_orders: int = 3, above_print: float = 0.5, noise: float = 0.3) -> list[dict[str, Any]]:
    """Runs as in the JSON files, with every F-measure about `above_print` points above the printed one.

    For the baseline, 50 % takes the place of the printed F-measure.
    """
    rng = np.random.default_rng(0)
    runs = []
    for block in BLOCKS:
        for seed in range(n_orders):
            for name in (BASELINE, *PAPER):
                cells = []
                for graph, share in [("D", None)] if name == BASELINE else COLUMNS:
                    value = 50.0 if share is None else printed(block.set_name, name, graph, share)
                    assert value is not None
                    f = (value + above_print + noise * rng.standard_normal()) / 100
                    # `share` is a percentage of the 100 examples that the baseline stored, so it is also their number.
                    sizes = {"stored": 100, "bytes": 1000, "seconds": 0.1, "budget": share}
                    cells.append(
                        {"graph": graph, "share": share, "f_measure": f, "error": 0.2 + f / 10, **sizes}
                    )
                parameters = {"block": block.name, "seed": seed, "algorithm": name}
                runs.append({"parameters": parameters, "version": "9.9", "cells": cells})
    return runs
