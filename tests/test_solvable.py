"""Every task can be solved from every state that leaves room, and nothing cheap solves it.

The small version; ``tests/benchmarks/test_solvable_full.py`` has a thousand tasks per family.
"""

from collections import Counter

import numpy as np
import pytest

from searchgym import RandomAgent
from searchgym.dialects import DIALECTS
from searchgym.envs import SearchEnv
from searchgym.evaluation import evaluate
from searchgym.tasks import FAMILIES
from tests.baselines import baselines, majority_answer
from tests.solving import OPTIONS, in_dialect, unsolved, world

pytestmark = pytest.mark.contract

PER_FAMILY = 75  # a few are not retrievable and dropped; at least 60 must be left


@pytest.fixture(scope="module")
def shared() -> SearchEnv:
    return world(PER_FAMILY)


def test_every_family_keeps_its_tasks(shared: SearchEnv) -> None:
    kept = Counter(task.family for task in shared.tasks)
    assert set(kept) == set(FAMILIES.shipped)
    assert min(kept.values()) >= 60, kept


@pytest.fixture(scope="module")
def table(shared: SearchEnv) -> dict[str, dict[str, float]]:
    return baselines(shared)


def test_oracle_scores_everything_and_cheap_agents_next_to_nothing(
    table: dict[str, dict[str, float]],
) -> None:
    for dialect in DIALECTS:
        assert set(table[f"oracle, {dialect}"].values()) == {1.0}, dialect
    assert table["always refuse"]["unanswerable"] == 1.0
    cheap = ("always yes", "majority answer", "closed book, best span", "closed book, rules")
    for name in cheap:
        for family, em in table[name].items():
            if family not in ("unanswerable", "all", "comparison", "count", "aggregate", "sql"):
                assert em <= 0.05, (name, family)
    # half of the polar questions are "yes", two alternatives leave a coin toss, counts are small
    assert max(table[name]["comparison"] for name in cheap) <= 0.65
    assert table["majority answer"]["count"] <= 0.45
    assert table["majority answer"]["aggregate"] <= 0.45
    assert max(table[name]["sql"] for name in cheap) <= 0.10, "some of its answers are counts"


def test_random_is_near_zero(shared: SearchEnv, table: dict[str, dict[str, float]]) -> None:
    runs = [evaluate(RandomAgent(seed), shared, seed=seed) for seed in (1, 2, 3)]
    found = [table["random"], *({"all": r.means["em"].mean, **r.by_family()} for r in runs)]
    assert np.mean([run["all"] for run in found]) <= 0.03
    for family in FAMILIES.shipped:
        assert np.mean([run[family] for run in found]) <= 0.10, family


def test_majority_answer() -> None:
    from tests.small import TASKS

    assert majority_answer([*TASKS, TASKS[1]]) == "Mira Venn"
    assert majority_answer([]) == "unanswerable"


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_solvable_after_any_random_prefix(shared: SearchEnv, dialect: str) -> None:
    """Of each family one half or the other, by turns: every task in two dialects or more."""
    there = in_dialect(shared, dialect)
    half = sorted(DIALECTS).index(dialect) % 2
    assert unsolved(there.tasks[half::2], there, seed=1) == []


def test_long_chains_are_solvable() -> None:
    chains = {f"chain-{n}": 12 for n in range(2, 7)}
    deep = world(0, tasks=chains)
    assert {task.hops for task in deep.tasks} == {2, 3, 4, 5, 6}
    assert unsolved(deep.tasks, deep, seed=2) == []
    assert OPTIONS["max_turns"] > 7
