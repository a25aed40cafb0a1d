"""Training on traces: the supervised trainer, with a weight for every token."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor

from ..llms.sft import Example, Progress, SftConfig, SftTrainer
from ..seeding import stream
from .lexicon import Frozen
from .mixture import Mixture

READ = 0.1
"""Share of the tokens which the policy did not write whose loss is computed: they teach what texts
look like, and predicting each of them would take a third of the time."""


class TraceTrainer(SftTrainer):
    """As :class:`SftTrainer`, but what the policy wrote stands in several places of a row: those
    tokens have weight 1; of all others a random share ``READ`` is learnt, with weight
    ``config.prompt_weight / READ``, so that the mean loss is that of all.

    Args:
        model: Trained in place.
        mixture: Rows, and which of them each step reads; ``config.batch`` does not count.
        config: ``steps`` must be the mixture's.
        dtype: ``torch.bfloat16`` computes matrix products in half the time where the processor
            can; weights stay float32.
        frozen: Embeddings that stay as they are.
    """

    def __init__(
        self,
        model: Any,
        mixture: Mixture,
        config: SftConfig,
        dtype: torch.dtype = torch.float32,
        frozen: Frozen | None = None,
    ) -> None:
        super().__init__(model, cast("Sequence[Example]", mixture.rows), config)
        self._mixture, self._dtype, self._frozen = mixture, dtype, frozen

    def _batch(self, step: int) -> list[int]:
        return self._mixture.batch(step)

    def advance(self) -> Progress:
        with self._precision():
            done = super().advance()
        if self._frozen is not None:
            self._frozen.restore(self.model)
        return done

    def _precision(self) -> AbstractContextManager[Any]:
        if self._dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.model.device.type, self._dtype)

    def _loss(self, rows: Sequence[Any]) -> tuple[Tensor, float, float]:
        width = max(len(r.ids) for r in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        own = torch.zeros(len(rows), width, dtype=torch.bool)
        real = torch.zeros(len(rows), width, dtype=torch.bool)
        for i, row in enumerate(rows):
            n = len(row.ids)
            ids[i, :n] = torch.tensor(row.ids)
            own[i, :n] = torch.tensor(row.own)
            real[i, :n] = True
        counted = self._counted(own[:, 1:], real[:, 1:])
        device = self.model.device
        ids, own, counted = ids.to(device), own[:, 1:].to(device), counted.to(device)
        # padding stands on the right of a causal model: nothing before it sees it, no mask needed
        hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        goal, written = ids[:, 1:][counted], own[counted]
        logits = self.model.lm_head(hidden[counted]).float()
        nats = torch.nn.functional.cross_entropy(logits, goal, reduction="none")
        weight = torch.where(written, 1.0, self.config.prompt_weight / READ)
        right = (logits.detach().argmax(-1) == goal)[written].float().mean()
        plain = nats.detach()[written].mean()
        return (nats * weight).sum() / weight.sum(), float(plain), float(right)

    def _counted(self, own: Tensor, real: Tensor) -> Tensor:
        """Which tokens' loss is computed."""
        if not self.config.prompt_weight:
            return own
        draw = stream(self.config.seed, "read", self.step).random(own.shape)
        return own | (real & torch.from_numpy(draw < READ))


def rows_read(mixture: Mixture, steps: int) -> int:
    """Tokens that the first so many steps read, without padding."""
    return sum(len(mixture.rows[i].ids) for step in range(steps) for i in mixture.batch(step))
