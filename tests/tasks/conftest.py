from __future__ import annotations

import pytest

from searchgym.tasks.build import build_tasks
from searchgym.tasks.families import FAMILIES

from .tiny import make_corpus, random_world

COUNTS = {
    **dict.fromkeys(FAMILIES.shipped, 12),
    "simple": 40, "chain": 40, "comparison": 60, "intersection": 20, "count": 20, "parallel": 20,
    "superlative": 15, "unanswerable": 20, "difference": 20, "aggregate": 9, "masked": 20,
    "set": 20, "follow_up": 20, "report": 20, "sql": 18,
}  # fmt: skip


@pytest.fixture(scope="session", params=[0, 1, 2])
def built(request):
    """World, corpus and tasks of every family for three seeds."""
    world = random_world(request.param)
    corpus = make_corpus(world)
    return world, corpus, build_tasks(world, corpus, counts=COUNTS, seed=request.param)
