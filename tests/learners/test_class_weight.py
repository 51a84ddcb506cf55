"""Weights of classes: a first block that is rejected because of the weights leaves the model unfitted."""

from __future__ import annotations

import numpy as np
import pytest

from budgetron import Budgetron
from budgetron.errors import InputError


@pytest.mark.parametrize("class_weight", ["none", {0: -1.0}, {5: 2.0}])
def test_an_invalid_class_weight_leaves_the_model_unfitted(class_weight):
    model = Budgetron(class_weight=class_weight)
    with pytest.raises(InputError, match="class_weight"):
        model.partial_fit(np.eye(2), [0, 1])
    assert not hasattr(model, "n_seen_")
    model.set_params(class_weight={"a": 2.0}).partial_fit(np.eye(3), ["a", "b", "a"])
    assert model.n_seen_ == 3
