"""Test a learner, built in or your own, against the laws that every learner must satisfy: `check_learner`.

A law is a property such as "the budget is never exceeded". A learner to which a law does not apply declares it in its
class, with the reason:

    exemptions: ClassVar[Mapping[str, str]] = {"no_mistake_no_change": "it learns from every example"}

`LAWS` maps names to laws. `exemptions` accepts four more names, for learners that do not accept everything:

    "explicit_graphs"   the learner accepts only graphs in closed form
    "any_kernel"        it accepts only `Gaussian` and `Linear` kernels
    "gaussian_only"     it accepts only `Gaussian` kernels
    "dense_only"        it accepts only dense rows

>>> from budgetron import RandomBudgetPerceptron
>>> report = check_learner(RandomBudgetPerceptron)
>>> report.broken
[]
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from budgetron import graphs, kernels
from budgetron.checks.case import Case, LawBroken, Stream
from budgetron.checks.laws import LAWS, Law
from budgetron.engine import native

__all__ = [
    "LAWS",
    "Case",
    "Finding",
    "Law",
    "LawBroken",
    "Report",
    "Stream",
    "accepts",
    "check_learner",
    "exemption",
    "usual_cases",
]


@dataclass(frozen=True)
class Finding:
    """The result for one law: `broken` says where and how it is violated, `exempt` why it does not apply."""

    law: str
    broken: str = ""
    exempt: str = ""

    def __str__(self) -> str:
        verdict = f"BROKEN  {self.broken}" if self.broken else f"exempt  {self.exempt}" if self.exempt else "held"
        return f"{self.law:<28}{verdict}"


@dataclass(frozen=True)
class Report:
    """The findings, one per law; `str` makes a table."""

    learner: str
    findings: Sequence[Finding]

    @property
    def broken(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.broken]

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.learner}: {len(self.broken)} of {len(self.findings)} laws broken", *map(str, self.findings)]
        )


def usual_cases(learner: Any) -> list[Case]:
    """Return a few cases for a learner.

    Together they cover the kernels that it accepts, closed-form and explicit graphs, dense and sparse rows, and two and
    three classes.
    """
    path = lambda names: graphs.from_edges([(names[0], names[1]), (names[1], names[2])], tasks=names)  # noqa: E731
    cases = [
        Case(learner),
        Case(learner, kernels.Linear(bias=1.0), lambda names: graphs.complete(len(names)), sparse=True, n_classes=3),
        Case(learner, kernels.Polynomial(2, normalize=True), lambda names: graphs.disconnected(), dtype="float32"),
        Case(learner, kernels.Linear(), lambda names: graphs.disconnected(), dtype="float32"),
        Case(learner, graph=path, n_classes=3),
    ]
    accepted = [case for case in cases if accepts(case)]
    # The fourth case takes the place of the third if the learner does not accept a polynomial kernel.
    return [case for case in accepted if case is not cases[3] or cases[2] not in accepted]


def accepts(case: Case) -> bool:
    """Return whether the learner accepts the kernel, the graph and the kind of rows of this case."""
    limits, kernel = _exemptions(case.learner).keys(), case.kernel
    return not (
        ("explicit_graphs" in limits and not case.graph(range(4)).is_open)
        or ("any_kernel" in limits and not isinstance(kernel, kernels.Gaussian | kernels.Linear))
        or ("gaussian_only" in limits and not isinstance(kernel, kernels.Gaussian))
        or ("dense_only" in limits and case.sparse)
    )


def exemption(law: str, case: Case) -> str:
    """Return the reason why the law does not apply to the learner in this case, or "" if it applies."""
    parameters, graph = case.parameters, case.graph(range(4))
    if law in _exemptions(case.learner):
        return _exemptions(case.learner)[law]
    if law in ("within_budget", "constant_bytes") and "budget" not in parameters:
        return "it has no budget"
    if law == "core_is_reference" and not _has_two_engines(case):
        return "only one engine is available for it"
    if law == "dense_is_sparse" and "dense_only" in _exemptions(case.learner):
        return _exemptions(case.learner)["dense_only"]
    if law == "closed_form_is_general" and "explicit_graphs" in _exemptions(case.learner):
        return _exemptions(case.learner)["explicit_graphs"]
    if law == "closed_form_is_general" and not graph.is_open:
        return "the graph of this case is explicit already"
    return ""


def _has_two_engines(case: Case) -> bool:
    rule = getattr(case.learner, "rule", None)
    return "engine" in case.parameters and native.available and (rule is None or native.supports(rule, None))


def check_learner(learner: Any, cases: Iterable[Case] | None = None) -> Report:
    """Test a learner, a class or an instance, against every law.

    Parameters
    ----------
    learner : a class whose constructor needs no argument, or an instance.
    cases : the cases to test it in; by default `usual_cases(learner)`.

    Returns
    -------
    A `Report` with one finding per law.

    Raises
    ------
    LawBroken : if a law is violated; its text is the report.
    """
    instance = learner() if inspect.isclass(learner) else learner
    cases = usual_cases(instance) if cases is None else list(cases)
    report = Report(type(instance).__name__, [_check_law(name, law, cases) for name, law in LAWS.items()])
    if report.broken:
        raise LawBroken(str(report))
    return report


def _check_law(name: str, law: Law, cases: Sequence[Case]) -> Finding:
    """Test one law in all cases to which it applies."""
    reasons = [exemption(name, case) for case in cases]
    for case, reason in zip(cases, reasons, strict=True):
        if not reason:
            try:
                law(case)
            except Exception as error:  # an error other than LawBroken violates the law too; test the other laws anyway
                return Finding(name, broken=f"{_describe(error)} [{case}]")
    return Finding(name, exempt=reasons[0] if all(reasons) else "")


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, LawBroken) else f"{type(error).__name__}: {error}"


def _exemptions(learner: Any) -> Mapping[str, str]:
    declared: Mapping[str, str] = getattr(learner, "exemptions", {})
    return declared
