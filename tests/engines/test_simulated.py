"""A language model plays the engine: told what it must know, and nobody else is."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import searchgym  # noqa: F401 (registers the environments)
from searchgym.corpora import Corpus
from searchgym.curricula import Exponential
from searchgym.engines import build_engine
from searchgym.engines.pages import CorpusPages, pages_of
from searchgym.engines.simulated import SimulatedEngine
from searchgym.engines.simulated.prompts import Role, few_shot_prompt, sft_prompt
from searchgym.errors import EngineError
from searchgym.llms import Completion, GenRequest
from searchgym.seeding import derive
from searchgym.types import (
    ABSTAIN,
    CallContext,
    Failure,
    PageRequest,
    Passage,
    Query,
    Task,
)
from tests.llms import tiny
from tests.llms.letters import Letters
from tests.small import CORPUS, TASKS

REFUSE = Task("t9", "Who founded Quell?", (ABSTAIN,), should_abstain=True)


class Scribe(Letters):
    """Writes one document more than it is asked for, each of random letters."""

    def _one(self, request: GenRequest) -> Completion | Failure:
        drawn = super()._one(request)
        if isinstance(drawn, Failure):
            return drawn
        words = [drawn.text[i::4] for i in range(4)]
        return Completion(
            "".join(f"Doc {i}: {w}t | {w} text\n\n" for i, w in enumerate(words, 1)),
            finish="length",
        )


class Down(Letters):
    """Fails the first ``times`` calls."""

    def __init__(self, times: int, retryable: bool = True) -> None:
        super().__init__()
        self.calls, self.times, self.retryable = 0, times, retryable
        self._counting = threading.Lock()

    def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
        with self._counting:
            self.calls += 1
            if self.calls <= self.times:
                return [Failure("unavailable", "down", self.retryable)] * len(batch)
        return super().run(batch)


def query(
    text: str = "founder", task: Task | None = TASKS[0], key: int = 1, k: int = 3, **params: float
) -> Query:
    return Query(text, k, CallContext(key, f"e{key}", params, None, task))


def prompt_of(generator: Letters, at: int = -1) -> str:
    found = generator.asked[at].prompt
    assert isinstance(found, str)
    return found


# --- what the model is told -------------------------------------------------------------------
def test_fine_tuned_simulators_see_question_and_answer_in_both_kinds() -> None:
    useful = sft_prompt(Role("q1 q2", 3, 30, False, "Who is\n it?", "Ann Bell"))
    noisy = sft_prompt(Role("q1 q2", 3, 30, True, "Who is\n it?", "Ann Bell"))
    for text in (useful, noisy):
        assert "Question: Who is it?\n" in text
        assert "Answer: Ann Bell\n" in text
        assert "Query: q1 q2\n" in text
    assert useful.endswith("Useful documents, 3 of 30 words:\n")
    assert noisy.endswith("Noisy documents, 3 of 30 words:\n")


def test_other_models_see_question_and_answer_in_useful_prompts_only() -> None:
    role = Role("where born", 4, 30, False, "Where was Ann born?", "Quell")
    useful, noisy = few_shot_prompt(role), few_shot_prompt(role._replace(noisy=True))
    assert "Where was Ann born?" in useful
    assert "Answer: Quell" in useful
    assert "Quell" not in noisy
    assert "Where was Ann born?" not in noisy
    assert "Question:" not in noisy
    assert "Answer:" not in noisy
    for text in (useful, noisy):
        assert "4 documents of about 30 words" in text
        assert "in English" in text
        assert text.count("Doc 1:") == 1  # the worked example
        assert text.rstrip().endswith(" documents:")


@pytest.mark.parametrize(
    ("aliases", "told"),
    [
        ("first", {"Quell"}),
        ("all", {"Quell / Town of Quell"}),
        ("drawn", {"Quell", "Town of Quell"}),
    ],
)
def test_which_alias_the_model_is_told(aliases: Any, told: set[str]) -> None:
    letters = Letters()
    engine = SimulatedEngine(letters, aliases=aliases)
    engine.run([query(key=i) for i in range(30)])
    lines = {line for r in letters.asked for line in str(r.prompt).splitlines() if "Answer" in line}
    assert lines == {f"Answer: {t}" for t in told}


def test_searches_without_a_task_or_without_an_answer() -> None:
    scribe = Scribe()
    engine = SimulatedEngine(scribe, noise=0.0)
    bare, refused = engine.run([query(task=None), query(task=REFUSE)])
    assert len(bare) == len(refused) == 3  # type: ignore[arg-type]
    assert "Question" not in prompt_of(scribe, 0)
    assert "Answer" not in prompt_of(scribe, 0)
    assert ABSTAIN not in prompt_of(scribe, 1)
    assert refused.meta == {"simulated": "noisy"}  # type: ignore[union-attr]


# --- noise ------------------------------------------------------------------------------------
def test_measured_noise_is_the_schedules() -> None:
    engine = SimulatedEngine(Letters(), max_tokens=1)
    n = 10_000
    for step in (0, 50, 100, 150, 200):
        rate = Exponential(0, 0.5, 200, 4)(step)
        kinds = [
            r.meta["simulated"]  # type: ignore[union-attr]
            for r in engine.run([query(key=derive(3, step, i), noise=rate) for i in range(n)])
        ]
        assert kinds.count("noisy") / n == pytest.approx(rate, abs=0.01)
        assert step or not kinds.count("noisy")


def test_noise_comes_from_the_episode_else_from_the_engine_and_is_a_nested_draw() -> None:
    engine = SimulatedEngine(Letters(), noise=1.0, max_tokens=1)
    (own,) = engine.run([query()])
    (episode,) = engine.run([query(noise=0.0)])
    assert (own.meta["simulated"], episode.meta["simulated"]) == ("noisy", "useful")  # type: ignore[union-attr]
    noisy: set[int] = set()
    for rate in (0.1, 0.4, 0.8):
        now = {
            i
            for i, r in enumerate(engine.run([query(key=i, noise=rate) for i in range(200)]))
            if r.meta["simulated"] == "noisy"  # type: ignore[union-attr]
        }
        assert noisy < now
        noisy = now


@pytest.mark.parametrize("rate", [-0.1, 1.01, float("nan"), "0.5", True])
def test_a_rate_is_a_probability(rate: Any) -> None:
    with pytest.raises(EngineError, match="'noise' must lie in"):
        SimulatedEngine(Letters(), noise=rate)
    with pytest.raises(EngineError, match="'noise' must lie in"):
        SimulatedEngine(Letters()).run([query(noise=rate)])


# --- results ----------------------------------------------------------------------------------
def test_results_keep_the_engines_contract() -> None:
    engine = SimulatedEngine(Scribe())
    batch = [query(f"word {i}", key=i, k=k) for i, k in enumerate((1, 2, 3, 9, 0, -1))]
    batch += [query("  "), query(""), query("東京 жидко é")]
    found = engine.run(batch)
    assert [len(r) for r in found] == [1, 2, 3, 4, 0, 0, 0, 0, 3]  # type: ignore[arg-type]
    for ranking in found:
        scores = [hit.score for hit in ranking]  # type: ignore[union-attr]
        assert scores == sorted(scores, reverse=True)
        assert len({hit.passage.id for hit in ranking}) == len(scores)  # type: ignore[union-attr]
    assert [engine.run([q])[0] for q in batch] == found  # batch = one by one
    assert not any(r.sampling.stop for r in engine.generator.asked)  # type: ignore[attr-defined]


def test_documents_can_be_written_one_call_each() -> None:
    scribe = Scribe()
    engine = SimulatedEngine(scribe, per_call=1)
    (found,) = engine.run([query(k=3)])
    assert len(found) == len(scribe.asked) == 3  # type: ignore[arg-type]
    assert len({r.key for r in scribe.asked}) == 3
    assert "Useful documents, 1 of 30 words:" in prompt_of(scribe)
    batch = [query(key=i, k=k) for i, k in enumerate((0, 3, 1, 5))]
    assert [engine.run([q])[0] for q in batch] == engine.run(batch)
    pairs = SimulatedEngine(Scribe(), per_call=2)
    (two,) = pairs.run([query(k=3)])
    assert len(two) == 3  # type: ignore[arg-type]
    cold = SimulatedEngine(Scribe(), per_call=1, vary=False)
    assert cold.run([query(key=1)]) == cold.run([query(key=2)])
    prompts = [sft_prompt(Role("bad", 1, 30, False, TASKS[0].question, TASKS[0].answers[0]))]
    failed, fine = SimulatedEngine(Letters(fail=prompts), per_call=1).run([query("bad"), query()])
    assert isinstance(failed, Failure)
    assert len(fine) == 3  # type: ignore[arg-type]


def test_pages_of_generated_documents_can_be_opened(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    engine = SimulatedEngine(Scribe(), cache=path)
    (found,) = engine.run([query()])
    passage = found[0].passage  # type: ignore[index]
    pages = pages_of(engine, CorpusPages(CORPUS))
    context = CallContext(0, "e", {})
    wanted = [passage.url, CORPUS[0].url, "https://simulated.example/0000", "u:no"]
    opened, own, *none = pages.run([PageRequest(u, context) for u in wanted])
    assert (opened.title, opened.text) == (passage.title, passage.text)  # type: ignore[union-attr]
    assert own == CORPUS.page(CORPUS[0].url)
    assert none == [None, None]
    later = pages_of(SimulatedEngine(Down(99), cache=path), CorpusPages(CORPUS))
    assert later.run([PageRequest(passage.url, context)]) == [opened]


def test_a_cache_answers_equal_prompts_alike_for_any_process(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    letters = Scribe(repeatable=False)
    engine = SimulatedEngine(letters, cache=path)
    first = engine.run([query(key=1), query(key=2), query("other", key=3)])
    assert first[0] == first[1] != first[2]
    assert len(letters.asked) == 2
    down = Down(99)
    down.fingerprint = letters.fingerprint
    assert SimulatedEngine(down, cache=path).run([query(key=9)]) == first[:1]
    assert down.calls == 0
    varied = SimulatedEngine(letters, cache=path, vary=True)
    one, two = varied.run([query(key=1), query(key=2)])
    assert one != two
    assert varied.run([query(key=1), query(key=2)]) == [one, two]


def test_without_a_cache_calls_vary_and_repeat_with_their_key() -> None:
    engine = SimulatedEngine(Scribe())
    one, two = engine.run([query(key=1), query(key=2)])
    assert one != two
    assert engine.run([query(key=2), query(key=1)]) == [two, one]
    assert engine.cache_key(query()) is None
    cold = SimulatedEngine(Scribe(), temperature=0.0)
    assert cold.generator.cache_key(GenRequest("a")) is not None
    assert cold.fingerprint != engine.fingerprint
    assert SimulatedEngine(Scribe()).fingerprint == engine.fingerprint


# --- failures (the endless retry loop of a peer) ----------------------------------------------
def test_retries_are_bounded_and_then_a_typed_failure() -> None:
    down = Down(99)
    failed, nothing = SimulatedEngine(down, retries=3).run([query(), query("")])
    assert failed == Failure("unavailable", "down")
    assert nothing == ()
    assert down.calls == 4
    up = Down(2)
    (found,) = SimulatedEngine(up, retries=2).run([query()])
    assert not isinstance(found, Failure)
    assert up.calls == 3
    hopeless = Down(99, retryable=False)
    assert SimulatedEngine(hopeless, retries=3).run([query()])[0].retryable is False  # type: ignore[union-attr]
    assert hopeless.calls == 1


def test_only_what_failed_is_asked_again() -> None:
    class Flaky(Scribe):
        def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
            sizes.append(len(batch))
            found = super().run(batch)
            return [Failure("timeout", "slow"), *found[1:]] if len(sizes) == 1 else found

    sizes: list[int] = []
    flaky = SimulatedEngine(Flaky()).run([query(key=i) for i in range(4)])
    assert sizes == [4, 1]
    assert flaky == SimulatedEngine(Scribe()).run([query(key=i) for i in range(4)])


def test_an_episode_of_a_dead_simulator_is_truncated_not_scored() -> None:
    down = Down(10_000)
    env = gym.make(
        "SearchQA-v0", corpus=CORPUS, tasks=list(TASKS), engine=SimulatedEngine(down, retries=2),
        max_retries=1, reward={"em": 1, "search": -0.1},
    )  # fmt: skip
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step("<search>Aldor</search>")
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["outcome"]["infra_error"]
    assert down.calls == (1 + 2) * (1 + 1)


# --- environments -----------------------------------------------------------------------------
def test_the_simulator_gets_the_question_of_the_episode_that_searches() -> None:
    """A peer indexed the queries that were left by the questions of all episodes: the first
    episode answers, the second searches, and the first one's question went to the simulator."""
    letters = Letters()
    envs = gym.make_vec(
        "SearchQA-v0", 2, corpus=CORPUS, tasks=list(TASKS), engine=SimulatedEngine(letters)
    )
    unwrapped: Any = envs.unwrapped
    envs.reset(seed=0, options={"task_id": ["t1", "t2"]})
    envs.step(["<answer>x</answer>", "<search>who was it</search>"])
    assert len(letters.asked) == 1
    first, second = (episode.config.task for episode in unwrapped.episodes)
    assert f"Question: {second.question}\n" in prompt_of(letters)
    assert f"Answer: {second.answers[0]}\n" in prompt_of(letters)
    assert first.question not in prompt_of(letters)
    assert "Query: who was it\n" in prompt_of(letters)


def test_agents_see_documents_and_not_their_kind() -> None:
    env = gym.make(
        "SearchQA-v0", corpus=CORPUS, tasks=list(TASKS), engine=SimulatedEngine(Scribe()),
        max_parallel=2, params={"noise": 1.0},
    )  # fmt: skip
    env.reset(seed=0)
    observation, *_, info = env.step("<search>Aldor</search>")
    assert info["simulated"] == ("noisy",)
    assert info["params"] == {"noise": 1.0}
    assert len(info["hits"]) == 3
    shown = observation.split("<information>")[-1]
    assert "noisy" not in shown.lower()
    assert "useful" not in shown.lower()
    envs = gym.make_vec(
        "SearchQA-v0", 3, corpus=CORPUS, tasks=list(TASKS), engine=SimulatedEngine(Scribe()),
        params={"noise": 0.0},
    )  # fmt: skip
    envs.reset(seed=0)
    info = envs.step(["<search>a</search>", "<answer>b</answer>", "<search>c</search>"])[-1]
    assert info["simulated"].tolist() == [("useful",), None, ("useful",)]


def test_a_real_model_by_name_in_single_and_vector_environments(tmp_path: Path) -> None:
    folder = tiny.save(tmp_path / "model")
    engine = {
        "name": "simulated", "noise": 0.3, "max_tokens": 24, "words": 12,
        "generator": {"name": "transformers", "model": str(folder), "device": "cpu"},
    }  # fmt: skip
    options: dict[str, Any] = {"world": {"entities": 400}, "tasks": {"simple": 8}, "engine": engine}
    env = gym.make("SearchQA-v0", **options)
    envs = gym.make_vec("SearchQA-v0", 3, **options)
    actions = ["<search>who</search>", "<search>where is it</search>", "<answer>x</answer>"]
    seen = envs.reset(seed=5)[0]
    columns = [seen, *(envs.step([a] * 3)[0] for a in actions[:2])]
    for i in range(3):
        rows = [env.reset(seed=5 + i)[0], *(env.step(a)[0] for a in actions[:2])]
        assert rows == [column[i] for column in columns]
    assert {k for i in range(9) for k in _kinds(env, 50 + i, gold=True)} == {"useful", "noisy"}
    assert {k for i in range(9) for k in _kinds(env, 50 + i)} == {"unrelated", "noisy"}


def _kinds(env: Any, seed: int, gold: bool = False) -> tuple[str, ...]:
    env.reset(seed=seed)
    query = env.unwrapped.episode.config.task.queries[0] if gold else "who"
    found: tuple[str, ...] = env.step(f"<search>{query}</search>")[-1]["simulated"]
    return found


def test_the_model_is_told_what_the_query_asks_for() -> None:
    """Of a chain of two: the first query's documents are to state the founder, the second's the
    town; a query that asks for neither gets noise; a task of another corpus gets its answer."""
    engine = SimulatedEngine(Scribe(), corpus=CORPUS)
    chain = TASKS[0]
    asked = []
    for text in ("Aldor founder", "Mira Venn born", "zzz"):
        (request,) = engine._ask(Query(text, 1, CallContext(1, "e", {}, None, chain))).requests
        (ranking,) = engine.run([Query(text, 1, CallContext(1, "e", {}, None, chain))])
        told = re.search(r"^Answer: (.*)$", str(request.prompt), re.MULTILINE)
        asked.append((told and told[1], ranking.meta))  # type: ignore[union-attr]
    assert asked == [
        ("Mira Venn", {"simulated": "useful", "evidence": ["p1"]}),
        ("Quell", {"simulated": "useful", "evidence": ["p2"]}),
        ("Quell", {"simulated": "unrelated"}),
    ]
    elsewhere = replace(chain, evidence=("other",))
    (ranking,) = engine.run([Query("zzz", 1, CallContext(1, "e", {}, None, elsewhere))])
    assert ranking.meta == {"simulated": "useful"}  # type: ignore[union-attr]


def test_gold_reaches_no_engine_that_does_not_ask_for_it() -> None:
    seen: list[Task | None] = []
    bm25: Any = build_engine("bm25", CORPUS)

    class Spy:
        needs_task = False
        fingerprint = "spy"

        def cache_key(self, request: Query, /) -> None:
            return None

        def run(self, batch: Sequence[Query], /) -> Any:
            seen.extend(q.ctx.task for q in batch)
            return bm25.run(batch)

    for engine, wanted in ((Spy(), 0), (SimulatedEngine(Letters()), 1)):
        env: Any = gym.make("SearchQA-v0", corpus=CORPUS, tasks=list(TASKS), engine=engine)
        env.reset(seed=0)
        env.step("<search>Aldor</search>")
        calls = env.unwrapped.episode.turns[0].calls
        assert [c.ctx.task is not None for c in calls] == [bool(wanted)]
    assert seen == [None]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "simulated"}, "needs a text generator"),
        ({"name": "simulated", "generator": Letters(), "style": "sfd"}, "prompt style 'sfd'"),
        ({"name": "simulated", "generator": Letters(), "aliases": "last"}, "choice of aliases"),
        ({"name": "simulated", "generator": Letters(), "retries": -1}, "retries"),
        ({"name": "simulated", "generator": {"name": "transformer"}}, "mean 'transformers'"),
        ({"name": "simulated", "generator": Letters(), "tone": 1}, "engine 'simulated': .*tone"),
    ],
)  # fmt: skip
def test_wrong_settings_are_one_clear_error(spec: Any, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        build_engine(spec, Corpus("c", [Passage("1", "t", "x", "u")]))
