"""Every public function of `budgetron.graphs` has an example. `tests/docs` runs the examples."""

from __future__ import annotations

import doctest

from budgetron import graphs


def test_every_public_function_has_an_example_that_prints():
    for name in graphs.__all__:
        function = getattr(graphs, name)
        if callable(function) and not isinstance(function, type):
            examples = doctest.DocTestParser().get_examples(function.__doc__)
            assert any(example.want for example in examples), name
