"""The training loop for language models; :meth:`Trainer.advance` is one step, top to bottom.

The recipe's objects (``slots.protocols``) do the work, this file fixes the order. Without
``rollouts`` training is synchronous: every trained token was drawn by the weights of the step's
start. ``minimal.py`` is the same loop for GRPO alone, without slots.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from ..envs.mixture import EnvironmentMix
from ..envs.search import SearchEnv
from ..errors import CardError, DataError, EngineError, unknown
from ..llms.base import require_own_distribution
from ..policies.causal_lm import CausalLMPolicy
from ..policies.model_folder import sampling_of
from ..policies.scoring import sampled_ids
from ..policies.trainable import TrainableLM
from ..rewards.registry import FINAL, TURN
from ..storage.files import FolderLock
from .asynchronous.rollouts import AsyncRollouts
from .collapse import CollapseMonitor
from .critics import ValueModel
from .diagnostics import (
    compares_groups,
    require_agreement,
    require_members_that_differ,
    tolerance,
    warn_of_idle_options,
)
from .log import CHECKPOINT, LOG, Log
from .measures import (
    advantage_metrics,
    batch_metrics,
    episode_metrics,
    group_metrics,
    role_metrics,
    staleness_metrics,
)
from .processes import SingleProcess
from .recipe import MovingReference, Recipe, under_curriculum
from .recipe import TrainConfig as TrainConfig
from .roles import Cast, Roles, check_roles, checked_lm, given_roles
from .run_folder import ROLLOUTS, SavedRollouts, load_checkpoint, save_checkpoint
from .slots.batch import Batch
from .slots.protocols import Learner, Replay, RunFacts
from .slots.records import POLICY, Scored, TaskPlan, Workers
from .update import Updater, batch_logp, batch_measures, compare, score_groups

OUT_OF_MEMORY = (
    "step {}: the device is out of memory. Less is needed with fewer tokens at once (train.tokens, "
    "now {}; load.tokens for what is not trained) and with load.gradient_checkpointing=true"
)


class Trainer:
    """Trains ``lm`` in place on the episodes of ``env``.

    Args:
        env: An environment, wrapped or not, its id, or a Gymnasium spec. Its keywords hold, not the
            recipe's ``env``; its ``curriculum`` takes the place of a uniform choice of tasks. Of a
            list (:func:`searchgym.envs.mixture`) each step plays one, in shares by weight.
        recipe: A shipped recipe's name, a TOML file, a table or a :class:`Recipe`, which is copied.
        policy: Acts over the weights of ``lm``; by default ``lm.policy()``, whose prompt format is
            the one that the model's folder notes, else chat if it has a template, else plain text.
        teacher: Model to distil from.
        critic: Value model for PPO; trained along with the policy.
        roles: Name → who plays a role that the recipe or the environment's ``delegate`` asks for
            besides the policy: an agent, which stays as it is; ``"shared"``, the policy itself; or
            a ``TrainableLM`` (or ``OwnWeights``), which is trained by an optimizer of its own on
            the tokens that it writes. ``{"policy": "frozen"}`` trains such roles alone. Processes
            of ``rollouts`` have their own (``Workers.roles``).
        rollouts: Worker processes that play while this one trains; without, ``policy`` plays here.
        processes: Process group for training one model in several processes.
        out: Folder for checkpoints and log; the same call resumes from what is there. It is locked
            while :meth:`train` runs.

    Raises:
        CardError: ``lm`` is none, the recipe needs something or someone not given, or compares
            members of a group where groups have one member or the temperature is 0.
        DataError: ``out`` holds a run with other settings, or another training is writing it.
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
        critic: ValueModel | None = None,
        roles: Roles | Mapping[str, TrainableLM] | None = None,
        rollouts: AsyncRollouts | None = None,
        processes: SingleProcess | None = None,
        out: str | os.PathLike[str] | None = None,
    ) -> None:
        self.envs, lm = EnvironmentMix.of(env), checked_lm(lm)
        made = recipe.copy() if isinstance(recipe, Recipe) else Recipe.of(recipe)
        policy = lm.policy(sampling=sampling_of(made.sampling)) if policy is None else policy
        self.lm, self.policy = lm, policy
        self.teacher, self.critic, self.rollouts = teacher, critic, rollouts
        self.recipe, self.envs = under_curriculum(made, self.envs)
        self.config = TrainConfig.given(config, self.recipe)
        self.roles = given_roles(roles or {}, policy)
        handed = {role for env in self.envs.envs for role in env.rules.delegates}
        check_roles(self.recipe, self.roles, lm, sorted(handed))
        self.cast = Cast(lm, policy, self.roles)
        there = {
            "teacher_logp": teacher is not None,
            "value": critic is not None,
            "ref_logp": all(model.has_reference for model in self.cast.lms.values()),
        }
        self.recipe.check(frozenset(name for name, given in there.items() if given))
        each = self.envs.envs
        own = (part.name for env in each for part in env.rules.reward.parts)
        self.recipe.check_watched({*TURN, *FINAL, *own})
        self.reference = MovingReference.of(self.recipe.reference)
        if self.reference is not None:
            for model in self.cast.lms.values():
                self.reference.require_copy(model)
        most_tokens = policy.sampling.max_tokens * max(env.rules.max_turns for env in each)
        updates = self.config.epochs * self.config.minibatches
        warn_of_idle_options(self.recipe, RunFacts(updates, most_tokens))
        require_members_that_differ(self.recipe, self.policy.sampling)
        if not self.recipe.rollout.unsampled:
            require_own_distribution(self.policy.sampling, "the policy's sampling")
        self.processes = processes or SingleProcess()
        if self.config.tasks % self.processes.count or (rollouts and self.processes.count > 1):
            raise CardError(
                f"{self.processes.count} processes share the {self.config.tasks} tasks of a step: "
                "give a multiple, and no rollouts in further processes"
            )
        if rollouts and len(each) > 1:
            raise CardError(
                "rollouts in further processes play one environment, not a list of them"
            )
        if isinstance(self.recipe.rollout, Learner) and (rollouts or self.processes.count > 1):
            raise CardError(
                f"{type(self.recipe.rollout).__name__} learns from the episodes that it plays: it "
                "plays in the trainer's process alone, without rollouts or further processes"
            )
        copied = [self.cast.policies[name] for name in self.cast.copied()]
        lacking = [p for p in copied if not hasattr(p.generator, "update_weights")]
        if lacking and not rollouts:
            raise CardError(
                f"{type(lacking[0].generator).__name__} plays with weights of its own and has no "
                "update_weights to take new ones: give lm.policy(…), a policy over a "
                "VllmGenerator, or rollouts"
            )
        _warn_of_rounding(lm, self.config.lr)
        self.cast.wrap(self.processes)
        self.updater = Updater(self.cast, self.recipe, self.config, self.processes)
        self.monitor = CollapseMonitor(
            searchable=any(env.toolbox.tools for env in each),
            compares_groups=compares_groups(self.recipe),
        )
        self.steps = 0
        """Steps done so far."""
        self.doing = ""
        """Description of what the present step is doing."""
        self.metrics: dict[str, float] = {}
        """Metrics of the last step; a schedule may read them."""
        self.out = None if out is None else Path(out)
        self.log: Log | None = None
        self.saved: SavedRollouts | None = None
        self.lock: FolderLock | None = None
        """Lock on ``out``, held by the process that writes there."""
        if self.out is not None and self.processes.main:
            self.log = Log(self.out / LOG)
            if self.config.save_rollouts:
                path = self.out / ROLLOUTS
                self.saved = SavedRollouts(path, self.config.save_rollouts, lm.tokenizer)
            self.lock = FolderLock(self.out)
        with self.lock or nullcontext():  # refuses a folder in which another training goes on
            if self.out is not None and (self.out / CHECKPOINT).exists():
                load_checkpoint(self, self.out / CHECKPOINT)
                self._publish(self.policy.version)
            self._on_disk = self._stamp()
        if rollouts is not None:
            rollouts.start(
                self.recipe, self.config.tasks, self.steps, self.cast.merged(), self.policy.version
            )

    @property
    def env(self) -> SearchEnv:
        """Environment that the next step plays."""
        return self.envs.at(self.steps)

    # --- the run ------------------------------------------------------------------------------
    def train(self) -> Iterator[dict[str, float]]:
        """Train to the last step; yields each step's metrics once they are logged.

        Raises:
            EngineError: out of memory, or a loss or gradient that is not finite.
            DataError: the log or a checkpoint cannot be written (disk full).
        """
        with self.locked():
            yield from self._train()

    def _train(self) -> Iterator[dict[str, float]]:
        if self.log is not None:
            self.log.cut(self.steps)  # a killed run has logged more than it saved
        if self.saved is not None:
            self.saved.cut(self.steps)
        while self.steps < self.config.steps:
            try:
                metrics = self.advance()
            except torch.OutOfMemoryError as error:
                raise EngineError(OUT_OF_MEMORY.format(self.steps, self.config.tokens)) from error
            last = self.steps == self.config.steps
            named = [*self.monitor.latest, *(self.monitor.finish() if last else ())]
            if self.log is not None:
                self.log.write(metrics, named)
            if last or self.steps % self.config.save_every == 0:
                self.save_checkpoint()
            yield metrics

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder against other trainings; :meth:`train` does so while it runs.

        Raises:
            DataError: another training is writing ``out``, or has since this trainer was made.
        """
        with self.lock or nullcontext():
            if self.lock is not None and self._stamp() != self._on_disk:
                raise DataError(
                    f"another training has written {self.out} since this trainer was made: make "
                    "it anew, which resumes from there, or use another folder"
                )
            yield

    def _stamp(self) -> tuple[int, int] | None:
        path = None if self.out is None else self.out / CHECKPOINT
        if path is None or not path.exists():
            return None
        stat = path.stat()
        return stat.st_mtime_ns, stat.st_size

    def save_checkpoint(self) -> None:
        """Save the run in ``out``, from where the same call resumes; nothing without ``out``. In
        several processes all call it, and the main one writes."""
        if self.out is not None:
            save_checkpoint(self, self.out / CHECKPOINT)
            self._on_disk = self._stamp()

    def save(self, folder: str | os.PathLike[str], *, adapter: bool = False) -> Path:
        """Save the trained model, its tokenizer and prompt format (``searchgym.json``) as
        ``transformers`` loads them; models of roles in the subfolder ``roles/NAME``. In several
        processes all call it, and the main one writes.

        Args:
            folder: Target folder; created if it does not exist.
            adapter: Save LoRA adapters alone, as a PEFT folder. By default they are merged.

        Raises:
            EngineError: ``adapter`` without adapters, or of a model that is in no folder.
            DataError: the folder cannot be written.
        """
        for name, lm in self.cast.lms.items():
            place = Path(folder) if name == POLICY else Path(folder) / "roles" / name
            own = self.cast.policies[name]
            lm.save(place, adapter=adapter, policy=own, write=self.processes.main)
        return Path(folder)

    # --- one step -----------------------------------------------------------------------------
    def advance(self) -> dict[str, float]:
        """Play, reward, compare, update."""
        recipe, start = self.recipe, perf_counter()

        # 1. coefficients of this step
        coef = dict(recipe.schedule.coef(self.steps, self.metrics))
        workers = Workers(self.policy, self.env, self.lm, self.teacher, coef, self.roles)

        # 2. groups: played, measured, rewarded, kept or not; until there are enough
        played: list[Scored] = []
        kept: list[Scored] = []
        rounds = 0
        while not recipe.data.enough(len(kept), self.config.tasks, rounds):
            self.doing = f"playing, round {rounds + 1}, {len(kept)} of {self.config.tasks} groups"
            for scored in self._play(workers):
                played.append(scored)
                recipe.data.observe(scored)
                if (admitted := recipe.data.admit(scored)) is not None:
                    kept.append(admitted)
            rounds += 1
        kept = kept[: self.config.tasks]
        for policy in self.cast.policies.values():
            policy.release()  # what it keeps between turns would be in the update's way
        metrics = {"step": float(self.steps), **episode_metrics(played)}
        metrics |= group_metrics(played, kept) | role_metrics(played)
        metrics |= {f"coef/{name}": value for name, value in coef.items()}
        again: Sequence[Scored] = ()
        if isinstance(recipe.data, Replay):
            again = recipe.data.replay(len(kept), self.steps, self.config.seed)
            metrics["groups_replayed"] = float(len(again))
            kept = [*kept, *again]
        played_until = perf_counter()
        self.doing = f"updating on {len(kept)} groups"

        # 3. tensors: one line per trajectory, its sampled tokens only
        batch = Batch.of(kept, len(again))
        if batch is not None and self.cast.keep_trained(batch):
            if bool(batch.unsampled.any()):
                recipe.require_sampled("this batch has members")
            # 4. log-probabilities under other weights than those that are about to change
            self._score(batch)
            if self._copied:
                limit = self.config.agreement or tolerance(self.lm.dtype, self.policy.generator)
                generator = self.rollouts or self.policy.generator
                metrics |= require_agreement(
                    batch, self.policy.version, generator, self.lm.model, limit
                )
            metrics |= batch_metrics(batch)
            if self._copied:
                eta = 0 if self.rollouts is None else ceil(self.rollouts.eta)
                metrics |= staleness_metrics(batch, self.policy.version, eta)
            # 5. rewards become advantages
            compare(recipe, batch, coef)
            metrics |= advantage_metrics(batch)
            if self.saved is not None:
                self.saved.write(self.steps, batch)
            # 6. losses, gradients, new weights
            metrics |= self.updater.update(batch, coef, self.steps)
            if self.critic is not None and batch.returns is not None:
                metrics |= self.critic.fit(batch)
            for _, part in recipe.parts():
                if isinstance(part, Learner):
                    metrics |= part.fit(kept)
            self._publish()

        self.steps += 1
        if self.reference is not None:
            for lm in self.cast.lms.values():
                self.reference.after(self.steps, lm)
        if self.rollouts is not None:
            metrics |= self.rollouts.updated(self.cast.merged(), self.policy.version)
        metrics |= {"rollout_s": played_until - start, "update_s": perf_counter() - played_until}
        _require_watched(recipe, metrics)
        self.monitor.update(metrics)
        self.metrics = metrics
        return metrics

    def _play(self, workers: Workers) -> list[Scored]:
        recipe, config = self.recipe, self.config

        def plan(count: int) -> list[TaskPlan]:
            tasks = self.env.tasks
            return recipe.data.plan(tasks, count, self.steps, config.seed, env=self.env)

        if self.rollouts is None:
            plans = plan(config.tasks)
            groups = recipe.rollout.collect(self.processes.shard(plans), workers)
            groups = self.processes.all_gather_groups(plans, groups)
        else:
            groups = self.rollouts.groups(plan, workers.coef)
        for group in groups:
            for member in group.members:
                if member.finished and member.role == POLICY:
                    self.env.ended(member.episode)
        return score_groups(recipe, groups, workers)

    def _score(self, batch: Batch) -> None:
        """Fill in what the recipe reads: log-probabilities of the old policy, the reference and the
        teacher, and the critic's values."""
        recipe = self.recipe
        with torch.no_grad():
            if self._needs_old:
                batch.old_logp = batch_logp(self.processes, batch, self.cast.logp)
            if wanted := recipe.token_measures:
                ids = sampled_ids(batch.rows)  # the same columns in all processes
                batch.measures = batch_measures(
                    self.processes, batch,
                    lambda rows: self.cast.score(rows, measures=wanted, among=ids).measures,
                )  # fmt: skip
            if recipe.needs("ref_logp"):
                batch.ref_logp = batch_logp(self.processes, batch, self.cast.reference_logp)
            if recipe.needs("teacher_logp"):
                assert self.teacher is not None  # checked at the start
                batch.teacher_logp = batch_logp(self.processes, batch, self.teacher.logp)
            if recipe.needs("value"):
                assert self.critic is not None  # likewise
                batch.value = self.critic.values(batch)

    # --- parts --------------------------------------------------------------------------------
    @property
    def _needs_old(self) -> bool:
        """True if the old log-probabilities take a pass of their own. With one update per step they
        are those of the update itself, unless something other than a loss reads them."""
        first = [part for place, part in self.recipe.parts() if not place.startswith("loss.")]
        several = self.config.epochs * self.config.minibatches > 1
        return self._copied or any(
            "old_logp" in part.requires for part in (*first, *(self.recipe.loss if several else ()))
        )

    @property
    def _copied(self) -> bool:
        """True if rollouts are played with a copy of the weights."""
        return self.rollouts is not None or bool(self.cast.copied())

    def _publish(self, version: int | None = None) -> None:
        """Hand the policies the new weights, after a checkpoint as number ``version``."""
        copied = self.cast.copied()
        for name, policy in self.cast.policies.items():
            policy.weights_changed(self.cast.lms[name].merged() if name in copied else None)
            if version is not None:
                generator: Any = policy.generator
                generator.version = version


def _require_watched(recipe: Recipe, metrics: Mapping[str, float]) -> None:
    """``CardError`` for a metric that a part reads and a step with an update has not logged; parts
    of rewards are logged where an episode earns them."""
    for place, part in recipe.parts():
        for name in sorted(part.watches):
            if "loss" in metrics and name not in metrics and not name.startswith("rewards/"):
                raise CardError(
                    f"{place} ({type(part).__name__}) reads the metric {name!r}: "
                    + unknown("metric of this training", name, sorted(metrics))
                )


def _warn_of_rounding(lm: TrainableLM, lr: float) -> None:
    """Warn of trained weights in half precision: bfloat16 numbers of about 0.01 are 6e-5 apart, and
    an update of half that or less is lost, while reward and gradient look as if something was
    learnt."""
    half = {p.dtype for p in lm.parameters() if p.dtype in (torch.bfloat16, torch.float16)}
    if half:
        names = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in half))
        warnings.warn(
            f"the trained weights are {names}: most updates of lr={lr:g} are rounded away. Load "
            "the model with dtype='float32', or train adapters (lora=Lora()), which are float32",
            stacklevel=3,
        )
