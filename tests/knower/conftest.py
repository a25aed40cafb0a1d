from __future__ import annotations

import pytest

from searchgym.envs.setting import Setting
from searchgym.knower.knowledge import Knowledge
from searchgym.knower.lessons import Lessons, lessons
from searchgym.knower.recipe import KnowerRecipe, world_of
from searchgym.worlds.world import World

RECIPE = KnowerRecipe(entities=60, seed=4)


@pytest.fixture(scope="session")
def made() -> Setting:
    return RECIPE.setting(tasks={"simple": 30, "chain-2": 20, "chain-3": 20})


@pytest.fixture(scope="session")
def world(made: Setting) -> World:
    return world_of(made)


@pytest.fixture(scope="session")
def knowledge(world: World) -> Knowledge:
    return Knowledge.drawn(RECIPE, world)


@pytest.fixture(scope="session")
def texts(made: Setting, knowledge: Knowledge) -> Lessons:
    return lessons(made, knowledge)
