"""Texts that join and leave between tokens are those of one-by-one generation."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.errors import EngineError
from searchgym.llms.base import Completion, GenRequest, Sampling
from searchgym.llms.transformers_generator import PATIENCE, Continuous, TransformersGenerator
from searchgym.seeding import stream
from searchgym.types import Failure
from tests.policies.players import MANY_TURNS, WORDS, generator, model

pytestmark = pytest.mark.contract


def some(n: int, seed: int = 0) -> list[GenRequest]:
    draw = stream(seed, "requests")
    return [
        GenRequest(
            tuple(draw.integers(3, len(WORDS), draw.integers(1, 60)).tolist()),
            Sampling(int(draw.integers(1, 20)), float(draw.choice([0.0, 1.0])), stop=("e",)),
            key=i,
        )
        for i in range(n)
    ]


def drain(flow: Continuous, requests: list[GenRequest], every: int = 2) -> list[Any]:
    """A request joins every so many tokens; the answers by request."""
    tickets: dict[int, int] = {}
    answers: list[Any] = [None] * len(requests)
    step = 0
    while len(tickets) < len(requests) or len(flow):
        if step % every == 0 and len(tickets) < len(requests):
            tickets[flow.submit(requests[len(tickets)])] = len(tickets)
        for ticket, answer in flow.step():
            assert answers[tickets[ticket]] is None
            answers[tickets[ticket]] = answer
        step += 1
    return answers


@cache
def answered_alone(kind: str) -> tuple[list[GenRequest], list[Any]]:
    """Requests, and the answer to each where there is no other."""
    requests = some(14)
    for request in requests[:4]:  # next turns: what was asked, what was said, what is new
        (first,) = generator(kind).run([request])
        assert isinstance(first, Completion)
        prompt = (*request.prompt, *(first.ids or ()), 5, 6)
        requests.append(request._replace(prompt=prompt, key=99))
    return requests, [generator(kind).run([r])[0] for r in requests]


@pytest.mark.parametrize("reuse", [0, 10_000])
@pytest.mark.parametrize("kind", MANY_TURNS)
def test_joining_and_leaving_changes_nothing(kind: str, reuse: int) -> None:
    requests, alone = answered_alone(kind)
    flowing = TransformersGenerator(model(kind), WORDS, reuse_tokens=reuse)
    for options, every in (({"slots": 64}, 2), ({"slots": 3}, 1), ({"slots": 1}, 1)):
        for a, b in zip(alone, drain(Continuous(flowing, **options), requests, every), strict=True):
            assert isinstance(a, Completion)
            assert isinstance(b, Completion)
            assert (a.ids, a.text, a.ends, a.finish) == (b.ids, b.text, b.ends, b.finish)
            np.testing.assert_allclose(a.logp, b.logp, atol=1e-4)
            np.testing.assert_allclose(a.entropy, b.entropy, atol=1e-3)
    if flowing.prefixes is not None:
        assert (flowing.prefixes.reused > 0) == (kind != "lfm2")


def test_a_short_text_does_not_wait_for_a_long_one() -> None:
    flow = Continuous(generator(), slots=2)
    long, short = (GenRequest((5, 6), Sampling(n), key=n) for n in (40, 2))
    tickets = [flow.submit(r) for r in (long, short, short, short)]
    finished = []
    for _ in range(6):
        finished += [ticket for ticket, _ in flow.step()]
    assert finished == tickets[1:]
    assert len(flow) == 1


def test_texts_wait_for_company_while_many_are_under_way() -> None:
    flow = Continuous(generator(), slots=PATIENCE + 2)
    lengths = (*[12] * (PATIENCE + 1), 30)
    for key, length in enumerate(lengths):
        flow.submit(GenRequest((5, 6), Sampling(length, stop=()), key=key))
    flow.generator.eos = frozenset()
    flow.step()
    assert len(flow._together.rows) == PATIENCE + 2
    flow.slots += 2
    flow.submit(GenRequest((5, 7), Sampling(30, stop=()), key=50))
    flow.step()
    assert len(flow._together.rows) == PATIENCE + 2, "one alone waits"
    flow.submit(GenRequest((5, 8), Sampling(30, stop=()), key=51))
    flow.step()
    assert len(flow._together.rows) == PATIENCE + 4, "two together do not"
    flow.submit(GenRequest((5, 9), Sampling(30, stop=()), key=52))
    for _ in range(10):
        flow.step()
    assert len(flow._together.rows) == 4, "nor does one beside a few"


def test_columns_are_dropped_with_the_longest_row() -> None:
    flow = Continuous(generator("lfm2"))
    flow.submit(GenRequest(tuple(range(3, 203)), Sampling(2)))
    flow.submit(GenRequest((5, 6), Sampling(20)))
    flow.step()
    assert flow._together._running is not None
    assert flow._together._running._mask.shape[1] == 201
    flow.step()
    assert flow._together._running._mask.shape == (1, 4)


def test_memory_bounds_are_kept() -> None:
    narrow = TransformersGenerator(model("qwen2"), WORDS, batch_tokens=100)
    flow = Continuous(narrow)
    for key in range(6):
        flow.submit(GenRequest((5,) * 20, Sampling(10, stop=()), key))
    most = 0
    while len(flow):
        flow.step()
        most = max(most, len(flow._together.rows))
    assert most == 3


def test_refusals_and_impossible_requests() -> None:
    flow = Continuous(generator())
    ticket = flow.submit(GenRequest((5,) * 4090, Sampling(10)))
    ((back, answer),) = flow.step()
    assert back == ticket
    assert isinstance(answer, Failure)
    assert "exceed the model's 4096" in answer.message
    assert len(flow) == 0
    assert flow.step() == []
    with pytest.raises(EngineError, match="slots must be"):
        Continuous(generator(), 0)
    with pytest.raises(EngineError, match="sampling needs"):
        flow.submit(GenRequest((5,), Sampling(0)))


def test_weights_may_not_change_under_a_text() -> None:
    own = TransformersGenerator(model("qwen2"), WORDS)
    flow = Continuous(own)
    flow.submit(GenRequest((5, 6), Sampling(5)))
    flow.step()
    with torch.no_grad():
        own.model.lm_head.weight[3, 3] += 0.5
    with pytest.raises(EngineError, match="weights changed while texts"):
        flow.step()


def test_sliding_windows_cannot_join() -> None:
    sliding = model("qwen2", use_sliding_window=True, sliding_window=8, max_window_layers=0)
    flow = Continuous(TransformersGenerator(sliding, WORDS))
    flow.submit(GenRequest((5, 6), Sampling(5)))
    flow.step()
    flow.submit(GenRequest((5, 6), Sampling(5)))
    with pytest.raises(EngineError, match="cannot join others"):
        flow.step()
