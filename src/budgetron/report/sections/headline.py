"""The head of the page: title, a short paragraph about the run, warnings if any, and the most important numbers."""

from __future__ import annotations

from typing import Any

from budgetron.evaluate import Validation
from budgetron.evaluate.metrics.confusion import rare_sentence
from budgetron.report.context import Context
from budgetron.report.page import as_bytes, as_count, as_decimal, as_percent, as_seconds, escape, name_of
from budgetron.report.parts import paragraph
from budgetron.report.sections.curves import constant_prediction_error


def headline(validation: Validation, model: Any, context: Context) -> str:
    """Return the head of the page, with one card per number."""
    overall = validation.overall
    constant, more = as_percent(constant_prediction_error(validation)), "" if validation.others is None else " +"
    errors = [
        ("Error", as_percent(overall.error), f"always the most frequent label: {constant}"),
        ("Error, mean of tasks", as_percent(validation.macro.get("error")), "every task has the same weight"),
        ("F-measure", as_percent(overall.f_measure), f"mean of tasks: {as_percent(validation.macro.get('f_measure'))}"),
    ]
    ranking = _ranking_cards(validation)
    cards = [
        # If one label is rare, the error is small for any learner. Then the ranking metrics come first.
        *(errors if validation.rare is None else ranking),
        *(ranking if validation.rare is None else errors),
        ("Examples", as_count(overall.n), f"{as_count(overall.mistakes)} mistakes"),
        ("Tasks", as_count(len(validation.per_task)) + more, _others(validation)),
        *_model_cards(model),
    ]
    if overall.log_loss is not None and validation.calibration is not None:
        calibration = f"calibration error {as_percent(validation.calibration.ece)}"
        cards.append(("Log loss", f"{overall.log_loss:.3f}", calibration))
        cards.append(("Brier score", as_decimal(overall.brier), "mean squared error of the probabilities"))
    if validation.n_alarms:
        cards.append(("Drift alarms", as_count(validation.n_alarms), "the loss has risen"))
    if context.seconds:
        cards.append(("Time", as_seconds(context.seconds), f"{as_count(overall.n / context.seconds)} examples/s"))
    if context.bad_rows:
        total = "" if context.rows is None else f"of {as_count(context.rows)}"
        cards.append(("Rows left out", as_count(context.bad_rows), total))
    shown = "".join(
        f'<div class="card"><dt>{escape(name)}</dt><dd>{escape(value)}'
        + (f"<small>{escape(note)}</small>" if note else "")
        + "</dd></div>"
        for name, value, note in cards
    )
    stopped = "The run was stopped before the end of the stream. These are the results up to that point."
    return (
        f"<h1>{escape(context.title)}</h1>{paragraph(_lead(validation, model, context), 'lead')}"
        + (paragraph(stopped, "warning") if context.interrupted else "")
        + (paragraph(_rare(*validation.rare), "warning") if validation.rare is not None else "")
        + f'<dl class="cards">{shown}</dl>'
    )


def _rare(label: Any, share: float) -> str:
    return rare_sentence(name_of(label, 24), share)


def _ranking_cards(validation: Validation) -> list[tuple[str, str, str]]:
    """Return the cards of AUC, average precision and precision at k; none if AUC is undefined."""
    overall = validation.overall
    if overall.auc is None:
        return []
    share = as_decimal(validation.share_of_positives)
    cards = [
        ("AUC", as_decimal(overall.auc), "0.5 is random, 1 is perfect"),
        ("Average precision", as_decimal(overall.average_precision), f"random: {share}"),
    ]
    if overall.precision_at_k is not None:
        name = f"Precision at {as_count(validation.k)}"
        cards.append((name, as_percent(overall.precision_at_k), "of the highest scores"))
    return cards


def _lead(validation: Validation, model: Any, context: Context) -> str:
    learner = "A model" if model is None else type(model).__name__
    source = f" on {context.source}" if context.source else ""
    late = f" Each label arrived {as_count(validation.delay)} examples later." if validation.delay else ""
    return f"{learner}{source}. Each example was predicted before it was learned.{late} {context.written}."


def _others(validation: Validation) -> str:
    return "" if validation.others is None else f"others: {as_count(validation.others.n)} examples"


def _model_cards(model: Any) -> list[tuple[str, str, str]]:
    """Return the cards of stored examples and memory; none without a model, or for a learner of another library."""
    if not hasattr(model, "n_stored_"):
        return []
    limit = model.capacity_
    cards = [("Stored", as_count(model.n_stored_), "no limit" if limit is None else f"of {as_count(limit)} at most")]
    return [*(cards if limit != 0 else []), ("Memory", as_bytes(model.memory_bytes_), "the whole model")]
