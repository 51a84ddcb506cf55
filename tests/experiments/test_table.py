"""The table, its findings and its three renderings, from synthetic runs with known results."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console
from synthetic_runs import synthetic_runs

from budgetron.errors import InputError
from budgetron.experiments import all_done, findings, render, table_of
from budgetron.experiments.algorithms import BASELINE, BUDGETRON_SAME_BYTES, PAPER
from budgetron.experiments.findings import differences
from budgetron.experiments.page import BEGIN, END, with_table
from budgetron.experiments.plotting import draw_f_against_budget, f_against_budget
from budgetron.experiments.printed import BASELINE as PRINTED_BASELINE
from budgetron.experiments.printed import COLUMNS, best_printed, printed


def cell_values(runs: list[dict[str, Any]], key: tuple[Any, ...], figure: str) -> list[float]:
    block, name, graph, share = key
    return [
        100 * cell[figure]
        for run in runs
        if (run["parameters"]["block"], run["parameters"]["algorithm"]) == (block, name)
        for cell in run["cells"]
        if (cell["graph"], cell["share"]) == (graph, share)
    ]


def test_cells_have_the_mean_and_the_standard_error() -> None:
    runs = synthetic_runs(5)
    table = table_of(runs)
    for key in [
        ("spam", "mtrbp", "C", 10),
        ("school", "mtbprj-2", "D", 5),
        ("sentiment", BASELINE, "D", None),
    ]:
        for figure in ("f_measure", "error"):
            values, estimate = cell_values(runs, key, figure), table.estimate(key, figure)
            assert estimate is not None and len(values) == estimate.n == 5
            assert estimate.mean == pytest.approx(statistics.mean(values))
            assert estimate.error == pytest.approx(statistics.stdev(values) / 5**0.5)
    assert table.estimate(("spam", "none", "C", 5)) is None
    single = table_of(synthetic_runs(1)).estimate(("spam", "mtrbp", "C", 10))
    assert single is not None and "±" not in str(single)  # one order has no standard error


def test_paired_differences_cancel_shared_noise() -> None:
    runs = synthetic_runs(6, noise=0.0)
    for run in runs:
        for cell in run["cells"]:
            cell["f_measure"] += 0.01 * run["parameters"]["seed"]  # an easy order is easy for all learners
    pair = table_of(runs).paired(("spam", "mtbprj", "C", 5), ("spam", "mtrbp", "C", 5))
    assert (
        pair is not None
        and pair.mean == pytest.approx(83.4 - 72.8)
        and pair.error == pytest.approx(0, abs=1e-9)
    )


def test_markdown_has_every_cell_beside_its_printed_value() -> None:
    runs = synthetic_runs(4)
    text = render.markdown(table_of(runs), findings(table_of(runs)))
    for block in ("spam", "school", "sentiment"):
        for name in PAPER:
            for graph, share in COLUMNS:
                values = cell_values(runs, (block, name, graph, share), "f_measure")
                mean, error = statistics.mean(values), statistics.stdev(values) / 2
                printed_value = printed(block, name, graph, share)
                assert printed_value is not None
                assert f"{mean:.1f} ± {error:.1f} ({printed_value:.1f}, {mean - printed_value:+.1f})" in text
    assert text.count("| mtbprj-2 |") == 8  # in each of four blocks, for F and for the error
    assert "4 orders, version 9.9" in text and render.FIGURE in text


def test_html_is_self_contained_and_agrees_with_the_terminal() -> None:
    runs = synthetic_runs(4)
    table = table_of(runs)
    page = render.html(table, findings(table), f_against_budget(table))
    body = re.sub(r"<!doctype html>|<meta[^>]*>", "", page)
    ElementTree.fromstring(body)  # closed tags, escaped text
    assert not re.search(r'(?:src|[^:]href)="(?!#)', page)
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render.terminal(table, findings(table)))
    text = console.export_text()
    console.file.close()
    for key in [("spam", "mtrbp", "C", 25), ("school-0.5", "mtforg", "D", 5)]:
        estimate = table.estimate(key)
        assert str(estimate) in page and str(estimate) in text


def test_the_figure_has_a_line_per_row_and_a_circle_per_printed_cell() -> None:
    figure = draw_f_against_budget(table_of(synthetic_runs(2)))
    lines = [line for ax in figure.axes for line in ax.lines]
    circles = [line for line in lines if line.get_marker() == "o"]
    assert sum(len(line.get_xdata()) for line in circles) == 72  # three sets, four learners, six columns
    curves = [line for line in lines if line.get_marker() != "o" and len(line.get_xdata()) == 3]
    assert len(curves) == 4 * len(PAPER) * 2  # four blocks and two graphs


def test_findings_that_hold_are_reported_as_such() -> None:
    table = table_of(synthetic_runs(4, above_print=0.5, noise=0.0))
    assert len(differences(table)) == 72
    near, far, complete, projections = findings(table)
    assert near.holds and "0.50 over 72 cells" in near.found and "+0.50" in near.found
    assert far.holds and complete.holds and complete.found == "36 of 36"
    # These runs are the printed values plus a constant. One cell of the printed table contradicts this finding twice.
    assert projections.found == "70 of 72" and not projections.holds
    assert all(line.startswith("school D 5 %: mtbprj against mt") for line in projections.exceptions)


def test_findings_that_do_not_hold_are_reported_as_such() -> None:
    near, far, *_ = findings(table_of(synthetic_runs(3, above_print=-4.5, noise=0.0)))
    assert not near.holds and not far.holds and len(far.exceptions) == 72
    runs = synthetic_runs(3, noise=0.0)
    for run in runs:
        if run["parameters"]["algorithm"] == "mtforg" and run["parameters"]["block"] == "spam":
            for cell in run["cells"]:
                if cell["graph"] == "D":
                    cell["f_measure"] += 0.2
    complete = findings(table_of(runs))[2]
    assert not complete.holds and complete.found == "33 of 36"
    assert {line.split(":")[0] for line in complete.exceptions} == {
        f"spam mtforg {share} %" for share in (25, 10, 5)
    }


def test_an_exception_within_noise_is_listed_and_does_not_refute_the_finding() -> None:
    runs = synthetic_runs(4, noise=0.0)
    for run in runs:
        if run["parameters"]["algorithm"] == "mtrbp" and run["parameters"]["block"] == "spam":
            for cell in run["cells"]:
                if cell["graph"] == "D" and cell["share"] == 25:
                    cell["f_measure"] = 0.853 + (0.02 if run["parameters"]["seed"] % 2 else -0.019)
    complete = findings(table_of(runs))[2]
    assert complete.holds and len(complete.exceptions) == 1 and "within noise" in complete.exceptions[0]


@pytest.mark.parametrize(("f", "error", "holds"), [(0.97, 0.2, True), (0.97, 0.21, False), (0.9, 0.2, False)])
def test_the_finding_about_budgetron_checks_its_goals(f: float, error: float, holds: bool) -> None:
    """The goals include an F-measure of 96 % on Spam, and an error of at most 20.5 % on School."""
    runs = synthetic_runs(2)
    same = {"f_measure": f, "error": error, "stored": 1, "bytes": 1, "seconds": 1}
    for block in ("spam", "school", "sentiment"):
        parameters = {"block": block, "seed": 0, "algorithm": BUDGETRON_SAME_BYTES}
        cells = [{"graph": graph, "share": share, **same} for graph, share in COLUMNS]
        runs.append({"parameters": parameters, "version": "9.9", "cells": cells})
    ours = findings(table_of(runs))[4]
    assert ours.holds is holds
    assert any("school" in line and "error" in line for line in ours.exceptions) is (error > 0.205)


def test_json_records_have_every_cell() -> None:
    records = json.loads(json.dumps(table_of(synthetic_runs(1)).to_dict()))
    assert len(records) == 4 * (1 + 4 * 6)  # per block: the baseline, and four learners with six columns each
    assert all(record["f_se"] is None for record in records)  # one order: the standard error is unknown, not NaN
    assert {record["printed"] for record in records if record["algorithm"] == BASELINE} == set(
        PRINTED_BASELINE.values()
    )


def test_the_table_is_inserted_between_the_two_comments_of_a_page() -> None:
    page = f"# Title\n\n{BEGIN}\nold\n{END}\n\nrest\n"
    once = with_table(page, "new\n")
    assert once == with_table(once, "new\n") and "old" not in once and once.endswith("\n\nrest\n")
    with pytest.raises(InputError, match="does not say where the table goes"):
        with_table("# Title", "new")


def test_the_printed_table_is_that_of_the_paper() -> None:
    source = Path(__file__).resolve().parents[3] / "shared" / "paper" / "paper.tex"
    if not source.exists():
        pytest.skip("the paper's source is not in ../shared/paper beside this checkout")
    rows = re.findall(r"(mt\w+(?:-2)?) &((?: ?\d+\.\d\\% *&?){6})", source.read_text())
    printed_rows = [(name, tuple(float(v) for v in re.findall(r"\d+\.\d", values))) for name, values in rows]
    expected = [
        (name, tuple(printed(block, name, *column) for column in COLUMNS))
        for block in ("spam", "school", "sentiment")
        for name in PAPER
    ]
    assert printed_rows == expected
    assert best_printed("school", "C", 5) == 39.6


COMMITTED = Path(__file__).resolve().parents[2] / "benchmarks" / "paper"


def test_the_committed_results_are_complete_and_rendered_by_the_command() -> None:
    if not (COMMITTED / "table.md").exists():
        pytest.skip("benchmarks/paper is not part of this copy (it is left out of the source distribution)")
    runs = all_done(COMMITTED)
    table = table_of(runs)
    assert table.n_orders == 10 and len(differences(table)) == 72
    conclusions = findings(table)
    assert (COMMITTED / "table.md").read_text() == "# Table 1\n\n" + render.markdown(table, conclusions)
    # The figure's bytes depend on the version of matplotlib, so only its beginning is checked.
    assert (COMMITTED / render.FIGURE).read_text().startswith("<svg")
    page = (COMMITTED / "table.html").read_text()
    assert re.sub(r"<svg.*</svg>\n?", "", page, flags=re.DOTALL) == render.html(table, conclusions, "")
    page = COMMITTED.parents[1] / "docs" / "reproduce.md"
    figure = f"../benchmarks/paper/{render.FIGURE}"
    rendered = render.markdown(table, conclusions, heading="###", figure=figure)
    assert page.read_text() == with_table(page.read_text(), rendered)
    for run in runs:
        assert set(run["machine"]) == {"cpus", "arch", "python", "numpy"}
        assert "/" not in json.dumps(run)  # no path of any machine
