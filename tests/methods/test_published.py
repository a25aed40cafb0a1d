"""Worked numbers of every published reward: those that its source prints, or that follow from its
definition by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.core import Episode
from searchgym.errors import CardError
from searchgym.rewards import Reward, lookups, new_evidence, structural, texts_in_form
from searchgym.types import (
    GraphEdge,
    GraphNode,
    Hit,
    ReasoningGraph,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from searchgym_agents.methods.answer_rewards import (
    NamedCall,
    call_match,
    rung,
    set_f1,
    smoothed_mean,
)
from searchgym_agents.methods.evidence_rewards import (
    CGrpo,
    connected_share,
    redundancy,
    weighted_share,
)
from searchgym_agents.methods.search_costs import Calls, Costs, Fathom, frugal, query_score
from searchgym_agents.methods.turn_rewards import of_turns
from tests.small import PASSAGES, TASKS, episode, play

FULL = "search_r1+parallel+judge+delegate+access"
WIDE = {"dialect": FULL, "max_parallel": 3, "max_turns": 9, "judge": True, "delegate": True}
RIGHT, WRONG = "<answer>Quell</answer>", "<answer>x</answer>"
ONE, TWO, NONE = (f"<search>{query}</search>" for query in ("founded", "painter", "Osten"))
"""Queries that show p1, p2 and neither."""


def played(reward: Any, *texts: str, **options: Any) -> Episode:
    return play(episode(reward=Reward.of(reward), **{**WIDE, **options}), *texts)


def earned(reward: Any, *texts: str, **options: Any) -> list[float]:
    """The rewards of the turns."""
    return [turn.reward for turn in played(reward, *texts, **options).turns]


def total(reward: Any, *texts: str, **options: Any) -> float:
    e = played(reward, *texts, **options)
    assert e.end is not None, "the episode must be over"
    return math.fsum(turn.reward for turn in e.turns)


def test_what_the_queries_show() -> None:
    e = played("em", ONE, TWO, ONE, "<search>painter ## Osten</search>", RIGHT)
    outcome = e.outcome()
    assert outcome is not None
    made = lookups(outcome)
    assert [m.ids for m in made] == [("p1",), ("p2",), ("p1",), ("p2",), ("p4",)]
    assert [m.seen for m in made] == [0, 0, 1, 1, 0]
    assert [m.repeats for m in made] == [False, False, True, True, False]
    assert new_evidence(outcome) == (1, 1, 0, 0, 0)


# --- the answer, and how much was searched ----------------------------------------------------
def test_ikea() -> None:
    for searches, value in enumerate((1.6, 1.4, 1.2, 1.0, 1.0)):
        assert total("ikea", *[NONE] * searches, RIGHT) == pytest.approx(value)
    assert total("ikea", ONE, WRONG) == 0.05
    assert total("ikea", WRONG) == 0
    assert total("ikea", "no action", RIGHT) == -1
    assert total("ikea", "[search] q [/search] <answer>Quell</answer>") == -1
    assert total("ikea", NONE, NONE, max_turns=2) == -1, "no answer"


def test_search_r1s_six_cases() -> None:
    values = {"structure": 0.2, "form": 0.1, "retrieval": 0.1}
    cases = {
        (True, True, True): 1.0, (True, False, True): 0.8,
        (False, True, True): 0.2, (False, False, True): 0.1, (False, False, False): 0.0,
    }  # fmt: skip
    for (right, valid, answered), value in cases.items():
        got = structural(right=right, valid=valid, answered=answered, **values)
        assert got == pytest.approx(value)
    assert structural(right=False, valid=True, answered=True, retrieved=True, **values) == (
        pytest.approx(0.3)
    )
    think = "<think>t</think> "
    assert total("search_r1", think + ONE, think + RIGHT) == 1
    assert total("search_r1", ONE, think + RIGHT) == 0.8
    assert total("search_r1", think + TWO, think + WRONG) == 0.2
    retrieving = {"use": "search_r1", "retrieval": 0.1}
    assert total(retrieving, think + TWO, think + WRONG) == pytest.approx(0.3)
    assert total(retrieving, think + ONE, think + WRONG) == 0.2, "no answer in the results"
    assert total("search_r1", "so: " + think + WRONG) == 0.1
    for texts in ((think + ONE,), (think + TWO, think + ONE), (ONE, think + ONE)):
        assert total(retrieving, *texts, max_turns=len(texts)) == 0, "the end was not reached"


def test_the_state_machine() -> None:
    def one(*texts: str) -> bool:
        return texts_in_form(texts)

    assert one("<think>a</think>\n<search>q</search>", " <think>b</think><answer>x</answer> ")
    for text in (
        "<answer>x</answer>", "<think>a</think>", "<think>a</think> b <answer>x</answer>",
        "<think>a</think><answer>x</answer> and", "<think><think>a</think><answer>x</answer>",
        "<think>a</think><search>q</search><answer>x</answer>", "",
    ):  # fmt: skip
        assert not one(text), text
    assert not one("<think>a</think><answer>x</answer>", "<think>b</think><answer>x</answer>")
    assert not one("<think>a</think><search>q</search>"), "never answered"


def test_parallel_search() -> None:
    both = replace(TASKS[0], family="comparison")
    think = "<think>t</think> "
    at_once = think + "<search>founded ## painter</search>"
    assert total("parallel_search", at_once, think + RIGHT, task=both) == pytest.approx(1.8)
    one_by_one = [think + ONE, think + TWO, think + RIGHT]
    assert total("parallel_search", *one_by_one, task=both) == pytest.approx(1.0)
    assert total("parallel_search", *one_by_one) == pytest.approx(1 + 0.15 + 0.35)
    assert total("parallel_search", think + RIGHT) == pytest.approx(1 + 0.15 - 0.35)
    assert total("parallel_search", ONE, RIGHT) == pytest.approx(0.9 + 0.15 + 0.0)
    assert total("parallel_search", think + ONE, think + WRONG) == pytest.approx(0.1 + 0.15)
    cut = [think + ONE, think + TWO]  # the last turn's search does not run
    assert total("parallel_search", *cut, max_turns=2) == pytest.approx(0.15 + 0.0)
    assert total("parallel_search", *cut, NONE, max_turns=3) == pytest.approx(0.15 + 0.35)
    parts = played("parallel_search", at_once, think + RIGHT, task=both).parts or {}
    assert parts["parallel_search.decomposition"] == 0.45


def test_inforage() -> None:
    four = replace(TASKS[0], evidence=("p1", "p2", "p3", "p5"))
    both = "<search>founded painter</search>"
    assert total("inforage", both, RIGHT, task=four) == pytest.approx(1.1)
    assert total("inforage", both, NONE, NONE, NONE, RIGHT, task=four) == pytest.approx(
        1.1 * 0.95**2
    )
    apart = total("inforage", ONE, TWO, RIGHT)
    assert apart == pytest.approx(1 + 0.2 / 2), "the best turn, not all together"


def test_frugal_rag() -> None:
    table = {
        (2, 2): 2.6667, (3, 2): 1.6094, (4, 2): 0.6931, (5, 2): 0, (6, 2): -0.6931,
        (1, None): -1.6094, (5, None): 0,
    }  # fmt: skip
    for (h, best), value in table.items():
        assert frugal(h, best, 6) == pytest.approx(value, abs=1e-4)
    assert total("frugal_rag", ONE, TWO, RIGHT) == pytest.approx(2 + 4 / 6)
    assert total("frugal_rag", ONE, TWO, NONE, RIGHT) == pytest.approx(math.log(5))
    assert total("frugal_rag", ONE, RIGHT) == pytest.approx(-math.log(5)), "recall .5 < .6"


def test_graphrag_r1() -> None:
    new = ["<search>a</search>", "<search>b</search>", "<search>c</search>"]
    got = earned({"use": "graphrag_pra", "first": 1.0}, *new, new[0], WRONG)
    assert got == pytest.approx([1, 0.8, 0.64, 0, 0])
    sums = [math.fsum(got[:n]) for n in range(4)]
    assert sums == pytest.approx([0, 1, 1.8, 2.44])
    assert earned({"use": "graphrag_pra", "first": 1.0, "most": 1}, *new) == [1, 0, 0]
    for n, value in {0: 1, 1: 0.9048, 3: 0.7408, 5: 0.6065}.items():
        assert total("graphrag_caf", *[NONE] * n, RIGHT) == pytest.approx(value, abs=1e-4)


def test_deep_researcher() -> None:
    assert set_f1("x b b", "x c") == 0.5
    assert total("deep_researcher", "<answer>Quell Quell city</answer>") == pytest.approx(2 / 3)
    assert total("deep_researcher", "no action", RIGHT) == -1


def test_smart_search() -> None:
    assert query_score(True, 0, 2) == pytest.approx(0.8)
    assert query_score(True, 3, 9) == 0.7
    assert query_score(False, 5, 0) == pytest.approx(0.3)
    assert query_score(False, 2, 7) == pytest.approx(0.2)
    assert total("smart_search", ONE, NONE, NONE, RIGHT) == pytest.approx(0.1 + 0.8)
    assert total("smart_search", ONE, TWO, WRONG) == pytest.approx(0.1 + 0.2)
    twice = "<search>founded painter</search>"
    assert total("smart_search", twice, twice, WRONG) == pytest.approx(0.1 + 0.1), "two seen"
    assert total("smart_search", "no action", RIGHT) == 0


def test_fathom() -> None:
    made = Fathom()
    assert made.value(True, True, Calls(1, 4)) == pytest.approx(0.6)
    assert made.value(True, True, Calls(4, 1)) == pytest.approx(0.9)
    assert made.value(False, True, Calls(8)) == pytest.approx(0.3)
    assert made.value(False, True, Calls(80, 0, 160, 0)) == pytest.approx(0.5)
    assert made.value(False, False, Calls(0, 80, 0, 160)) == pytest.approx(-0.4)
    page = "<access>https://w.example/Quell</access>"
    for texts, calls in {
        (ONE, TWO): Calls(2), (ONE, ONE): Calls(1, 1), (page, page): Calls(0, 0, 1, 1),
        (ONE, "<search>Mira founded city</search>"): Calls(2),
    }.items():  # fmt: skip
        outcome = played("fathom", *texts, WRONG).outcome()
        assert outcome is not None
        assert made.kinds(outcome) == calls
    assert total("fathom", ONE, ONE, RIGHT) == pytest.approx(0.1 + 0.5)


def test_search_r2() -> None:
    e = total({"use": "search_r2", "density": 0.2}, "<search>founded is river</search>", RIGHT)
    assert e == pytest.approx(1 + 0.2 * 1 / 3), "p1, p3 and p4 are shown, or p2: one of three"
    assert total("search_r2", RIGHT) == 1
    assert total("search_r2", ONE, WRONG) == 0


def test_tapo() -> None:
    assert total(["em", "excess_calls"], *[NONE] * 4, RIGHT) == 1
    assert total(["em", "excess_calls"], *[NONE] * 6, RIGHT) == pytest.approx(0.8)


def test_rlsp() -> None:
    assert total(["em", {"use": "exploration", "bonus": 0}], ONE, RIGHT) == 1
    four = {"use": "exploration", "bonus": 0.2, "words": 4}
    assert total(four, "<search>a</search>", WRONG) == pytest.approx(0.1)
    assert total(four, "<search>a b c d e f g</search>", WRONG) == pytest.approx(0.2)


# --- steps ------------------------------------------------------------------------------------
def test_step_search() -> None:
    assert redundancy(["p1", "p1", "p2", "p3"], {"p3"}) == 0.5
    got = earned({"use": "step_search", "step": 1.0, "keywords": 0}, ONE, ONE, TWO, RIGHT)
    assert got == [0.5, -1, 0.5, 1]
    assert earned("step_search", ONE)[0] == pytest.approx(0.6 * 0.5)
    gold = ["<search>Aldor founder</search>", "<search>Mira Venn</search>"]
    keys = (1 + 0.8) / 2  # two words of the two or three
    assert earned("step_search", *gold, RIGHT)[-1] == pytest.approx(1 + 0.618 * keys)
    bare = replace(TASKS[0], evidence=(), queries=())
    assert earned("step_search", ONE, ONE, RIGHT, task=bare) == [0, 0, 1]


def test_reseek() -> None:
    good, bad = "<judge>good</judge>", "<judge>bad</judge>"
    assert earned("reseek", ONE, good, NONE, bad, RIGHT) == [0, 0.1, 0, 0.1, 0]
    assert earned("reseek", ONE, bad, NONE, good, RIGHT) == [0, -0.1, 0, -0.1, 0]
    assert earned("reseek", ONE, ONE, bad, good) == [0, 0, 0.1, 0.1], "hidden: the one before"
    noisy = [text for query in (NONE, ONE, NONE, TWO, NONE) for text in (query, good)]
    assert total("reseek", *noisy, WRONG, max_turns=12) == pytest.approx(-0.1), "60 % noise"


def test_submodular_coverage() -> None:
    got = earned("coverage", ONE, NONE, TWO, RIGHT)
    assert got == pytest.approx([0.5**0.5, 0, 1 - 0.5**0.5, 0])
    plain = earned({"use": "coverage", "power": 1.0}, ONE, NONE, TWO, RIGHT)
    assert plain == earned("evidence", ONE, NONE, TWO, RIGHT)
    with pytest.raises(CardError, match="power above 0"):
        Reward.of({"use": "coverage", "power": 2})


@given(st.lists(st.sampled_from([ONE, TWO, NONE]), max_size=7), st.floats(0.05, 1))
def test_coverage_telescopes_and_diminishes(searches: Sequence[str], power: float) -> None:
    paid = earned({"use": "coverage", "power": power}, *searches, WRONG)
    found = len({ONE, TWO} & set(searches))
    assert math.fsum(paid) == pytest.approx((found / 2) ** power if found else 0)
    steps = [p for p in paid if p]
    assert all(a >= b - 1e-12 for a, b in pairwise(steps))


def test_clip_and_max() -> None:
    got = earned({"use": "clipped", "of": "evidence", "limit": 0.5}, ONE, ONE, TWO, RIGHT)
    assert got == [0, -0.5, 0, -0.5]
    assert max(earned({"use": "clipped", "of": "search", "limit": 2}, ONE, RIGHT)) <= 0
    both = "<search>founded painter</search>"
    assert earned("best", ONE, TWO, RIGHT) == [0.5, 0, 0]
    assert earned("best", NONE, both, RIGHT) == [0, 1, 0]
    assert of_turns("step_search")
    for of, message in {"os:system": "unknown reward part", "em": "one of the end"}.items():
        with pytest.raises(CardError, match=message):
            Reward.of({"use": "clipped", "of": of})
    with pytest.raises(CardError, match="unknown measure of turns 'coverage'"):
        Reward.of({"use": "best", "of": "coverage"})


# --- calls ------------------------------------------------------------------------------------
ASKED: dict[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string"}},
    "required": ["question"],
}


def test_costs_in_order() -> None:
    tools = [ToolSpec(name, "A word.", ASKED) for name in ("memory", "ask_user")]
    ask, memory = (
        f'<tool>{{"name": "{name}", "arguments": {{"question": "q"}}}}</tool>'
        for name in ("ask_user", "memory")
    )

    def run(calls: Sequence[ToolCall]) -> list[Any]:
        from tests.small import lookup

        return [
            ToolResult(("a word",)) if call.tool != "access" else lookup([call])[0]
            for call in calls
        ]

    e = episode(
        reward=Reward.of({"use": "costs", "scale": 1.0}), dialect="search_r1+tools+access",
        max_turns=9, tools=(*episode().config.rules.tools, *tools),
    )  # fmt: skip
    play(e, memory, ask, ask, "<access>https://w.example/Quell</access>", RIGHT, run=run)
    *calls, page, end = (turn.reward for turn in e.turns)
    assert calls == pytest.approx([-0.05, -0.5, -0.75])
    words = len(e.contexts.segments[-2].text.split())
    assert (page, end) == (pytest.approx(-words / 1000), 0)
    three_thousand = 3.0 * Costs().page
    assert 0.05 + 0.5 + 0.75 + three_thousand == pytest.approx(4.30)
    free = Costs(search=0, page=0, ask=0, memory=0, tool=0)
    assert total(["em", free], ONE, RIGHT) == 1
    dear = Costs(ask=1.0)
    assert total([dear], ONE, RIGHT) == total(["costs"], ONE, RIGHT), "only who asks pays more"


def test_tool_rl() -> None:
    def search(**args: Any) -> NamedCall:
        return NamedCall("search", args)

    gold = [search(query="a", topk=3)]
    assert 6 * call_match([search(query="a", topk=5)], gold) - 3 == pytest.approx(1.5)
    assert 6 * call_match([NamedCall("find", {"query": "a", "topk": 3})], gold) - 3 == -3
    assert 6 * call_match(gold, gold) - 3 == 3
    spare = [search(query="b", topk=3), *gold]
    assert 0 < call_match(spare, gold) < 1
    texts = [f"<search>{query}</search>" for query in TASKS[0].queries]
    assert total("tool_rl", *texts, WRONG) == pytest.approx(1 + 3)
    assert total("tool_rl", "no action", RIGHT) == pytest.approx(-3)
    told = replace(TASKS[0], meta={"calls": [{"tool": "access", "args": {"url": "u"}}]})
    assert total("tool_rl", "<access>u</access>", WRONG, task=told) == pytest.approx(4)


# --- planners and executors -------------------------------------------------------------------
def test_coda() -> None:
    over = "<task>Who founded Aldor?</task>"
    report = "<answer>Mira Venn of Quell</answer>"
    assert total("coda", over, ONE, report, RIGHT) == pytest.approx(5.5)
    assert total("coda", over, ONE, "<answer>nobody</answer>", RIGHT) == pytest.approx(5.0)
    assert total("coda", over, "hm", report, RIGHT) == pytest.approx(3 + 1 + 0.5 + 0.5)
    assert total("coda", RIGHT) == pytest.approx(4.0), "no executor, no form of one"


# --- rubrics ----------------------------------------------------------------------------------
GRAPH = ReasoningGraph(
    (
        GraphNode("E0", "town", "Quell"),
        GraphNode("E1", "person", "Mira Venn"),
        GraphNode("E2", "city", "Aldor", given=True),
    ),
    (GraphEdge("E1", "born in", "E0", 1, "p2"), GraphEdge("E2", "founder", "E1", 2, "p1")),
    "E0",
)
RUBRIC = replace(TASKS[0], graph=GRAPH)


def test_c_grpo() -> None:
    assert connected_share([("E0", "E1"), ("E1", "E2"), ("E3", "E4")], [True, False, True], "E0")\
        == pytest.approx(1 / 3)  # fmt: skip
    cited = "Mira Venn [Aldor] [Mira Venn] " + RIGHT
    assert total("c_grpo", ONE, TWO, cited, task=RUBRIC) == pytest.approx(1)
    half = "Mira Venn [Mira Venn] " + RIGHT
    assert total("c_grpo", ONE, TWO, half, task=RUBRIC) == pytest.approx(0.85)
    far = "Mira Venn [Aldor] " + RIGHT
    assert total("c_grpo", ONE, TWO, far, task=RUBRIC) == pytest.approx(0.7), "not joined to Quell"
    assert total("c_grpo", ONE, TWO, RIGHT, task=RUBRIC) == pytest.approx(0.7), "no citation"
    assert total("c_grpo", ONE, cited, task=RUBRIC) == pytest.approx(0.7), "p2 was never shown"
    assert total("c_grpo", ONE, TWO, "Mira Venn [Aldor] [Mira Venn] " + WRONG, task=RUBRIC) == 0
    every = CGrpo(cited=False)
    assert total([every], ONE, TWO, "Mira Venn: " + RIGHT, task=RUBRIC) == pytest.approx(1)


def test_nuggets() -> None:
    assert weighted_share([1, 0.5, 0], [1, 1, 1]) == 0.5

    def stated(text: str) -> float:
        return total("nuggets", f"<answer>{text}</answer>", task=RUBRIC)

    assert stated("Mira Venn, founder of Aldor, was born in Quell") == pytest.approx(1)
    assert stated("Mira Venn was born in Quell") == pytest.approx((1 + 0.5 * 0.5) / 1.5)
    assert stated("Aldor") == 0, "the question says so"
    assert stated("Quell") == pytest.approx(0.5 / 1.5)
    assert total("nuggets", "<answer>it was Quell</answer>") == 1, "one nugget: the answer"


def test_search_llm() -> None:
    assert smoothed_mean([1, 1, 1], 0.01) == pytest.approx(1)
    assert smoothed_mean([1, 0, 1], 0.01) == pytest.approx(0.2069, abs=1e-4)
    assert smoothed_mean([0.5] * 3, 0.01) == pytest.approx(0.5)
    gated = {"use": "search_llm", "must": ["em", "format"], "nice": ["evidence", "f1"]}
    assert total(gated, ONE, RIGHT) == pytest.approx((0.5 + 1) / 2)
    barrier = math.sqrt(0.01 * 1.01) - 0.01
    assert total(gated, ONE, TWO, WRONG) == pytest.approx(barrier * 0.5)
    with pytest.raises(CardError, match="unknown score 'richness'"):
        Reward.of({"use": "search_llm", "nice": ["richness"]})


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_sweet_spots_ladder(scores: Sequence[float]) -> None:
    values = [rung(score, 4) for score in sorted(scores)]
    assert values == sorted(values)
    assert set(values) <= {0.25, 0.5, 0.75, 1}


def test_sweet_spot_tells_near_misses_apart() -> None:
    assert [rung(s, 4) for s in (0, 0.25, 0.5, 0.75, 1)] == [0.25, 0.5, 0.75, 1, 1]
    near = total("sweet_spot", "<answer>Quell city</answer>")
    far = total("sweet_spot", WRONG)
    assert (near, far) == (0.75, 0.25), "both are wrong"
    thrifty = {"use": "sweet_spot", "score": "thrift", "success": "em"}
    assert total(thrifty, ONE, TWO, RIGHT) == 1
    assert total(thrifty, ONE, TWO, NONE, NONE, NONE, RIGHT) == 0.5
    assert total(thrifty, ONE, WRONG) == 0


def test_hits_written_for_a_query_count_as_the_passages_they_stand_for() -> None:
    """Simulated engines: ids of their own, gold passages in the meta."""

    def run(calls: Sequence[ToolCall]) -> list[Any]:
        hit = Hit(PASSAGES[3]._replace(id="sim-1"), 1.0)
        return [ToolResult(hits=(hit,), meta={"evidence": ("p1",)}) for _ in calls]

    task: Task = TASKS[0]
    for name, value in {"smart_search": 0.1 + 0.1, "inforage": 0.1}.items():
        e = play(episode(task, reward=Reward.of(name), **WIDE), ONE, WRONG, run=run)
        assert e.turns[-1].reward == pytest.approx(value), name
