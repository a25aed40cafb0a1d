"""The policy over real (tiny, random) models: ragged turns, keys, budgets, a whole environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import searchgym  # noqa: F401  (registers the environments)
from searchgym.core import run_episodes, step
from searchgym.errors import EngineError
from searchgym.evaluation import evaluate
from searchgym.llms import Completion, Sampling, TransformersGenerator
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.policies.renderer import BareRenderer, ChatRenderer, PlainRenderer
from searchgym.policies.trainable import TrainableLM
from searchgym.types import Agent, Failure
from tests.llms import tiny
from tests.llms.letters import Letters
from tests.policies.players import (
    KINDS,
    MANY_TURNS,
    WORDS,
    Tells,
    Tools,
    agree,
    generator,
    model,
    policy,
)
from tests.policies.talks import Talk, converse, largest_gap
from tests.small import CORPUS, TASKS, episode

TALKS = range(7)


@pytest.mark.parametrize("renderer", ["plain", "chat"])
@pytest.mark.parametrize("kind", MANY_TURNS)
def test_ragged_turns_in_batches_are_plain_forwards(kind: str, renderer: Any) -> None:
    """Prompts of unequal length, left-padded; observations of unequal length between turns."""
    lm = policy(kind, renderer=renderer, sampling=Sampling(max_tokens=11, stop=("e", "<")))
    talks = [Talk(seed) for seed in TALKS]
    converse(lm, talks)
    assert len({t.turns for t in talks}) > 2
    assert largest_gap(lm, generator(kind).model, talks) < 1e-4


@pytest.mark.parametrize("kind", MANY_TURNS)
def test_keys_decide_whatever_the_batch(kind: str) -> None:
    together, alone, other = policy(kind), policy(kind), policy(kind, seed=1)
    talks = [Talk(seed) for seed in TALKS]
    converse(together, talks)
    singly = [Talk(seed) for seed in reversed(TALKS)]
    for talk in singly:
        converse(alone, [talk])
    assert [t.segments for t in talks] == [t.segments for t in reversed(singly)]
    again = [Talk(seed) for seed in TALKS]
    converse(other, again)
    assert [t.segments for t in talks] != [t.segments for t in again]


def test_members_of_a_group_differ() -> None:
    lm = policy()
    members = [episode(TASKS[0], seed=s) for s in range(6)]
    texts = lm.act([e.requests()[0] for e in members])
    assert len(set(texts)) > 3


def test_stops_and_limits_come_from_both_sides() -> None:
    tells = Tells(lambda request: "<think> a b c </think><search> x </search> on and on")
    lm = CausalLMPolicy(tells, sampling=Sampling(100, 0.5, stop=("on", "</search>")))
    request = episode().requests()[0]
    assert lm.act([request]) == ["<think> a b c </think><search> x </search>"]
    asked = tells.asked[0].sampling
    assert asked == Sampling(100, 0.5, stop=(*request.stop, "on"))
    lm.sample([request._replace(max_tokens=7)], Sampling(9))
    assert tells.asked[1].sampling.max_tokens == 7
    lm.sample([request._replace(max_tokens=70)], Sampling(9))
    assert tells.asked[2].sampling.max_tokens == 9


def test_a_turn_may_be_begun_for_the_policy() -> None:
    tells = Tells(lambda request: "hm </think> <search> Aldor </search>")
    lm = CausalLMPolicy(tells)
    e = episode(TASKS[1])
    first = e.requests()[0]._replace(prefill="<think>")
    e.act(lm.act([first])[0])
    e.receive(Tools().run(e.pending))
    lm.act(e.requests())
    decode = tells.codec.decode
    assert decode(list(tells.asked[0].prompt)).endswith("<think>")  # type: ignore[arg-type]
    assert "<think>hm </think> <search> Aldor </search>" in decode(list(tells.asked[1].prompt))  # type: ignore[arg-type]
    assert tells.asked[1].prompt[: len(tells.asked[0].prompt)] == tells.asked[0].prompt


def test_a_full_context_is_an_invalid_action_that_the_episode_sees() -> None:
    lm = policy(sampling=Sampling(max_tokens=40))
    e = episode(max_turns=20)
    start = len(lm.renderer.render(e.requests()[0], {})[0]) + 140
    lm.context = start
    run_episodes([e], lm, Tools())  # type: ignore[arg-type]
    records = lm.memory.written(e.config.episode_id)
    sizes = [len(records[n].completion.ids or ()) for n in range(len(e.turns))]
    assert sizes[0] == 40
    assert 0 in sizes
    shorter = [n for n in sizes if 0 < n < 40]
    assert len(shorter) <= 1, "one turn may take what is left"
    empty = [t for t, n in zip(e.turns, sizes, strict=True) if n == 0]
    assert all(t.reward_parts["invalid"] == 1.0 for t in empty)
    assert e.truncated
    (row,) = lm.rows(e)
    assert len(row) <= start
    assert row.sampled.sum() == sum(sizes)
    assert len(row.turn_uids) == sum(n > 0 for n in sizes)


def test_a_full_context_can_be_refused() -> None:
    lm = policy(sampling=Sampling(max_tokens=40), overflow="refuse", context=120)
    with pytest.raises(EngineError, match=r"turn 0 of episode 'e1': \d+ prompt tokens \+ 40 new"):
        lm.act(episode().requests())
    assert policy().context == 4096, "the model's own"


def test_a_memory_smaller_than_the_batch_is_said() -> None:
    lm = policy(memory=1)
    requests = [episode(seed=s).requests()[0] for s in (1, 2)]
    with pytest.raises(EngineError, match="memory=1 is less than a batch of 2 episodes"):
        lm.act(requests)
    assert lm.act(requests[:1])


class Foreign(Letters):
    """What a server may say: any ids."""

    def __init__(self, *ids: int) -> None:
        super().__init__()
        self.ids = ids

    def _one(self, request: Any) -> Completion:
        n = len(self.ids)
        return Completion("x" * n, self.ids, np.zeros(n, np.float32), (*range(1, n + 1),))


@pytest.mark.parametrize("wrong", [-1, len(WORDS), 10**30])
def test_ids_that_mean_nothing_here_are_refused(wrong: int) -> None:
    requests, last = episode().requests(), len(WORDS) - 1
    with pytest.raises(EngineError, match=rf"Foreign gave token id {wrong}, .* 0 to {last}:"):
        CausalLMPolicy(Foreign(5, wrong), PlainRenderer(WORDS)).act(requests)
    known = CausalLMPolicy(Foreign(0, last), PlainRenderer(WORDS))
    assert known.act(requests) == ["xx"]


def test_its_fingerprint_says_all_that_changes_its_texts() -> None:
    def of(renderer: Any, tells: Any = None, **options: Any) -> str:
        return CausalLMPolicy(tells or Letters(), renderer, **options).fingerprint

    other = tiny.tokenizer(350)
    made = [
        lambda: of(PlainRenderer(WORDS)),
        lambda: of(PlainRenderer(other)),
        lambda: of(BareRenderer(WORDS)),
        lambda: of(PlainRenderer(WORDS), context=100),
        lambda: of(PlainRenderer(WORDS), overflow="refuse"),
        lambda: of(PlainRenderer(WORDS), seed=1),
        lambda: of(ChatRenderer(WORDS)),
        lambda: of(ChatRenderer(WORDS, system=False)),
        lambda: of(ChatRenderer(WORDS, unstable="split")),
        lambda: of(ChatRenderer(WORDS, enable_thinking=False)),
        lambda: of(ChatRenderer(WORDS, enable_thinking=True)),
        lambda: TrainableLM(model("qwen2"), WORDS).policy().fingerprint,
        lambda: TrainableLM(model("qwen2"), WORDS, temperature=0.5).policy().fingerprint,
        lambda: TrainableLM(model("qwen2"), WORDS, temperature=0.7).policy().fingerprint,
    ]
    prints = [make() for make in made]
    assert len(set(prints)) == len(made)
    assert prints == [make() for make in made]

    class Theirs:
        encode = render = spell = heard = None

    assert " Theirs " in of(Theirs()), "a renderer that says nothing counts by its class"


def test_what_is_missing_is_named() -> None:
    unsure = Letters(repeatable=False)
    with pytest.raises(EngineError, match="Letters lacks seed"):
        CausalLMPolicy(unsure)
    with pytest.raises(EngineError, match="Letters has no tokenizer"):
        CausalLMPolicy(Letters())
    fixed = CausalLMPolicy(Letters(), PlainRenderer(WORDS))
    assert fixed.version == 0
    with pytest.raises(EngineError, match="Letters has no version: its weights cannot change"):
        fixed.weights_changed()
    with pytest.raises(EngineError, match="Letters has no update_weights"):
        fixed.weights_changed({})
    with pytest.raises(EngineError, match="Did you mean 'plain'"):
        policy(renderer="plane")
    for wrong in ({"overflow": "cut"}, {"memory": 0}, {"tries": 0}):
        with pytest.raises(EngineError, match=r"overflow is|tries is"):
            policy(**wrong)


class Shaky(Tells):
    """Fails as often as told, then answers."""

    def __init__(self, failures: list[Failure]) -> None:
        super().__init__(lambda request: "<search> x </search>")
        self.failures = failures

    def run(self, batch: Any) -> list[Completion | Failure]:
        answers = super().run(batch)
        if self.failures:
            answers[-1] = self.failures.pop()
        return answers


def test_a_generator_that_fails_is_asked_again_then_named() -> None:
    slow = Failure("timeout", "12 of 40 tokens")
    requests = [episode(seed=s).requests()[0] for s in (1, 2)]
    shaky = Shaky([slow])
    assert CausalLMPolicy(shaky).act(requests) == ["<search> x </search>"] * 2
    assert len(shaky.asked) == 3, "only what failed"
    with pytest.raises(EngineError, match="turn 0 of episode 'e2': timeout: 12 of 40"):
        CausalLMPolicy(Shaky([slow, slow])).act(requests)
    once = Shaky([Failure("rejected", "too long", False)] * 2)
    with pytest.raises(EngineError, match="rejected"):
        CausalLMPolicy(once).act(requests)
    assert len(once.asked) == 2, "a refusal is not asked again"


def setting() -> Any:
    env: Any = gym.make("SearchQA-v0", corpus=CORPUS, tasks=list(TASKS), max_turns=4)
    return env.unwrapped


@pytest.mark.parametrize("renderer", ["plain", "chat"])
@pytest.mark.parametrize("kind", MANY_TURNS)
def test_a_random_model_plays_an_environment(kind: str, renderer: Any) -> None:
    """SearchQA-v0 with its BM25 engine: rows, and log-probabilities equal to the trainer's."""
    trained = TrainableLM(model(kind), WORDS)
    lm = trained.policy(renderer, sampling=Sampling(max_tokens=10))
    assert isinstance(lm, Agent)
    shared = setting()
    episodes = [shared.start(seed) for seed in range(4)]
    run_episodes(episodes, lm, shared.toolbox)
    rows = [row for e in episodes for row in lm.rows(e)]
    assert len(rows) == 4, "nothing was edited"
    assert [len(r.turn_uids) for r in rows] == [len(e.turns) for e in episodes]
    agree(trained, rows)


def test_weights_can_be_handed_over() -> None:
    """As to a generator that holds a copy of its own."""
    lm = CausalLMPolicy(TransformersGenerator(model("qwen2"), WORDS))
    other = TrainableLM(model("qwen2", seed=1), WORDS)
    request = episode().requests()[0]
    before = lm.sample([request])[0]
    assert lm.weights_changed(other.merged()) == lm.version == 1
    after = lm.sample([request])[0]
    assert (before.version, after.version) == (0, 1)
    assert after.ids == other.policy("plain").sample([request])[0].ids != before.ids


def test_it_is_evaluated_as_any_agent_is() -> None:
    result = evaluate(policy(sampling=Sampling(max_tokens=4)), setting())
    assert result.means["em"].mean == 0
    assert result.means["em"].n == len(TASKS)


class Dictated(Tells):
    """A real model's log-probabilities for texts that a test dictates: what a trained one does."""

    def __init__(self, inner: TransformersGenerator, say: Any) -> None:
        super().__init__(say, inner.context)
        self.inner = inner

    def run(self, batch: Any) -> list[Completion | Failure]:
        said = [c for c in super().run(batch) if isinstance(c, Completion)]
        scores = self.inner.score([(r.prompt, c.ids) for r, c in zip(batch, said, strict=True)])  # type: ignore[misc]
        return [c._replace(logp=s) for c, s in zip(said, scores, strict=True)]


@pytest.mark.parametrize("renderer", ["plain", "chat"])
@pytest.mark.parametrize("kind", KINDS)
def test_searching_episodes_train_on_what_was_written_alone(kind: str, renderer: Any) -> None:
    """Searches with real results between them, in tokens no encoder would choose."""
    trained = TrainableLM(model(kind), WORDS)
    said = iter(
        [
            *["<think> hm </think> <search> Aldor founder </search> and"] * 3,
            *["<search> Mira Venn born </search>", "no action", "<search> Quell </search>"],
            *["<answer> Quell </answer>\n"] * 3,
        ]
    )
    lm = CausalLMPolicy(Dictated(trained.generator(), lambda request: next(said)), renderer)
    shared = setting()
    episodes = [shared.start(seed, task=TASKS[0]) for seed in range(3)]
    run_episodes(episodes, lm, shared.toolbox)
    rows = [row for e in episodes for row in lm.rows(e)]
    assert [len(r.turn_uids) for r in rows] == [3, 3, 3]
    assert [e.queries for e in episodes] == [2, 1, 2]
    agree(trained, rows)
    for e, row in zip(episodes, rows, strict=True):
        seen = WORDS.decode(row.ids.tolist())
        trained_on = WORDS.decode(row.ids[row.loss_mask].tolist())
        assert "founded by Mira Venn" in seen
        assert "founded by" not in trained_on
        for turn in e.turns:
            assert turn.text in trained_on
        assert sum(t.reward for t in e.turns) == 1


def test_a_vector_environments_driver_plays_too() -> None:
    lm, shared = policy(), setting()
    episodes = [shared.start(seed) for seed in range(3)]
    while open_ := [e for e in episodes if e.phase != "done"]:
        step(open_, lm, shared.toolbox)
    assert all(lm.rows(e) for e in episodes)
    lm.forget([e.config.episode_id for e in episodes])
    assert len(lm.memory) == 0
