"""The update of a training step: groups become advantages, losses, gradients, new weights.

A batch is split into mini-batches, one optimizer update each, and these into micro-batches, which
go through the model together. Several processes share the micro-batches of an update. The functions
at the top also serve whatever looks at a recipe's credit without training
(``searchgym_agents.lab``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from ..errors import CardError, EngineError
from ..llms.batches import micro_batches
from ..llms.optimizers import optimizers_of, set_rate
from ..policies.rows import TrainingRow
from ..seeding import stream
from ..storage.checkpoint import full_tensor
from ..utils.hardware import give_back
from .measures import loss_metrics
from .processes import SingleProcess
from .recipe import UNREAD_SCALE, Recipe, TrainConfig
from .roles import Cast
from .slots.batch import Batch, Estimate, Mean, Output, Totals, in_lines
from .slots.protocols import Coef, Result
from .slots.records import POLICY, Floats, Group, Rewards, Scored, Signals, Workers


def score_groups(recipe: Recipe, groups: Sequence[Group], workers: Workers) -> list[Scored]:
    """Measure and reward played groups.

    Raises:
        CardError: an episode is not finished, and the rollout does not say that it truncates.
    """
    if not recipe.rollout.truncates:
        _require_finished(recipe, groups)
    measured: list[dict[str, Floats]] = [{} for _ in groups]
    for signal in recipe.signal:
        for known, new in zip(measured, signal.measure(groups, workers), strict=True):
            known.update(new)
    return [
        Scored(group, signals, reward_group(recipe, group, signals, workers.coef))
        for group, signals in zip(groups, measured, strict=True)
    ]


def _require_finished(recipe: Recipe, groups: Sequence[Group]) -> None:
    for member in (m for g in groups for m in g.members):
        if not member.finished:
            raise CardError(
                f"{type(recipe.rollout).__name__} stopped in episode "
                f"{member.episode.config.episode_id!r} before its end (phase "
                f"{member.episode.phase!r}): play it to the end, or, if such episodes are to be "
                "trained on, say truncates = True in the class"
            )


def reward_group(
    recipe: Recipe, group: Group, signals: Signals, coef: Mapping[str, float]
) -> Rewards:
    """Apply a recipe's reward transforms to a measured group."""
    broken = np.array([m.broken for m in group.members])
    rewards = Rewards(np.where(broken, np.nan, 0.0))
    for transform in recipe.reward:
        rewards = transform.apply(group, signals, rewards, coef)
    return rewards


def compare(recipe: Recipe, batch: Batch, coef: Mapping[str, float]) -> None:
    """Fill in a batch's advantages, and the clip scale and mask that come with them.

    Raises:
        CardError: the estimator gives no ``Estimate``, or factors that no loss reads.
    """
    name = type(recipe.advantage).__name__
    estimate = recipe.advantage.estimate(batch, coef)
    if not isinstance(estimate, Estimate):
        raise CardError(
            f"{name}.estimate gave a {type(estimate).__name__}, not an Estimate "
            "(searchgym.rl.slots.batch): return Estimate(advantages)"
        )
    shapes = batch.mask.shape[:1], batch.mask.shape
    if estimate.adv.shape not in shapes:
        raise CardError(
            f"{name}.estimate gave advantages of shape {tuple(estimate.adv.shape)}; expected one "
            f"for each trajectory, {tuple(shapes[0])}, or for each token, {tuple(shapes[1])}"
        )
    if estimate.clip_scale is not None and not recipe.scales_clip:
        raise CardError(f"{name} {UNREAD_SCALE}")
    batch.credit = estimate
    batch.notes |= estimate.notes
    if estimate.mask is not None:
        batch.narrow(estimate.mask)


class Updater:
    """Changes the weights of a training's models by the recipe's losses; holds the optimizers, each
    of one model.

    Args:
        cast: Models, as ``processes`` has wrapped them.
        config: Options of the training; those of its update are read.
    """

    def __init__(
        self, cast: Cast, recipe: Recipe, config: TrainConfig, processes: SingleProcess
    ) -> None:
        self.cast, self.recipe, self.config, self.processes = cast, recipe, config, processes
        self.by_role = self._fresh_optimizers()

    @property
    def optimizers(self) -> list[Optimizer]:
        """All of them, the policy's first."""
        return [optimizer for own in self.by_role.values() for optimizer in own]

    def update(self, batch: Batch, coef: Coef, step: int) -> dict[str, float]:
        """Make all updates on the batch of a step; returns metrics, means over updates.

        Raises:
            EngineError: a loss or gradient that is not finite.
        """
        config = self.config
        if config.reset_optimizer:
            self.by_role = self._fresh_optimizers()
        factor = coef.get("lr", 1.0)
        set_rate(self.optimizers, factor)
        sums: dict[str, float] = {}
        updates = 0
        for epoch in range(config.epochs):
            for places in self._minibatches(batch, step, epoch):
                part = batch.take(places)
                self._prepare(part, coef)
                for optimizer in self.optimizers:
                    optimizer.zero_grad(set_to_none=True)
                update = self._backward(part, coef)
                # weights that have written nothing here stay as they are
                busy = [n for n in self.by_role if n in self.cast.roles_in(part.rows)]
                norms = {name: self._clipped(name) for name in busy}
                if not all(np.isfinite(v) for v in (update["loss"], *norms.values())):
                    raise EngineError(
                        f"step {step}: the loss is {update['loss']}, its gradient's norm "
                        f"{', '.join(map(str, norms.values()))}: {_cause(part)}"
                    )
                for name in busy:
                    for optimizer in self.by_role[name]:
                        optimizer.step()
                updates += 1
                update |= {f"roles/{n}/grad_norm": v for n, v in norms.items() if n != POLICY}
                update["grad_norm"] = norms.get(POLICY, sum(v * v for v in norms.values()) ** 0.5)
                for name, value in update.items():
                    sums[name] = sums.get(name, 0.0) + value
        give_back()
        means = {name: value / updates for name, value in sums.items()}
        return {**means, "lr": config.lr * factor}

    def _prepare(self, batch: Batch, coef: Coef) -> None:
        """Let losses that must do so look at the whole mini-batch, under the current weights."""
        prepare_losses(
            self.recipe, batch, coef, lambda: batch_logp(self.processes, batch, self.cast.logp)
        )

    def _backward(self, batch: Batch, coef: Coef) -> dict[str, float]:
        """Accumulate one update's gradients over micro-batches; losses divide by ``totals``, so
        that the parts add up to the whole. Returns metrics, weighted means."""
        totals = batch.totals
        sums: dict[str, float] = {"loss": 0.0}
        counts: dict[str, float] = {}
        shard = list(self._micro_batches(batch))
        count = self.processes.all_reduce_max(len(shard))
        for number in range(count):
            # where others have more to do than this process, it goes along without effect
            busy = number < len(shard)
            part = batch.take(shard[number] if busy else _with_rows(batch)[:1])
            tokens = part.totals.tokens
            with self.processes.no_sync(last=number == count - 1):
                loss, stats = self._loss(part, totals, coef)
                # several processes' gradients are averaged, where a sum is wanted
                if loss.requires_grad:  # not where frozen weights wrote all of it
                    (loss * (busy * self.processes.count)).backward()
            sums["loss"] += busy * float(loss.detach())
            for name, value in stats.items():
                mean = value if isinstance(value, Mean) else Mean(value * tokens, tokens)
                sums[name] = sums.get(name, 0.0) + busy * mean.total
                counts[name] = counts.get(name, 0.0) + busy * mean.weight
        sums, counts = self.processes.all_reduce_sum(sums), self.processes.all_reduce_sum(counts)
        return {name: value / (counts.get(name) or 1.0) for name, value in sums.items()}

    def _loss(self, batch: Batch, totals: Totals, coef: Coef) -> Result:
        scored = self.cast.score(batch.rows, entropy=self.recipe.needs("entropy"))
        width = batch.mask.shape[1]
        logp = in_lines(scored.logp.cpu(), batch.members, width)
        entropy = scored.entropy
        if entropy is not None:
            entropy = in_lines(entropy.cpu(), batch.members, width)
        if batch.old_logp is None:  # nothing has been updated since the batch was played
            batch.old_logp = logp.detach()
        return total_loss(self.recipe, Output(logp, entropy), batch, totals, coef)

    def _minibatches(self, batch: Batch, step: int, epoch: int) -> Iterator[list[int]]:
        if self.config.minibatches == 1:
            yield list(range(len(batch)))
            return
        units = self._units(batch)
        order = stream(self.config.seed, "minibatch", step, epoch).permutation(len(units))
        for chosen in np.array_split(order, min(self.config.minibatches, len(units))):
            yield sorted(i for u in chosen for i in units[int(u)])

    def _micro_batches(self, batch: Batch) -> Iterator[list[int]]:
        """Yield the indices of this process's trajectories that go through the model together:
        those of similar length, so that there is little padding."""
        lengths = [list(map(len, member.rows)) for member in batch.members]
        units = [u for u in self.processes.shard(self._units(batch)) if any(lengths[i] for i in u)]
        longest = [max(n for i in unit for n in lengths[i]) for unit in units]
        rows = [sum(len(lengths[i]) for i in unit) for unit in units]
        for part in micro_batches(longest, self.config.tokens, rows):
            yield [i for k in part for i in units[k]]

    def _units(self, batch: Batch) -> list[list[int]]:
        """Indices of trajectories that must stay together: each alone, or whole groups."""
        if not any(loss.whole_groups for loss in self.recipe.loss):
            return [[i] for i in range(len(batch))]
        numbers = batch.group.tolist()
        return [[i for i, g in enumerate(numbers) if g == n] for n in dict.fromkeys(numbers)]

    def _clipped(self, name: str) -> float:
        """The norm of a model's gradient, which is clipped."""
        params = self.cast.lms[name].parameters()
        norm = torch.nn.utils.clip_grad_norm_(params, self.config.max_norm)
        return float(full_tensor(norm))

    def _fresh_optimizers(self) -> dict[str, list[Optimizer]]:
        """Role → the optimizers of its model."""
        return {
            name: optimizers_of(
                lm.model, self.cast.rates.get(name) or self.config.lr, self.config.muon_lr
            )
            for name, lm in self.cast.trained.items()
        }


def prepare_losses(recipe: Recipe, batch: Batch, coef: Coef, logp: Callable[[], Tensor]) -> None:
    """Note in a mini-batch what losses find out from all of it; ``logp`` gives (N, T) under the
    current weights, and is asked at most once."""
    output = None
    if any(loss.prepares_with_logp for loss in recipe.loss):
        with torch.no_grad():
            output = Output(logp())
    for loss in recipe.loss:
        batch.notes |= loss.prepare(batch, output, coef)


def total_loss(recipe: Recipe, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
    """Sum a recipe's losses, each times its coefficient; and their metrics."""
    total = torch.zeros(())
    metrics: dict[str, float | Mean] = {}
    for loss in recipe.loss:
        value, stats = loss(output, batch, totals, coef)
        if value.ndim:
            raise CardError(
                f"the loss {loss.name!r} gave a tensor of shape {tuple(value.shape)}; expected one "
                "number: sum it over tokens and divide by totals"
            )
        total = total + coef.get(loss.name, loss.weight) * value
        metrics |= loss_metrics(loss.name, stats)
    return total, metrics


def batch_logp(
    processes: SingleProcess, batch: Batch, model: Callable[[Sequence[TrainingRow]], Tensor]
) -> Tensor:
    """(N, T) log-probabilities under a model; each process computes its shard."""
    return batch_measures(processes, batch, lambda rows: {"logp": model(rows)})["logp"]


def batch_measures(
    processes: SingleProcess,
    batch: Batch,
    model: Callable[[Sequence[TrainingRow]], Mapping[str, Tensor]],
) -> dict[str, Tensor]:
    """Measures (N, T) or (N, T, D) of tokens by a model, by name; each process computes its shard,
    in one pass for all names."""
    width = batch.mask.shape[1]
    indices = _with_rows(batch)
    shard = processes.shard(indices)
    part = batch.take(shard or indices[:1])
    made: dict[str, Tensor] = {}
    for name, values in model(part.rows).items():
        rows = in_lines(values.cpu(), part.members, width)[: len(shard)]
        made[name] = torch.zeros(*batch.mask.shape, *values.shape[2:])
        made[name][indices] = processes.all_gather_rows(rows, len(indices))
    return made


def _cause(batch: Batch) -> str:
    """Advice for an update that is not finite."""
    if batch.credit is not None:
        broken = int((~batch.adv.isfinite()).reshape(len(batch), -1).any(1).sum())
        if broken:
            return (
                f"the advantages of {broken} of {len(batch)} trajectories are not finite; look at "
                "the recipe's advantage, reward and signals"
            )
    return "lower the learning rate, or look at the rewards"


def _with_rows(batch: Batch) -> list[int]:
    """Indices of the trajectories that have tokens for a model to read."""
    return [i for i, member in enumerate(batch.members) if member.rows]
