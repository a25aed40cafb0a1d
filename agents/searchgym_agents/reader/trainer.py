"""Training on traces: the supervised trainer, with a weight for every token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from searchgym.llms.batches import padded
from searchgym.llms.sft import Progress, SftConfig, SftTrainer
from searchgym.llms.sft_data import Example
from searchgym.seeding import stream

from .embeddings import EmbeddingTable, Given
from .mixture import Mixture
from .states import states_at

READ = 0.1
"""Share of the tokens which the policy did not write whose loss is computed: they teach what texts
look like, and predicting each of them would take a third of the time."""
OTHERS = 256
"""Tokens among which the next one is looked for, besides all those in the batch: of seventeen
thousand words nearly all are somewhere else, and comparing with each took a third of a step. A
thousand took four per cent longer and taught nothing more."""

PROJECTION = 0.25
"""Rate of the projection of words' vectors, as a share of the matrices': four times as fast, what
is read differs from step to step, and less is learnt."""


class TraceTrainer(SftTrainer):
    """Trains like :class:`SftTrainer`, but what the policy wrote stands in several places of a row:
    those tokens have weight 1; of all others a random share ``READ`` is learnt, with weight
    ``config.prompt_weight / READ``, so that the mean loss is that of all.

    Args:
        model: Trained in place.
        mixture: Rows, and which of them each step reads; ``config.batch`` does not count.
        config: ``steps`` must be the mixture's.
        dtype: ``torch.bfloat16`` computes matrix products in half the time where the processor
            can; weights stay float32.
        given: Tokens whose embeddings are not learnt one by one
            (:class:`.embeddings.EmbeddingTable`).
        others: Tokens beside those of the batch among which the next one is looked for; ``None``:
            all. With fewer, the loss that is shown is a little low, the accuracy a little high.
    """

    def __init__(
        self,
        model: Any,
        mixture: Mixture,
        config: SftConfig,
        dtype: torch.dtype = torch.float32,
        given: Given | None = None,
        others: int | None = None,
    ) -> None:
        super().__init__(model, mixture.rows, config, dtype)
        self._mixture, self._others = mixture, others
        self._table = EmbeddingTable(model, given)
        for group in self.optimizers[0].param_groups:
            taken = (self._table.learnt if p is self._table.whole else p for p in group["params"])
            group["params"] = list(taken)
        if self._table.projection is not None:
            rate = PROJECTION * (config.muon_lr or config.lr)
            group = {"params": [self._table.projection], "lr": rate, "full_lr": rate}
            self.optimizers[-1].add_param_group(group)

    def _batch(self, step: int) -> list[int]:
        return self._mixture.batch(step)

    def advance(self) -> Progress:
        self._table.read()
        with self._precision():
            done = super().advance()
        self._table.write()
        return done

    def weights(self) -> dict[str, Tensor]:
        """The projection of words, too."""
        weights = super().weights()
        if self._table.projection is not None:
            weights["projection"] = self._table.projection
        return weights

    def settle(self) -> None:
        """Put the words' embeddings into the model."""
        self._table.write_words()

    def _loss(self, rows: Sequence[Example]) -> tuple[Tensor, float, float]:
        ids, own, real = padded(rows)
        counted = self._counted(own[:, 1:], real[:, 1:])
        device = self.model.device
        ids, own, counted = ids.to(device), own[:, 1:].to(device), counted.to(device)
        tokens, stands_for = self._compared(ids)
        table = self._table.of(tokens)
        places = torch.searchsorted(tokens, ids)
        # padding stands on the right of a causal model: nothing before it sees it, no mask needed
        read = torch.nn.functional.embedding(places, table)
        states = states_at(self.model, read[:, :-1], counted)
        written = own[counted]
        goal = places[:, 1:][counted]
        each = torch.nn.functional.linear(states, table).float()
        logits = each + stands_for
        nats = torch.nn.functional.cross_entropy(logits, goal, reduction="none")
        weight = torch.where(written, 1.0, self.config.prompt_weight / READ)
        right = (each.detach().argmax(-1) == goal)[written].float().mean()
        plain = nats.detach()[written].mean()
        return (nats * weight).sum() / weight.sum(), float(plain), float(right)

    def _compared(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """(C,) the tokens of a sampled softmax (Jean et al., arXiv 1412.2007), ascending, and (C,)
        the logarithm of how many each stands for: those of the batch for themselves, ``others`` at
        random for all that are not in it, so that the sum over them is right on average."""
        size = len(self._table.whole)
        here = torch.zeros(size, dtype=torch.bool)
        here[ids.cpu().flatten()] = True
        absent = (~here).nonzero()[:, 0].numpy()
        drawn = absent
        if self._others is not None and len(absent) > self._others:
            draw = stream(self.config.seed, "others", self.step)
            drawn = draw.choice(absent, self._others, replace=False, shuffle=False)
        weight = torch.zeros(size)
        if len(drawn):
            weight[drawn] = math.log(len(absent) / len(drawn))
        here[drawn] = True
        tokens = here.nonzero()[:, 0]
        return tokens.to(ids.device), weight[tokens].to(ids.device)

    def _counted(self, own: Tensor, real: Tensor) -> Tensor:
        """Mark the tokens whose loss is computed."""
        if not self.config.prompt_weight:
            return own
        draw = stream(self.config.seed, "read", self.step).random(own.shape)
        return own | (real & torch.from_numpy(draw < READ))


def rows_read(mixture: Mixture, steps: int) -> int:
    """Tokens that the first so many steps read, without padding."""
    return sum(len(mixture.rows[i].ids) for step in range(steps) for i in mixture.batch(step))
