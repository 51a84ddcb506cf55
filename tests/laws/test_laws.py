"""Each law of `budgetron.checks`, over learners × kernels × graphs × rows × labels."""

from __future__ import annotations

import pytest

from budgetron.checks import LAWS, exemption


@pytest.mark.parametrize("law", LAWS)
def test_every_learner_obeys_the_law(law, case):
    if reason := exemption(law, case):
        pytest.skip(reason)
    LAWS[law](case)
