"""Create any learner from a common set of parameters, such as kernel, graph and budget, which not every learner has."""

from __future__ import annotations


def made(learner, **parameters):
    """Return a new learner of this class. Parameters that the class does not have are ignored."""
    known = learner().get_params(deep=False)
    return learner(**{name: value for name, value in parameters.items() if name in known})
