"""Writes the table of docs/compared.md from the results of the item `libraries`.

    python benchmarks/accuracy/compared.py

`run.py` calls it too. The prose of the page is written by hand: check it when the figures change.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "compared.md"
RESULTS = HERE / "results"
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def write_compared(results: Path = RESULTS) -> None:
    path = results / "libraries.json"
    if path.exists():
        record = json.loads(path.read_text(encoding="utf-8"))
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(TABLE.sub(lambda _: table(record), text), encoding="utf-8")


def table(record: dict[str, Any]) -> str:
    """Errors of every learner on every set, then its microseconds, and when they were measured."""
    rows = {(row["learner"], row["stream"]): row for row in record["rows"]}
    learners, streams = (list(dict.fromkeys(key[i] for key in rows)) for i in (0, 1))
    best = {stream: min(rows[learner, stream]["error"] for learner in learners) for stream in streams}

    def error(learner: str, stream: str) -> str:
        value = rows[learner, stream]["error"]
        return f"**{value:.1f}**" if value == best[stream] else f"{value:.1f}"

    lines = [
        f"| | {' | '.join(streams)} | µs |",
        "|---" + "|--:" * (len(streams) + 1) + "|",
    ]
    for learner in learners:
        micros = [rows[learner, stream]["micros"] for stream in streams]
        low, high = (f"{value:,.0f}" for value in (min(micros), max(micros)))
        cells = [learner, *(error(learner, stream) for stream in streams), low if low == high else f"{low} to {high}"]
        lines.append(f"| {' | '.join(cells)} |")
    quick = "the first 3,000 rows of each set, " if record["quick"] else ""
    orders = f"random orders of exam and chem97: {record['orders']}"
    return "\n" + "\n".join(lines) + f"\n\n*Measured {record['date']}; {quick}{orders}.*\n\n"


if __name__ == "__main__":
    write_compared()
    print(f"Wrote {PAGE}")
