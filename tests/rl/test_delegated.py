"""A sub-task that is handed over is played in a context of its own, between two of the planner's
turns: tokens stand in the order in which they were written, whoever wrote them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from searchgym.policies import TrainingRow
from searchgym.rl.run_folder import SavedRollouts
from searchgym.rl.slots.batch import Batch, Estimate, in_lines
from searchgym.rl.slots.protocols import make
from searchgym.rl.slots.records import Group, Played, Rewards, Scored, TaskPlan
from tests.policies.players import ANSWER, EDITED, TEXTS, Watched
from tests.small import TASKS, episode

HANDED_OVER = ["<task> Who founded Aldor? </task>", TEXTS[1], ANSWER, TEXTS[1]]
PLAIN = [TEXTS[1]]


def played(texts: list[str]) -> Played:
    watched = Watched(texts)
    e = watched.play(episode(**EDITED))
    return Played(e, tuple(watched.policy.rows(e)))


@pytest.fixture(scope="module")
def batch() -> Batch:
    members = tuple(played(texts) for texts in (HANDED_OVER, PLAIN, HANDED_OVER, PLAIN))
    turns = np.array([[0, 0.5, 0, 0, 0], [0.25] + [np.nan] * 4] * 2)
    rewards = Rewards(np.array([1.0, 0.0, 0.0, 1.0]), turns)
    made = Batch.of([Scored(Group(TaskPlan(TASKS[0], "0", 1), members), {}, rewards)])
    assert made is not None
    return made


def values(rows: list[TrainingRow]) -> torch.Tensor:
    """(R, W) a number for each token that says where it stands."""
    made = torch.zeros(len(rows), max(map(len, rows)))
    for i, row in enumerate(rows):
        made[i, : len(row)] = 1000 * i + torch.arange(len(row))
    return made


def test_tokens_stand_in_the_order_of_turns(batch: Batch) -> None:
    first = batch.members[0]
    assert [row.context for row in first.rows] == [0, 1]
    assert first.order is not None
    assert batch.members[1].order is None
    for line, member in zip(batch.turn, batch.members, strict=True):
        turns = line[: member.tokens]
        assert (turns.diff() >= 0).all()
        assert turns.tolist() == sorted(member.turns.tolist())
    assert set(batch.turn[0].tolist()) >= {0, 1, 2, 3, 4}


def test_everything_about_a_token_moves_with_it(batch: Batch) -> None:
    """Log-probabilities, masks and what a model says of the rows are of the same tokens."""
    width = batch.mask.shape[1]
    places = in_lines(values(batch.rows), batch.members, width)
    for member, line, logp, mask in zip(
        batch.members, places, batch.sampled_logp, batch.mask, strict=True
    ):
        base = sum(len(m.rows) for m in batch.members[: batch.members.index(member)])
        for place, drawn, trained in zip(
            line.tolist()[: member.tokens], logp.tolist(), mask.tolist(), strict=False
        ):
            row, at = divmod(int(place), 1000)
            assert member.rows[row - base].logp[at] == pytest.approx(drawn)
            assert bool(member.rows[row - base].loss_mask[at]) == trained


def test_the_outcome_is_paid_where_the_episode_ends(batch: Batch) -> None:
    paid = batch.token_reward()
    for turn, mask in zip(batch.turn, batch.mask, strict=True):
        last = int(turn[mask].max())
        assert int(turn[int(mask.nonzero().max())]) == last
    handed = paid[0].nonzero()[:, 0]
    assert batch.turn[0][handed].tolist() == [1, 4]
    assert paid[0][handed].tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    "method",
    ["grpo_steps", "mt_grpo", {"use": "ppo", "level": "turn"}, {"use": "ppo", "level": "bi-level"}],
)
def test_methods_that_tell_turns_apart_take_them(batch: Batch, method: object) -> None:
    estimator = make("advantage", method)
    value = torch.zeros(batch.mask.shape)
    adv = estimator.estimate(replace(batch, value=value), {}).adv
    assert torch.isfinite(adv).all()


def test_saved_rollouts_have_each_tokens_own_advantage(batch: Batch, tmp_path: object) -> None:
    numbered = replace(batch, credit=Estimate(10.0 * batch.turn))
    saved = SavedRollouts(tmp_path / "r.jsonl", 1, _Tokens())  # type: ignore[operator]
    record = saved._trajectory(0, numbered, 0)
    for row in record.training["rows"]:
        for turn, advantage in zip(row["turn"], row["advantage"], strict=True):
            assert advantage is None or advantage == 10.0 * turn


class _Tokens:
    def decode(self, ids: list[int]) -> str:
        return str(ids)
