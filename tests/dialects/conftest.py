"""Parametrises ``dialect`` over the registry, with and without options."""

from __future__ import annotations

import pytest

from searchgym.dialects.base import Dialect, get_dialect
from tests.dialects.common import NAMES


@pytest.fixture(params=NAMES)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return get_dialect(request.param)
