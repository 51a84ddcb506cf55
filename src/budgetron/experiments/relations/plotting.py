"""Plot the learned relations beside the true ones, and errors over time, as SVG files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from budgetron.errors import import_extra
from budgetron.experiments.relations.rows import rows_for
from budgetron.experiments.relations.table import Results, values
from budgetron.plots import COLOURS

MATRICES = ("independent", "LogDet", "Cov", "BatchOpt", "von Neumann", "2p-norm, p = 2", "Budgetron")
CURVES = ("Perceptron", "Shifting Perceptron", "fixed-shrink, B = 1000", "mtrbp", "mtforg", "Budgetron")


def draw(results: Results, out: Path) -> list[str]:
    """Write the pictures for the streams that were run, and return their names."""
    pictures = []
    related = [name for name in ("opposed", "kinds", "grid") if name in results]
    if related:
        _save(_matrices(results, related), out / "relations.svg")
        pictures.append("relations.svg")
    shifting = [name for name in ("steady", "turn", "drift", "several") if name in results]
    if shifting:
        _save(_curves(results, shifting), out / "shifting.svg")
        pictures.append("shifting.svg")
    return pictures


def _matrices(results: Results, streams: Sequence[str]) -> Any:
    """Plot one row of matrices per stream: the true similarity, then the similarity that each learner found."""
    pyplot = import_extra("reproduce", "matplotlib.pyplot", "plot")
    figure, axes = pyplot.subplots(len(streams), len(MATRICES) + 1, figsize=(11.5, 1.7 * len(streams)), squeeze=False)
    for number, (line, stream) in enumerate(zip(axes, streams, strict=True)):
        first = next((content for content in results[stream] if "similarity" in content), None)
        if first is None:
            continue
        learned = {cell["row"]: cell.get("similarity") for cell in first["cells"]}
        for ax, name in zip(line, ("truth", *MATRICES), strict=True):
            matrix = first["similarity"] if name == "truth" else learned.get(name)
            if matrix is not None:
                ax.imshow(np.array(matrix), cmap="RdBu", vmin=-1, vmax=1)
            ax.set_xticks([])
            ax.set_yticks([])
            if number == 0:
                ax.set_title(name, fontsize=8)
        line[0].set_ylabel(stream, fontsize=9)
    figure.tight_layout()
    return figure


def _curves(results: Results, streams: Sequence[str]) -> Any:
    """Plot one panel per stream: the errors of the learners over time."""
    pyplot = import_extra("reproduce", "matplotlib.pyplot", "plot")
    figure, axes = pyplot.subplots(1, len(streams), figsize=(11.5, 2.8), sharey=True, squeeze=False)
    for ax, stream in zip(axes[0], streams, strict=True):
        names = {row.name for row in rows_for(stream)}
        for colour, name in zip(COLOURS, (name for name in CURVES if name in names), strict=False):
            curve = values(results, stream, name, "curve")
            if len(curve):
                positions = (np.arange(curve.shape[1]) + 0.5) / curve.shape[1]  # the middle of each piece
                ax.plot(positions, 100 * curve.mean(axis=0), label=name, color=colour, linewidth=1.2)
        ax.set_title(stream, fontsize=9)
        ax.set_xlabel("share of the stream", fontsize=8)
        ax.tick_params(labelsize=7)
    axes[0][0].set_ylabel("errors in %", fontsize=8)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize=8, frameon=False)
    return figure


def _save(figure: Any, path: Path) -> None:
    pyplot = import_extra("reproduce", "matplotlib.pyplot", "plot")
    # A fixed salt and no date, so that the same figure gives the same file.
    with pyplot.rc_context({"svg.hashsalt": "budgetron", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
