"""Each law fails for a learner that breaks it, and for no other learner."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from budgetron import RandomBudgetPerceptron
from budgetron.checks import LAWS, Case, LawBroken, check_learner


class Sound(RandomBudgetPerceptron):
    """Calls `altered`, which here changes nothing."""

    def altered(self, X, y, tasks, learn):
        return learn(X, y)

    def predict_then_learn(self, X, y, *, tasks=None, classes=None, sample_weight=None, offset=None):
        return self.altered(
            X,
            y,
            tasks,
            lambda X, y: RandomBudgetPerceptron.predict_then_learn(self, X, y, tasks=tasks, classes=classes),
        )


class Greedy(Sound):
    @property
    def n_stored_(self):
        return self._engine.n_stored + 5


class Growing(Sound):
    @property
    def memory_bytes_(self):
        return self._engine.memory_bytes() + self.n_seen_ // 100


class Eager(Sound):
    def altered(self, X, y, tasks, learn):
        margins = learn(X, y)
        self._engine.forget(self._engine.task_ids[0])
        return margins


class Partial(Sound):
    def altered(self, X, y, tasks, learn):
        return learn(X * 1.1 if sparse.issparse(X) else X, y)


class Coarse(Sound):
    def altered(self, X, y, tasks, learn):
        return learn(X, y) * (1.0 if self.graph.is_open else 1.001)


class Gossip(Sound):
    def altered(self, X, y, tasks, learn):
        margins = learn(X, y)
        steps = self.n_seen_ - np.arange(len(y), 0.0, -1.0)
        return margins + 1e-6 * (steps if margins.ndim == 1 else steps[:, None])


class Vain(Sound):
    def altered(self, X, y, tasks, learn):
        return learn(X, y) * (1.0 if isinstance(tasks[0], int) else 1.0 + 1e-15)


class Timid(Sound):
    def altered(self, X, y, tasks, learn):
        return learn(X, y) * 0.999


class Choppy(Sound):
    def altered(self, X, y, tasks, learn):
        margins = learn(X, y)
        margins[0] += 1e-15
        return margins


class Forgetful(Sound):
    def __setstate__(self, state):
        super().__setstate__(state)
        self._engine.forget(0)


class Grasping(Sound):
    def altered(self, X, y, tasks, learn):
        margins = learn(X, y)
        (X.data if sparse.issparse(X) else X)[-1] += 1.0
        return margins


class TwoFaced(Sound):
    def altered(self, X, y, tasks, learn):
        return learn(X, y) + (1e-7 if self.engine == "numpy" else 0.0)


class Credulous(Sound):
    def partial_fit(self, X, y, tasks=None, classes=None):
        try:
            return super().partial_fit(X, y, tasks=tasks, classes=classes)
        except ValueError:
            self._engine.forget(1)
            raise


BREAKERS = {
    "within_budget": Greedy,
    "constant_bytes": Growing,
    "no_mistake_no_change": Eager,
    "dense_is_sparse": Partial,
    "closed_form_is_general": Coarse,
    "disconnected_is_separate": Gossip,
    "renaming_tasks": Vain,
    "ample_budget_is_perceptron": Timid,
    "block_cuts": Choppy,
    "stop_and_continue": Forgetful,
    "inputs_untouched": Grasping,
    "core_is_reference": TwoFaced,
    "rejected_input": Credulous,
}


def test_every_law_has_a_learner_that_breaks_it():
    assert BREAKERS.keys() == LAWS.keys()


@pytest.mark.parametrize("law", LAWS)
def test_the_law_fails_if_it_is_broken(law):
    LAWS[law](Case(Sound()))
    with pytest.raises(LawBroken):
        LAWS[law](Case(BREAKERS[law]()))


def test_the_report_names_the_law_the_case_and_what_was_seen():
    with pytest.raises(LawBroken) as caught:
        check_learner(TwoFaced)
    message = str(caught.value)
    assert "core_is_reference           BROKEN" in message and "TwoFaced()" in message and "Gaussian" in message


class Declared(TwoFaced):
    exemptions = {"core_is_reference": "for the sake of this test"}  # noqa: RUF012


def test_an_exemption_is_declared_with_its_reason():
    report = check_learner(Declared)
    assert "exempt  for the sake of this test" in str(report) and not report.broken
