"""Descriptions of the beliefs of a Budgetron, for reports, plots and users."""

from __future__ import annotations

from dataclasses import dataclass

from budgetron.engine.reference.rules.budgetron.sizes.shapes import (
    bank_of,
    filter_frequencies,
    filter_lapse,
    filter_rate,
    has_columns,
)
from budgetron.engine.settings import Settings

BANK_WORDS = {0.5: "smooth ", 8.0: "detailed "}
"""Words for the bandwidths γ·d of filters. γ is the parameter of the Gaussian kernel and d the number of columns."""


@dataclass(frozen=True)
class Belief:
    """What one model of the mixture assumes about the stream."""

    words: str
    curved: bool = False  # whether its boundary may be curved: it has Fourier features or bins
    apart: bool = False  # whether it expects the own weights of tasks to be larger than the shared ones
    learned: bool = False  # whether it learns which tasks resemble each other
    adapting: bool = False  # whether it expects the stream to keep changing

    def __str__(self) -> str:
        return self.words


def beliefs_of(settings: Settings) -> list[list[Belief]]:
    """Return the beliefs of every part."""
    return (_on_columns(settings) if has_columns(settings) else []) + [_of_table(settings)] * settings.sparse


def _of_table(settings: Settings) -> list[Belief]:
    parameters = settings.parameters
    kinds = ("presence" if sign else "size" for sign in parameters.signs)
    beliefs = [
        Belief(f"{kind} of features, rate {rate:g}") for kind, rate in zip(kinds, parameters.table_rates, strict=True)
    ]
    return beliefs + [Belief("presence of features and of pairs of them")] * (parameters.pairs > 0)


def _on_columns(settings: Settings) -> list[list[Belief]]:
    """Return the beliefs on dense rows, or on the frequent columns of sparse rows."""
    parameters = settings.parameters
    has_both = parameters.own and parameters.shared  # only then can tasks be alike or differ
    parts = []
    for k, (prior, own, floor) in enumerate(parameters.filters):
        curved = filter_frequencies(settings, k) > 0
        detail = BANK_WORDS.get(parameters.bandwidths[bank - 1] if (bank := bank_of(parameters, k)) else 0, "")
        apart = has_both and own > 1
        size = {1.0: "small prior", 10.0: "large prior", 30.0: "large prior"}.get(prior, "")
        words = [f"linear and {detail}Fourier features" if curved else "linear", size]
        # The steps of AdaGrad shrink much more slowly than those of a Bayesian filter, so AdaGrad follows drift.
        rate = filter_rate(parameters, k)
        adapting = floor > 0 or rate > 0
        words += ["tasks differ" if apart else "tasks alike"] * has_both
        words += ["adapting by AdaGrad" if rate else "adapting"] * adapting
        words += ["some labels random"] * (filter_lapse(parameters, k) > 0)
        parts.append([Belief(", ".join(filter(None, words)), curved, apart, adapting=adapting)])
    if parameters.latent and has_both:
        parts.append([Belief("linear, kinds of tasks", learned=True)])
    for rate, own in zip(parameters.rates, parameters.owns, strict=True):
        apart = has_both and own >= 1
        words = [f"Fourier features, rate {rate:g}"] + ["tasks differ" if apart else "tasks alike"] * has_both
        parts.append([Belief(", ".join(words), True, apart)])
    if parameters.bins:
        alike = ", tasks alike" * bool(has_both)
        binned = [Belief(f"bins of columns{alike}", True)]
        binned += [Belief("bins of columns, tasks differ", True, True)] * (parameters.bin_cells > 0)
        parts.append(binned + [Belief(f"pairs of bins of columns{alike}", True)] * parameters.bin_pairs)
    return parts
