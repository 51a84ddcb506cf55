"""Every public function of `budgetron.graphs` has an example. `tests/docs` runs the examples."""

from __future__ import annotations

import doctest

from budgetron import graphs


def test_every_public_function_has_an_example_that_prints():
    for name in graphs.__all__:
        thing = getattr(graphs, name)
        if callable(thing) and not isinstance(thing, type):
            examples = doctest.DocTestParser().get_examples(thing.__doc__)
            assert any(example.want for example in examples), name
