"""Conversations of many turns with observations of every length, without rules of an episode."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import torch

from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.seeding import stream
from searchgym.types import Segment, TurnRequest
from tests.llms import tiny


class Talk:
    """One conversation; everything that does not come from the policy is drawn by ``seed``."""

    def __init__(self, seed: int, turns: int | None = None, longest: int = 300) -> None:
        self.id = f"talk{seed}"
        self.longest = longest
        self._draw = stream(seed, "talk")
        self.turns = int(self._draw.integers(1, 6)) if turns is None else turns
        self.segments: list[Segment] = []
        self.turn = 0
        self._hear("instructions")
        self._hear("question")

    def _hear(self, kind: str) -> None:
        text = "".join(self._draw.choice(tiny.LINES) for _ in range(6))
        length = int(self._draw.integers(0 if kind == "results" else 1, self.longest))
        self._add("env", kind, text[:length])

    def _add(self, author: Any, kind: str, text: str) -> None:
        self.segments.append(Segment(f"s{len(self.segments)}", 0, author, kind, (text,)))

    @property
    def request(self) -> TurnRequest:
        return TurnRequest(
            self.id, self.turn, 0, "agent", tuple(self.segments), "", (), (), None, "search_r1",
            self.turns - self.turn, None,
        )  # fmt: skip

    def hear(self, text: str) -> None:
        self._add("policy", "action", text)
        self._hear("results")
        self.turn += 1


def converse(policy: CausalLMPolicy, talks: list[Talk]) -> None:
    """All conversations to their ends, in one batch per turn; short ones drop out."""
    while open_ := [t for t in talks if t.turn < t.turns]:
        for talk, text in zip(open_, policy.act([t.request for t in open_]), strict=True):
            talk.hear(text)


def largest_gap(policy: CausalLMPolicy, model: Any, talks: list[Talk]) -> float:
    """Between remembered log-probabilities and a plain forward pass over each turn by itself: no
    padding, no batch, no cache."""
    worst, tokens = 0.0, 0
    for talk in talks:
        written = policy.memory.written(talk.id)
        assert sorted(written) == list(range(talk.turns))
        before: tuple[int, ...] = ()
        for record in (written[n] for n in range(talk.turns)):
            prompt = (*chain.from_iterable(record.prompt), *record.prefill)
            ids = record.completion.ids or ()
            assert prompt[: len(before)] == before, "append-only"
            before = (*prompt, *ids)
            with torch.no_grad():
                logits = model(torch.tensor([before])).logits[0].float()
            want = logits.log_softmax(-1)[len(prompt) - 1 : -1]
            picked = want[torch.arange(len(ids)), list(ids)].numpy()
            worst = max(worst, float(np.abs(picked - record.completion.logp).max()))
            tokens += len(ids)
    assert tokens > 5 * len(talks)
    return worst
