"""ASTRA: sub-questions that can be solved one after another, their tools, the reward."""

from __future__ import annotations

import pytest

from searchgym.agents import OracleAgent
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.errors import CardError, TaskError
from searchgym.evaluation import evaluate
from searchgym.text import covers, normalise_answer
from searchgym.types import Answer, Call
from searchgym_agents.synthesis.astra import arena, balanced

WORLD = {"corpus": "encyclopedia", "world": {"entities": 1500}}


@pytest.fixture(scope="module")
def asked() -> SearchEnv:
    return SearchEnv(**WORLD, tasks={"astra": 130}, reward="astra", max_turns=9)


@pytest.fixture(scope="module")
def equipped(asked: SearchEnv) -> SearchEnv:
    return SearchEnv(
        **WORLD, tasks={"astra": 130}, reward="astra", max_turns=9, dialect="plain+tools",
        tools=["search", *arena(asked.tasks)],
    )  # fmt: skip


def test_the_reward_of_the_notes() -> None:
    assert balanced(0.75, 0.6) == pytest.approx(2 / 3)
    assert balanced(0.0, 0.0) == 0.0


def test_needs_have_no_cycle_and_lead_to_the_answer(asked: SearchEnv) -> None:
    assert len(asked.tasks) >= 100
    for task in asked.tasks:
        subs = task.meta["sub_questions"]
        assert 3 <= len(subs) <= 5
        for place, sub in enumerate(subs):
            assert all(need < place for need in sub["needs"])
            for need in sub["needs"]:  # a sub-question is about the answer of the one it needs
                assert sub["args"]["name"] == subs[need]["answer"]
                assert sub["question"].endswith(f"#{need + 1}?")
            if not sub["needs"]:
                assert sub["args"]["name"] in sub["question"]
        last = [subs[i] for i in range(len(subs)) if all(i not in s["needs"] for s in subs)]
        forms = [normalise_answer(form) for of in (task.items or [task.answers]) for form in of]
        assert all(normalise_answer(sub["answer"]) in forms for sub in last)
        assert {sub["passage"] for sub in subs} == set(task.evidence)


def test_every_tool_called_as_written_says_the_answer(equipped: SearchEnv) -> None:
    world = equipped.world
    assert world is not None
    names = [prop.name for prop in world.schema.properties]
    for task in equipped.tasks:
        own = {sub["tool"] for sub in task.meta["sub_questions"]}
        assert own.isdisjoint(decoy["tool"] for decoy in task.meta["decoys"])
        assert len(task.meta["decoys"]) <= 2
        for sub in (*task.meta["sub_questions"], *task.meta["decoys"]):
            tool = equipped.toolbox.tools[sub["tool"]]
            said = tool.use(sub["args"], None)  # type: ignore[attr-defined]
            assert covers(normalise_answer(said), normalise_answer(sub["answer"]))
            # counted from the world's columns alone
            inverse, prop = tool.inverse, names.index(tool.relation)  # type: ignore[attr-defined]
            entity = world.titles.index(sub["args"]["name"])
            near, far = world.subject_of, world.object_of
            near, far = (far, near) if inverse else (near, far)
            rows = (world.property_of[: world.stated] == prop) & (near[: world.stated] == entity)
            assert rows.sum() == 1, "a sub-question has one answer"


def test_one_irrelevant_call_lowers_the_reward(equipped: SearchEnv) -> None:
    write = get_dialect("plain+tools").render_action
    for task in list(equipped.tasks)[:12]:
        subs, paid = task.meta["sub_questions"], []
        for calls in (subs, [*subs, *task.meta["decoys"][:1]], subs[:-1], []):
            equipped.reset(options={"task_id": task.id})
            for sub in calls:
                equipped.step(write(Call(sub["tool"], sub["args"])))
            equipped.step(write(Answer(task.answers[0])))
            paid.append(equipped.episode.outcome().parts["astra"])
        n = len(subs)
        assert paid[0] == 1.0
        assert paid[1] == pytest.approx(2 * n / (2 * n + 1)) if task.meta["decoys"] else 1.0
        assert paid[2] == pytest.approx(2 * (n - 1) / (2 * n - 1))
        assert paid[3] == 0.0


def test_the_oracle_solves_all_and_twice_makes_the_same(asked: SearchEnv) -> None:
    result = evaluate(OracleAgent(asked.tasks), asked)
    assert result.means["em"].mean == 1.0
    assert result.means["astra"].mean >= 0.99
    again = SearchEnv(**WORLD, tasks={"astra": 130})
    assert [(t.question, t.meta) for t in again.tasks] == [
        (t.question, t.meta) for t in asked.tasks
    ]


def test_what_it_refuses(asked: SearchEnv) -> None:
    with pytest.raises(TaskError, match="ask tasks="):
        arena(SearchEnv(**WORLD, tasks={"simple": 2}).tasks)
    with pytest.raises(CardError, match="needs a world with 'colour'"):
        SearchEnv(**WORLD, tasks={"simple": 2}, dialect="plain+tools",
                  tools=["search", {"use": "relation", "relation": "colour"}])  # fmt: skip
    assert len(arena(asked.tasks, decoys=False)) < len(arena(asked.tasks))
