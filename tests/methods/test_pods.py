"""Down-sampled groups: the subset of largest variance, and what a step trains on."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.rl import Recipe, TrainConfig, Trainer
from searchgym_agents.methods.pods import MostVaried, most_varied
from tests.rl import lookup


@given(
    st.lists(st.sampled_from([-1.0, 0.0, 1 / 3, 0.5, 1.0]), min_size=1, max_size=9),
    st.integers(1, 6),
)
def test_no_other_subset_varies_more(rewards: list[float], size: int) -> None:
    values = np.array(rewards)
    kept = most_varied(values, size)
    assert kept == sorted(set(kept))
    assert len(kept) == min(size, len(rewards))
    best = max(np.var(values[list(c)]) for c in combinations(range(len(rewards)), len(kept)))
    assert np.var(values[kept]) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(
    ("rewards", "size", "kept"),
    [
        ([0, 0.2, 1, 0.9, 0.1, 0.5], 4, [0, 2, 3, 4]),  # two of either end
        ([0, 0, 0, 0, 1, 0], 3, [0, 1, 4]),  # the one success stays
        ([1, 1, 0, 1, 1], 2, [0, 2]),
        ([1, 0], 4, [0, 1]),
    ],
)
def test_worked_groups(rewards: list[float], size: int, kept: list[int]) -> None:
    assert most_varied(np.array(rewards, float), size) == kept


def test_a_step_trains_on_the_kept_members_with_advantages_among_them() -> None:
    lm, policy = lookup.player(0)
    env = lookup.setting()
    config = TrainConfig.of(Recipe.of("pods"), steps=1, tasks=4, lr=1e-3, seed=1)
    run = Trainer(env, lm, "pods", config, policy=policy)
    batches = []
    update = run.updater.update

    def watched(batch, coef, step):  # type: ignore[no-untyped-def]
        batches.append(batch)
        return update(batch, coef, step)

    run.updater.update = watched  # type: ignore[method-assign]
    (metrics,) = run.train()
    assert metrics["episodes"] == 64
    group, adv = batches[0].group.numpy(), batches[0].need("adv").numpy()
    assert len(np.unique(group)) >= 1
    for one in np.unique(group):
        members = adv[group == one]  # one number an episode
        assert len(members) == 4
        assert abs(members.mean()) < 1e-6
        assert members.std() > 0


def test_one_member_has_no_peers() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        MostVaried(1)
