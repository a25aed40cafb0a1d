"""The training loop for language models: one step is :meth:`Trainer.advance`, top to bottom.

What is done at each place is the recipe's objects' business (``slots.protocols``); this file says
only in which order. Without ``rollouts`` it is synchronous: every token that is trained on was
drawn by the weights of the step's start. ``minimal.py`` is the same loop for GRPO alone, without
slots.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from ..envs.unwrap import search_env
from ..errors import CardError, EngineError
from ..llms.optimizers import optimizers_of, set_rate
from ..policies.causal_lm import CausalLMPolicy
from ..policies.rows import Row
from ..policies.trainable import TrainableLM
from ..seeding import stream
from ..state_file import whole
from .agreement import limit_of, require_agreement
from .asynchronous.rollouts import AsyncRollouts
from .checkpoint import load_checkpoint, save_checkpoint
from .collapse import Watch
from .critic import Critic
from .log import LOG, Log
from .measures import of_age, of_batch, of_episodes, of_groups
from .processes import Alone
from .recipe import UNREAD_SCALE, Recipe, under_curriculum
from .saved import ROLLOUTS, SavedRollouts
from .slots.batch import Batch, Estimate, Mean, Output, Totals, in_lines
from .slots.protocols import Learner, Replay, Result
from .slots.records import Floats, Rewards, Scored, TaskPlan, Workers

CHECKPOINT = "trainer.safetensors"
OUT_OF_MEMORY = (
    "step {}: the device is out of memory. Less is needed with fewer tokens at once (train.tokens, "
    "now {}; load.tokens for what is not trained) and with load.gradient_checkpointing=true"
)


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """What does not depend on the method. A recipe's ``train`` table changes the defaults."""

    steps: int = 100
    tasks: int = 8
    """Groups per step."""
    epochs: int = 1
    """Passes over a step's trajectories."""
    minibatches: int = 1
    """Updates per pass, of whole trajectories."""
    lr: float = 1e-6
    """Of AdamW."""
    muon_lr: float = 0.0
    """Of Muon, on the matrices within layers. 0: AdamW takes everything."""
    max_norm: float = 1.0
    """Of the gradient."""
    tokens: int = 16_384
    """Padded tokens that go through the model and back at once: bounds memory, changes nothing
    else but rounding."""
    reset_optimizer: bool = False
    """Forget momentum at each step (Kimi k1.5: each iteration is a problem of its own)."""
    save_every: int = 50
    """Steps between checkpoints; the last step is always saved."""
    save_rollouts: int = 0
    """Trajectories of each step that are kept in the run's folder with their tokens, masks,
    log-probabilities and advantages (``rl.saved``), to be looked at."""
    agreement: float | None = None
    """Nats by which the log-probabilities of a generator with weights of its own (vLLM) may differ
    from the trainer's. None: by precision (``rl.agreement``)."""
    seed: int = 0

    def __post_init__(self) -> None:
        passes = (self.steps, self.tasks, self.epochs, self.minibatches)
        if (
            min(*passes, self.tokens, self.save_every) < 1
            or not 0 < self.lr < np.inf
            or not self.max_norm > 0
            or self.save_rollouts < 0
        ):
            raise CardError(f"counts must be at least 1, lr and max_norm positive; got {self}")
        if not 0 <= self.muon_lr < np.inf:
            raise CardError(f"muon_lr must be at least 0, got {self.muon_lr}")
        if self.agreement is not None and self.agreement <= 0:
            raise CardError(f"agreement must be positive, got {self.agreement}")

    @classmethod
    def of(cls, recipe: Recipe, **changes: Any) -> TrainConfig:
        """The recipe's defaults with changes."""
        try:
            return cls(**{**recipe.train, **changes})
        except TypeError as error:
            raise CardError(f"training options: {error}") from error


class Trainer:
    """Trains ``lm`` in place on the episodes of ``env``.

    Args:
        env: An environment, wrapped or not, its id, or a Gymnasium spec. All its keywords hold: a
            ``curriculum`` of it takes the place of a recipe's uniform choice of tasks.
        recipe: A shipped recipe's name, a TOML file, a table or a :class:`Recipe`.
        policy: Acts over the weights of ``lm``; by default ``lm.policy`` in the model's chat form
            if it has one, else as plain text.
        teacher: For distillation.
        critic: For PPO; trained along.
        rollouts: Other processes that play while this one trains; without them, ``policy`` plays.
        processes: Those that this one was launched with, if they train the model together.
        out: A folder for checkpoints and log; the same call goes on from what is there.

    Raises:
        CardError: the recipe needs something that nothing here provides.
        DataError: ``out`` holds a run with other settings.
    """

    def __init__(
        self,
        env: Any,
        lm: TrainableLM,
        recipe: str | Path | Mapping[str, Any] | Recipe,
        config: TrainConfig | None = None,
        *,
        policy: CausalLMPolicy | None = None,
        teacher: TrainableLM | None = None,
        critic: Critic | None = None,
        rollouts: AsyncRollouts | None = None,
        processes: Alone | None = None,
        out: Path | None = None,
    ) -> None:
        env = search_env(env)
        policy = lm.policy() if policy is None else policy
        self.lm, self.policy = lm, policy
        self.teacher, self.critic, self.rollouts = teacher, critic, rollouts
        self.recipe, self.env = under_curriculum(Recipe.of(recipe), env)
        self.config = config or TrainConfig.of(self.recipe)
        there = {
            "teacher_logp": teacher is not None,
            "value": critic is not None,
            "ref_logp": lm.has_reference,
        }
        self.recipe.check(frozenset(name for name, given in there.items() if given))
        self.processes = processes or Alone()
        if self.config.tasks % self.processes.count or (rollouts and self.processes.count > 1):
            raise CardError(
                f"{self.processes.count} processes share the {self.config.tasks} tasks of a step: "
                "give a multiple, and no rollouts in further processes"
            )
        if not (self._shared or rollouts or hasattr(policy.generator, "update_weights")):
            raise CardError(
                f"{type(policy.generator).__name__} plays with weights of its own and has no "
                "update_weights to take new ones: give lm.policy(…), a policy over a "
                "VllmGenerator, or rollouts"
            )
        _warn_of_rounding(lm, self.config.lr)
        self.processes.wrap(lm, policy)
        self.optimizers = self._fresh_optimizers()
        self.watch = Watch(searchable=bool(env.toolbox.tools))
        self.steps = 0
        """Done so far."""
        self.metrics: dict[str, float] = {}
        """Of the last step; a schedule may read them."""
        self.out = out
        self.log = Log(out / LOG) if out is not None and self.processes.main else None
        self.saved: SavedRollouts | None = None
        if out is not None and self.processes.main and self.config.save_rollouts:
            self.saved = SavedRollouts(out / ROLLOUTS, self.config.save_rollouts, lm.tokenizer)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            if (out / CHECKPOINT).exists():
                load_checkpoint(self, out / CHECKPOINT)
                self._publish(self.policy.version)
        if rollouts is not None:
            rollouts.start(self.recipe, self.config.tasks, self.steps, lm.merged(), policy.version)

    # --- the run ------------------------------------------------------------------------------
    def train(self) -> Iterator[dict[str, float]]:
        """Go on to the last step; yields each step's metrics, which are logged by then."""
        if self.log is not None:
            self.log.cut(self.steps)  # a killed run has logged more than it saved
        if self.saved is not None:
            self.saved.cut(self.steps)
        while self.steps < self.config.steps:
            try:
                metrics = self.advance()
            except torch.OutOfMemoryError as error:
                raise EngineError(OUT_OF_MEMORY.format(self.steps, self.config.tokens)) from error
            if self.log is not None:
                self.log.write(metrics, self.watch.said)
            due = self.steps % self.config.save_every == 0 or self.steps == self.config.steps
            if self.out is not None and due:
                save_checkpoint(self, self.out / CHECKPOINT)
            yield metrics

    # --- one step -----------------------------------------------------------------------------
    def advance(self) -> dict[str, float]:
        """Play, reward, compare, update."""
        recipe, start = self.recipe, perf_counter()

        # 1. coefficients of this step
        coef = dict(recipe.schedule.coef(self.steps, self.metrics))
        workers = Workers(self.policy, self.env, self.lm, self.teacher, coef)

        # 2. groups: played, measured, rewarded, kept or not; until there are enough
        played: list[Scored] = []
        kept: list[Scored] = []
        rounds = 0
        while not recipe.data.enough(len(kept), self.config.tasks, rounds):
            for scored in self._play(workers):
                played.append(scored)
                recipe.data.observe(scored)
                if (admitted := recipe.data.admit(scored)) is not None:
                    kept.append(admitted)
            rounds += 1
        kept = kept[: self.config.tasks]
        self.policy.release()  # what it keeps between turns would be in the update's way
        metrics = {"step": float(self.steps), **of_episodes(played), **of_groups(played, kept)}
        metrics |= {f"coef/{name}": value for name, value in coef.items()}
        again: Sequence[Scored] = ()
        if isinstance(recipe.data, Replay):
            again = recipe.data.replay(len(kept), self.steps, self.config.seed)
            metrics["replayed"] = float(len(again))
            kept = [*kept, *again]
        middle = perf_counter()

        # 3. tensors: one line per trajectory, its sampled tokens only
        batch = Batch.of(kept, len(again))
        if batch is not None:
            # 4. log-probabilities under other weights than those that are about to change
            self._look_up(batch)
            if self._elsewhere:
                limit = self.config.agreement or limit_of(self.lm.dtype, self.policy.generator)
                player = self.rollouts or self.policy.generator
                metrics |= require_agreement(
                    batch, self.policy.version, player, self.lm.model, limit
                )
            metrics |= of_batch(batch)
            if self.rollouts is not None:
                metrics |= of_age(batch, self.policy.version, self.rollouts.eta)
            # 5. rewards become advantages
            self._compare(batch, coef)
            if self.saved is not None:
                self.saved.write(self.steps, batch)
            # 6. losses, gradients, new weights
            metrics |= self._update(batch, coef)
            if self.critic is not None and batch.returns is not None:
                metrics |= self.critic.fit(batch)
            for signal in recipe.signal:
                if isinstance(signal, Learner):
                    metrics |= signal.fit(kept)
            self._publish()

        self.steps += 1
        if self.rollouts is not None:
            metrics |= self.rollouts.updated(self.lm.merged(), self.policy.version)
        metrics |= {"play_s": middle - start, "update_s": perf_counter() - middle}
        self.watch.look(metrics)
        self.metrics = metrics
        return metrics

    def _play(self, workers: Workers) -> list[Scored]:
        """One round of groups, with what they earned."""
        recipe, config = self.recipe, self.config

        def plan(count: int) -> list[TaskPlan]:
            tasks = self.env.tasks
            return recipe.data.plan(tasks, count, self.steps, config.seed, env=self.env)

        if self.rollouts is None:
            plans = plan(config.tasks)
            groups = recipe.rollout.collect(self.processes.mine(plans), workers)
            groups = self.processes.groups(plans, groups)
        else:
            groups = self.rollouts.groups(plan, workers.coef)
        for group in groups:
            for member in group.members:
                self.env.ended(member.episode)
        measured: list[dict[str, Floats]] = [{} for _ in groups]
        for signal in recipe.signal:
            for known, new in zip(measured, signal.measure(groups, workers), strict=True):
                known.update(new)
        scored: list[Scored] = []
        for group, signals in zip(groups, measured, strict=True):
            broken = np.array([m.broken for m in group.members])
            rewards = Rewards(np.where(broken, np.nan, 0.0))
            for transform in recipe.reward:
                rewards = transform.apply(group, signals, rewards, workers.coef)
            scored.append(Scored(group, signals, rewards))
        return scored

    def _look_up(self, batch: Batch) -> None:
        """Fill in what the recipe reads: old, reference's, teacher's log-probabilities, values."""
        recipe = self.recipe
        with torch.no_grad():
            if self._needs_old:
                batch.old_logp = self._ask(batch, self.lm.logp)
            if recipe.needs("ref_logp"):
                batch.ref_logp = self._ask(batch, self.lm.reference_logp)
            if recipe.needs("teacher_logp"):
                assert self.teacher is not None  # checked at the start
                batch.teacher_logp = self._ask(batch, self.teacher.logp)
            if recipe.needs("value"):
                assert self.critic is not None  # likewise
                batch.value = self.critic.values(batch)

    def _ask(self, batch: Batch, model: Callable[[Sequence[Row]], Tensor]) -> Tensor:
        """(N, T) log-probabilities by a model; each process asks for its share."""
        width = batch.mask.shape[1]
        there = _with_rows(batch)
        mine = self.processes.mine(there)
        part = batch.take(mine or there[:1])
        lines = in_lines(model(part.rows).cpu(), part.members, width)[: len(mine)]
        found = torch.zeros(batch.mask.shape)
        found[there] = self.processes.lines(lines, len(there))
        return found

    def _compare(self, batch: Batch, coef: Mapping[str, float]) -> None:
        """Fill in advantages and what comes with them."""
        made = self.recipe.advantage.estimate(batch, coef)
        if not isinstance(made, Estimate):
            raise CardError(
                f"{type(self.recipe.advantage).__name__}.estimate gave a {type(made).__name__}, "
                "not an Estimate (searchgym.rl.slots.batch): return Estimate(advantages)"
            )
        if made.clip_scale is not None and not self.recipe.scales_clip:
            raise CardError(f"{type(self.recipe.advantage).__name__} {UNREAD_SCALE}")
        batch.adv, batch.clip_scale = made.adv, made.clip_scale
        if made.mask is not None:
            batch.narrow(made.mask)

    def _update(self, batch: Batch, coef: Mapping[str, float]) -> dict[str, float]:
        """All updates on a batch; mean metrics over them."""
        config = self.config
        if config.reset_optimizer:
            self.optimizers = self._fresh_optimizers()
        set_rate(self.optimizers, coef.get("lr", 1.0))
        sums: dict[str, float] = {}
        updates = 0
        for epoch in range(config.epochs):
            for places in self._minibatches(batch, epoch):
                part = batch.take(places)
                for optimizer in self.optimizers:
                    optimizer.zero_grad(set_to_none=True)
                found = self._backward(part, coef)
                norm = torch.nn.utils.clip_grad_norm_(self.lm.parameters(), config.max_norm)
                found["norm"] = float(whole(norm))
                if not all(np.isfinite(v) for v in (found["loss"], found["norm"])):
                    raise EngineError(
                        f"step {self.steps}: the loss is {found['loss']}, its gradient's norm "
                        f"{found['norm']}: lower the learning rate, or look at the rewards"
                    )
                for optimizer in self.optimizers:
                    optimizer.step()
                updates += 1
                for name, value in found.items():
                    sums[name] = sums.get(name, 0.0) + value
        return {name: value / updates for name, value in sums.items()}

    def _backward(self, batch: Batch, coef: Mapping[str, float]) -> dict[str, float]:
        """Gradients of one update, micro-batch by micro-batch; losses divide by ``totals``, so that
        the parts add up to the whole."""
        totals = batch.totals
        found: dict[str, float] = {"loss": 0.0}
        counts: dict[str, float] = {}
        mine = list(self._micro_batches(batch))
        count = self.processes.most(len(mine))
        for number in range(count):
            # where others have more to do than this process, it goes along without effect
            busy = number < len(mine)
            part = batch.take(mine[number] if busy else _with_rows(batch)[:1])
            tokens = part.totals.tokens
            with self.processes.adding(last=number == count - 1):
                loss, stats = self._loss(part, totals, coef)
                # several processes' gradients are averaged, where a sum is wanted
                (loss * (busy * self.processes.count)).backward()
            found["loss"] += busy * float(loss.detach())
            for name, value in stats.items():
                mean = value if isinstance(value, Mean) else Mean(value * tokens, tokens)
                found[name] = found.get(name, 0.0) + busy * mean.total
                counts[name] = counts.get(name, 0.0) + busy * mean.weight
        found, counts = self.processes.sums(found), self.processes.sums(counts)
        return {name: value / (counts.get(name) or 1.0) for name, value in found.items()}

    def _loss(self, batch: Batch, totals: Totals, coef: Mapping[str, float]) -> Result:
        scored = self.lm.score(batch.rows, entropy=self.recipe.needs("entropy"))
        width = batch.mask.shape[1]
        logp = in_lines(scored.logp.cpu(), batch.members, width)
        entropy = scored.entropy
        if entropy is not None:
            entropy = in_lines(entropy.cpu(), batch.members, width)
        if batch.old_logp is None:  # nothing has been updated since the batch was played
            batch.old_logp = logp.detach()
        total = torch.zeros(())
        metrics: dict[str, float | Mean] = {}
        for loss in self.recipe.loss:
            value, stats = loss(Output(logp, entropy), batch, totals, coef)
            total = total + coef.get(loss.name, loss.weight) * value
            metrics |= {f"{loss.name}/{name}": v for name, v in stats.items()}
        return total, metrics

    # --- parts --------------------------------------------------------------------------------
    def _minibatches(self, batch: Batch, epoch: int) -> Iterator[list[int]]:
        """Places of each update's trajectories."""
        if self.config.minibatches == 1:
            yield list(range(len(batch)))
            return
        units = self._units(batch)
        order = stream(self.config.seed, "minibatch", self.steps, epoch).permutation(len(units))
        for chosen in np.array_split(order, min(self.config.minibatches, len(units))):
            yield sorted(i for u in chosen for i in units[int(u)])

    def _micro_batches(self, batch: Batch) -> Iterator[list[int]]:
        """Places of this process's trajectories that go through the model together: those of like
        length, so that little of it is padding."""

        def rows_of(unit: list[int]) -> list[Row]:
            return [row for i in unit for row in batch.members[i].rows]

        def length(unit: list[int]) -> int:
            return max(map(len, rows_of(unit)), default=0)

        part: list[int] = []
        rows = longest = 0
        for unit in sorted(self.processes.mine(self._units(batch)), key=length):
            new = rows_of(unit)
            wider = max(longest, length(unit))
            if rows and wider * (rows + len(new)) > self.config.tokens:
                yield part
                part, rows, wider = [], 0, length(unit)
            part, rows, longest = part + unit, rows + len(new), wider
        if rows:
            yield part

    def _units(self, batch: Batch) -> list[list[int]]:
        """Trajectories that must not be separated: each alone, or groups."""
        if not any(getattr(loss, "whole_groups", False) for loss in self.recipe.loss):
            return [[i] for i in range(len(batch))]
        numbers = batch.group.tolist()
        return [[i for i, g in enumerate(numbers) if g == n] for n in dict.fromkeys(numbers)]

    @property
    def _needs_old(self) -> bool:
        """Whether the old log-probabilities take a pass of their own. With one update per step they
        are those of the update itself, unless somebody else than a loss reads them."""
        first = [part for place, part in self.recipe.parts() if not place.startswith("loss.")]
        several = self.config.epochs * self.config.minibatches > 1
        return self._elsewhere or any(
            "old_logp" in part.requires for part in (*first, *(self.recipe.loss if several else ()))
        )

    @property
    def _shared(self) -> bool:
        """Whether the policy acts by the very weights that are trained."""
        return getattr(self.policy.generator, "model", None) is self.lm.model

    @property
    def _elsewhere(self) -> bool:
        """Whether what plays holds a copy of the weights."""
        return self.rollouts is not None or not self._shared

    def _publish(self, version: int | None = None) -> None:
        """The policy acts by the new weights. ``version``: as which, after a checkpoint."""
        self.policy.weights_changed(None if self._shared else self.lm.merged())
        if version is not None:
            generator: Any = self.policy.generator
            generator.version = version

    def _fresh_optimizers(self) -> list[Optimizer]:
        return optimizers_of(self.lm.model, self.config.lr, self.config.muon_lr)


def _with_rows(batch: Batch) -> list[int]:
    """Places of the trajectories that can go through a model."""
    return [i for i, member in enumerate(batch.members) if member.rows]


def _warn_of_rounding(lm: TrainableLM, lr: float) -> None:
    """Weights of about 0.01 in bfloat16 are 6e-5 apart: an update of half that or less leaves them
    as they are, at every step anew, while reward and gradient look as if something was learnt."""
    half = {p.dtype for p in lm.parameters() if p.dtype in (torch.bfloat16, torch.float16)}
    if half:
        names = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in half))
        warnings.warn(
            f"the trained weights are {names}: most updates of lr={lr:g} are rounded away. Load "
            "the model with dtype='float32', or train adapters (lora=Lora()), which are float32",
            stacklevel=3,
        )
