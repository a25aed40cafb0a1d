from __future__ import annotations

import pytest

from searchgym.envs import SearchEnv
from searchgym.worlds import World
from searchgym_agents.knower.knowledge import Knowledge
from searchgym_agents.knower.lessons import Lessons, lessons
from searchgym_agents.knower.recipe import KnowerRecipe, world_of

RECIPE = KnowerRecipe(entities=60, seed=4)


@pytest.fixture(scope="session")
def made() -> SearchEnv:
    return RECIPE.env(tasks={"simple": 30, "chain-2": 20, "chain-3": 20})


@pytest.fixture(scope="session")
def world(made: SearchEnv) -> World:
    return world_of(made)


@pytest.fixture(scope="session")
def knowledge(world: World) -> Knowledge:
    return Knowledge.drawn(RECIPE, world)


@pytest.fixture(scope="session")
def texts(made: SearchEnv, knowledge: Knowledge) -> Lessons:
    return lessons(made, knowledge)
