"""`budgetron reproduce relations`: finished runs are not repeated; the table and pictures are made from their files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from budgetron.cli import main
from budgetron.experiments.relations import runs, streams, table
from budgetron.experiments.relations.rows import PRINTED, ROWS, rows_for


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("relations")
    for run in runs.planned(["opposed"], draws=6, seeds=1):
        run.perform(folder, None)
        assert runs.is_done(run, folder)
    return folder


def test_relations_of_opposed_tasks(out: Path) -> None:
    """The true correlations are −1, 0, 0. Independent Perceptrons come close to them.

    With the complete graph, the tasks share what they learn, so all three correlations are higher.
    """
    results = table.files_of(out, ["opposed"])
    means = {row.name: table.values(results, "opposed", row.name, "correlations").mean(axis=0)
             for row in rows_for("opposed")}  # fmt: skip
    assert -0.95 < means["independent"][0] < -0.65 and abs(means["independent"][1:]).max() < 0.15
    assert (means["complete graph"] > means["independent"] + 0.1).all()
    assert means["LogDet"][0] < means["independent"][0] < means["complete graph"][0]
    assert means["Budgetron"][0] < -0.7 and abs(means["Budgetron"][1:]).max() < 0.3


def test_the_table_has_a_line_per_learner_and_the_printed_values(out: Path) -> None:
    results = table.files_of(out, ["opposed", "kinds"])
    text = table.markdown(results)
    assert all(f"| {row.name} |" in text for row in rows_for("opposed")) and "-0.91" in text
    assert "kinds" not in results and PRINTED.keys() <= {row.name for row in ROWS}
    records = table.to_dict(results)
    assert {record["draws"] for record in records} == {6} and len(records) == len(rows_for("opposed"))


def test_the_text_above_the_table_says_which_row_has_cosines(out: Path) -> None:
    """`similarity_of` has correlations of the weights for every learner but one; they differ from cosines."""
    drawn = streams.stream_named("opposed").draw(0).dataset
    cosines_only = set()
    for row in rows_for("opposed"):
        model = row.make("opposed").fit(drawn.X, drawn.y, tasks=drawn.tasks)
        correlations, cosines = (runs.similarity_of(model, [0, 1, 2], centred=centred) for centred in (True, False))
        cosines_only |= {row.name} if np.array_equal(correlations, cosines) else set()
    assert cosines_only == {"Budgetron"}
    text = table.markdown(table.files_of(out, ["opposed"])).splitlines()[2]
    assert "correlations of the learned weights (of Budgetron: their cosines)" in text
    page = Path(__file__).parents[2] / "docs" / "reproduce-relations.md"
    assert text.replace("6 draws", "100 draws") in page.read_text(encoding="utf-8").splitlines()


def test_every_stream_is_drawn_and_has_learners() -> None:
    for name, stream in streams.STREAMS.items():
        drawn = stream.draw(1)
        assert len(drawn.dataset.y) == {"opposed": 300, "kinds": 6000}.get(name, 8000)
        assert (drawn.similarity is None) == (name not in ("opposed", "kinds", "grid")) and rows_for(name)
        assert np.array_equal(stream.draw(1).dataset.X, drawn.dataset.X)


def test_the_command_continues_and_draws(out: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- table: made by `budgetron reproduce`, not by hand -->\nold\n<!-- end of table -->\nb\n")
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*.json")}
    command = ["reproduce", "relations", "--streams", "opposed", "--draws", "6", "--out", str(out), "--jobs", "1"]
    result = CliRunner().invoke(main, [*command, "--json", "--page", str(page)])
    assert result.exit_code == 0 and len(json.loads(result.output)) == len(rows_for("opposed"))
    assert before == {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*.json")}
    assert "| independent |" in page.read_text() and "old" not in page.read_text()
    assert (tmp_path / "figures" / "relations.svg").read_text().startswith("<?xml")
    refused = CliRunner().invoke(main, ["reproduce", "relations", "--streams", "nosuch", "--out", str(tmp_path)])
    assert refused.exit_code == 2 and "opposed" in refused.output
