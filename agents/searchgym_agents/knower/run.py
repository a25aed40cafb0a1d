"""Training a knower from nothing, resumable, by the warm start's trainer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from searchgym.errors import DataError
from searchgym.llms.sft import STATE, Progress, SftConfig
from searchgym.llms.small import small_model
from searchgym.storage.files import FolderLock

from ..reader.encoding import encode_traces
from ..reader.mixture import Mixture
from ..reader.trainer import TraceTrainer, rows_read
from ..sft import train_to_play
from .knowledge import ABOUT, Knowledge
from .lessons import lessons
from .recipe import KnowerRecipe, world_of

MAX_TOKENS = 384
"""Largest number of tokens in a row and in one text by the model, which may be a whole self-search
episode."""


class Knower(NamedTuple):
    """The result of a run: a trained knower."""

    model: Any
    tokenizer: Any
    knowledge: Knowledge
    facts: int
    """Number of facts of its world, taught or not."""
    tokens: int
    """Read in training, without padding."""
    seconds: float
    """Seconds spent in optimiser steps, earlier sessions of a resumed run included."""


def make_knower(
    out: Path,
    recipe: KnowerRecipe,
    *,
    steps: int = 1_500,
    vocabulary: int = 1024,
    width: int = 128,
    tokens: int = 1500,
    cooldown: float = 0.3,
    dtype: torch.dtype = torch.float32,
    report: Callable[[Progress], None] | None = None,
) -> Knower:
    """Train a knower from nothing in folder ``out``; an interrupted run goes on.

    ``out`` then holds the model and tokenizer as ``transformers`` loads them, the run,
    ``taught.jsonl`` and ``knower.json`` (see :class:`Knowledge`).

    Args:
        out: A folder.
        recipe: World and facts.
        steps: Of training.
        vocabulary: Tokens besides the dialect's marks.
        width: Of the model.
        tokens: Per step.
        cooldown: Last share of the steps, over which the learning rates fall to 0.
        dtype: Of matrix products in training.
        report: Is told each step's progress.

    Raises:
        DataError: nothing to learn, too few steps, or the folder holds another run.
        TaskError: the corpus is not generated.
    """
    if (out / STATE).exists() and not (out / ABOUT).exists():
        raise DataError(f"{out} holds a training of another kind: use another folder")
    made = recipe.env(tasks={"simple": 1})
    knowledge = Knowledge.drawn(recipe, world_of(made))
    texts = lessons(made, knowledge)
    plan = texts.stages(steps)
    tokenizer = texts.tokenizer(vocabulary)
    rows = {kind: encode_traces(tokenizer, t, MAX_TOKENS) for kind, t in texts.traces.items()}
    mixture = Mixture(rows, plan, tokens=tokens, seed=recipe.seed)
    model = small_model(tokenizer, width=width, seed=recipe.seed)
    # as in the warm start: the fused attention's backward pass is slow on a CPU
    model.set_attn_implementation("eager")
    config = SftConfig(steps=steps, cooldown=cooldown, seed=recipe.seed)
    trainer = TraceTrainer(model, mixture, config, dtype)
    about = {
        "knower": asdict(recipe), "vocabulary": vocabulary, "width": width, "tokens": tokens,
        "dtype": str(dtype),
    }  # fmt: skip

    with FolderLock(out) as lock:
        knowledge.save(out, world_of(made))
        train_to_play(
            trainer, tokenizer, out, about, renderer="bare", turn_tokens=MAX_TOKENS,
            report=report, lock=lock,
        )  # fmt: skip
    read = rows_read(mixture, trainer.step)
    return Knower(model, tokenizer, knowledge, world_of(made).n_facts, read, trainer.seconds)
