"""Training the candidate agent by its card: worlds, arenas, one run per seed, resumable."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from searchgym.cards import Card, card
from searchgym.envs.mixture import mixture, shares
from searchgym.envs.options import RULES
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError, unknown
from searchgym.objects import build
from searchgym.storage.files import FolderLock

if TYPE_CHECKING:
    from .agent import CandidateAgent
    from .arena import Arena
    from .encoder import WordEncoder
    from .features import FeatureBuilder
    from .trainer import CandidateTrainConfig

Report = Callable[[str, float, Mapping[str, float] | None], Any]
"""Told (what is happening, fraction done in [0, 1], the newest evaluation or None)."""
LEAST = 0.05
"""Smallest gain in F1 on the development world that counts as learning: an agent that has not
changed may differ by as much between the few questions asked before the first update and all."""
DEV_QUESTIONS = 300
"""Development questions of a mixture, shared out as its training questions are."""
EVERY_S = 1.0
"""Seconds between two notes of a run's progress; an evaluation is noted at once."""
_KEYS = frozenset({"use", "env", "worlds", "dev", "encoder", "config"})


class Ground(NamedTuple):
    """An environment that questions are drawn from."""

    name: str
    env: SearchEnv
    share: float | None
    """Share of the questions drawn; None: every question of the recipe is as likely."""
    most: int | None = None
    """Most of its questions that are used."""


@dataclass(frozen=True)
class CandidateRecipe:
    """Says what a candidate agent is trained on and how: the ``[train]`` table of its card."""

    env: Any
    """Environment options (``searchgym.envs.options.Options``) shared by the training worlds and
    tests; or an environment's id, a corpus, or a list of these and of tables with weights
    (:func:`searchgym.envs.mixture`)."""
    worlds: tuple[int, ...] = (0,)
    """Seeds of the training worlds (split "train"), where ``env`` is one table of options."""
    dev: Any = field(default_factory=dict)
    """Options of the development world (split "dev"), where the model is selected: its ``seed``
    must not be that of the held-out world that is reported, and ``tasks`` may be fewer. Beside a
    list ``env``: a list of the same kind; empty: the development tasks of its own entries."""
    encoder: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ``WordEncoder``, or ``{"none": true}`` to train without one."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``CandidateTrainConfig``: every hyperparameter."""

    @classmethod
    def of_card(cls, agent: Card | str = "candidate") -> CandidateRecipe:
        """The recipe of an agent card; ``CardError`` for a key it should not have."""
        agent = card("agents", agent) if isinstance(agent, str) else agent
        body = agent.body.get("train")
        if body is None:
            raise CardError(f"agent {agent.id!r} does not learn: its card has no [train] table")
        for key in body:
            if key not in _KEYS:
                raise CardError(f"{agent.folder / 'card.toml'}: {unknown('key', key, _KEYS)}")
        if "env" not in body:
            raise CardError(f"{agent.folder / 'card.toml'}: [train] needs the table 'env'")
        tables = {key: value for key, value in body.items() if key != "use"}
        return cls(**{**tables, "worlds": tuple(body.get("worlds", (0,)))})

    @property
    def digest(self) -> str:
        """Changes with anything that changes the trained agent."""
        from .features import FEATURE_VERSION

        parts = [self.env, self.worlds, self.dev, self.encoder, self.config, FEATURE_VERSION]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def mixed(self) -> bool:
        """True if it names what it is trained on by a name or a list."""
        return not isinstance(self.env, Mapping) or "id" in self.env

    def on(self, env: Any) -> CandidateRecipe:
        """The recipe with another ``env``: a table of changes (``max_turns``, ``world``), or what
        to train on instead, whose development tasks then are its own.

        The rules of the old one (``max_turns``) hold for entries that do not set them.
        """
        if isinstance(env, Mapping) and "id" not in env and not _names_text(env):
            if not self.mixed:
                return replace(self, env={**self.env, **env})
            rules = {k: v for k, v in env.items() if k in RULES}
            return replace(self, env=[
                {**entry, **(env if part.is_world else rules)}
                for entry, part in zip(self.ruled(self.env), mixture(self.env), strict=True)
            ])  # fmt: skip
        return replace(self, env=self.ruled(env), dev=())

    def beside(self, entry: Mapping[str, Any]) -> CandidateRecipe:
        """The recipe with another entry beside its own, which together have the weight 1."""
        if self.mixed:
            return replace(self, env=[*self.env, *self.ruled(entry)])
        dev = dict(self.dev)
        world = {"seed": dev.pop("seed", 1)}
        own = {**self.env, "worlds": list(self.worlds), "dev": {**dev, "world": world}}
        return replace(self, env=[{**own, "weight": 1.0}, *self.ruled(entry)], dev=())

    @property
    def rules(self) -> dict[str, Any]:
        """Options of its (first) environment that change no world, task or engine."""
        first = self.env if isinstance(self.env, Mapping) else mixture(self.env)[0].keywords
        return {k: v for k, v in first.items() if k in RULES}

    def ruled(self, entries: Any, split: str = "") -> list[Any]:
        """Entries of a mixture as tables, under this recipe's rules where they set none."""
        return [part.table() for part in mixture(entries, self.rules, split)]

    def in_worlds(self, seeds: Any) -> CandidateRecipe:
        """The recipe in the generated worlds of these seeds."""
        if not isinstance(seeds, Sequence) or isinstance(seeds, str) or not seeds:
            raise CardError(f"[train] worlds is a list of at least one seed, [0, 1]; got {seeds!r}")
        if not self.mixed:
            return replace(self, worlds=tuple(seeds))
        entries = self.ruled(self.env)
        if not any("worlds" in entry for entry in entries):
            raise CardError("no entry of [train] env has worlds, so no seeds can be chosen")
        return replace(
            self, env=[e | {"worlds": list(seeds)} if "worlds" in e else e for e in entries]
        )

    def world(self) -> dict[str, Any] | None:
        """Options of the first generated world that it is trained in; None without one."""
        if not self.mixed:
            return {**self.env, "world": self._world(self.worlds[0])}
        for part in mixture(self.env):
            if part.is_world and part.id is None:
                seeds = {"seed": part.worlds[0]} if part.worlds else {}
                keywords = {k: v for k, v in part.keywords.items() if k != "split"}
                return {**keywords, "world": {**keywords.get("world", {}), **seeds}}
        return None

    def settings(self) -> tuple[list[Ground], list[Ground]]:
        """Places where it is trained, and where the model is selected."""
        if self.mixed:
            return self._mixture()
        train = [
            Ground(
                f"world {seed}",
                SearchEnv(**{**self.env, "split": "train", "world": self._world(seed)}),
                None,
            )
            for seed in self.worlds
        ]
        dev = dict(self.dev)
        world = self._world(dev.pop("seed", 1))
        env = SearchEnv(**{**self.env, **dev, "split": "dev", "world": world})
        return train, [Ground("world dev", env, None)]

    def _mixture(self) -> tuple[list[Ground], list[Ground]]:
        parts = mixture(self.env)
        made = [part.envs() for part in parts]
        sizes = [sum(len(env.tasks) for env in envs) for envs in made]
        weighted = any(part.weight is not None for part in parts)
        share = shares(parts, sizes)
        train = [
            Ground(part.name, env, whole * len(env.tasks) / size if weighted else None)
            for part, envs, whole, size in zip(parts, made, share, sizes, strict=True)
            for env in envs
        ]
        if self.dev:  # chosen by hand, all of it is played
            chosen = [(part, env) for part in mixture(self.dev, split="dev") for env in part.envs()]
            return train, [Ground(f"{part.name} dev", env, None) for part, env in chosen]
        dev = [
            Ground(f"{part.name} dev", part.dev_env(), None, math.ceil(DEV_QUESTIONS * whole))
            for part, whole in zip(parts, share, strict=True)
            if whole
        ]
        return train, dev

    def _world(self, seed: int) -> dict[str, Any]:
        return {**self.env.get("world", {}), "seed": seed}

    def make_encoder(self, cache: Path | None = None) -> WordEncoder | None:
        from .encoder import WordEncoder

        arguments = dict(self.encoder)
        if arguments.pop("none", False):
            return None
        made: WordEncoder = build("[train.encoder]", partial(WordEncoder, cache=cache), arguments)
        return made


def _names_text(env: Mapping[str, Any]) -> bool:
    """Check whether a table names a corpus that is no generated world."""
    return "corpus" in env and not mixture({"corpus": env["corpus"]})[0].is_world


@dataclass
class Learned:
    """A trained agent and how it got there."""

    agent: CandidateAgent
    seed: int
    curve: list[dict[str, float]]
    """Evaluations on the development world: episodes, seconds, em, f1, searches, evidence."""
    episodes: int
    seconds: float
    path: Path

    @property
    def failure(self) -> str:
        """One sentence if nothing was learnt, else "": the best F1 on the development world is no
        more than :data:`LEAST` above that before the first update."""
        if not self.curve:
            return ""
        before, after = self.curve[0]["f1"], max(point["f1"] for point in self.curve)
        if after > before + LEAST:
            return ""
        return (
            f"seed {self.seed} learnt nothing: F1 on the development world was {before:.3f} before "
            f"training and is {after:.3f} after {self.episodes:,} episodes; train for more episodes"
        )


class LiveNote:
    """Keeps ``path`` up to date: ``what`` is being done, the ``fraction`` of the run that is done,
    ``curve`` (the evaluations so far), and the ``seconds`` since the first update.

    A note that cannot be written (a full disk) is left out: training does not depend on it.
    """

    def __init__(self, path: Path, curve: list[Mapping[str, float]] | None = None) -> None:
        self.path = path
        self.curve = [dict(point) for point in curve or ()]
        self._noted, self._began = 0.0, time.monotonic()
        self._first: float | None = None

    def __call__(self, what: str, fraction: float, point: Mapping[str, float] | None) -> None:
        """Take in a report of :class:`CandidateTrainer`."""
        now = time.monotonic()
        if point is not None:
            self.curve.append(dict(point))
        if self._first is None and fraction > 0:
            self._first, self._began = fraction, now
        if point is None and now - self._noted < EVERY_S:
            return
        self._noted = now
        done = fraction - (self._first or 0.0)
        left = (now - self._began) / done * (1 - fraction) if done > 0 else None
        value = {"what": what, "fraction": fraction, "left_s": left, "curve": self.curve}
        partial = self.path.with_name(self.path.name + ".part")
        try:
            partial.write_text(json.dumps(value), encoding="utf-8")
            os.replace(partial, self.path)
        except OSError:
            partial.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the note: what it said is in the trained agent."""
        self.path.unlink(missing_ok=True)


class SeedTrainer:
    """Trains one agent per seed in the same worlds, sharing features and vectors between seeds.

    Args:
        recipe: From a card.
        out_dir: Keeps ``agents/seed-N.safetensors`` and, while a run goes on, its checkpoint. A
            finished agent of the same recipe is loaded instead of trained again. ``machine.json``
            says where the last one was trained.
        builder: Features; made from the recipe's encoder by default.
    """

    def __init__(
        self,
        recipe: CandidateRecipe,
        out_dir: str | os.PathLike[str],
        *,
        builder: FeatureBuilder | None = None,
    ) -> None:
        from .checks import check_recipe
        from .features import FeatureBuilder

        check_recipe(recipe)
        out_dir = Path(out_dir)
        self.recipe, self.folder = recipe, out_dir / "agents"
        self.folder.mkdir(parents=True, exist_ok=True)
        if builder is None:
            builder = FeatureBuilder(recipe.make_encoder(out_dir / "vectors"))
        self.builder = builder
        self._arenas: tuple[list[Arena], list[Arena], list[float] | None] | None = None

    def untrained(self, learned: Learned) -> CandidateAgent:
        """The same agent before its first update: same shape, first weights and input scaling."""
        import torch

        from searchgym.seeding import derive

        from .agent import CandidateAgent
        from .scorer import CandidateScorer

        after = learned.agent.model
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(
                derive(learned.seed, "candidate-scorer")
            )  # as the trainer does
            before = CandidateScorer(**after.config)
        before.mean.copy_(after.mean)
        before.scale.copy_(after.scale)
        return CandidateAgent(before, self.builder)

    def finished(self, seed: int, seconds: float | None = None) -> Learned | None:
        """The saved agent of this seed, if it was trained by exactly this recipe: to its last
        episode, or for at least as many ``seconds`` (None: without a bound)."""
        from .agent import CandidateAgent
        from .scorer import load_scorer

        path = self._path(seed)
        if not path.is_file():
            return None
        model, meta = load_scorer(path)
        if meta.get("recipe") != self.recipe.digest:
            return None
        told: Any = meta
        # files of versions that noted no bound say at least how long the training took
        bounds = (told.get("bound", told["seconds"]), seconds)
        had, wanted = (math.inf if bound is None else bound for bound in bounds)
        # a run that no clock stopped has played its episodes, or its curve was flat
        if told["episodes"] < self._config(seed, None).episodes and had < wanted:
            return None
        agent = CandidateAgent(model, self.builder)
        return Learned(agent, seed, told["curve"], told["episodes"], told["seconds"], path)

    def train(
        self, seed: int, *, seconds: float | None = None, report: Report | None = None
    ) -> Learned:
        """Train one seed, or load it if it is there, or go on from its checkpoint.

        ``seconds`` bounds the run by wall clock, counted from its first update, on top of the
        recipe's episodes: annealing then follows whichever runs out first, and the result depends
        on the machine's speed. A checkpoint is continued only under the same bound, otherwise it is
        deleted with a warning, and an agent that a smaller one stopped is trained again.

        Raises:
            DataError: another training of this seed is writing the folder, or it cannot be written.
        """
        if (done := self.finished(seed, seconds)) is not None:
            return done
        with FolderLock(self.folder, f".seed-{seed}.lock"):
            return self._train(seed, seconds, report)

    def _train(self, seed: int, seconds: float | None, report: Report | None) -> Learned:
        from dataclasses import asdict

        from searchgym.errors import DataError
        from searchgym.evaluation.machine import note_machine
        from searchgym.reports.sources import LIVE

        from .agent import CandidateAgent
        from .arena import GreedyPoint
        from .trainer import CandidateTrainer

        config = self._config(seed, seconds)
        arenas, dev, shares = self.arenas(report)
        run = CandidateTrainer(arenas, config, dev=dev, about=self.recipe.digest, shares=shares)
        checkpoint = self.folder / f"seed-{seed}.checkpoint.safetensors"
        if checkpoint.is_file():
            try:
                run.restore(checkpoint)
            except DataError as error:  # another recipe's or bound's, or half a file
                warnings.warn(
                    f"seed {seed} is trained from the start, and what had been begun is deleted: "
                    f"{error}",
                    stacklevel=2,
                )
                checkpoint.unlink()

        live = LiveNote(self.folder / f"seed-{seed}{LIVE}", [asdict(p) for p in run.curve])

        def watch(what: str, fraction: float, point: GreedyPoint | None) -> None:
            told = asdict(point) if point is not None else None
            live(what, fraction, told)
            if report is not None:
                report(what, fraction, told)

        note_machine(self.folder.parent)
        trained = run.run(watch, checkpoint)
        agent = CandidateAgent(trained.model, self.builder)
        curve = [asdict(point) for point in trained.curve]
        path = self._path(seed)
        agent.save(
            path, recipe=self.recipe.digest, seed=seed, curve=curve, episodes=trained.episodes,
            seconds=trained.seconds, bound=seconds,
        )  # fmt: skip
        checkpoint.unlink(missing_ok=True)
        live.close()
        return Learned(agent, seed, curve, trained.episodes, trained.seconds, path)

    def arenas(
        self, report: Report | None = None
    ) -> tuple[list[Arena], list[Arena], list[float] | None]:
        """Return the environments for training, those for model selection, and the training ones'
        shares (None: all questions are as likely); built once."""
        from .arena import Arena

        if self._arenas is None:
            if report is not None:
                report("generating worlds", 0.0, None)
            train, dev = self.recipe.settings()
            arenas, select = (
                [Arena(g.name, g.env, self.builder, g.most) for g in grounds]
                for grounds in (train, dev)
            )
            weighed = [g.share for g in train if g.share is not None]
            self._arenas = arenas, select, weighed or None
        return self._arenas

    def release(self) -> None:
        """Let go of the training worlds' visited states, which hold most of the memory."""
        self._arenas = None
        self.builder.clear()

    def _config(self, seed: int, seconds: float | None) -> CandidateTrainConfig:
        from .trainer import CandidateTrainConfig

        return CandidateTrainConfig(**{**self.recipe.config, "seed": seed, "seconds": seconds})

    def _path(self, seed: int) -> Path:
        return self.folder / f"seed-{seed}.safetensors"
