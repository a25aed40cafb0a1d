from __future__ import annotations

import pytest

from searchgym.envs.setting import Setting
from searchgym.warmstart.traces import SETTING, Trace, traces_of


@pytest.fixture(scope="session")
def world() -> Setting:
    tasks = {"simple": 40, "chain-2": 30, "chain-3": 20}
    return Setting({**SETTING, "world": {"entities": 300, "seed": 11}, "tasks": tasks})


@pytest.fixture(scope="session")
def traces(world: Setting) -> list[Trace]:
    return list(traces_of(world))
