"""python benchmarks/flagship/report.py

Renders what the other scripts found: RESULTS.md, every row, and docs/algorithms/budgetron-results.md, what it comes to:
the words of page.md with tables from results/*.json. Edit neither page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from common import HERE, Row, saved

DOCS = HERE.parents[1] / "docs" / "algorithms" / "budgetron-results.md"
SCRIPTS = {
    "equal_budget": "Equal B: as it comes, against itself with its mind made up",
    "equal_bytes": "Equal bytes: inside what mtbprj-2 takes",
    "held_out": "Held out: sets, orders and scales the rule was not chosen on",
    "drift": "Drift: streams that turn",
    "multiclass": "More than two classes",
    "weaknesses": "Awkward streams, against simple baselines",
    "open_questions": "Open questions of NOTES, one switch of the prototype at a time",
}
COLUMNS = {
    "error": ("error %", "{:.2f}"),
    "f": ("F %", "{:.1f}"),
    "log_loss": ("log loss", "{:.4f}"),
    "ece": ("ECE", "{:.3f}"),
    "bytes": ("KiB", "{:,.0f}"),
    "stored": ("stored", "{:.0f}"),
    "skipped": ("skipped", "{:.0%}"),
    "micros": ("µs", "{:.0f}"),
}
AWKWARD = {
    "error": "Budgetron",
    "sgd": "SGD",
    "adagrad": "AdaGrad",
    "refitted": "refitted",
}
COLUMNS |= {name: (title, "{:.2f}") for name, title in AWKWARD.items() if name != "error"}


def table(rows: Iterable[Row], labels: tuple[str, ...], columns: Iterable[str]) -> list[str]:
    """A Markdown table; mean ± standard error for the error and F."""
    chosen = [column for column in columns if any(column in row for row in rows)]
    heads = [*labels, *(COLUMNS[column][0] for column in chosen)]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(labels) + "---:|" * len(chosen)]
    for row in rows:
        cells = [str(row.get(label, "")) for label in labels] + [cell(row, column) for column in chosen]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def cell(row: Row, column: str) -> str:
    if column not in row:
        return "–"
    value = row[column] / 1024 if column == "bytes" else row[column]
    text = COLUMNS[column][1].format(value)
    if column in ("error", "f") and row.get("orders", 1) > 1:
        text += f" ± {COLUMNS[column][1].format(row[column + '_se'])}"
    return text


def checks(found: Row) -> list[str]:
    marks = {True: "holds", False: "**fails**"}
    return [f"- {marks[one['holds']]}: {one['what']} ({one['detail']})" for one in found["checks"]]


def labels_of(name: str) -> tuple[str, ...]:
    if name == "weaknesses":
        return ("stream",)
    last = "variant" if name == "open_questions" else "learner"
    return ("stream", "share", last) if name == "equal_bytes" else ("stream", last)


def results() -> str:
    lines = ["# Results of the flagship benchmarks", "", "Made by `report.py` from `results/*.json`. Do not edit.", ""]
    for name, title in SCRIPTS.items():
        found = saved(name)
        if found is None:
            continue
        lines += [f"## {title}", ""]
        lines += [f"`python benchmarks/flagship/{name}.py`, version {found['version']}, {found['date']}.", ""]
        lines += [*checks(found), ""] if found["checks"] else []
        lines += [*table(found["rows"], labels_of(name), COLUMNS), ""]
    return "\n".join(lines)


def docs() -> str:
    page = (HERE / "page.md").read_text(encoding="utf-8")
    for name in SCRIPTS:
        found = saved(name)
        page = page.replace("{" + name + "}", "\n".join(BODIES[name](found)) if found else "(not run)")
        if found:
            page = page.replace("{" + name + " checks}", "\n".join(checks(found)))
            fails = [line for line in checks(found) if "fails" in line]
            page = page.replace("{" + name + " fails}", "\n".join(fails) or "All that was promised here holds.")
    return page


def one_line_a_stream(wanted: dict[str, str]) -> Callable[[Row], list[str]]:
    """Errors of chosen learners, the best where several begin so; log loss and ECE of auto. One line a stream."""

    def lines_of(found: Row) -> list[str]:
        by_stream: dict[str, list[Row]] = {}
        for row in found["rows"]:
            by_stream.setdefault(row["stream"], []).append(row)
        lines = ["| stream | " + " | ".join(wanted) + " | log loss | ECE |", "|---|" + "---:|" * (len(wanted) + 2)]
        for stream, rows in by_stream.items():
            cells = []
            for learner in wanted.values():
                of = [row for row in rows if row["learner"] == learner or row["learner"].startswith(learner + ":")]
                cells.append(cell(min(of, key=lambda row: row["error"]), "error") if of else "–")
            cells += [cell(rows[0], "log_loss"), cell(rows[0], "ece")]
            lines.append(f"| {stream} | " + " | ".join(cells) + " |")
        return lines

    return lines_of


def one_line_a_variant(found: Row) -> list[str]:
    streams = list(dict.fromkeys(row["stream"] for row in found["rows"]))
    at = {(row["stream"], row["variant"]): row for row in found["rows"]}
    lines = ["| variant | " + " | ".join(streams) + " |", "|---|" + "---:|" * len(streams)]
    for variant in dict.fromkeys(row["variant"] for row in found["rows"]):
        cells = [f"{at[one, variant]['error']:.2f} / {at[one, variant]['log_loss']:.4f}" for one in streams]
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return lines


def whole(labels: tuple[str, ...], columns: tuple[str, ...]) -> Callable[[Row], list[str]]:
    return lambda found: table(found["rows"], labels, columns)


_FEW = {name: name for name in ("auto", "independent", "pooled", "linear only")}
BODIES: dict[str, Callable[[Row], list[str]]] = {
    "equal_budget": one_line_a_stream(
        {"auto": "auto", "best fixed belief": "fixed"}
        | {name: name for name in ("independent", "pooled", "coupled", "linear only", "kernel only")}
    ),
    "equal_bytes": whole(("stream", "share", "learner"), ("f", "error", "bytes", "stored")),
    "held_out": one_line_a_stream(_FEW | {"best fixed belief": "fixed"}),
    "drift": whole(("stream", "learner"), ("error", "log_loss", "ece")),
    "multiclass": whole(("stream", "learner"), ("error", "log_loss", "bytes")),
    "weaknesses": lambda found: table(found["rows"], ("stream",), tuple(AWKWARD)),
    "open_questions": one_line_a_variant,
}

if __name__ == "__main__":
    (HERE / "RESULTS.md").write_text(results() + "\n", encoding="utf-8")
    DOCS.write_text(docs(), encoding="utf-8")
