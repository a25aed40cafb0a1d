from __future__ import annotations

import pytest

from searchgym.envs import SearchEnv
from searchgym_agents.reader.traces import DEFAULTS, OPENING, Trace, traces_of

TASKS = {"simple": 40, "chain-2": 30, "chain-3": 20}


@pytest.fixture(scope="session", params=["results", "pages"])
def world(request: pytest.FixtureRequest) -> SearchEnv:
    """Facts are read off the results, or off pages that are opened."""
    base = DEFAULTS if request.param == "results" else OPENING
    return SearchEnv(**{**base, "world": {"entities": 300, "seed": 11}, "tasks": TASKS})


@pytest.fixture(scope="session")
def traces(world: SearchEnv) -> list[Trace]:
    return list(traces_of(world))
