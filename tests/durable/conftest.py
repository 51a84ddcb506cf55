from __future__ import annotations

import pytest
from host_streams import MODELS


@pytest.fixture(params=MODELS)
def make_model(request):
    return MODELS[request.param]
