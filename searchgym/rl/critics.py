"""Critics: value models that are trained along with the policy, by name, and their contract.

A class with a line ``registered = "name"``, or a plug-in's ``"critic:name"``, is what a recipe's
``[critic] use = "name"`` means; :func:`check_critic` checks one of your own.
"""

from __future__ import annotations

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from ..errors import CardError, EngineError, check_known, unknown
from ..llms.batches import distinct, micro_batches, right_padded
from ..objects import build, check_fits, load_known, load_object
from ..plugins import Registry
from ..policies.trainable import TrainableLM
from ..storage.checkpoint import load_optimizer, optimizer_tensors
from .measures import renamed
from .ops.tokens import Aggregate, Counts, aggregate_tokens, masked, masked_mean
from .ops.turns import over_turn, turn_starts
from .slots.batch import Batch, Estimate, in_lines
from .slots.contracts import close, require

DEFAULT = "scalar"
"""The critic of a table that names none."""


CRITICS = Registry("critic", package="searchgym.rl.critics")
"""Name → import path of every registered critic."""


def check_critic_table(table: Mapping[str, Any]) -> None:
    """Check a table's name and options, without a model.

    Raises:
        CardError: an unknown name or option, or what is no critic.
    """
    _found(table)


def make_critic(table: Mapping[str, Any], lm: TrainableLM, **defaults: Any) -> ValueModel:
    """Make a critic of a policy's model.

    Args:
        table: ``use``, a name of :data:`CRITICS` (default: ``scalar``) or
            ``"package.module:Class"``, and options.
        lm: The model whose body is copied.
        defaults: Options that the table may change, such as ``lr``.

    Raises:
        CardError: an unknown name or option, or what is no critic.
        EngineError: the model has adapters, or an option is out of its range.
    """
    use, kind, options = _found(table)
    made: ValueModel = build(f"critic {use!r}", kind, {**defaults, **options}, lm)
    return made


def _found(table: Mapping[str, Any]) -> tuple[str, Any, dict[str, Any]]:
    """The name, the class and the options."""
    options = dict(table)
    use = options.pop("use", DEFAULT)
    if not isinstance(use, str) or (use not in CRITICS and ":" not in use):
        raise CardError(unknown("critic", str(use), CRITICS) + ", or 'package.module:Class'")
    kind = load_known(CRITICS[use]) if use in CRITICS else load_object(use)
    check_fits("critic", use, kind, ("values", "fit", "tensors", "load_tensors"))
    if not inspect.isclass(kind):
        raise CardError(f"{use!r} is no class: a critic is made of the model that it is given")
    names = _options(kind)
    check_known(f"option of critic {use!r}", names, *options)
    return use, kind, options


def _options(kind: type) -> list[str]:
    """Options of a class: those that its constructor, and what that hands the rest on to, take by
    name."""
    names: list[str] = []
    for base in kind.__mro__:
        if (own := vars(base).get("__init__")) is None or not inspect.isfunction(own):
            continue
        parameters = list(inspect.signature(own).parameters.values())[2:]  # itself, the model
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names += [p.name for p in parameters if p.kind in named]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return [name for name in dict.fromkeys(names) if name != "size"]


class ValueModel(ABC):
    """Value of the state in which each token was drawn: what was read and written before it.

    The body is a copy of the policy's; the head, a linear map of its last hidden states, starts at
    0. A subclass says what the head's numbers mean (:meth:`read`) and what they are fitted by
    (:meth:`loss`).

    Args:
        lm: The policy's model, which is copied with its frozen parameters, precision and
            activation checkpointing. Give a critic for LoRA training a ``TrainableLM`` of its own,
            without adapters.
        size: D, how many numbers the head gives for each token.
        lr: AdamW learning rate.
        epochs: Passes over each step's trajectories.
        minibatches: Updates per pass, each on its share of the trajectories.
        max_norm: Gradient clipping threshold (L2 norm).
        tokens: Padded tokens per forward and backward pass; bounds memory.
    """

    def __init__(
        self,
        lm: TrainableLM,
        *,
        size: int = 1,
        lr: float = 1e-5,
        epochs: int = 1,
        minibatches: int = 1,
        max_norm: float = 1.0,
        tokens: int = 16_384,
    ) -> None:
        if any(".lora_" in name for name, _ in lm.model.named_parameters()):
            raise EngineError(
                "a critic copies a whole model, this one has adapters: Critic(TrainableLM(path))"
            )
        self.body = copy.deepcopy(lm.model.base_model).eval()  # without dropout, as lm's is
        width, weight = lm.model.config.hidden_size, next(self.body.parameters())
        self.head = torch.nn.Linear(width, size, device=weight.device, dtype=torch.float32)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        if epochs < 1 or minibatches < 1:
            raise EngineError(
                f"a critic's epochs and minibatches are ≥ 1, got {epochs} and {minibatches}"
            )
        self.pad, self.epochs = lm.pad, epochs
        self.checkpointing, self.autocast = lm.checkpointing, lm.autocast
        self.minibatches = minibatches
        self.max_norm, self.tokens = max_norm, tokens
        self.optimizer = torch.optim.AdamW(
            self.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.0
        )

    def parameters(self) -> list[Tensor]:
        return [*self.body.parameters(), *self.head.parameters()]

    @abstractmethod
    def read(self, outputs: Tensor) -> Tensor:
        """(…) values that the head's (…, D) numbers mean."""

    @abstractmethod
    def loss(
        self, outputs: Tensor, batch: Batch, mask: Tensor, tokens: float
    ) -> tuple[Tensor, dict[str, float]]:
        """Loss of (N, T, D) numbers at the tokens of (N, T) ``mask``, divided by ``tokens``, the
        count in the whole update; and statistics, means over the mask."""

    def values(self, batch: Batch) -> Tensor:
        """(N, T); with gradient where it is on."""
        return self._before(batch, lambda outputs: self.read(outputs)[..., None])[..., 0]

    def asked(self, batch: Batch) -> Tensor:
        """(N, T) bool: the tokens at which the critic is fitted."""
        asked = None if batch.credit is None else batch.credit.value_mask
        return batch.mask if asked is None else asked

    def _before(self, batch: Batch, of: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """(N, T, D) the head's numbers of the state before each token, or what ``of`` makes of
        them; with gradient where it is on. Equal rows go through the body once."""
        rows, places = distinct(batch.rows)
        width = max(map(len, rows))
        checkpoint = self.checkpointing and torch.is_grad_enabled()
        if self.body.training != checkpoint:  # transformers checkpoints in training mode only
            self.body.train(checkpoint)
        lines: list[Tensor] = [torch.zeros(0)] * len(rows)
        for part in micro_batches([len(r) for r in rows], self.tokens):
            padded = right_padded(self.body, [rows[i] for i in part], self.pad)
            longest = padded["input_ids"].shape[1]
            with self._precision():
                hidden = self.body(**padded, use_cache=False).last_hidden_state
            after = self.head(hidden.float()).cpu()  # of the state *after* each token
            after = after if of is None else of(after)
            shift = (0, 0, 1, width - longest)
            before = torch.nn.functional.pad(after[:, :-1], shift)  # (n, width, D)
            for line, i in enumerate(part):
                lines[i] = before[line]
        by_row = torch.stack([lines[place] for place in places])
        return in_lines(by_row, batch.members, batch.mask.shape[1])

    def _precision(self) -> AbstractContextManager[Any]:
        device = self.head.weight.device.type
        return torch.autocast(device, torch.bfloat16) if self.autocast else nullcontext()

    def fit(self, batch: Batch) -> dict[str, float]:
        """Move the values towards the returns of ``batch.credit``; mean metrics."""
        there = [i for i, member in enumerate(batch.members) if member.rows]
        shares = [
            batch.take(share.tolist())
            for share in np.array_split(there, min(self.minibatches, len(there)) or 1)
        ]
        updates = [self._update(share) for _ in range(self.epochs) for share in shares]
        return {
            f"critic/{name}": sum(update.get(name, 0.0) for update in updates) / len(updates)
            for name in updates[0]
        }

    def _update(self, batch: Batch) -> dict[str, float]:
        total = max(float(self.asked(batch).sum()), 1.0)
        metrics = {"loss": 0.0}
        self.optimizer.zero_grad(set_to_none=True)
        lengths = [sum(map(len, member.rows)) for member in batch.members]
        for places in micro_batches(lengths, self.tokens):  # go back through the model together
            part = batch.take(places)
            mask = self.asked(part)
            loss, stats = self.loss(self._before(part), part, mask, total)
            loss.backward()
            metrics["loss"] += float(loss.detach())
            for name, value in renamed(stats).items():
                metrics[name] = metrics.get(name, 0.0) + value * float(mask.sum()) / total
        metrics["grad_norm"] = float(
            torch.nn.utils.clip_grad_norm_(self.parameters(), self.max_norm)
        )
        self.optimizer.step()
        return metrics

    # --- checkpoints --------------------------------------------------------------------------
    def tensors(self) -> dict[str, Tensor]:
        """Weights and optimiser state by name, on the CPU."""
        tensors = {f"body/{n}": p.detach() for n, p in self.body.named_parameters()}
        tensors |= {f"head/{n}": p.detach() for n, p in self.head.named_parameters()}
        copies = {name: value.to("cpu", copy=True) for name, value in tensors.items()}
        return copies | optimizer_tensors(self.optimizer)

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what :meth:`tensors` gave.

        Raises:
            EngineError: they are of a critic of another kind or size.
        """
        own = {f"body/{n}": p.shape for n, p in self.body.named_parameters()}
        own |= {f"head/{n}": p.shape for n, p in self.head.named_parameters()}
        there = {n: t.shape for n, t in tensors.items() if not n.startswith("optimizer/")}
        if wrong := sorted(n for n in {*own, *there} if own.get(n) != there.get(n)):
            raise EngineError(
                f"these weights are not of this {type(self).__name__}: {', '.join(wrong[:5])}; "
                "make the critic as it was saved"
            )
        with torch.no_grad():
            for kind, module in (("body", self.body), ("head", self.head)):
                for name, p in module.named_parameters():
                    p.copy_(tensors[f"{kind}/{name}"])
        load_optimizer(self.optimizer, tensors)


def value_loss(
    value: Tensor,
    returns: Tensor,
    old_value: Tensor,
    mask: Tensor,
    *,
    clip: float = 0.5,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``½ max((V - R)², (clip(V, V_old ± clip) - R)²)``.

    Args:
        value: (B, T) with gradient. returns, old_value: (B, T), from when the data were sampled.
        mask: (B, T); for values of turns, the first tokens of turns (``turn_starts``).

    Returns:
        (loss, stats): the mean value and the fraction of tokens where the clip is active.
    """
    if clip <= 0:
        raise ValueError(f"clip must be positive, got {clip}")
    value = masked(value, mask)
    returns, old = masked(returns, mask).detach(), masked(old_value, mask).detach()
    near = torch.minimum(torch.maximum(value, old - clip), old + clip)
    plain, limited = (value - returns).square(), (near - returns).square()
    loss = torch.maximum(plain, limited) / 2
    stats = {
        "value": masked_mean(value, mask),
        "clipped": masked_mean((limited > plain).to(value.dtype), mask),
    }
    return aggregate_tokens(loss, mask, aggregate, **counts), stats


class Critic(ValueModel):
    """A scalar head, which starts at 0; the default of every recipe with a critic.

    Args:
        clip: Distance from its old value beyond which a value has no gradient.
        options: Of :class:`~searchgym.rl.critics.ValueModel`.
    """

    registered = "scalar"

    def __init__(self, lm: TrainableLM, *, clip: float = 0.5, **options: Any) -> None:
        super().__init__(lm, **options)
        self.clip = clip

    def read(self, outputs: Tensor) -> Tensor:
        return outputs[..., 0]

    def loss(
        self, outputs: Tensor, batch: Batch, mask: Tensor, tokens: float
    ) -> tuple[Tensor, dict[str, float]]:
        return value_loss(
            self.read(outputs), batch.need("returns"), batch.need("value"), mask,
            clip=self.clip, tokens=tokens,
        )  # fmt: skip


class TurnCritic(Critic):
    """The scalar head read once per turn, where the last results end and the turn begins: that
    value stands at all of the turn's tokens, and it alone is fitted.

    Credit then moves from turn to turn only: of GAE over tokens (``ppo``, γ 1) just the steps
    between turns are left, and with λ 1 advantages are those of GAE over turns.
    """

    registered = "turn"

    def values(self, batch: Batch) -> Tensor:
        at_starts = super().values(batch) * turn_starts(batch.turn, batch.mask)
        return over_turn(at_starts, batch.turn, batch.mask)

    def asked(self, batch: Batch) -> Tensor:
        return turn_starts(batch.turn, batch.mask) & super().asked(batch)  # where values are read


def check_critic(spec: Mapping[str, Any], batch: Batch, lm: TrainableLM) -> None:
    """Shape, finite values, the policy left alone, learning, repeatability, memory; neither the
    order of trajectories nor how many go through the model together matters.

    Args:
        spec: A recipe's table ``[critic]``.
        batch: Trajectories with rows, e.g. ``Batch.of`` played groups.
        lm: The model by which they were played.

    Raises:
        CheckError: the first broken promise.
    """
    before = [p.detach().clone() for p in lm.parameters()]
    one, two = (make_critic(spec, lm, lr=1e-2) for _ in range(2))
    value = _values(one, batch)
    require(value.shape == batch.mask.shape, spec, "values are (N, T)")
    require(not value.requires_grad and value.device.type == "cpu", spec, "values are on the CPU")
    require(bool(torch.isfinite(value).all()), spec, "values are finite")
    goal = torch.where(batch.mask, 0.25 + 0.5 * (batch.turn % 2), 0.0)
    ready = replace(batch, value=value, credit=Estimate(goal, returns=goal))
    first = one.fit(ready)
    named = all(name.startswith("critic/") and math.isfinite(v) for name, v in first.items())
    require(named and "critic/loss" in first, spec, "fit gives critic/loss and finite metrics")
    require(first == two.fit(ready), spec, "the same batch is learnt in the same way")
    still = all(torch.equal(a, b) for a, b in zip(before, lm.parameters(), strict=True))
    require(still, spec, "the policy's weights are left alone")
    for _ in range(30):
        last = one.fit(replace(ready, value=_values(one, batch)))
    require(last["critic/loss"] < first["critic/loss"], spec, "its loss falls on what it learns")
    order = list(range(len(batch)))[::-1]
    learnt = _values(one, batch)
    require(not close(learnt, value), spec, "what it learns changes its values")
    mixed = _values(one, batch.take(order))
    require(close(mixed, learnt[order]), spec, "the order of trajectories does not matter")
    parts = torch.cat([_values(one, batch.take([i])) for i in range(len(batch))])
    require(close(parts, learnt), spec, "a trajectory's values are its own")
    again = make_critic(spec, lm, lr=1e-2)
    again.load_tensors(one.tensors())
    require(torch.equal(_values(again, batch), learnt), spec, "tensors hold all that is learnt")
    more = replace(ready, value=learnt)
    same = one.fit(more) == again.fit(more)
    require(same and torch.equal(_values(again, batch), _values(one, batch)), spec, "it resumes")


def _values(critic: Any, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        state_values: torch.Tensor = critic.values(batch)
    return state_values
