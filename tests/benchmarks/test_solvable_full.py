"""A thousand tasks of every family through every dialect, from the start and after random prefixes.

Worlds are added until every family has its thousand.
"""

from collections import Counter

import pytest

from searchgym import RandomAgent
from searchgym.agents import OracleAgent
from searchgym.dialects import DIALECTS
from searchgym.envs import SearchEnv
from searchgym.evaluation import evaluate
from searchgym.tasks import FAMILIES
from tests.baselines import baselines
from tests.solving import in_dialect, unsolved, world

WANTED, PER_WORLD = 1_000, 300

pytestmark = pytest.mark.benchmark


@pytest.fixture(scope="module")
def worlds() -> list[SearchEnv]:
    made: list[SearchEnv] = []
    kept: Counter[str] = Counter()
    while not kept or min(kept.values()) < WANTED or len(kept) < len(FAMILIES.shipped):
        assert len(made) < 12, f"after {len(made)} worlds only {kept}"
        made.append(world(PER_WORLD, world={"seed": len(made)}))
        kept.update(task.family for task in made[-1].tasks)
    print(f"\n{len(made)} worlds, tasks by family: {dict(kept)}")
    return made


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_oracle_solves_every_task(worlds: list[SearchEnv], dialect: str) -> None:
    tried: Counter[str] = Counter()
    failed: list[str] = []
    for shared in worlds:
        there = in_dialect(shared, dialect)
        for row in evaluate(OracleAgent(there.tasks), there).rows:
            tried[row.family] += 1
            if row.em != 1.0:
                failed.append(row.task_id)
    assert failed == []
    assert min(tried.values()) >= WANTED
    print(f"{dialect}: EM 1.000 on {dict(tried)}")


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_solvable_after_random_prefixes(worlds: list[SearchEnv], dialect: str) -> None:
    failed = []
    for number, shared in enumerate(worlds):
        there = in_dialect(shared, dialect)
        failed += unsolved(there.tasks, there, seed=number)
    assert failed == []


def test_random_is_near_zero(worlds: list[SearchEnv]) -> None:
    right: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for shared in worlds:
        for row in evaluate(RandomAgent(), shared).rows:
            right[row.family] += int(row.em)
            tried[row.family] += 1
    shares = {family: round(right[family] / tried[family], 4) for family in tried}
    print("random:", shares, "all:", sum(right.values()) / sum(tried.values()))
    for name, row in baselines(worlds[0]).items():
        print(name, {family: round(em, 3) for family, em in row.items()})
    assert sum(right.values()) / sum(tried.values()) <= 0.03
    assert max(shares.values()) <= 0.10
