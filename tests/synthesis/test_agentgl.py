"""AgentGL: classes and links taken out of graphs, their difficulty, the table of its reward."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from searchgym.agents import OracleAgent
from searchgym.curricula import make_curriculum
from searchgym.envs import SearchEnv
from searchgym.errors import CardError, TaskError
from searchgym.evaluation import evaluate
from searchgym.kgs import Entity, from_triples
from searchgym.types import Task
from searchgym_agents.synthesis.agentgl import (
    LEVELS,
    AgentGLReward,
    AgentGLStages,
    class_score,
    terciles,
    wilson_bound,
    without,
)

PLAY = {
    "engine": "graph", "tools": ("search", "graph_neighbors", "graph_rank"), "dialect": "agentgl",
    "reward": "agentgl",
}  # fmt: skip


def graph() -> Any:
    """Authors of four subjects who cite mostly their own."""
    rng = np.random.default_rng(0)
    fields = ("botany", "geology", "optics", "poetry")
    people = [f"Author {chr(65 + i // 26)}{chr(97 + i % 26)}quill {i}" for i in range(400)]
    triples = [(name, "field", fields[i % 4]) for i, name in enumerate(people)]
    for i, name in enumerate(people):
        for _ in range(4):
            other = int(rng.integers(100)) * 4 + (i % 4 if rng.random() < 0.8 else 1)
            if other != i:
                triples.append((name, "cites", people[other % 400]))
    about = {name: Entity(name, f"{name} writes; {name} reads.") for name in people}
    return from_triples(triples, name="papers", entities=about)


@pytest.fixture(scope="module")
def asked() -> SearchEnv:
    return SearchEnv(corpus=graph(), tasks={"node_class": 100, "link": 50}, **PLAY)


def test_wilsons_bound_and_the_score() -> None:
    for same, number, bound in ((3, 4, 0.3006), (30, 40, 0.5981), (5, 5, 0.5655), (0, 5, 0.0)):
        assert wilson_bound(same, number) == pytest.approx(bound, abs=5e-5)
    assert wilson_bound(0, 0) == 0.0
    assert class_score(3, 4, 40) == pytest.approx(0.3223, abs=5e-5)


@pytest.mark.parametrize("number", [0, 1, 2, 9, 10, 11])
def test_terciles_differ_by_one_at_most(number: int) -> None:
    scores = np.random.default_rng(number).random(number).tolist()
    levels = terciles(scores, [str(i) for i in range(number)])
    sizes = [levels.count(level) for level in LEVELS]
    assert sum(sizes) == number
    assert max(sizes) - min(sizes) <= 1
    ranks = [LEVELS.index(level) for _, level in sorted(zip(scores, levels, strict=True))]
    assert ranks == sorted(ranks, reverse=True), "low scores are hard"


def test_classes_are_taken_out_of_the_nodes_asked_about(asked: SearchEnv) -> None:
    whole, left = graph(), asked.corpus.graph  # type: ignore[attr-defined]
    tasks = [task for task in asked.tasks if task.family == "node_class"]
    assert len(tasks) == 100
    field, degrees = whole.relations.index("field"), {}
    for task in tasks:
        entity = whole.ids.index(task.evidence[0])
        truth = [whole.titles[t.tail] for t in whole.facts(entity, field)]
        assert [task.answers[0]] == truth
        assert task.answers[0] in task.question.split("one of: ")[1]
        assert left.facts(entity, field) == []
        assert "field:" not in asked.corpus.passage(task.evidence[0]).text
        near = {t.tail for t in whole.facts(entity)} | {t.head for t in whole.facts_about(entity)}
        near = {e for e in near if whole.titles[e].startswith("Author")}
        own = whole.facts(entity, field)[0].tail
        same = sum(whole.facts(e, field)[0].tail == own for e in near)
        degrees[task.id] = same, len(near)
    most = max(number for _, number in degrees.values())
    for task in tasks:
        assert task.meta["score"] == pytest.approx(class_score(*degrees[task.id], most))
    shares: dict[str, list[float]] = {level: [] for level in LEVELS}
    for task in tasks:
        shares[task.meta["difficulty"]].append(np.divide(*degrees[task.id]))
    told = {level: np.mean(of) for level, of in shares.items()}
    assert told["easy"] > told["medium"] > told["hard"]


def test_links_are_taken_out_and_the_others_never_were(asked: SearchEnv) -> None:
    whole, left = graph(), asked.corpus.graph  # type: ignore[attr-defined]
    tasks = [task for task in asked.tasks if task.family == "link"]
    assert Counter(task.answers[0] for task in tasks) == {"yes": 25, "no": 25}
    for task in tasks:
        ends = {whole.ids.index(e) for e in task.evidence}
        joined = [any({t.head, t.tail} == ends for e in ends for t in kg.facts(e))
                  for kg in (whole, left)]  # fmt: skip
        assert joined == [task.answers == ("yes",), False]
    alike = {(a, level): [t.meta["score"] for t in tasks
                          if (t.answers[0], t.meta["difficulty"]) == (a, level)]
             for a in ("yes", "no") for level in LEVELS}  # fmt: skip
    assert min(alike["yes", "easy"]) >= max(alike["yes", "hard"])
    assert max(alike["no", "easy"]) <= min(alike["no", "hard"])


def test_a_graph_without_facts_is_the_one_without_them() -> None:
    whole = graph()
    left = without(whole, [0, 7, whole.n_facts - 1])
    kept = [whole.triple(i) for i in range(whole.n_facts) if i not in (0, 7, whole.n_facts - 1)]
    assert [t[1:] for e in range(left.n_entities) for t in left.facts(e)] == [t[1:] for t in kept]
    assert whole.n_facts == left.n_facts + 3


def test_the_oracle_solves_all_and_twice_makes_the_same(asked: SearchEnv) -> None:
    assert evaluate(OracleAgent(asked.tasks), asked).means["em"].mean == 1.0
    again = SearchEnv(corpus=graph(), tasks={"node_class": 100, "link": 50}, **PLAY)
    assert [t.question for t in again.tasks] == [t.question for t in asked.tasks]
    assert again.corpus.digest == asked.corpus.digest


def test_real_graphs_and_what_is_refused(data_dir: Path) -> None:
    env = SearchEnv(corpus="kg_2wiki", tasks={"node_class": 100, "link": 100}, **PLAY)
    assert Counter(task.family for task in env.tasks) == {"node_class": 100, "link": 100}
    assert evaluate(OracleAgent(env.tasks), env).means["em"].mean == 1.0
    with pytest.raises(TaskError, match="gives nodes no class"):
        SearchEnv(corpus="kg_2wiki", tasks={"node_class": {"count": 5, "relation": "taste"}})
    with pytest.raises(TaskError, match="asked of knowledge graphs"):
        SearchEnv(corpus="encyclopedia", world={"entities": 300}, tasks={"link": 5})


@pytest.mark.parametrize(
    ("answer", "words", "calls", "stage", "paid"),
    [
        ("optics", 40, 2, 1, 1.5 + 0.5 + 0.1 + 0.5 + 2 * 0.5),
        ("optics", 40, 0, 1, 1.5 + 0.5 + 0.1 + 0.5),
        ("wrong", 40, 2, 1, 0.5 + 0.1 + 0.5 + 1.0),
        ("optics", 20, 2, 1, 1.5 + 0.5 + 0.1 - 0.6 + 1.0),
        ("optics", 40, 2, 2, 1.5 + 0.5 + 0.1 - 0.6),
        ("optics", 90, 2, 2, 1.5 + 0.5 + 0.1 + 0.5),
        ("optics " * 14, 40, 0, 1, 0.5 + 0.1 + 0.5 - 0.2),
        ("optics", 2300, 0, 1, 1.5 + 0.5 + 0.1 + 0.5 - 0.5),
        ("", 40, 2, 1, -1 - 0.5 + 0.1 + 0.5 + 0.5),  # tools do not run in the last turn
    ],
)
def test_the_table_of_the_reward(
    answer: str, words: int, calls: int, stage: int, paid: float
) -> None:
    env = SearchEnv(corpus=graph(), tasks={"node_class": 100}, max_turns=3 if answer else 2,
                    **{**PLAY, "reward": {"use": "agentgl", "stage": stage}})  # fmt: skip
    task = next(t for t in env.tasks if t.answers[0] == "optics")
    env.reset(options={"task_id": task.id})
    thought = f"<think>{'word ' * words}</think>"
    for tool in ("1-hop", "similar")[:calls]:
        env.step(f"{thought}<|begin_of_query|>{tool}:{task.queries[0]}<|end_of_query|>")
    if answer:
        env.step(f"{thought}<answer>{answer}</answer>")
    assert env.episode.outcome().parts["agentgl"] == pytest.approx(paid)


def test_stages_share_no_task_and_go_from_easy_to_hard() -> None:
    tasks = [Task(f"t{i}", f"q{i}", ("a",), meta={"difficulty": LEVELS[i % 3]}) for i in range(90)]
    stages = AgentGLStages((4, 2, 2), (0, 3, 3), rewards=("one", "two"))
    drawn: list[tuple[int, str, str]] = []
    for key in range(16):
        task = tasks[stages.choose(tasks, key * 7919)]
        drawn.append((stages.stage, str(task.meta["difficulty"]), task.id))
        assert stages.params(task) == {"w_one": 2.0 - stages.stage, "w_two": stages.stage - 1.0}
        stages.observe(task.id, 1.0)
        stages.load_state_dict(json.loads(json.dumps(stages.state_dict())))
    order = ["easy"] * 4 + ["medium"] * 2 + ["hard"] * 2
    assert [(s, level) for s, level, _ in drawn] == [
        *((1, level) for level in order), *((2, "medium"),) * 3, *((2, "hard"),) * 5,
    ]  # fmt: skip
    pools = [{t for s, _, t in drawn if s == stage} for stage in (1, 2)]
    assert pools[0].isdisjoint(pools[1])
    with pytest.raises(CardError, match="no easy task is left"):
        make_curriculum("agentgl").choose(tasks[1:2], 0)
    with pytest.raises(CardError, match="three numbers"):
        AgentGLStages((1, 2))
    with pytest.raises(CardError, match="stages 1 and 2"):
        AgentGLReward(3)
