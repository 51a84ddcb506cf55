"""`budgetron history`: list the runs that `run --history` recorded, and test whether the last two differ."""

from __future__ import annotations

import json
from typing import Any

import click

from budgetron.cli.formatting import console, decimal, percent, source_words, table
from budgetron.cli.options import json_option
from budgetron.errors import InputError

WHO = "history"


@click.command()
@click.argument("file", type=click.Path())
@click.option("--last", type=click.IntRange(min=1), default=20, show_default=True, help="Runs to list.")
@json_option
def command(file: str, last: int, as_json: bool) -> None:
    """List the runs that `budgetron run --history FILE` recorded, oldest first, and compare the last two.

    \b
    budgetron run monday.csv --save m.budgetron --history runs.ndjson
    budgetron run tuesday.csv --resume m.budgetron --save m.budgetron --history runs.ndjson
    budgetron history runs.ndjson
    """
    from budgetron.evaluate.history import changes

    runs = _read(file)
    differences = changes(runs[-2], runs[-1]) if len(runs) > 1 else []
    if as_json:
        as_dicts = [change._asdict() | {"significant": change.is_significant} for change in differences]
        click.echo(json.dumps({"runs": runs[-last:], "changes": as_dicts}))
        return
    out = console()
    names = ["when", "stream", "examples", "error %", "AUC", "avg prec", "log loss", "alarms"]
    rows = table(names, left=["when", "stream"])
    for run in runs[-last:]:
        rows.add_row(
            str(run["at"]), source_words(run["source"]), f"{run['n']:,}", percent(run["error"], ""),
            decimal(run["auc"]), decimal(run["average_precision"]), decimal(run["log_loss"]), str(run["n_alarms"]),
        )  # fmt: skip
    out.print(rows)
    for change in differences:
        formatted = percent if change.figure == "error" else decimal
        name = "error" if change.figure == "error" else "AUC"
        before, after = formatted(change.before), formatted(change.after)
        verb = "rose" if change.after > change.before else "fell"
        what = f"{verb} from {before} to {after}" if change.after != change.before else "is the same"
        verdict = "a significant difference" if change.is_significant else "no significant difference"
        out.print(f"The {name} {what}: {verdict} ({abs(change.deviations):.1f} standard deviations).")


def _read(file: str) -> list[dict[str, Any]]:
    runs = []
    with open(file, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                run = json.loads(line)
                # Looking up each field raises KeyError for a line that is JSON but not a run.
                runs.append({name: run[name] for name in _FIELDS} | run)
            except (ValueError, KeyError, TypeError):
                message = f"{WHO}: line {number} of {file} is not a run recorded by `budgetron run --history`."
                raise InputError(message) from None
    if not runs:
        raise InputError(f"{WHO}: {file} has no runs. Record them with: budgetron run STREAM --history {file}")
    return runs


# The fields that every recorded run has; a run may have more.
_FIELDS = ("at", "source", "n", "error", "auc", "average_precision", "log_loss", "n_alarms")
