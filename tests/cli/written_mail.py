"""Write a CSV file with mail of three users, for tests of the commands."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np


def write_mail(path: Path, n: int = 600, seed: int = 0, labels: tuple[str, ...] = ("ham", "spam")) -> Path:
    """Write n mails of ann, bob and cid. Long mails with links are spam; for cid, links hardly matter."""
    rng = np.random.default_rng(seed)
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["user", "size", "links", "colour", "label"])
        for _ in range(n):
            user = ["ann", "bob", "cid"][rng.integers(3)]
            size, links = rng.normal(), rng.normal()
            score = size + links * (0.2 if user == "cid" else 1.0) + 0.3 * rng.normal()
            class_index = min(int((score > 0) + (len(labels) > 2 and score > 1)), len(labels) - 1)
            table.writerow([user, f"{size:.4f}", f"{links:.4f}", ["red", "blue"][rng.integers(2)], labels[class_index]])
    return path
