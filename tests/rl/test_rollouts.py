"""Rollouts of chains, and of an expert's demonstrations."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from searchgym.agents import OracleAgent
from searchgym.envs import SearchEnv
from searchgym.errors import EngineError, SearchGymError
from searchgym.llms import train_tokenizer
from searchgym.policies import TrainableLM
from searchgym.rl.rollouts.demonstrations import Demonstrations, _end_of
from searchgym.rl.slots.records import Group, Played, TaskPlan, Workers
from tests.llms import tiny
from tests.rl.tiny import llama

THINKING = "thinking"


def made() -> SearchEnv:
    return SearchEnv(
        **{"corpus": "encyclopedia", "world": {"entities": 300, "seed": 3}, "k": 2, "max_turns": 4,
         "tasks": {"simple": 3, "chain-2": 3}}
    )  # fmt: skip


@cache
def tokenizer() -> Any:
    return train_tokenizer((task.question for task in made().tasks), 300)


@pytest.fixture
def workers() -> Workers:
    lm = TrainableLM(llama(tokenizer(), heads=2), tokenizer())
    return Workers(lm.policy("plain", context=4096), made(), lm)


def said(expert: Any, workers: Workers) -> list[str]:
    """What the policy's rows say was written, an episode each."""
    plans = [TaskPlan(task, f"p{i}", i) for i, task in enumerate(workers.env.tasks)]
    texts = []
    for group in Demonstrations(expert).collect(plans, workers):
        (member,) = group.members
        rows = [(row.ids, row.loss_mask) for row in member.rows]
        texts.append(
            "".join(
                tokenizer().decode([int(t) for t, own in zip(ids, mask, strict=True) if own])
                for ids, mask in rows
            )
        )
    return texts


def test_the_oracle_demonstrates_unless_somebody_else_is_given(workers: Workers) -> None:
    oracles = said(None, workers)
    assert oracles == said(OracleAgent(workers.env.tasks), workers)
    assert all("<answer>" in text for text in oracles)
    assert not any("<think>" in text for text in oracles)


def test_a_named_expert_is_made_of_the_setting(workers: Workers) -> None:
    thoughts = said(THINKING, workers)
    assert {task.hops for task in workers.env.tasks} == {1, 2}
    for task, text in zip(workers.env.tasks, thoughts, strict=True):
        assert text.count("<search>") >= task.hops
        assert text.count("<think>") > task.hops


def test_a_name_that_leads_nowhere_is_said_at_once() -> None:
    with pytest.raises(SearchGymError, match="Nobody"):
        Demonstrations("searchgym_agents.experts:Nobody")
    with pytest.raises(SearchGymError, match=r"unknown expert 'thinkin'. Did you mean 'thinking'"):
        Demonstrations("thinkin")


def test_what_does_not_fit_into_the_context_is_no_row(workers: Workers) -> None:
    """As when the policy plays: the turn is empty, which the episode counts, or an error."""

    def groups() -> list[Group]:
        plans = [TaskPlan(task, f"p{i}", i) for i, task in enumerate(workers.env.tasks)]
        return Demonstrations().collect(plans, workers)

    def members(found: list[Group]) -> list[Played]:
        return [m for group in found for m in group.members]

    whole = members(groups())
    longest = max(len(row) for m in whole for row in m.rows)
    workers.policy.context = longest - 1
    cut = members(groups())
    assert max(len(row) for m in cut for row in m.rows) < longest
    for before, now in zip(whole, cut, strict=True):
        (was,), (row,) = before.rows, now.rows
        assert was.ids[: len(row)].tolist() == row.ids.tolist()
        fitted = len(was) < longest
        assert (len(row) == len(was)) == fitted
        assert ("" in [turn.text for turn in now.episode.turns]) != fitted
    workers.policy.overflow = "refuse"
    with pytest.raises(EngineError, match=r"of OracleAgent's exceed the model's \d+\. Lower k"):
        groups()


def test_a_turn_ends_with_the_tokenizers_own_end_of_text() -> None:
    """Chat models stop at several tokens, of which the lowest is not the one that ends a turn."""

    def asked(eos: int | None, end: int | None = None) -> Any:
        codec = SimpleNamespace(tokenizer=SimpleNamespace(eos_token_id=eos))
        generator = SimpleNamespace(codec=codec, eos={3, 9})
        return SimpleNamespace(generator=generator, renderer=SimpleNamespace(end=end))

    assert _end_of(asked(7)) == 7
    assert _end_of(asked(7, end=9)) == 9
    assert _end_of(asked(None)) == 3


def test_a_chats_turn_ends_as_the_template_ends_it() -> None:
    """Once, with the token that the template writes there, at which the sampler stops as well."""
    words = tiny.tokenizer()
    mark, eos = words.convert_tokens_to_ids([tiny.MARK, tiny.END])
    lm = TrainableLM(tiny.model("qwen2", len(words)), words)
    policy = lm.policy("chat", context=4096)
    assert policy.generator.eos == {mark, eos}
    workers = Workers(policy, made(), lm)
    (group,) = Demonstrations().collect([TaskPlan(made().tasks[0], "0.0", 0)], workers)
    (row,) = group.members[0].rows
    assert eos not in row.ids
    assert list(row.ids[row.sampled]).count(mark) == len(group.members[0].episode.turns)
    ended = [i for i in range(len(row)) if row.ids[i] == mark]
    assert all(b > a + 1 for a, b in pairwise(ended)), "the template's own does not follow"
