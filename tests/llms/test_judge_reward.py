"""A judge of turns: what it is asked and not told, its cache, and the exact verdict beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import searchgym  # noqa: F401 (registers the environments)
from searchgym.core import Episode
from searchgym.errors import CardError, RewardError
from searchgym.llms.base import Completion, GenRequest, request_key
from searchgym.llms.judge_reward import JudgeReward
from searchgym.rewards import REWARDS, Outcome, Reward
from searchgym.types import Failure

from ..small import CORPUS, TASKS, episode, play

ONE, NONE = "<search>founded</search>", "<search>Osten</search>"


class Reader:
    """A generator that scores by a word of the step's results."""

    needs_task = False
    fingerprint = "reader"
    capabilities: frozenset[str] = frozenset()

    def __init__(self, says: str = "score: {}", fails: bool = False) -> None:
        self.says, self.fails = says, fails
        self.asked: list[str] = []

    def cache_key(self, request: GenRequest) -> bytes:
        return request_key(request)

    def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
        self.asked += [str(request.prompt) for request in batch]
        if self.fails:
            return [Failure("timeout", "too slow")] * len(batch)
        shown = [str(r.prompt).split("What it showed:")[1].split("Rubric:")[0] for r in batch]
        return [Completion(self.says.format(0.75 if "founded by" in s else 0)) for s in shown]

    def score(self, batch: Any) -> Any:
        raise NotImplementedError


def test_it_scores_turns_and_asks_once() -> None:
    judge = Reader()
    reward = Reward.of({"em": 1, "judge": {"use": JudgeReward(judge), "weight": 0.5}})
    e = play(episode(reward=reward), ONE, NONE, "hm", "<answer>Quell</answer>")
    assert [turn.reward for turn in e.turns] == [0.375, 0, 0, 1]
    assert len(judge.asked) == 2
    again = Episode.restore(json.loads(json.dumps(e.snapshot())), reward=reward)
    assert [turn.reward for turn in again.turns] == [0.375, 0, 0, 1]
    assert len(judge.asked) == 2, "replayed from memory"
    assert not any("Quell" in text for text in judge.asked), "the answer is not told"
    env = gym.make("SearchQA-v0", corpus=CORPUS, tasks=list(TASKS), reward=reward)
    env.reset(options={"task_id": "t1"})
    assert env.step(ONE)[1] in (0.375, 0.0)


def test_with_a_cache_it_asks_once_for_ever(tmp_path: Path) -> None:
    from searchgym.llms.registry import Cached

    first, second = Reader(), Reader()
    for judge in (first, second):
        reward = Reward.of(["em", JudgeReward(Cached(judge, tmp_path / "judge.sqlite"))])
        e = play(episode(reward=reward), ONE, "<answer>x</answer>")
        assert [turn.reward for turn in e.turns] == [0.75, 0]
    assert (len(first.asked), len(second.asked)) == (1, 0)


def test_a_judge_that_fails_or_mumbles() -> None:
    with pytest.raises(RewardError, match="could not be asked: timeout"):
        play(episode(reward=Reward.of([JudgeReward(Reader(fails=True))])), ONE)
    for says in ("<think>\nscore: 1\n</think>\nscore: 0.5", "score: 1\n</think>\nscore: 0.5"):
        assert (
            play(episode(reward=Reward.of([JudgeReward(Reader(says))])), ONE).turns[0].reward == 0.5
        )
    two = JudgeReward(Reader("score: 1\nscore: 0"), unread=0.25)
    assert play(episode(reward=Reward.of([two])), ONE).turns[0].reward == 0.25


def test_the_exact_verdict_is_its_label() -> None:
    seen: list[tuple[float, float]] = []
    judge = JudgeReward(Reader())

    class Watched:
        def turn(self, outcome: Outcome) -> float:
            if outcome.calls:
                seen.append((judge.turn(outcome), JudgeReward.label(outcome)))
            return 0.0

    play(episode(reward=Reward.of(["em", Watched()])), ONE, NONE, ONE, "<answer>x</answer>")
    assert seen == [(0.75, 1), (0, 0), (0.75, 0)], "the repeated search is worth nothing"


def test_a_record_cannot_name_a_judge() -> None:
    path = "searchgym.llms.judge_reward:JudgeReward"
    assert path not in REWARDS.values()
    made = Reward.of({"em": 1, "judge": {"use": path, "generator": {"name": "openai"}}})
    with pytest.raises(CardError, match="is code of its own"):
        Reward.from_json(made.to_json())
