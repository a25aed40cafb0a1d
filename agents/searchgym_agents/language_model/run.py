"""Fine-tuning of a pretrained model: demonstrations, supervised training, then rewards.

A run is a folder, and the same call goes on where it was interrupted. The folder holds
``demonstrations.safetensors`` (what the expert did, as the model's tokens), ``sft`` (the supervised
stage), ``checkpoints`` (copies of its model, by the tokens it had read), ``rl`` (the second one, a
run as ``searchgym train`` makes them) and ``model``, which is the result.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from searchgym.llms.acceleration import block_attention, training_dtype
from searchgym.llms.base import Sampling
from searchgym.llms.sft import Progress, SftTrainer
from searchgym.llms.sft_data import Example
from searchgym.policies.trainable import TrainableLM
from searchgym.rl.launch import Plan
from searchgym.storage.files import FolderLock, writing

from ..sft import train_to_play
from .demonstrations import FILE, demonstrations, load, save
from .recipe import FinetuneRecipe

SFT, RL, MODEL, COPIES = "sft", "rl", "model", "checkpoints"


class Taught(NamedTuple):
    """Result of the supervised stage."""

    folder: Path
    """The model, as ``transformers`` loads it."""
    episodes: int
    tokens: int
    """Tokens of the demonstrations; each epoch reads all of them."""
    seconds: float
    """Seconds spent in optimiser steps, earlier sessions of a resumed run included."""


def demonstrate(
    out: Path,
    recipe: FinetuneRecipe,
    lm: TrainableLM,
    *,
    report: Callable[[int], object] | None = None,
) -> list[Example]:
    """Read the demonstrations in folder ``out``, or make and keep them.

    Raises:
        DataError: the folder holds those of another recipe, or the expert solved nothing.
    """
    most = recipe.config(0).max_tokens
    about = {
        "demonstrations": recipe.demonstrations, "renderer": recipe.renderer,
        "model": recipe.model, "max_tokens": most,
    }  # fmt: skip
    rows = load(out / FILE, about)
    if rows is None:
        rows = demonstrations(
            lm, recipe.demonstrations, renderer=recipe.renderer, max_tokens=most, report=report
        )
        save(rows, out / FILE, about)
    return rows


def teach(
    out: str | Path,
    recipe: FinetuneRecipe,
    *,
    seed: int = 0,
    model: str | None = None,
    save_every: int = 20,
    made: Callable[[int], object] | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Taught:
    """Train on demonstrations in folder ``out``; an interrupted run goes on.

    Args:
        seed: Seed of the order in which they are read.
        model: Folder to load instead of the recipe's model.
        save_every: Most steps between checkpoints, also written every five minutes.
        made: Called with the number of worlds whose demonstrations are made.
        report: Called after each step.

    Raises:
        DataError: ``out`` holds another run, or another training is writing it.
        EngineError: the model cannot be loaded.
    """
    out, config = Path(out), recipe.config(seed)
    with FolderLock(out):
        lm = TrainableLM(
            model or recipe.model, dtype="float32", freeze=recipe.freeze, compile=recipe.compile
        )
        rows = demonstrate(out, recipe, lm, report=made)
        block_attention(lm.model)
        trainer = SftTrainer(lm.model, rows, config, training_dtype(lm.model.device))
        if recipe.budget:
            steps = read = 0
            while read < recipe.budget:
                read += trainer.tokens_of(steps)
                steps += 1
            trainer.config = replace(config, steps=steps)
        copies = _Copies(out / COPIES, recipe, trainer, lm)

        def each_step(now: Progress) -> None:
            copies.keep()
            if report is not None:
                report(now)

        later = ("rl", "sft", "budget", "keep")
        about = {"recipe": {k: v for k, v in asdict(recipe).items() if k not in later}}
        train_to_play(
            trainer, lm.tokenizer, out / SFT, about, renderer=recipe.renderer,
            turn_tokens=recipe.turn_tokens, freeze=recipe.freeze, save_every=save_every,
            log_every=1, report=each_step,
        )  # fmt: skip
    return Taught(out / SFT, len(rows), sum(len(r.ids) for r in rows), trainer.seconds)


class _Copies:
    """Keeps a copy of a model in training whenever it has read so many tokens."""

    def __init__(
        self, folder: Path, recipe: FinetuneRecipe, trainer: SftTrainer, lm: TrainableLM
    ) -> None:
        self._folder, self._recipe, self._trainer, self._lm = folder, recipe, trainer, lm
        self._left = sorted(recipe.keep)
        self._step = self._tokens = 0

    def keep(self) -> None:
        """Called after each step; of a run that goes on, earlier steps are counted first."""
        while self._step < self._trainer.step:
            self._tokens += self._trainer.tokens_of(self._step)
            self._step += 1
        while self._left and self._left[0] <= self._tokens:
            folder = self._folder / str(self._left.pop(0))
            if folder.exists():
                continue
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._folder) as work, writing(folder):
                whole = self._lm.save(Path(work) / "whole")
                os.replace(_halved(whole, Path(work) / "half", self._recipe), folder)


def _halved(source: Path, folder: Path, recipe: FinetuneRecipe) -> Path:
    """Write a stage's model to be played with, in bfloat16."""
    lm = TrainableLM(str(source), device="cpu", dtype="bfloat16", freeze=recipe.freeze)
    policy = lm.policy(recipe.renderer, sampling=Sampling(max_tokens=recipe.turn_tokens))
    return lm.save(folder, policy=policy)


def rewarded(out: str | Path, recipe: FinetuneRecipe, seed: int = 0) -> Plan | None:
    """Plan of the second stage, to be run in ``out/rl`` from the model in ``out/sft``; None for a
    recipe without one.

    Raises:
        CardError: an unknown recipe, table or option.
    """
    table = dict(recipe.rl)
    if not table or table.get("steps") == 0:
        return None
    train = {"seed": seed, **({"steps": table["steps"]} if "steps" in table else {})}
    return Plan.of(
        table["recipe"], str(Path(out) / SFT), table.get("set", {}),
        env=table.get("env", "SearchQA-v0"), train=train,
    )  # fmt: skip


def finish(out: str | Path, recipe: FinetuneRecipe) -> Path:
    """Write the last stage's model to ``out/model``, in bfloat16, and return that folder.

    Raises:
        DataError: the folder cannot be written.
        EngineError: the stage's model cannot be loaded.
    """
    out = Path(out)
    last = out / RL / MODEL if rewarded(out, recipe) is not None else out / SFT
    return _halved(last, out / MODEL, recipe)
