"""Boxes into which one role looks for another: the planner hands the question over and repeats what
is reported, and the looker is the model of ``lookup``, which asks any of four queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from searchgym.envs import SearchEnv
from searchgym.llms import Completion, GenRequest, TransformersGenerator
from searchgym.policies import CausalLMPolicy, TrainableLM
from searchgym.rl import OwnWeights
from tests.rl import lookup

LOOKER: Mapping[str, Any] = {"looker": {"tools": ["search"]}, "planner": {"tools": []}}


@cache
def setting(trained: bool = True) -> SearchEnv:
    return lookup.setting(trained).under(delegate=LOOKER, max_turns=4)


class Relay(TransformersGenerator):
    """Writes what it was asked or told as a task or an answer, with its model's probabilities."""

    def run(self, batch: Sequence[GenRequest]) -> list[Any]:
        texts = [_relayed(self.codec.decode(list(r.prompt))) for r in batch]
        ids = [tuple(self.codec.tokenizer.encode(t, add_special_tokens=False)) for t in texts]
        logp = self.score([(r.prompt, own) for r, own in zip(batch, ids, strict=True)])
        return [
            Completion(t, own, np.asarray(p, np.float32), _ends(self.codec, own), self.version)
            for t, own, p in zip(texts, ids, logp, strict=True)
        ]


def _relayed(prompt: str) -> str:
    last = prompt.strip().splitlines()[-1]
    said = last.partition(":")[2].strip()
    return f"delegate: {said}\n" if last.startswith("question") else f"answer: {said}\n"


def _ends(codec: Any, ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(len(codec.decode(list(ids[: i + 1]))) for i in range(len(ids)))


def players(seed: int = 0) -> tuple[TrainableLM, CausalLMPolicy, OwnWeights]:
    """The planner's model and policy, and a looker with weights of its own."""
    lm, _ = lookup.player(seed)
    generator = Relay(lm.model, lookup.tokenizer())
    policy = CausalLMPolicy(generator, "bare", sampling=lookup.SAMPLING, seed=seed)
    return lm, policy, OwnWeights(*lookup.player(seed))
