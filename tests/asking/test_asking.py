"""Ambiguous questions, proved; what asking is worth, and what it costs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.errors import RewardError
from searchgym.tasks import Context, Solver
from searchgym.text import normalise_answer
from searchgym.types import Answer, Call, Task
from searchgym_agents.asking.ambiguous import as_worded
from searchgym_agents.asking.shapley import certainty, shapley

SAY = get_dialect("search_r1+tools").render_action


@pytest.fixture(scope="module", params=["encyclopedia", "encyclopedia-v1"])
def env(request: Any) -> SearchEnv:
    return SearchEnv(
        corpus=request.param, world={"entities": 1200}, tasks={"ambiguous": 60, "at_most": True},
        tools=["search", "ask_user"], dialect="search_r1+tools", max_turns=8,
        reward={"em": 1, "shapley_gain": 1, "costs": 1},
    )  # fmt: skip


def ask(env: SearchEnv, task: Task, *questions: str) -> list[str]:
    env.reset(seed=0, options={"task_id": task.id})
    return [env.step(SAY(Call("ask_user", {"question": q})))[-1]["delta"] for q in questions]


def test_one_good_question_makes_it_unique(env: SearchEnv) -> None:
    """By the solver, and again by looking at every fact of the world."""
    solver, ctx, world = Solver(env.world), Context(env.world, env.corpus), env.world
    assert len(env.tasks) > 30
    assert len({task.question for task in env.tasks}) == len(env.tasks)
    for task in env.tasks:
        link, told, wanted = task.graph.edges
        assert len(solver.solve(as_worded(task.graph, told.fact))) > 1
        assert solver.solve(task.graph)[0] in task.answers
        fact = world.fact(link.fact)
        fits = [
            f.subject for f in map(world.fact, range(world.n_facts))
            if (f.property, f.object) == (fact.property, fact.object)
        ]  # fmt: skip
        goal, candidates = task.meta["goal"], task.meta["candidates"]
        assert fits[goal] == fact.subject
        assert len(fits) == len(candidates) > 1
        says = {k["about"]: k["says"] for k in task.meta["user"]["knows"]}
        props = {p.name: i for i, p in enumerate(world.schema.properties)}
        for about in says:
            (prop,) = {
                i for i in props.values()
                if ctx.label(i) == about and ctx.lookup.objects(fits[goal], i)
            }  # fmt: skip
            values = [{f.object for f in ctx.lookup.objects(e, prop)} for e in fits]
            alone = values.count(values[goal]) == 1
            assert alone == (about in task.meta["right"])
            assert alone <= (certainty(candidates, goal, [about]) == 1)
        name = normalise_answer(world.names[fact.subject])
        for text in says.values():
            words = f" {normalise_answer(text)} "
            assert f" {name} " not in words
            assert not any(f" {normalise_answer(a)} " in words for a in task.answers)
        assert wanted.fact not in (link.fact, told.fact)


def test_the_person_tells_what_is_asked_and_no_more(env: SearchEnv) -> None:
    for task in env.tasks[:20]:
        knows, question = task.meta["user"]["knows"], task.meta["calls"][0]["args"]["question"]
        for entry in knows:
            said = ask(env, task, f"Tell me about {entry['about']}!")[0]
            assert entry["says"] in said
            assert not any(k["says"] in said for k in knows if k is not entry)
        assert any(k["says"] in ask(env, task, question)[0] for k in knows)
        for vague in ("Which one?", "What is the answer?", "Tell me everything.", "Its name?"):
            assert "cannot tell" in ask(env, task, vague)[0]


def test_the_gain_of_questions_and_their_costs(env: SearchEnv) -> None:
    for task in env.tasks[:20]:
        goal, candidates = task.meta["goal"], task.meta["candidates"]
        question, of = task.meta["calls"][0]["args"]["question"], len(candidates)
        ask(env, task, question, question, "What is it?")
        _, reward, _, _, info = env.step(SAY(Answer(task.answers[0])))
        sure = 1 - certainty(candidates, goal, ())
        assert 0 < sure <= 1 - 1 / of
        assert info["outcome"]["shapley_gain"] == pytest.approx(sure)
        assert reward == pytest.approx(1 + sure)
        paid = [turn.reward for turn in env.episode.turns[:3]]
        assert paid == pytest.approx([-0.05, -0.075, -0.1]), ".5 (1 + .5 n), times .1"
        ask(env, task)
        assert env.step(SAY(Answer("no")))[1] == 0


def test_the_oracle_asks_and_solves(env: SearchEnv) -> None:
    for task in env.tasks:
        env.reset(seed=0, options={"task_id": task.id})
        texts = env.oracle()
        assert "ask_user" in texts[0]
        for text in texts:
            info = env.step(text)[-1]
        assert info["outcome"]["em"] == 1


GLOVES = {"left": 0, "right one": 1, "right two": 1}


def gloves(held: Collection[str]) -> float:
    sides = [GLOVES[glove] for glove in held]
    return float(min(sides.count(0), sides.count(1)))


def test_worked_values() -> None:
    assert shapley(["left", "right one", "right two"], gloves) == pytest.approx(
        {"left": 2 / 3, "right one": 1 / 6, "right two": 1 / 6}
    )
    keys = ("year", "genre", "answer")
    rows = [dict(zip(keys, of, strict=True)) for of in ("11a", "12b", "21b", "21a")]
    got = shapley(["year", "genre"], lambda facts: certainty(rows, 0, facts))
    # v(none) 1/2, v(year) 1/2, v(genre) 2/3, v(both) 1
    assert got == pytest.approx({"year": 1 / 6, "genre": 1 / 3})
    assert shapley([], gloves) == {}
    with pytest.raises(RewardError, match="at most 8 facts, got 9"):
        shapley(list("abcdefghi"), len)


@given(st.integers(0, 8), st.randoms(use_true_random=False))
def test_values_add_up_to_what_all_facts_are_worth(n: int, random: Any) -> None:
    facts = list("abcdefgh"[:n])
    known: dict[frozenset[str], float] = {}

    def value(held: Collection[str]) -> float:  # "a" changes nothing; "b" and "c" are alike
        key = frozenset(held) - {"a"}
        if "c" in key and "b" not in key:
            key = key - {"c"} | {"b"}
        return known.setdefault(key, random.uniform(-1, 1))

    got = shapley(facts, value)
    assert sum(got.values()) == pytest.approx(value(facts) - value(()) if n else 0)
    assert got.get("a", 0) == pytest.approx(0)
    assert n < 3 or got["b"] == pytest.approx(got["c"])
