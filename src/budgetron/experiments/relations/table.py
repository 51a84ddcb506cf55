"""Compute means over the draws from the JSON files, and render them as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from budgetron.experiments.relations.rows import PRINTED, ROWS
from budgetron.experiments.relations.streams import STREAMS
from budgetron.experiments.runs import load_json

Json = dict[str, Any]
Results = dict[str, list[Json]]  # stream → files


def files_of(out: Path, streams: list[str]) -> Results:
    """Read all files below a folder."""
    results: Results = {}
    for name in streams:
        contents = [load_json(path) for path in sorted((out / "runs" / name).glob("*.json"))]
        readable = [content for content in contents if content is not None]
        if readable:
            results[name] = readable
    return results


def values(results: Results, stream: str, row: str, name: str) -> Any:
    """Return one number (or list) per draw, as an array; empty if the learner does not run on this stream."""
    cells = [cell for content in results.get(stream, []) for cell in content["cells"] if cell["row"] == row]
    return np.array([cell[name] for cell in cells if name in cell])


def to_dict(results: Results) -> list[Json]:
    """Return all means as plain records."""
    return [
        {"stream": stream, "row": row.name, "error": float(errors.mean()), "draws": len(errors),
         **({"correlations": values(results, stream, row.name, "correlations").mean(axis=0).tolist(),
             "accuracy": float(values(results, stream, row.name, "accuracy").mean())} if stream == "opposed" else {})}
        for stream in results for row in ROWS if len(errors := values(results, stream, row.name, "error"))
    ]  # fmt: skip


def markdown(results: Results, heading: str = "##", figures: str = "") -> str:
    """Render the tables. `figures` is the path from the page to the folder of the pictures."""
    lines: list[str] = []
    if "opposed" in results:
        lines += _opposed(results, heading)
    sections = {"Relations": ("relations.svg", "kinds", "grid"),
                "Shifting streams": ("shifting.svg", "steady", "turn", "drift", "several")}  # fmt: skip
    for title, (picture, *names) in sections.items():
        shown = [name for name in names if name in results]
        if shown:
            lines += ["", f"{heading} {title}", "", *_errors(results, shown), "", f"![{title}]({figures}{picture})"]
    return "\n".join(lines).strip() + "\n"


def _opposed(results: Results, heading: str) -> list[str]:
    """Return the lines of the table of the stream "opposed"."""
    n = len(results["opposed"])
    lines = [
        f"{heading} Three tasks, two of them opposed", "",
        f"{n} draws of the synthetic experiment of Saha et al.: mean ± standard deviation of the correlations of the "
        "learned weights (of Budgetron: their cosines), and of the accuracy on the test set. The true correlations are "
        "−1, 0, 0. The printed values are from one run.", "",
        "| | (1, 2) | printed | (1, 3) | (2, 3) | test accuracy | mistakes |", "|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for row in ROWS:
        pairs = values(results, "opposed", row.name, "correlations")
        if len(pairs):
            estimates = zip(pairs.mean(axis=0), pairs.std(axis=0), strict=True)
            first, second, third = (f"{mean:+.2f} ± {sd:.2f}" for mean, sd in estimates)
            accuracy, error = (100 * values(results, "opposed", row.name, name) for name in ("accuracy", "error"))
            printed = f"{PRINTED[row.name][0]:+.2f}" if row.name in PRINTED else ""
            lines.append(f"| {row.name} | {first} | {printed} | {second} | {third} | {accuracy.mean():.1f} ± "
                         f"{accuracy.std():.1f} | {error.mean():.1f} % |")  # fmt: skip
    return lines


def _errors(results: Results, streams: list[str]) -> list[str]:
    """Return the lines of a table of errors: one row per learner, one column per stream."""
    draws = ", ".join(f"{name} {len(results[name])}" for name in streams)
    lines = [f"Errors in per cent, mean ± standard deviation over the draws ({draws}).", ""]
    lines += [f"- *{name}*: {STREAMS[name].description}." for name in streams]
    lines += ["", "| | " + " | ".join(streams) + " |", "|---|" + "---:|" * len(streams)]
    for row in ROWS:
        cells = [100 * values(results, name, row.name, "error") for name in streams]
        if any(len(cell) for cell in cells):
            texts = [f"{cell.mean():.1f} ± {cell.std():.1f}" if len(cell) else "" for cell in cells]
            lines.append(f"| {row.name} | " + " | ".join(texts) + " |")
    return lines
