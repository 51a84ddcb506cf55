"""Each law holds for a sound learner, and fails for a learner that breaks it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

from budgetron import RandomBudgetPerceptron, graphs
from budgetron.checks import LAWS, Case, LawBroken, check_learner
from budgetron.checks.laws import BYTES
from budgetron.errors import InputError, TooFewBytes


class Sound(RandomBudgetPerceptron):
    """A learner that obeys all laws. Subclasses override `altered` to break one of them."""

    def altered(self, X, y, tasks, learn):
        """Return the margins before each update; `learn` learns the rows and returns these margins."""
        return learn(X, y)

    def predict_then_learn(self, X, y, *, tasks=None, classes=None, sample_weight=None, offset=None):
        return self.altered(
            X,
            y,
            tasks,
            lambda X, y: RandomBudgetPerceptron.predict_then_learn(self, X, y, tasks=tasks, classes=classes),
        )


class TooManyStored(Sound):
    """Reports five stored examples more than there are."""

    @property
    def n_stored_(self):
        return self._engine.n_stored + 5


class GrowingMemory(Sound):
    """Reports memory that grows with the stream."""

    @property
    def memory_bytes_(self):
        return self._engine.memory_bytes() + self.n_seen_ // 100


class ChangesOnCorrect(Sound):
    """Forgets a task after every block, even if all predictions were correct."""

    def altered(self, X, y, tasks, learn):
        margins = learn(X, y)
        self._engine.forget(self._engine.task_ids[0])
        return margins


class ScalesSparseRows(Sound):
    """Multiplies sparse rows by 1.1."""

    def altered(self, X, y, tasks, learn):
        return learn(X * 1.1 if sparse.issparse(X) else X, y)


class InexactOnExplicitGraphs(Sound):
    """Has larger margins on an explicit graph."""

    def altered(self, X, y, tasks, learn):
        return learn(X, y) * (1.0 if self.graph.is_open else 1.001)


class CountsOtherTasks(Sound):
    """Adds to each margin a number that depends on the examples of all tasks."""

    def altered(self, X, y, tasks, learn):
        margins = learn(X, y)
        steps = self.n_seen_ - np.arange(len(y), 0.0, -1.0)
        return margins + 1e-6 * (steps if margins.ndim == 1 else steps[:, None])


class DependsOnNames(Sound):
    """Has other margins if tasks are not integers."""

    def altered(self, X, y, tasks, learn):
        return learn(X, y) * (1.0 if isinstance(tasks[0], int) else 1.0 + 1e-15)


class SmallerMargins(Sound):
    """Has smaller margins than a Perceptron."""

    def altered(self, X, y, tasks, learn):
        return learn(X, y) * 0.999


class DependsOnBlocks(Sound):
    """Changes the first margin of each block."""

    def altered(self, X, y, tasks, learn):
        margins = learn(X, y)
        margins[0] += 1e-15
        return margins


class LosesStateInPickle(Sound):
    """Forgets task 0 when it is unpickled."""

    def __setstate__(self, state):
        super().__setstate__(state)
        self._engine.forget(0)


class ChangesInputs(Sound):
    """Changes the rows that it was given."""

    def altered(self, X, y, tasks, learn):
        margins = learn(X, y)
        (X.data if sparse.issparse(X) else X)[-1] += 1.0
        return margins


class EnginesDiffer(Sound):
    """Has other margins on the NumPy engine."""

    def altered(self, X, y, tasks, learn):
        return learn(X, y) + (1e-7 if self.engine == "numpy" else 0.0)


class ChangedByRejectedInput(Sound):
    """Forgets task 1 if a call is rejected."""

    def partial_fit(self, X, y, tasks=None, classes=None):
        try:
            return super().partial_fit(X, y, tasks=tasks, classes=classes)
        except ValueError:
            self._engine.forget(1)
            raise


BREAKERS = {
    "within_budget": TooManyStored,
    "constant_bytes": GrowingMemory,
    "no_mistake_no_change": ChangesOnCorrect,
    "dense_is_sparse": ScalesSparseRows,
    "closed_form_is_general": InexactOnExplicitGraphs,
    "disconnected_is_separate": CountsOtherTasks,
    "renaming_tasks": DependsOnNames,
    "ample_budget_is_perceptron": SmallerMargins,
    "block_cuts": DependsOnBlocks,
    "stop_and_continue": LosesStateInPickle,
    "inputs_untouched": ChangesInputs,
    "core_is_reference": EnginesDiffer,
    "rejected_input": ChangedByRejectedInput,
}


def test_every_law_has_a_learner_that_breaks_it():
    assert BREAKERS.keys() == LAWS.keys()


@pytest.mark.parametrize("law", LAWS)
def test_the_law_fails_if_it_is_broken(law):
    LAWS[law](Case(Sound()))
    with pytest.raises(LawBroken):
        LAWS[law](Case(BREAKERS[law]()))


def test_the_report_names_the_law_the_learner_and_the_kernel():
    with pytest.raises(LawBroken) as caught:
        check_learner(EnginesDiffer)
    message = str(caught.value)
    assert "core_is_reference           BROKEN" in message and "EnginesDiffer()" in message and "Gaussian" in message


class RejectsBytes(Sound):
    """Accepts no budget in bytes."""

    def altered(self, X, y, tasks, learn):
        if isinstance(self.budget, str):
            raise InputError("the budget must be an integer")
        return learn(X, y)


class NamesBytesThatDoNotSuffice(Sound):
    """Rejects every budget in bytes, and asks for one byte more."""

    def altered(self, X, y, tasks, learn):
        if isinstance(self.budget, str):
            error = TooFewBytes("too few bytes")
            error.needed = int(self.budget.removesuffix(" B")) + 1
            raise error
        return learn(X, y)


class NamesBytesThatItWasGiven(Sound):
    """Rejects every budget in bytes, and asks for the one that it was given."""

    def altered(self, X, y, tasks, learn):
        if isinstance(self.budget, str):
            error = TooFewBytes("too few bytes")
            error.needed = int(self.budget.removesuffix(" B"))
            raise error
        return learn(X, y)


@pytest.mark.parametrize("rejecting", [RejectsBytes, NamesBytesThatDoNotSuffice, NamesBytesThatItWasGiven])
def test_a_learner_that_rejects_a_sufficient_budget_in_bytes_is_not_within_budget(rejecting):
    with pytest.raises(LawBroken, match=r"(?m)^within_budget +BROKEN"):
        check_learner(rejecting)


def test_a_learner_that_needs_more_bytes_is_within_the_budget_that_it_names():
    def path(names):
        return graphs.from_edges(itertools.pairwise([*names, *(f"filler {i}" for i in range(1100))]))

    case = Case(Sound(), graph=path)
    with pytest.raises(TooFewBytes):
        case.learn(case.model(budget=f"{BYTES} B"), case.stream()[:1])
    LAWS["within_budget"](case)

    class ReportsTooMuch(Sound):
        """Reports far more memory than its budget."""

        @property
        def memory_bytes_(self):
            return self._engine.memory_bytes() + 2**30

    with pytest.raises(LawBroken, match="memory_bytes_ is"):
        LAWS["within_budget"](Case(ReportsTooMuch(), graph=path))


class DeclaresExemption(EnginesDiffer):
    """Declares the law that it breaks."""

    exemptions = {"core_is_reference": "for the sake of this test"}  # noqa: RUF012


def test_an_exemption_is_declared_with_its_reason():
    report = check_learner(DeclaresExemption)
    assert "exempt  for the sake of this test" in str(report) and not report.broken
