"""Random language models, and texts for them that act: what the policy tests play with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import searchgym  # noqa: F401  (registers the environments)
from searchgym.core import Episode, step
from searchgym.llms import (
    Codec,
    Completion,
    Floats,
    GenRequest,
    Ids,
    Reader,
    Sampling,
    TransformersGenerator,
    check,
    cut,
    request_key,
)
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.policies.rows import TrainingRow
from searchgym.policies.trainable import TrainableLM
from searchgym.seeding import stream
from searchgym.types import Failure
from tests.llms import tiny
from tests.small import lookup

WORDS = tiny.tokenizer()
KINDS = ("qwen2", "llama", "lfm2", "gpt_neox")
MANY_TURNS: tuple[Any, ...] = (pytest.param("qwen2", marks=pytest.mark.slow), *KINDS[1:])
"""For tests that play many turns: what qwen2 keeps between them is what llama keeps."""


def model(kind: str, seed: int = 0, **changes: Any) -> Any:
    """``tests.llms.tiny.model``, and GPT-NeoX, whose layers differ most from the others'."""
    changes = {"max_position_embeddings": 4096, **changes}
    if kind != "gpt_neox":
        return tiny.model(kind, len(WORDS), seed, **changes)
    import torch
    import transformers

    config = transformers.GPTNeoXConfig(
        vocab_size=len(WORDS), hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, initializer_range=0.15, bos_token_id=None, eos_token_id=0,
        pad_token_id=0, **changes,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.AutoModelForCausalLM.from_config(config).eval()


@cache
def generator(kind: str = "qwen2") -> TransformersGenerator:
    return TransformersGenerator(model(kind), WORDS)


def policy(kind: str = "qwen2", **options: Any) -> CausalLMPolicy:
    options.setdefault("sampling", Sampling(max_tokens=12))
    return CausalLMPolicy(generator(kind), **options)


class Tells:
    """A generator that says what a test wants, in tokens drawn at random among those that spell it.

    Real in all that a policy sees: ids, ends, stop strings that cut inside a token, end tokens.
    Log-probabilities are drawn by the request's key.
    """

    needs_task = False
    fingerprint = "tells"
    capabilities = frozenset({"ids", "logp", "seed"})

    def __init__(self, say: Callable[[GenRequest], str], context: int | None = None) -> None:
        self.say, self.context = say, context
        self.codec = Codec(WORDS)
        self.version = 0
        self.asked: list[GenRequest] = []

    def cache_key(self, request: GenRequest) -> bytes:
        return request_key(request)

    def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
        check(self, batch)
        self.asked.extend(batch)
        return [self._one(request) for request in batch]

    def score(self, batch: Sequence[tuple[Ids, Ids]]) -> list[Floats | Failure]:
        raise NotImplementedError

    def _one(self, request: GenRequest) -> Completion:
        draw = stream(request.key, "tells")
        text = self.say(request)
        ids = list(spelled(text, draw))
        ended = bool(draw.random() < 0.5)
        reader = Reader(self.codec.decode)
        for token in ids:
            reader.add(token)
        if ended:
            ids.append(WORDS.eos_token_id)
            reader.silent()
        assert reader.finish() == text
        n, ends = len(ids), tuple(reader.ends)
        found = [at + len(s) for s in request.sampling.stop if (at := text.find(s)) >= 0]
        if found:
            n, ends = cut(ends, min(found))
            text, ended = text[: min(found)], False
        logp = -draw.exponential(size=n).astype(np.float32)
        finish = "stop" if found else "eos" if ended else "length"
        return Completion(text, tuple(ids[:n]), logp, ends, self.version, None, finish)  # type: ignore[arg-type]


def spelled(text: str, draw: np.random.Generator) -> Ids:
    """Ids that decode to ``text``, mostly not those an encoder would choose: the text is broken at
    random places and each piece encoded by itself."""
    ids: list[int] = []
    at = 0
    while at < len(text):
        step = int(draw.integers(1, 9))
        ids += WORDS(text[at : at + step], split_special_tokens=True)["input_ids"]
        at += step
    return tuple(ids)


TEXTS = (
    "<think> hm </think><search> Aldor founder </search> and more that is cut",
    "<search> Mira Venn 東京 </search>",
    "<search>\n\nosten</search>",
    "<access> https://w.example/Osten </access>\n\n",
    "<access> https://w.example/Aldor </access>",
    "<judge> bad </judge>", "<judge> good </judge>",
    "<task> Who founded Aldor? </task>",
    "no action at all née", "", " ", "<answer></answer>",
)  # fmt: skip
ANSWER = "<answer> Quell </answer> trailing"
EDITED: dict[str, Any] = {
    "dialect": "search_r1+judge+delegate+access",
    "judge": True,
    "delegate": True,
    "page_stub_chars": 40,
    "max_turns": 9,
}


class Tools:
    """``tests.small.lookup`` as a toolbox."""

    def run(self, calls: Any) -> Any:
        return lookup(calls)


class Watched:
    """A policy whose completions are written down as they come: (request, completion) by turn."""

    def __init__(self, texts: list[str], renderer: Any = "plain") -> None:
        self.texts = iter([*texts, *[ANSWER] * 20])
        self.generator = Tells(lambda request: next(self.texts))
        self.policy = CausalLMPolicy(self.generator, renderer, seed=len(texts))
        self.said: list[tuple[GenRequest, Completion]] = []

    def act(self, requests: Any) -> list[str]:
        completions = self.policy.sample(requests)
        asked = self.generator.asked[-len(requests) :]
        self.said += zip(asked, completions, strict=True)
        return [c.text for c in completions]

    def play(self, e: Episode) -> Episode:
        while e.phase != "done":
            step([e], self, Tools())  # type: ignore[arg-type]
        return e


def agree(trained: TrainableLM, rows: list[TrainingRow]) -> None:
    """The trainer's log-probabilities are the behaviour's."""
    logp = trained.logp(rows).detach().numpy()
    for row, got in zip(rows, logp, strict=True):
        np.testing.assert_allclose(got[: len(row)][row.sampled], row.logp[row.sampled], atol=1e-4)
