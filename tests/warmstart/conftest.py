from __future__ import annotations

import pytest

from searchgym.envs.setting import Setting
from searchgym.warmstart.traces import OPENING, SETTING, Trace, traces_of

TASKS = {"simple": 40, "chain-2": 30, "chain-3": 20}


@pytest.fixture(scope="session", params=["results", "pages"])
def world(request: pytest.FixtureRequest) -> Setting:
    """Facts are read off the results, or off pages that are opened."""
    base = SETTING if request.param == "results" else OPENING
    return Setting({**base, "world": {"entities": 300, "seed": 11}, "tasks": TASKS})


@pytest.fixture(scope="session")
def traces(world: Setting) -> list[Trace]:
    return list(traces_of(world))
