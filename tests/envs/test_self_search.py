"""``engine="self"``: one text per episode, and nothing but the policy in it."""

from __future__ import annotations

import json
import math
import pickle

import gymnasium as gym
import pytest

from searchgym.core import Episode, Trajectory, oracle_texts
from searchgym.dialects import MASKED
from searchgym.engines import build_engine
from searchgym.envs.checker import MALFORMED, check_env, check_vector_env, same
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError, EngineError, EpisodeError
from searchgym.evaluation import evaluate, row_of
from searchgym.types import Query

from ..small import CORPUS, TASKS

OWN = {"corpus": CORPUS, "tasks": TASKS, "engine": "self"}
COUNTS = {"simple": 9, "chain": 9, "comparison": 9, "intersection": 9, "unanswerable": 9}
RIGHT = (
    "<think>who?</think><search>founder of Aldor</search><information>Mira Venn founded\nAldor"
    "</information><think>so</think><answer>Mira Venn</answer>"
)


def env(**keywords) -> SearchEnv:
    return SearchEnv(**{**OWN, **keywords})


def step(text: str, task: str = "t2", **keywords):
    e = env(**keywords)
    e.reset(seed=0, options={"task_id": task})
    return e, *e.step(text)[1:]


def test_one_text_is_one_episode() -> None:
    e, reward, terminated, truncated, info = step(RIGHT)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["reward_parts"] == {"em": 1.0, "f1": 1.0, "cover_em": 1.0, "format": 1.0}
    assert info["outcome"]["end"] == "answered"
    assert "evidence_recall" not in info["outcome"]
    assert info["hits"] == ()
    turn = e.episode.turns[0]
    assert turn.text == RIGHT
    assert [s.kind for s in turn.spans] == [
        "think", "search", MASKED, "information", "think", "answer",
    ]  # fmt: skip
    assert not turn.calls
    with pytest.raises(EpisodeError, match="call reset"):
        e.step("x")


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        (RIGHT.replace("Mira Venn</a", "Quell</a"), 0.1),
        (RIGHT.replace("<think>so</think>", ""), 0.9 + 0.1 * 0.25),
        (RIGHT + " and so on", 0.9),
        ("<answer>Mira Venn</answer>", 0.9),
        ("<think>I know</think><answer>Mira Venn</answer>", 0.9 + 0.1 * 0.5),
        (RIGHT.removesuffix("</answer>"), 0.0),
        ("<think>a</think><information><answer>Mira Venn</answer></information>", 0.0),
    ],
)
def test_rewards(text: str, reward: float) -> None:
    _, got, terminated, truncated, _ = step(text)
    assert got == pytest.approx(reward)
    assert (terminated, truncated) == (True, False)


def test_a_text_without_an_answer_ends_the_episode() -> None:
    for text in MALFORMED:
        e, reward, terminated, truncated, info = step(text)
        found = info["action"] == "Answer"
        assert (terminated, truncated) == (True, False)
        assert info["outcome"]["end"] == ("answered" if found else "unanswered")
        assert reward == 0.0
        assert row_of(e.episode).invalid == (not found)
    assert "NO ANSWER" in _transcript("no answer at all")


def _transcript(text: str) -> str:
    from searchgym.envs.render import transcript

    return transcript(step(text)[0].episode)


def test_the_request_is_one_uninterrupted_generation() -> None:
    e = env()
    shown, info = e.reset(seed=1)
    request = e.requests()[0]
    assert request.stop == ("</answer>",)
    assert request.tools == ()
    assert (request.turns_left, request.queries_left) == (1, 0)
    assert "<information> your information </information>" in shown
    assert not any(p.text in shown for p in CORPUS)
    assert info["queries_left"] == 0


def test_reward_can_be_set() -> None:
    assert step(RIGHT, reward={"f1": 1.0})[1] == 1.0
    assert step(RIGHT.replace("<think>so", "<b>so"), reward={"format": 1.0})[1] == 0.0
    assert step(RIGHT, params={"w_format": 0.0})[1] == pytest.approx(0.9)


def test_it_passes_the_checkers() -> None:
    check_env(env(), seeds=3)
    check_env(env(dialect="search_r1+quoted", may_abstain=True), seeds=2)
    check_vector_env("searchgym/SelfSearchQA-v0", num_envs=3, steps=6)


def test_the_oracle_writes_the_gold_passages_itself() -> None:
    for name in ("searchgym/SelfSearchQA-v0", "SearchQA-v0"):
        e = gym.make(name, engine="self", world={"entities": 300}, tasks=COUNTS).unwrapped
        for seed in range(30):
            e.reset(seed=seed)
            (text,) = e.oracle()
            task = e.episode.config.task
            for evidence in task.evidence:
                assert e.corpus.passage(evidence).text in text
            _, reward, terminated, _, info = e.step(text)
            assert info["reward_parts"]["format"] == 1.0, task.id
            assert (reward, terminated) == (1.0, True)
            assert e.oracle() == []
    e.reset(seed=0)
    with pytest.raises(EpisodeError, match="passage="):
        oracle_texts(e.episode)


def test_forks_snapshots_and_pickles() -> None:
    e = env()
    e.reset(seed=3)
    twin, ready = e.fork(), json.loads(json.dumps(e.snapshot()))
    copies = [e, twin, pickle.loads(pickle.dumps(env(corpus=CORPUS)))]
    copies[2].restore(ready)
    results = [c.step(RIGHT) for c in copies]
    assert same(results[0], results[1])
    assert same(results[0], results[2])
    again = Episode.restore(json.loads(json.dumps(e.snapshot())))
    assert again.turns == e.episode.turns
    recorded = Trajectory.of(e.episode)
    assert math.isnan(recorded.evidence_recall)
    assert recorded.turns[0]["spans"] == [list(s) for s in e.episode.turns[0].spans]
    assert recorded.replay().outcome() == e.episode.outcome()


def test_what_the_mode_cannot_do_says_so() -> None:
    for keywords, message in (
        ({"dialect": "json_tools"}, "no self-search form.*'search_r1'"),
        ({"dialect": "asearcher"}, "no self-search form"),
        ({"dialect": "plain"}, "no self-search form"),
        ({"judge": True}, "one uninterrupted text"),
        ({"delegate": True}, "one uninterrupted text"),
        ({"engine": {"name": "self", "k": 3}}, "takes no options"),
        ({"engine": "bm25", "dialect": "search_r1_self"}, "add engine='self'"),
    ):
        with pytest.raises(CardError, match=message):
            env(**keywords)
    with pytest.raises(EngineError, match="episode mode of environments"):
        build_engine("self", CORPUS)
    with pytest.raises(EngineError, match="no engine answers"):
        env().engine.run([Query("x", 1, None)])  # type: ignore[arg-type]


def test_tools_and_turns_have_nothing_to_act_on() -> None:
    plain = env().rules
    for keywords in (
        {"engine": {"name": "self"}},
        {"tools": ("search", "access"), "max_turns": 6, "max_queries": 3, "max_parallel": 3},
        {"dialect": "search_r1+parallel"},
        {"dialect": "search_r1_self"},
        {"engine": env().engine},
    ):
        assert env(**keywords).rules == plain
    assert env(max_action_chars=50).rules.max_action_chars == 50


def test_evaluation_reports_the_mode() -> None:
    class Writes:
        def act(self, requests):
            return [RIGHT for _ in requests]

    result = evaluate(Writes(), env())
    assert result.means["em"].mean == 0.5
    assert result.means["evidence_recall"].n == 0
    assert result.settings["engine"] == "self"
    assert result.settings["rules"]["dialect"] == "search_r1_self"
