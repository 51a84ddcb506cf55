"""Records with every kind of column, for the files of the measurements."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np


def mixed_records(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Records with four numbers, two categories, a date, a text of eight words, a task and a label."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, 3001)
    words = rng.choice(3000, size=(n, 8), p=share / share.sum())
    numbers = rng.normal(size=(n, 4)).round(4)
    start = datetime.datetime(2023, 1, 1)
    labels = numbers[:, 0] + 0.5 * (words[:, 0] % 2) + 0.3 * rng.normal(size=n) > 0.2
    return [
        {
            "user": f"user{rng.integers(0, 300)}",
            **dict(zip(("age", "height", "score", "income"), numbers[i].tolist(), strict=True)),
            "city": f"City {rng.integers(0, 20)}",
            "item": f"item-{rng.integers(0, 500)}",
            "when": (start + datetime.timedelta(seconds=int(rng.integers(0, 10**7)))).isoformat(sep=" "),
            "title": " ".join(f"w{word}" for word in words[i].tolist()),
            "label": "yes" if labels[i] else "no",
        }
        for i in range(n)
    ]
