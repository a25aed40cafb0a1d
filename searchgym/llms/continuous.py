"""Continuous batching: sequences join and leave between decoding steps.

In a static batch every sequence waits for the longest. Here a finished sequence frees its place at
once, and those that wait join between two tokens, several at a time. Draws are keyed by request, so
a sequence does not depend on the batch it was sampled in.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from ..errors import EngineError
from ..types import Failure
from .base import Completion, GenRequest, check
from .causal import Running, evaluating
from .draw import draw
from .prompts import refusal
from .transformers_generator import TransformersGenerator, weights_state
from .writing import Writing

PATIENCE = 4
"""Texts wait until one of them comes to so many under way: letting any in moves the keys and values
of all."""


class Continuous:
    """Submit requests at any time; each :meth:`step` writes one token of every text under way.

    Args:
        generator: Whose model, memory bounds and kept prefixes are used.
        slots: Texts under way at a time; the others wait in order.
    """

    def __init__(self, generator: TransformersGenerator, slots: int = 64) -> None:
        if slots < 1:
            raise EngineError(f"slots must be at least 1, got {slots}")
        self.generator, self.slots = generator, slots
        self._waiting: deque[Writing] = deque()
        self._rows: list[Writing] = []
        self._running: Running | None = None
        self._refused: list[tuple[int, Completion | Failure]] = []
        self._next = 0
        self._state: Any = None

    def __len__(self) -> int:
        """Texts that have not been handed out yet."""
        return len(self._waiting) + len(self._rows) + len(self._refused)

    def submit(self, request: GenRequest) -> int:
        """The ticket under which :meth:`step` will hand out the text."""
        generator = self.generator
        check(generator, [request])
        ticket, self._next = self._next, self._next + 1
        ids = generator.encode(request)
        if problem := refusal(ids, request.sampling.max_tokens, generator.context):
            self._refused.append((ticket, problem))
        else:
            self._waiting.append(Writing(ticket, ids, request, generator.codec.decode))
        return ticket

    def step(self) -> list[tuple[int, Completion | Failure]]:
        """One token for every text under way; the texts that are now complete, by ticket.

        Raises:
            EngineError: the weights have changed while texts were under way.
        """
        done, self._refused = self._refused, []
        generator = self.generator
        with generator.lock, evaluating(generator.model):
            self._admit()
            if self._running is None:
                return done
            rows, running = self._rows, self._running
            drawn = draw(running.logits, [r.sampling for r in rows], [r.uniform() for r in rows])
            for row, *token in zip(rows, *(x.tolist() for x in drawn), strict=True):
                row.add(*token, generator.eos)
            done += [(r.index, r.result(generator.version, None)) for r in rows if r.finish]
            self._go_on(drawn.ids)
        return done

    def _admit(self) -> None:
        """Let waiting texts in while there is room; what they begin with is read together."""
        generator = self.generator
        state = (generator.version, *weights_state(generator.model))
        if self._rows and state != self._state:
            raise EngineError(
                "the weights changed while texts were being written: take them all out first"
            )
        self._state = state
        if len(self._waiting) * PATIENCE < len(self._rows):
            return
        new: list[Writing] = []
        widest = max((r.room for r in self._rows), default=0)
        while self._waiting and len(self._rows) + len(new) < self.slots:
            widest = max(widest, self._waiting[0].room)
            count = len(self._rows) + len(new) + 1
            if count > 1 and widest * count > generator.batch_tokens:
                break
            new.append(self._waiting.popleft())
        if not new:
            return
        if generator.prefixes is not None:
            generator.prefixes.belong_to(state)
            for row in new:
                row.past = generator.prefixes.find(row.prompt)
        pasts = {r.prompt: r.past for r in new if r.past is not None}
        joining = Running(generator.model, [r.prompt for r in new], generator.pad, pasts)
        if self._running is None:
            self._running = joining
        else:
            self._running.join(joining)
        self._rows = [*self._rows, *new]

    def _go_on(self, ids: Any) -> None:
        """Read the drawn tokens ``ids`` (B,) of the rows that are not finished."""
        import torch

        rows, running, prefixes = self._rows, self._running, self.generator.prefixes
        assert running is not None
        if prefixes is not None:
            for i, row in enumerate(rows):
                if row.finish and (past := running.past(i)) is not None:
                    prefixes.put((*row.prompt, *row.written), past)
        left = [i for i, row in enumerate(rows) if not row.finish]
        self._rows = [rows[i] for i in left]
        if not left:
            self._running = None
            return
        if len(left) < len(rows):
            kept = torch.tensor(left, device=ids.device)
            running.keep(kept)
            running.trim()
            ids = ids[kept]
        running.step(ids)
