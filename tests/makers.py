"""Make any learner with those of some parameters that it has; not every learner has a kernel, a graph and a budget."""

from __future__ import annotations


def made(learner, **parameters):
    known = learner().get_params(deep=False)
    return learner(**{name: value for name, value in parameters.items() if name in known})
