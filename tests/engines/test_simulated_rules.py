"""The rule-based simulator, and the training data of the learned one: exact about the answer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import searchgym  # noqa: F401 (registers the environments)
from searchgym.engines import build_engine
from searchgym.engines.simulated.data import measure, simulator_pairs
from searchgym.engines.simulated.documents import parse_documents
from searchgym.engines.simulated.relevance import (
    clip,
    excerpt,
    mentions,
    sentences,
    snippet,
    telling,
)
from searchgym.envs import SearchEnv
from searchgym.errors import EngineError
from searchgym.types import CallContext, Failure, Query, Task
from tests.small import CORPUS, TASKS

OPTIONS: dict[str, Any] = {
    "corpus": "encyclopedia", "world": {"entities": 500},
    "tasks": {"simple": 60, "chain": 40, "comparison": 20, "unanswerable": 10},
}  # fmt: skip


def asked(task: Task, key: int, noise: float, k: int = 3) -> Query:
    text = (task.queries or (task.question,))[-1]
    return Query(text, k, CallContext(key, "e", {"noise": noise}, None, task))


def test_useful_documents_state_the_answer_and_noisy_ones_never_do() -> None:
    made = SearchEnv(**OPTIONS)
    engine = build_engine("simulated_rules", made.corpus, made.world)
    for i, task in enumerate(made.tasks):
        useful, noisy = engine.run([asked(task, i, 0.0), asked(task, i, 1.0)])
        assert noisy.meta == {"simulated": "noisy"}  # type: ignore[union-attr]
        assert len(noisy) == 3  # type: ignore[arg-type]
        for passage, _ in noisy:  # type: ignore[misc]
            assert not mentions(f"{passage.title} {passage.text}", task.answers), task
        if task.should_abstain:
            assert useful.meta == {"simulated": "noisy"}  # type: ignore[union-attr]
        elif telling(task.answers[0]) and task.family != "comparison":  # which asks for two things
            shown = [f"{p.title} {p.text}" for p, _ in useful]  # type: ignore[misc]
            assert mentions(shown[0], task.answers), (task, shown)
    found, other = measure(engine, made.tasks)
    assert found.per_result == 1.0
    assert other.stating == 0
    assert found.queries > 70


def test_noise_is_about_other_entities_of_the_same_type() -> None:
    made = SearchEnv(**OPTIONS)
    assert made.world is not None
    engine = build_engine("simulated_rules", made.corpus, made.world)
    type_by_title = {t: int(made.world.type_of[e]) for e, t in enumerate(made.world.titles)}
    tasks = [t for t in made.tasks if t.family == "simple"]
    for i, task in enumerate(tasks):
        (noisy,) = engine.run([asked(task, i, 1.0)])
        gold = made.corpus.passage(task.evidence[-1]).title
        titles = [p.title for p, _ in noisy]  # type: ignore[misc]
        assert {type_by_title[t] for t in titles} == {type_by_title[gold]}
        assert gold not in titles


def test_rules_are_pure_and_pages_open() -> None:
    engine = build_engine({"name": "simulated_rules", "words": 8}, CORPUS)
    queries = [asked(TASKS[0], key, noise) for key in range(5) for noise in (0.0, 1.0)]
    found = engine.run(queries)
    assert found == [engine.run([q])[0] for q in queries]
    texts = [p.text for ranking in found for p, _ in ranking]  # type: ignore[union-attr]
    assert max(len(t.split()) for t in texts) <= 8
    env = gym.make(
        "SearchQA-v0", corpus=CORPUS, tasks=list(TASKS), engine="simulated_rules",
        tools=("search", "access"), dialect="asearcher",
    )  # fmt: skip
    env.reset(seed=1, options={"task_id": "t1"})
    *_, info = env.step("<search>born</search>")
    assert info["simulated"] == ("unrelated",), "no name, no passage"
    env.reset(seed=1, options={"task_id": "t1"})
    *_, info = env.step("<search>who founded Aldor?</search>")
    assert info["simulated"] == ("useful",)
    episode: Any = env.unwrapped
    hit = episode.episode.turns[0].results[0].hits[0].passage
    observation, *_ = env.step(f"<access>{hit.url}</access>")
    assert hit.text in observation


HOPS: dict[str, Any] = {
    "corpus": "encyclopedia", "world": {"entities": 500},
    "tasks": {
        "simple": 40, "chain-2": 40, "chain-3": 40, "comparison": 20, "intersection": 20,
        "parallel": 20, "superlative": 20,
    },
}  # fmt: skip


def shown(engine: Any, task: Task, text: str) -> str:
    (ranking,) = engine.run([Query(text, 3, CallContext(7, "e", {"noise": 0.0}, None, task))])
    return " ".join(f"{p.title} . {p.text}" for p, _ in ranking)


def test_a_query_finds_what_it_asks_for_and_no_more() -> None:
    """No words but the question's own lead anywhere: not "zzz", and a chain's first query shows
    where to go on, not the end."""
    made = SearchEnv(**HOPS)
    engine = build_engine("simulated_rules", made.corpus, made.world)
    tasks = [t for t in made.tasks if telling(t.answers[0])]
    for text in ("zzz", "unrelated gibberish 123", "what is the name of the city"):
        lucky = sum(mentions(shown(engine, t, text), t.answers) for t in tasks)
        assert lucky <= 0.05 * len(tasks), text
    chains = [t for t in tasks if t.family == "chain"]
    assert len(chains) > 60
    early = sum(mentions(shown(engine, t, t.queries[0]), t.answers) for t in chains)
    late = sum(mentions(shown(engine, t, t.queries[-1]), t.answers) for t in chains)
    assert early <= 0.05 * len(chains)
    assert late >= 0.95 * len(chains)
    found = gold = 0
    for task in made.tasks:
        for evidence, query in zip(task.evidence, task.queries, strict=True):
            (ranking,) = engine.run([Query(query, 3, CallContext(1, "e", {}, None, task))])
            found += evidence in ranking.meta.get("evidence", ())  # type: ignore[union-attr]
            gold += 1
    assert found >= 0.95 * gold


def test_the_oracle_needs_its_hops_and_is_paid_for_evidence() -> None:
    """In the environment, with a reward for evidence: a search a hop, all of it found, and nothing
    for a search of nothing."""
    env = gym.make(
        "SearchQA-v0", **HOPS, engine="simulated_rules", k=3, max_turns=8,
        reward={"em": 1.0, "evidence": 0.5},
    )  # fmt: skip
    episode: Any = env.unwrapped
    for task in episode.tasks[::4]:
        env.reset(seed=3, options={"task_id": task.id})
        _, nothing, *_ = env.step("<search>zzz</search>")
        assert nothing == 0
        paid, searches = 0.0, 0
        for text in episode.oracle():
            _, reward, terminated, truncated, _ = env.step(text)
            paid += float(reward)
            searches += "<search>" in text
        assert terminated
        assert not truncated
        assert searches == len(dict.fromkeys(task.queries))
        assert paid == pytest.approx(1.5)


def test_rules_need_a_task() -> None:
    engine = build_engine("simulated_rules", CORPUS)
    (failed,) = engine.run([Query("x", 3, CallContext(1, "e", {}))])
    assert isinstance(failed, Failure)
    assert not failed.retryable
    with pytest.raises(EngineError, match="words must be"):
        build_engine({"name": "simulated_rules", "words": 0}, CORPUS)


def test_training_pairs_are_exact() -> None:
    made = SearchEnv(**OPTIONS)
    pairs = list(simulator_pairs(made.tasks, made.corpus, made.engine, words=20, docs=3))
    tasks = {t.id: t for t in made.tasks}
    assert list(simulator_pairs(made.tasks, made.corpus, made.engine, words=20, docs=3)) == pairs
    counts = Counter(p.kind for p in pairs)
    assert counts["useful"] > 150
    assert counts["noisy"] > 100
    for pair in pairs:
        task = tasks[pair.task]
        documents = parse_documents(pair.completion, 99)
        assert 1 <= len(documents) <= 3
        assert f"documents, {len(documents)} of 20 words" in pair.prompt
        assert f"Question: {task.question}\n" in pair.prompt
        for d in documents:
            assert len(d.text.split()) <= 20
            assert ("States:" in pair.completion) == (pair.kind == "useful")
            if pair.kind == "useful":
                assert mentions(f"{d.title} . {d.text}", [pair.answer])
                assert f"Answer: {pair.answer}\n" in pair.prompt
                last = pair.query in (task.queries[-1], task.question) or task.family != "chain"
                assert last or pair.answer not in task.answers, "an inner hop is not the end"
            else:
                assert not mentions(f"{d.title} {d.text}", task.answers)
    refused = [p for p in pairs if tasks[p.task].should_abstain]
    assert refused
    assert all(p.kind == "noisy" and "Answer:" not in p.prompt for p in refused)


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(EngineError, match="docs must be"):
        list(simulator_pairs(TASKS, CORPUS, build_engine("bm25", CORPUS), docs=0))


def test_sentences_windows_and_mentions() -> None:
    text = 'Ann was born in 1970. "She left," he said. It cost 3.5 crowns! Then? Ünal came.'
    assert sentences(text) == [
        "Ann was born in 1970.", '"She left," he said.', "It cost 3.5 crowns!", "Then?",
        "Ünal came.",
    ]  # fmt: skip
    assert sentences("") == []
    assert mentions("the Town of Quell, east", ["Quell"])
    assert not mentions("Quellen", ["Quell"])
    assert not mentions("anything", ["", "the"])
    assert [telling(a) for a in ("yes", "No.", "7", "42", "1970", "Ann", "120 minutes")] == [
        False, False, False, False, True, True, True,
    ]  # fmt: skip
    words = " ".join(f"w{i}" for i in range(50))
    assert clip(words, 5) == "w0 w1 w2 w3 w4"
    assert "w30" in clip(words, 5, ["w30"])
    draw = np.random.Generator(np.random.PCG64(0))
    parts = ["One two three.", "Four five.", "Six."]
    assert excerpt(parts, 1, 3, draw).startswith("Four five.")
    assert excerpt(parts, 0, 3, draw) == "One two three."


def test_snippets_hold_the_answer_early() -> None:
    text = "The film was made in 1970 by the Fera Monarchs, a group."
    assert snippet(text, "Fera Monarchs", 0, 4) == "… the Fera Monarchs, a"
    assert snippet(text, "the Fera Monarchs", 2, 4) == "… by the Fera Monarchs,"
    assert snippet(text, "film", 3, 3) == "The film was"
    assert snippet(text, "Fera", 0, 2) == "… the Fera"
    assert snippet("Fera Monarchson", "Fera Monarchs", 1, 9) is None
    assert snippet(text, "the", 0, 9) is None
    made = SearchEnv(**OPTIONS)
    tasks = {t.id: t for t in made.tasks}
    pairs = list(simulator_pairs(made.tasks, made.corpus, made.engine, words=12, docs=1, before=3))
    useful = [p for p in pairs if p.kind == "useful"]
    assert len(useful) > 150
    for pair in useful:
        (d,) = parse_documents(pair.completion, 1)
        assert mentions(f"{d.title} . {d.text}", [pair.answer]), pair
        if not mentions(d.title, tasks[pair.task].answers):
            opening = d.text.removeprefix("… ").split()[: 5 + len(pair.answer.split())]
            assert mentions(" ".join(opening), [pair.answer]), pair
