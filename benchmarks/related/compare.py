"""Every learner on every stream at several byte budgets: errors against bytes and against microseconds per example.

    python benchmarks/related/compare.py                       sets that come with packages
    python benchmarks/related/compare.py --from FOLDER         also the classic sets, FOLDER/NAME.npz or
                                                               FOLDER/kernel/NAME.npz
    python benchmarks/related/compare.py --page PAGE           insert the tables into a page of documentation

The learners are those with a budget. They have default parameters; presets have the parameters of their paper. Nothing
is tuned. Columns are centred and scaled by the first 200 rows. Streams have at most 6,000 rows, in one order: small
differences mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from budgetron import data
from budgetron.errors import TooFewBytes
from budgetron.experiments.page import with_table
from budgetron.learners.registry import learner_class, learner_names
from budgetron.plots import COLOURS, as_svg, new_figure

HERE = Path(__file__).parent
BUDGETS = ("32 KiB", "128 KiB", "1 MiB")
ROWS = 6000
CLASSIC = ("german", "spambase", "a9a", "ijcnn1", "magic04", "dna", "satimage")
DEFAULT_PRESETS = ("fogd", "projectron")  # presets that equal the default parameters of their learner

Stream = tuple[str, Any, Any, Any]


def classic_files(folder: Path) -> dict[str, Path]:
    """Name → file of the classic sets. Raises FileNotFoundError if one is missing."""
    files = {}
    for name in CLASSIC:
        places = folder / f"{name}.npz", folder / "kernel" / f"{name}.npz"
        found = [path for path in places if path.exists()]
        if not found:
            raise FileNotFoundError(
                f"--from must be a folder with the sets {', '.join(CLASSIC)}; {str(folder)!r} has no {name}.npz, and "
                f"neither has its folder kernel. Put {name}.npz there, with the arrays X and y, or leave --from out."
            )
        files[name] = found[0]
    return files


def streams(classic: dict[str, Path]) -> Iterator[Stream]:
    """Yield name, rows, labels, and tasks or None, of every set. `classic` has the files of further sets."""
    for name in ("exam", "chem97", "flights"):
        dataset = data.load(name)
        rows = slice(0, ROWS) if dataset.time_ordered else np.random.default_rng(0).permutation(dataset.n)[:ROWS]
        X = dataset.X[rows].toarray() if hasattr(dataset.X, "toarray") else np.asarray(dataset.X)[rows]
        yield name, X, dataset.y[rows], np.asarray(dataset.tasks)[rows].tolist()
    for name, load in (("digits", load_digits), ("breast cancer", load_breast_cancer)):
        X, y = load(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        yield name, X[order], y[order], None
    for name, path in classic.items():
        with np.load(path) as content:
            order = np.random.default_rng(0).permutation(len(content["y"]))[:ROWS]
            yield name, content["X"][order], content["y"][order].astype(int), None


def learners() -> dict[str, tuple[Any, str | None]]:
    """Name → class and preset, of the learners with a budget."""
    learners: dict[str, tuple[Any, str | None]] = {}
    for name in learner_names():
        cls = learner_class(name)
        if "budget" in cls().get_params():
            learners[name] = cls, None
            learners |= {preset: (cls, preset) for preset in cls.presets if preset not in DEFAULT_PRESETS}
    return learners


def scaled(X: Any) -> Any:
    """X, centred and scaled by its first 200 rows, and clipped to ±10."""
    first = X[:200].astype(np.float64)
    deviation = first.std(axis=0)
    return ((X - first.mean(axis=0)) / np.where(deviation > 1e-9, deviation, 1.0)).clip(-10, 10)


def run(cls: Any, preset: str | None, budget: str, stream: Stream) -> dict[str, Any]:
    """Error, bytes, stored examples and time per example of one pass."""
    _, X, y, tasks = stream
    model = cls(budget=budget) if preset is None else cls.preset(preset, budget=budget)
    begin = time.perf_counter()
    margins = model.predict_then_learn(X, y, tasks=tasks, classes=np.unique(y))
    seconds = time.perf_counter() - begin
    codes = (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
    wrong = float((np.unique(y)[codes] != y).mean())
    return {"error": round(100 * wrong, 2), "bytes": model.memory_bytes_, "stored": model.n_stored_,
            "microseconds": round(1e6 * seconds / len(y), 2)}  # fmt: skip


def measured(classic: dict[str, Path]) -> list[dict[str, Any]]:
    rows = []
    for name, X, y, tasks in streams(classic):
        stream = name, scaled(X), y, tasks
        counts = np.unique(y, return_counts=True)[1]
        for learner, (cls, preset) in learners().items():
            for budget in BUDGETS:
                try:
                    figures = run(cls, preset, budget, stream)
                except TooFewBytes:  # rows too wide for this budget: `complete` leaves the stream out
                    continue
                majority = round(100 - 100 * float(counts.max()) / len(y), 2)
                about = {"stream": name, "n": len(y), "majority": majority, "learner": learner, "budget": budget}
                rows.append(about | figures)
        print(name, flush=True)
    return complete(rows)


def complete(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of those streams and budgets on which every learner ran."""
    all_learners = {row["learner"] for row in rows}
    ran: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        ran.setdefault((row["stream"], row["budget"]), set()).add(row["learner"])
    return [row for row in rows if ran[row["stream"], row["budget"]] == all_learners]


def excess(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """(Learner, budget) → mean over the streams of its error minus the least error of any learner at that budget."""
    least = {(row["stream"], row["budget"]): 1e9 for row in rows}
    for row in rows:
        key = row["stream"], row["budget"]
        least[key] = min(least[key], row["error"])
    results: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        results.setdefault((row["learner"], row["budget"]), []).append(
            row["error"] - least[row["stream"], row["budget"]]
        )
    return {key: float(np.mean(values)) for key, values in results.items()}


def geometric_mean(rows: list[dict[str, Any]], name: str) -> dict[tuple[str, str], float]:
    """(Learner, budget) → geometric mean of a figure over the streams."""
    results: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        results.setdefault((row["learner"], row["budget"]), []).append(row[name])
    return {key: float(np.exp(np.mean(np.log(values)))) for key, values in results.items()}


def figure(rows: list[dict[str, Any]]) -> str:
    drawn = new_figure("compare", 11, 6)
    left, right = drawn.subplots(1, 2, sharey=True)
    above, size, time_of = excess(rows), geometric_mean(rows, "bytes"), geometric_mean(rows, "microseconds")
    names = list(dict.fromkeys(row["learner"] for row in rows))
    for number, name in enumerate(names):
        style = {"color": COLOURS[number % len(COLOURS)], "marker": "osv^D*"[number // len(COLOURS)], "lw": 1, "ms": 5}
        points = [(name, budget) for budget in BUDGETS]
        left.plot([size[p] / 1024 for p in points], [above[p] for p in points], **style)
        right.plot([time_of[p] for p in points], [above[p] for p in points], label=name, **style)
    for ax, label in ((left, "KiB of the model"), (right, "microseconds per example")):
        ax.set_xscale("log")
        ax.set_xlabel(label)
        ax.grid(alpha=0.3)
    left.set_ylabel("error above the best learner of the stream, points (mean)")
    right.legend(bbox_to_anchor=(1.02, 1), loc="upper left", fontsize=8)
    return as_svg(drawn)


def markdown(rows: list[dict[str, Any]], picture: str) -> str:
    """The tables of the page; `picture` is the path of the figure, seen from the page."""
    above, time_of = excess(rows), geometric_mean(rows, "microseconds")
    names = sorted(dict.fromkeys(row["learner"] for row in rows), key=lambda name: above[name, BUDGETS[1]])
    counted = list(dict.fromkeys(row["stream"] for row in rows))
    lines = [
        f"![Errors of every learner against bytes and microseconds]({picture})", "",
        f"Means over {len(counted)} streams of at most {ROWS:,} rows: error minus the least error of any learner at "
        "that budget, in points, and microseconds per example (geometric mean). At each budget, streams whose rows are "
        "too wide for it are left out.", "",
        "| | " + " | ".join(BUDGETS) + " |", "|---|" + "---:|" * len(BUDGETS),
    ]  # fmt: skip
    lines += [f"| {name} | " + " | ".join(f"{above[name, b]:.1f}, {time_of[name, b]:.1f} µs" for b in BUDGETS) + " |"
              for name in names]  # fmt: skip
    lines += ["", f"Error in per cent at {BUDGETS[1]}; *majority* always predicts the most frequent class.", "",
              "| | " + " | ".join(counted) + " |", "|---|" + "---:|" * len(counted)]  # fmt: skip
    cell = {(row["learner"], row["stream"]): row["error"] for row in rows if row["budget"] == BUDGETS[1]}
    constant = {row["stream"]: row["majority"] for row in rows}
    lines.append("| *majority* | " + " | ".join(f"*{constant[stream]:.1f}*" for stream in counted) + " |")
    lines += [f"| {name} | " + " | ".join(f"{cell[name, stream]:.1f}" for stream in counted) + " |" for name in names]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--from", dest="folder", type=Path, help="folder of the classic sets")
    parser.add_argument("--page", type=Path, help="page of documentation to insert the tables into")
    parser.add_argument("--again", action="store_true", help="draw the recorded results, without measuring")
    arguments = parser.parse_args()
    results, picture = HERE / "compare.json", HERE / "compare.svg"
    if not arguments.again:
        try:  # before anything is measured, which takes minutes
            classic = classic_files(arguments.folder) if arguments.folder else {}
        except FileNotFoundError as error:
            parser.error(str(error))
        rows = measured(classic)
        results.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")
    rows = json.loads(results.read_text(encoding="utf-8"))
    picture.write_text(figure(rows), encoding="utf-8")
    relative = Path(os.path.relpath(picture, (arguments.page or results).parent)).as_posix()
    text = markdown(rows, relative)
    print(text)
    if arguments.page:
        arguments.page.write_text(with_table(arguments.page.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
