"""Training on traces: the supervised trainer, with a weight for every token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from ..llms.sft import Example, SftConfig, SftTrainer
from .reading import TraceRow


class TraceTrainer(SftTrainer):
    """As :class:`SftTrainer`, but what the policy wrote stands in several places of a row: those
    tokens have weight 1, all others ``config.prompt_weight``."""

    def __init__(self, model: Any, rows: Sequence[TraceRow], config: SftConfig) -> None:
        super().__init__(model, cast("Sequence[Example]", rows), config)

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
        device = self.model.device
        ids, own, real = ids.to(device), own[:, 1:].to(device), real[:, 1:].to(device)
        # padding stands on the right of a causal model: nothing before it sees it, no mask needed
        hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        counted = real if self.config.prompt_weight > 0 else own
        goal, written = ids[:, 1:][counted], own[counted]
        logits = self.model.lm_head(hidden[counted]).float()
        nats = torch.nn.functional.cross_entropy(logits, goal, reduction="none")
        weight = torch.where(written, 1.0, self.config.prompt_weight)
        right = (logits.detach().argmax(-1) == goal)[written].float().mean()
        plain = nats.detach()[written].mean()
        return (nats * weight).sum() / weight.sum(), float(plain), float(right)
