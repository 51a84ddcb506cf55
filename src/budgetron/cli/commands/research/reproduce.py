"""`budgetron reproduce`: rerun published tables, by default the paper's Table 1, and compare the values."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from budgetron import data
from budgetron.cli import INTERRUPTED
from budgetron.errors import import_extra
from budgetron.experiments import all_done, findings, is_done, planned, render, table_of
from budgetron.experiments.blocks import block_named, chosen_blocks
from budgetron.experiments.kernel import runs as kernel_runs
from budgetron.experiments.kernel import table as kernel_table
from budgetron.experiments.kernel.sets import SETS, fetch, set_named
from budgetron.experiments.page import with_table
from budgetron.experiments.plotting import f_against_budget
from budgetron.experiments.relations import runs as relation_runs
from budgetron.experiments.relations import table as relation_table
from budgetron.experiments.relations.plotting import draw
from budgetron.experiments.relations.streams import STREAMS, stream_named
from budgetron.experiments.schedule import perform_all


@click.group(invoke_without_command=True)
@click.option(
    "--orders", type=click.IntRange(min=1), default=10, show_default=True, help="Random orders per data set."
)
@click.option("--sets", default="spam,school,sentiment", show_default=True, help="Data sets, separated by commas.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    help="Processes.  [default: one per core]",
)
@click.option("--paper-only", is_flag=True, help="Run only the paper's learners.")
@click.option("--quick", is_flag=True, help="Run one order only. A later full run reuses it.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("reproduction"), show_default=True, help="Output folder."
)
@click.option("--from", "folder", type=click.Path(), help="Folder with data files that you already have.")
@click.option(
    "--page", type=click.Path(path_type=Path, exists=True), help="Also insert the table into this Markdown page."
)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    orders: int,
    sets: str,
    jobs: int,
    paper_only: bool,
    quick: bool,
    out: Path,
    folder: str | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Rerun the paper's Table 1 and compare it with the printed one.

    Each run writes one JSON file below --out. Existing files are not computed again, so you can stop with Ctrl-C and
    continue later. The table is printed and written as table.md, table.html and a figure.

    `budgetron reproduce kernel` reruns the tables of a study of kernel learners instead. `budgetron reproduce
    relations` compares multitask learners on streams with known relations.
    """
    # `reproduce kernel` and `reproduce relations` also call this function of the group first.
    if ctx.invoked_subcommand is not None:
        return
    blocks = chosen_blocks(name.strip() for name in sets.split(",") if name.strip())
    # Missing packages are reported before hours of runs, not after them.
    import_extra("reproduce", "matplotlib", "plot")
    runs = planned(blocks, 1 if quick else orders, paper_only)
    # Download only the data of runs that are missing, and before any of them starts.
    missing = [run for run in runs if not is_done(run, out)]
    for name in dict.fromkeys(block_named(run.block).set_name for run in missing):
        data.fetch(name, folder=folder, progress=True)
    failed = _perform(runs, is_done, out, folder, jobs)
    table = table_of(
        # The table contains all finished runs of these blocks, also those of earlier commands.
        run for run in all_done(out) if run["parameters"]["block"] in {block.name for block in blocks}
    )
    conclusions = findings(table)
    figure = f_against_budget(table)
    (out / render.FIGURE).write_text(figure, encoding="utf-8")
    (out / "table.md").write_text("# Table 1\n\n" + render.markdown(table, conclusions), encoding="utf-8")
    (out / "table.html").write_text(render.html(table, conclusions, figure), encoding="utf-8")
    if page is not None:
        figure_path = Path(os.path.relpath(out / render.FIGURE, page.parent)).as_posix()
        rendered = render.markdown(table, conclusions, heading="###", figure=figure_path)
        page.write_text(with_table(page.read_text(encoding="utf-8"), rendered), encoding="utf-8")
    if as_json:
        content = {"cells": table.to_dict(), "findings": [finding.to_dict() for finding in conclusions]}
        click.echo(json.dumps(content))
    else:
        Console().print(render.terminal(table, conclusions))
        click.echo(f"Also in {out}: table.md, table.html, {render.FIGURE}, and runs/ with one JSON file per run.")

    for run, reason in failed.items():
        click.echo(f"Failed: {run.block}, order {run.seed}, {run.algorithm}. {reason}", err=True)
    if failed:
        sys.exit(1)


@command.command("kernel")
@click.option(
    "--orders", type=click.IntRange(min=1), default=20, show_default=True, help="Orders per data set."
)
@click.option("--sets", default=",".join(SETS), show_default=True, help="Data sets, separated by commas.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, help="Processes.  [default: one per core]"
)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("kernel-table"), show_default=True, help="Output folder."
)
@click.option("--from", "folder", type=click.Path(), help="Folder with NAME.npz or NAME.mat files.")
@click.option(
    "--page", type=click.Path(path_type=Path, exists=True), help="Also insert the tables into this Markdown page."
)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def kernel(
    orders: int, sets: str, jobs: int, out: Path, folder: str | None, page: Path | None, as_json: bool
) -> None:
    """Rerun Tables 5 and 7 of Lu et al., Large Scale Online Kernel Learning (2016), and compare the values.

    The learners are the ten of the study, some others, and Budgetron; the error of always predicting the most
    frequent class is shown too. Each run writes one JSON file below --out; existing files are not computed again.
    """
    names = [set_named(name.strip()).name for name in sets.split(",") if name.strip()]
    runs = kernel_runs.planned(names, orders)
    missing = [run for run in runs if not kernel_runs.is_done(run, out)]
    for name in dict.fromkeys(run.set_name for run in missing):
        fetch(set_named(name), folder)
    failed = _perform(runs, kernel_runs.is_done, out, folder, jobs)
    table = kernel_table.table_of(out, names)
    text = kernel_table.markdown(table)
    (out / "table.md").write_text("# Large Scale Online Kernel Learning, Tables 5 and 7\n\n" + text, encoding="utf-8")
    if page is not None:
        rendered = kernel_table.markdown(table, "###")
        page.write_text(with_table(page.read_text(encoding="utf-8"), rendered), encoding="utf-8")
    click.echo(json.dumps(table.to_dict()) if as_json else text)
    if not as_json:
        click.echo(f"Also in {out}: table.md, and runs/ with one JSON file per run.")
    for run, reason in failed.items():
        click.echo(f"Failed: {run}, order {run.order}. {reason}", err=True)
    if failed:
        sys.exit(1)


@command.command("relations")
@click.option(
    "--draws", type=click.IntRange(min=1), default=100, show_default=True, help="Draws of the stream `opposed`."
)
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Draws of the other streams.")
@click.option("--streams", default=",".join(STREAMS), show_default=True, help="Streams, separated by commas.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=os.cpu_count() or 1, help="Processes.  [default: one per core]"
)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("relations"), show_default=True, help="Output folder."
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, exists=True),
    help="Also insert the tables into this Markdown page, and the pictures into figures/ beside it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the means as JSON.")
def relations(draws: int, seeds: int, streams: str, jobs: int, out: Path, page: Path | None, as_json: bool) -> None:
    """Compare learners that learn how tasks are related, or follow a shift, on streams with a known answer.

    The learners are those of Cavallanti et al. (2007, 2010), of Saha et al. (2011) and of the paper, and Budgetron. The
    streams have three tasks of which two are opposed, groups of similar tasks, tasks on a grid, or a shift. Each run
    writes one JSON file below --out; existing files are not computed again. The learned relations are drawn as
    relations.svg, errors over time as shifting.svg.
    """
    names = [stream_named(name.strip()).name for name in streams.split(",") if name.strip()]
    import_extra("reproduce", "matplotlib", "plot")
    runs = relation_runs.planned(names, draws, seeds)
    failed = _perform(runs, relation_runs.is_done, out, None, jobs)
    results = relation_table.files_of(out, names)
    pictures = draw(results, out)
    text = relation_table.markdown(results)
    (out / "table.md").write_text("# Learned relations\n\n" + text, encoding="utf-8")
    if page is not None:
        rendered = relation_table.markdown(results, "##", "figures/")
        page.write_text(with_table(page.read_text(encoding="utf-8"), rendered), encoding="utf-8")
        (page.parent / "figures").mkdir(exist_ok=True)
        for picture in pictures:
            shutil.copy(out / picture, page.parent / "figures" / picture)
    click.echo(json.dumps(relation_table.to_dict(results)) if as_json else text)
    if not as_json:
        click.echo(f"Also in {out}: table.md, {', '.join(pictures)}, and runs/ with one JSON file per run.")
    for run, reason in failed.items():
        click.echo(f"Failed: {run}. {reason}", err=True)
    if failed:
        sys.exit(1)


def _perform(
    runs: list[Any], is_done: Callable[[Any, Path], bool], out: Path, folder: str | None, jobs: int
) -> dict[Any, str]:
    """Perform the missing runs with a progress bar. Return the runs that failed, with the reasons.

    Ctrl-C ends the process. The finished runs are on disk, so the same command continues later.
    """
    missing = [run for run in runs if not is_done(run, out)]
    if not missing:
        return {}
    out.mkdir(parents=True, exist_ok=True)
    try:
        with _progress(missing, len(runs)) as on_finished:
            return perform_all(missing, out, folder, min(jobs, len(missing)), on_finished)
    except KeyboardInterrupt:
        finished = sum(is_done(run, out) for run in runs)
        click.echo(
            f"Stopped; {finished} of {len(runs)} runs are finished. Repeat the command to continue.", err=True
        )
        sys.exit(INTERRUPTED)


@contextmanager
def _progress(missing: list[Any], n_runs: int) -> Iterator[Any]:
    """Show a progress bar, and yield the function to call after each run.

    The bar advances by the estimated effort of each run, so that the estimate of the remaining time is realistic.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[runs]}"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    finished = n_runs - len(missing)
    with Progress(*columns, *times, console=Console(stderr=True)) as display:
        bar = display.add_task("runs", total=sum(run.effort for run in missing), runs=f"{finished}/{n_runs}")

        def on_finished(run: Any) -> None:
            nonlocal finished
            finished += 1
            display.update(
                bar,
                advance=run.effort,
                runs=f"{finished}/{n_runs}",
                description=str(run),
            )

        yield on_finished
