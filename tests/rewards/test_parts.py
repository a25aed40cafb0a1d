"""Worked numbers of every part, and what a reward makes of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.core import Episode
from searchgym.errors import CardError, EpisodeError, RewardError
from searchgym.rewards import MEASURES, Outcome, Reward
from searchgym.types import Failure

from ..small import TASKS, episode, play
from . import own

PATH = "tests.rewards.own:"
FULL = "search_r1+parallel+judge+delegate+access"


def earned(reward: Any, *texts: str, **options: Any) -> list[float]:
    """The rewards of the turns."""
    return [t.reward for t in played(reward, *texts, **options).turns]


def played(reward: Any, *texts: str, **options: Any) -> Episode:
    return play(episode(reward=Reward.of(reward), **options), *texts)


def test_parts_of_the_answer() -> None:
    right, partly, wrong = (
        "<answer>Quell</answer>",
        "<answer>Quell city</answer>",
        "<answer>x</answer>",
    )
    for name, values in {
        "em": (1.0, 0.0, 0.0), "f1": (1.0, 2 / 3, 0.0), "cover_em": (1.0, 1.0, 0.0),
    }.items():  # fmt: skip
        assert [earned(name, text)[-1] for text in (right, partly, wrong)] == list(values)
        assert earned(name, "hello", "hello", max_turns=2) == [0.0, 0.0], "never answered"


def test_cover_em_is_measured_and_gates_but_environments_do_not_pay_it() -> None:
    listed = "<answer>Quell, Osten or Aldor</answer>"
    assert played("em", listed).outcome().parts["cover_em"] == 1.0
    assert earned({"f1": 1, "cover_em": "gate"}, listed) == earned("f1", listed)
    for spec in ("cover_em", ["em", "cover_em"], {"all": {"use": "cover_em", "weight": 0.1}}):
        with pytest.raises(CardError, match="cover_em is a measure and is not paid"):
            Reward.paid(spec)
    assert Reward.paid({"f1": 1, "cover_em": "gate"}) == Reward.of({"f1": 1, "cover_em": "gate"})
    with pytest.raises(CardError, match="cover_em is a measure and is not paid"):
        Reward.of("em").effective({"w_cover_em": 1.0})
    assert Reward.of({"em": 1, "cover_em": 0}).effective({"w_cover_em": 0.0})["em"] == 1


def test_format_is_the_share_of_valid_turns() -> None:
    assert earned("format", "<search>Aldor</search>", "hm", "<answer>x</answer>") == [
        0,
        0,
        1 - 1 / 3,
    ]
    assert earned("format", "<search>a</search>", "<search>b</search>", max_turns=2) == [0, 0]


def test_parts_of_turns() -> None:
    options = {"dialect": FULL, "max_parallel": 3, "max_turns": 6, "judge": True}
    texts = (
        "<search>Aldor founder ## Osten</search>", "<access>https://w.example/Osten</access>",
        "nothing", "<judge>good</judge>", "<answer>Quell</answer>",
    )  # fmt: skip
    assert earned("search", *texts, **options) == [2, 0, 0, 0, 0]
    assert earned("access", *texts, **options) == [0, 1, 0, 0, 0]
    assert earned("invalid", *texts, **options) == [0, 0, 1, 0, 0]
    assert earned("call", *texts, **options) == [0, 0, 0, 0, 0]  # test_calls.py has calls


def test_evidence_is_paid_when_it_is_first_shown() -> None:
    texts = ("<search>Aldor city</search>", "<search>Aldor city</search>", "<search>Quell</search>")
    assert earned("evidence", *texts) == [0.5, 0.0, 0.5]


def test_an_answer_in_the_results_is_found_without_gold_passages() -> None:
    bare = replace(TASKS[0], evidence=(), queries=())
    texts = ("<search>Osten river</search>", "<search>Quell town</search>", "no action",
             "<access>https://w.example/Quell</access>", "<answer>Quell</answer>")  # fmt: skip
    got = earned("answer_in_results", *texts, task=bare, dialect=FULL)
    assert got == [0.0, 1.0, 0.0, 1.0, 0.0], "an answer is not a result"
    longer = replace(bare, answers=("Quel",))
    assert earned("answer_in_results", texts[1], task=longer) == [0.0], "whole words"


def test_own_functions_classes_and_options() -> None:
    texts = (
        "<search>Aldor founder</search>",
        "<search>Aldor river</search>",
        "<answer>Quell</answer>",
    )
    assert earned(own.brevity, *texts) == [0, 0, 1]
    assert earned({"use": own.brevity, "words": 0}, *texts) == [0, 0, 0]
    # "<search>aldor", "founder</search>"; then "<search>aldor" is old and "river</search>" new
    assert earned(own.novelty, *texts) == [1.0, 0.5, 0.0]
    assert earned(own.Thrift(3), *texts) == [0.0, 0.0, 0.25 + 1.0]
    assert earned({"use": own.Thrift(2), "weight": 2.0}, *texts[:2], "hm", texts[2]) == [
        0,
        0,
        0.5,
        0.5,
    ]
    e = played({"Thrift": {"use": own.Thrift(3), "weight": 2.0}, own.novelty: 0}, *texts)
    assert (e.parts or {})["Thrift"] == 1.25
    assert (e.parts or {})["novelty"] == 1.5
    assert [t.reward_parts.get("novelty") for t in e.turns] == [1.0, 0.5, None]


def test_several_numbers_by_name() -> None:
    e = played({own.Detail(): 2}, "<search>Aldor</search>", "<answer>Quell</answer>")
    assert e.turns[-1].reward == pytest.approx(2 * (1 - 0.2))
    parts = e.parts or {}
    assert (parts["Detail.right"], parts["Detail.turns"]) == (1.0, -0.2)
    assert parts["Detail"] == pytest.approx(0.8)


def test_a_final_gate_pays_at_the_end_or_not_at_all() -> None:
    """R · 1[correct]: nothing before the end says whether it will be paid."""
    search = "<search>Aldor city</search>"
    for spec in ({"evidence": 1, "search": -0.1, f"{PATH}correct": "gate"},
                 {"evidence": 1, "search": -0.1, "em": "gate"},
                 ["evidence", {"search": -0.1}, own.correct]):  # fmt: skip
        assert earned(spec, search, "<answer>Quell</answer>") == pytest.approx([0, 0.4])
        assert earned(spec, search, "<answer>x</answer>") == [0, 0]
        assert earned(spec, search, search, max_turns=2) == [0, 0]
    e = played({"evidence": 1, "f1": "gate"}, search)
    assert e.turns[0].reward_parts["evidence"] == 0.5, "what is held back is on record"
    play(e, "<answer>Quell city</answer>")
    assert e.turns[-1].reward == pytest.approx(0.5 * 2 / 3)


def test_a_gate_of_turns_multiplies_its_turn_alone() -> None:
    spec = ["em", {"search": 1.0}, own.careful]
    texts = ("<search>Aldor city</search>", "<search>Aldor city</search>", "<answer>Quell</answer>")
    assert earned(spec, *texts) == [1.0, 0.5, 1.0]
    assert (played(spec, *texts).parts or {})["careful"] == 0.25


def test_states_of_tools_reach_the_outcome() -> None:
    from ..small import NEIGHBORS, rules

    e = episode(tools=(*rules().tools, NEIGHBORS), dialect="json_tools+tools",
                reward=Reward.of(own.state_of_calls))  # fmt: skip
    call = '<tool_call>{"name": "graph_neighbors", "arguments": {"node": "Aldor"}}</tool_call>'
    answer = '<tool_call>{"name": "answer", "arguments": {"answer": "Quell"}}</tool_call>'
    play(e, call, call, answer)
    assert e.outcome() is not None
    assert e.turns[-1].reward == 2.0
    seen = e.outcome().tool_states  # type: ignore[union-attr]
    seen["graph_neighbors"]["asked"] = 99
    assert e.tool_states["graph_neighbors"]["asked"] == 2, "what rewards see is a copy"


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (
            own.broken,
            r"reward part 'broken' \(tests.rewards.own:broken\) failed on task 't1': Index",
        ),
        (own.nothing, "'nothing' .* must give a finite number, .* gave None on task 't1'"),
        (own.endless, "'endless' .* gave inf"),
        (lambda outcome: "1", "gave '1'"),
        (lambda outcome: {"a": math.nan}, "gave {'a': nan}"),
        (lambda outcome: 10**400, "must give a finite number"),
    ],
)
def test_a_reward_that_fails_is_one_error(reward: Any, message: str) -> None:
    e = episode(reward=Reward.of(reward))
    with pytest.raises(RewardError, match=message):
        e.act("<answer>Quell</answer>")


def test_numbers_of_other_libraries_are_numbers() -> None:
    import numpy as np
    import torch

    for value in (np.float32(0.5), np.array(0.5), torch.tensor(0.5), np.int64(1), np.True_, True):
        got = earned(lambda outcome, value=value: value, "<answer>x</answer>")
        assert got == [float(value)]
        assert type(got[0]) is float


def test_what_an_outcome_says() -> None:
    seen: list[Outcome] = []

    def look(outcome: Outcome) -> float:
        seen.append(outcome)
        assert outcome.question == TASKS[0].question
        assert outcome.answers == ("Quell", "Town of Quell")
        assert (outcome.answer, outcome.answered, outcome.end) == ("Quell", True, "answered")
        assert (outcome.family, outcome.evidence) == ("chain", ("p1", "p2"))
        assert (outcome.evidence_found, outcome.evidence_total, outcome.searches) == (1, 2, 1)
        assert [type(action).__name__ for action in outcome.actions] == ["Search", "Answer"]
        assert [turn.text for turn in outcome.turns] == [
            "<search>Aldor city</search>", "<answer>Quell</answer>",
        ]  # fmt: skip
        assert outcome.seen == ("p1",) == tuple(h.passage.id for h in outcome.hits)
        assert outcome.params == {"noise": 0.5}
        assert (outcome.em, outcome.f1, outcome.cover_em, outcome.cost) == (1, 1, 1, 0)
        with pytest.raises(EpisodeError, match="measured when the episode is over"):
            _ = outcome.parts
        return 0.75

    e = played(look, "<search>Aldor city</search>", params={"noise": 0.5})
    assert e.outcome() is None
    play(e, "<answer>Quell</answer>")
    assert len(seen) == 1
    assert seen[0].turns == tuple(e.turns), "it stays true once the turn is on record"
    assert seen[0] == e.outcome()
    with pytest.raises(TypeError):
        seen[0].parts["look"] = 1.0  # type: ignore[index]
    with pytest.raises(AttributeError):
        seen[0].answer = "x"  # type: ignore[misc]


def test_measures_have_the_same_keys_however_it_ends() -> None:
    own_parts = ["em", own.brevity, own.novelty, own.correct, own.Thrift]
    options = {"reward": Reward.of(own_parts), "max_retries": 0}
    ends = {
        "answered": play(episode(**options), "<answer>Quell</answer>"),
        "max_turns": play(episode(max_turns=1, **options), "hm"),
        "max_chars": play(episode(max_chars=10, **options), "hm"),
        "infra_error": episode(**options),
    }
    ends["infra_error"].act("<search>Aldor</search>")
    ends["infra_error"].receive([Failure("unavailable", "down")])
    expected = [*MEASURES, "brevity", "novelty", "correct", "Thrift"]
    for end, e in ends.items():
        outcome = e.outcome()
        assert outcome is not None
        assert outcome.end == end
        assert list(outcome.parts) == expected
        assert outcome.parts["infra_error"] == (end == "infra_error")
        assert outcome.parts["truncated"] == end.startswith("max")
        assert outcome.parts["answered"] == (end == "answered")
        assert all(isinstance(value, float) for value in outcome.parts.values())
    lost = ends["infra_error"]
    assert lost.turns[-1].reward == 0.0
    assert lost.turns[-1].reward_parts == {}


def test_without_gold_passages_recall_is_unknown() -> None:
    bare = replace(TASKS[0], evidence=(), queries=())
    e = play(episode(bare), "<answer>Quell</answer>")
    assert math.isnan((e.parts or {})["evidence_recall"])


def test_parts_that_tell_of_gold_passages_are_not_shown_before_the_end() -> None:
    search, answer = "<search>Aldor city</search>", "<answer>Quell</answer>"
    e = played({"em": 1, own.novelty: 0, own.Thrift: 0}, search)
    assert e.turns[0].reward_parts == {
        "search": 1.0,
        "evidence": 0.5,
        "novelty": 1.0,
        "Thrift": 0.0,
    }
    assert e.public_parts == {"search": 1.0}
    assert play(e, answer).public_parts == e.turns[-1].reward_parts
    # what a turn is paid for, its reward tells anyway
    assert played({"evidence": 0.5}, search).public_parts == {"search": 1.0, "evidence": 0.5}
    assert played("em", search, params={"w_evidence": 1}).public_parts["evidence"] == 0.5
    assert played({"evidence": 1, "em": "gate"}, search).public_parts == {"search": 1.0}


# --- properties -------------------------------------------------------------------------------
TEXTS = st.lists(
    st.sampled_from(
        [
            "<search>Aldor founder</search>", "<search>Osten ## Trap</search>", "nothing",
            "<access>https://w.example/Osten</access>", "<answer>Quell</answer>",
            "<answer>Quell city</answer>", "<judge>bad</judge>",
        ]
    ),
    min_size=1,
    max_size=6,
)  # fmt: skip
WEIGHTS = st.dictionaries(
    st.sampled_from(
        ["em", "f1", "cover_em", "format", "evidence", "search", "access", "invalid",
         "answer_in_results", f"{PATH}brevity", f"{PATH}novelty", f"{PATH}Thrift"]
    ),
    st.floats(-2, 2, allow_nan=False),
    min_size=1,
)  # fmt: skip
OPTIONS: dict[str, Any] = {"dialect": FULL, "max_parallel": 2, "judge": True, "max_turns": 5}


@given(TEXTS, WEIGHTS, st.booleans())
def test_rewards_of_turns_sum_to_the_weighted_parts(
    texts: list[str], weights: dict[str, float], gated: bool
) -> None:
    spec: dict[str, Any] = {**weights, **({f"{PATH}correct": "gate"} if gated else {})}
    e = episode(reward=Reward.of(spec), **OPTIONS)
    for text in texts:
        if e.phase != "done":
            play(e, text)
    named = {k.rpartition(":")[2]: w for k, w in weights.items()}
    worth = sum(w * sum(t.reward_parts.get(n, 0.0) for t in e.turns) for n, w in named.items())
    if gated:
        worth *= (e.parts or {"correct": 0.0})["correct"]
    assert sum(t.reward for t in e.turns) == pytest.approx(worth, abs=1e-9)
    if gated:
        assert all(t.reward == 0.0 for t in e.turns[:-1])
    if e.parts is not None:
        for name in named.keys() & {"brevity", "novelty", "Thrift", "answer_in_results"}:
            total = sum(t.reward_parts.get(name, 0.0) for t in e.turns)
            assert e.parts[name] == pytest.approx(total)
    again = Episode.restore(e.snapshot(), reward=spec)
    assert again.turns == e.turns
    assert again.outcome() == e.outcome()
    for at in range(len(e.turns) + 1):
        assert e.fork(at=at).turns == e.turns[:at]
    assert (e.outcome() is None) == (e.parts is None)


@pytest.mark.parametrize("weights", [{"em": 1}, {"em": 1, "search": -0.5, "evidence": 2}])
def test_plain_turns_are_measured_as_any_others(weights: dict[str, float]) -> None:
    """The short way without an outcome and the general one give the same parts and worth."""
    reward = Reward.of(weights)
    assert reward.plain_turns
    assert not Reward.of([own.novelty]).plain_turns
    env = gym.make(
        "SearchQA-v0", world={"entities": 400}, tasks={"chain": 5}, reward=weights, max_turns=5
    ).unwrapped
    for seed in range(3):
        env.reset(seed=seed)
        for action in [*env.oracle()[:-1], "no action", "<search> nothing </search>"]:
            before = env.episode.evidence_found
            env.step(action)
            turn, found = env.episode.turns[-1], env.episode.evidence_found - before
            outcome = Outcome(env.episode, turn, turn.calls, turn.results, None)
            env.episode.new_evidence = found
            general = reward.of_turn(outcome, reward.weights)
            env.episode.new_evidence = 0
            assert (dict(turn.reward_parts), turn.reward) == general
