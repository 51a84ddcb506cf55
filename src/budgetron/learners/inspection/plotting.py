"""Plots of a fitted model (matplotlib, the extra `plot`), and its HTML table for notebooks.

Base class of `Learner`. Plots only read a model, and never change it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from html import escape
from typing import Any

import numpy as np
from sklearn.utils import estimator_html_repr

from budgetron.errors import input_error
from budgetron.learners.input.classes import label_text
from budgetron.learners.inspection.attributes import Inspection
from budgetron.plots import COLOURS, MANY, axes_for, bars, checked_top, matrix


class Plots(Inspection):
    """The plot methods of learners. Each draws on `ax`, or on new axes, and returns the axes."""

    def plot_budget_share(self, *, top: int = MANY, ax: Any = None) -> Any:
        """Plot the share of the stored examples per task as bars, for the `top` largest shares."""
        self._check_fitted()
        shares = list(self.budget_share_.items())
        shown_ = shares[: checked_top(self._who, top)]
        rest = sum(share for _, share in shares[len(shown_) :])
        names: list[Hashable] = [task for task, _ in shown_]
        values = [100 * share for _, share in shown_]
        if rest:
            names.append(f"{len(shares) - len(shown_):,} others")
            values.append(100 * rest)
        ax = axes_for(self._who, ax)
        bars(ax, names, values, "% of stored examples", COLOURS[0])
        ax.set_title(f"{self.n_stored_:,} stored examples")
        return ax

    def plot_similarity(self, tasks: Iterable[Any] | None = None, *, top: int = MANY, ax: Any = None) -> Any:
        """Plot the graph's similarity of each pair of tasks as a shaded matrix, scaled to 1 on the diagonal.

        `tasks` selects the tasks; by default the `top` tasks with the most stored examples.
        """
        self._check_fitted()
        chosen = list(self.budget_share_)[: checked_top(self._who, top)] if tasks is None else list(tasks)
        if not chosen:
            raise input_error(self._who, "tasks", "at least one task", "none")
        similarity = np.array([[self._graph.similarity(a, b) for b in chosen] for a in chosen])
        # A similarity matrix given by the user may have zeros on the diagonal, which cannot be scaled to 1.
        scale = np.sqrt(np.where(np.diag(similarity) > 0, np.diag(similarity), 1.0))
        shades = similarity / np.outer(scale, scale)
        return matrix(axes_for(self._who, ax), chosen, shades, "similarity", signed=bool((shades < 0).any()))

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram, followed by a table with the model's content."""
        diagram: str = estimator_html_repr(self)
        return diagram + learned_table(self) if self._is_fitted else diagram


def learned_table(model: Any) -> str:
    """Return an HTML table with the model's counts, memory, classes and largest tasks."""
    wrong = f" ({model.n_mistakes_ / model.n_seen_:.1%})" if model.n_seen_ else ""
    share = list(model.budget_share_.items())
    rows = {"examples seen": f"{model.n_seen_:,}", "mistakes": f"{model.n_mistakes_:,}{wrong}"}
    if model.capacity_ != 0:  # 0 for learners that store weights, such as a Budgetron
        rows["stored"] = f"{model.n_stored_:,}" + ("" if model.capacity_ is None else f" of {model.capacity_:,}")
    rows |= {
        "memory": f"{model.memory_bytes_ / 1024:,.0f} KiB",
        "classes": ", ".join(map(label_text, model.classes_[:6])) + (", …" if len(model.classes_) > 6 else ""),
    }
    if share:
        largest = ", ".join(f"{_short(task)} {part:.0%}" for task, part in share[:3])
        rows["tasks with stored examples"] = f"{len(share):,}: {largest}" + (", …" if len(share) > 3 else "")
    if getattr(model, "beliefs_", None):
        belief, weight = max(model.beliefs_, key=lambda pair: pair[1])
        rows["strongest belief"] = f"{belief}, weight {weight:.0%}"
    body = "".join(
        f'<tr><th style="text-align:left;font-weight:normal">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f'<table style="margin-top:0.5em"><caption style="display:none">What was learned</caption>{body}</table>'


def _short(task: Hashable) -> str:
    text = str(task)
    return text if len(text) <= 30 else text[:29] + "…"
