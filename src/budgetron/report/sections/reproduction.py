"""The sections with the model's parameters and with instructions to reproduce the run."""

from __future__ import annotations

import shlex
from typing import Any

from budgetron.errors import shown
from budgetron.report.context import Context
from budgetron.report.page import as_bytes, as_count, escape, name_of
from budgetron.report.parts import Section, pairs, paragraph
from budgetron.report.sections.budget import memory_limit

_MAX_NOTES = 200
_MAX_UNFOLDED = 8  # more notes than this are folded


def settings(model: Any, context: Context) -> Section:
    """Return the section with the parameters, and with the values that were decided while learning."""
    if model is None:
        return Section("settings", "Settings", paragraph("No model was given."))
    parameters = sorted(model.get_params(deep=False).items()) if hasattr(model, "get_params") else []
    rows = [("learner", type(model).__name__), *((name, shown(value, 300)) for name, value in parameters)]
    markup = f"<div><h3>Parameters</h3>{pairs(rows)}</div>"
    if hasattr(model, "n_seen_"):
        markup += f"<div><h3>After learning</h3>{pairs(_learned(model))}</div>"
    return Section("settings", "Settings", f'<div class="pair">{markup}</div>{_notes(context.notes)}')


def _notes(notes: tuple[str, ...]) -> str:
    """Return the notes about the run, folded if there are many."""
    rows = "".join(f"<li>{escape(name_of(note, 300))}</li>" for note in notes[:_MAX_NOTES])
    if len(notes) > _MAX_NOTES:
        rows += f"<li>… and {as_count(len(notes) - _MAX_NOTES)} more.</li>"
    if not rows:
        return ""
    if len(notes) <= _MAX_UNFOLDED:
        return f"<h3>Notes</h3><ul>{rows}</ul>"
    return f"<h3>Notes</h3><details><summary>{as_count(len(notes))} notes</summary><ul>{rows}</ul></details>"


def _learned(model: Any) -> list[tuple[str, str]]:
    classes = model.classes_.tolist()
    names = getattr(model, "feature_names_in_", None)
    columns = as_count(model.n_features_in_) + ("" if names is None else f": {shown(list(names), 300)}")
    bound = memory_limit(model)
    max_weight_rows = getattr(model, "max_task_rows_", None)  # for a sharded model, this many per shard
    rows = [
        ("kernel in use", repr(model.kernel_)),
        ("classes", shown(classes, 300)),
        ("columns", columns),
        ("examples learned", as_count(model.n_seen_)),
        ("examples stored", as_count(model.n_stored_)),
        ("examples stored at most", "no limit" if model.capacity_ is None else as_count(model.capacity_)),
        ("rows of weights at most", "–" if max_weight_rows is None else as_count(max_weight_rows)),
        ("memory", as_bytes(model.memory_bytes_)),
        ("memory at most", "no limit, or not known in advance" if bound is None else as_bytes(bound)),
    ]
    return [row for row in rows if row[1] != "–"]


def reproduce(model: Any, context: Context) -> Section:
    """Return the section with the command, the model in Python, the digest of the input and all versions."""
    parts = []
    if context.command:
        parts.append(f"<h3>Command</h3><pre><code>{escape(context.command)}</code></pre>")
    if hasattr(model, "get_params"):
        parts.append(f"<h3>The model in Python</h3><pre><code>{escape(repr(model))}</code></pre>")
    facts = [
        ("input", context.source),
        ("digest of the input", context.digest),
        ("rows read", as_count(context.rows) if context.rows is not None else ""),
        ("rows left out", as_count(context.bad_rows) if context.rows is not None or context.bad_rows else ""),
        ("seed", "" if context.seed is None else str(context.seed)),
        ("written", context.written),
        *context.versions.items(),
    ]
    parts.append(pairs((name, value) for name, value in facts if value))
    # A stream from a pipe has no digest, and cannot be checked.
    if context.digest.startswith("sha256:") and context.source not in ("", "-"):
        check = f"sha256sum {shlex.quote(context.source)}"
        parts.append(f'<p class="note">Check that you have the same input with <code>{escape(check)}</code></p>')
    equal = "The same input, parameters and versions give the same results, bit for bit on the same machine."
    parts.append(paragraph(equal, "note"))
    return Section("reproduce", "How to reproduce", "".join(parts))
