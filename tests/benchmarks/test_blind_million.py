"""A million episodes of policies that are blind to the task, over every family and environment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import gymnasium as gym
import pytest

from searchgym.cards import cards
from searchgym.envs import SearchEnv
from searchgym.errors import DataError

from ..blind import BLIND, ENTITIES, SHALLOW, Earned, earned, in_world
from ..solving import world
from .table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(2 * 3600)]
EPISODES = 1_000_000
PER_FAMILY = 400


def places() -> Iterator[tuple[str, SearchEnv, SearchEnv | None]]:
    """Yield where policies play: the sets and environments of the catalogue once, then worlds of
    every family, one after another. With each, its tasks' fellows in another world."""
    for item in cards("envs").values():
        try:
            env = gym.make(item.id).unwrapped
        except DataError:
            continue
        assert isinstance(env, SearchEnv)
        real = env.world is None
        yield item.id, env, None if real else env.of_split("dev")
    options = {"max_turns": 8}
    for seed in range(100):
        splits = [world(PER_FAMILY, **options, world={"seed": seed}, split=split)
                  for split in ("train", "dev", "test")]  # fmt: skip
        for place, env in enumerate(splits):
            yield "all families", env, splits[place - 1]


def test_a_million_blind_episodes() -> None:
    rows: dict[tuple[str, str], list[Earned]] = defaultdict(list)
    count = 0
    for name, env, elsewhere in places():
        policies = {**BLIND, **in_world(env, elsewhere.tasks if elsewhere else ()), **SHALLOW}
        for row in earned(env, policies):
            rows[name, row.family].append(row)
            count += row.episodes
        if count >= EPISODES:
            break
    table, faults = [], []
    for (name, family), found in rows.items():
        by_policy: dict[str, list[Earned]] = defaultdict(list)
        for row in found:
            by_policy[row.policy].append(row)
        mean = {policy: _mean(parts, "reward") for policy, parts in by_policy.items()}
        constant = _mean(by_policy["yes"], "best_constant")
        blind = {policy: reward for policy, reward in mean.items() if policy not in SHALLOW}
        best = max(blind, key=blind.__getitem__)
        bound = 0.01 if family in ENTITIES else constant
        table.append((
            name.removeprefix("searchgym/"), family, sum(row.episodes for row in found),
            constant, best, blind[best], mean["first title"],
        ))  # fmt: skip
        if blind[best] > bound + 1e-9:
            faults.append((name, family, best, blind[best], bound))
    show(
        f"{count:,} episodes of {len(BLIND) + len(SHALLOW) + 4} policies",
        ("environment", "family", "episodes", "best constant", "best blind policy", "earns",
         "first title"),
        table,
    )  # fmt: skip
    assert count >= EPISODES
    assert not faults, faults


def _mean(parts: list[Earned], name: str) -> float:
    episodes = sum(part.episodes for part in parts)
    return sum(float(getattr(part, name)) * part.episodes for part in parts) / episodes
