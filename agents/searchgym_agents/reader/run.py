"""The whole warm start: examples, tokenizer, model, and training in stages, easy ones first.

Copying a name is learnt first, from the shortest rows there are; then what a question asks for;
then which of a page's facts that is, from drills; then whole episodes. Each makes the next
learnable at all: from whole episodes alone a small model is still at chance after as many tokens.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from searchgym.errors import DataError
from searchgym.llms.acceleration import fast_dtype
from searchgym.llms.sft import STATE, Progress, SftConfig
from searchgym.llms.small import check_width, small_model
from searchgym.storage.checkpoint import read_state
from searchgym.storage.files import FolderLock

from ..sft import train_to_play
from .examples import examples
from .lexicon import embed, known, lexicon_of, word_tokenizer
from .mixture import Mixture, Stage
from .slots import has_slots
from .traces import DEFAULTS, ENTITIES
from .trainer import OTHERS, PROJECTION, TraceTrainer, rows_read

OWN_TOKENS = 128
"""Largest number of tokens in a turn; few turns take more than forty."""
COPYING = 300
"""Steps of the first stage, however long the rest is."""
EMBEDDINGS = "*embed_tokens*"
"""Stand still in reinforcement learning where most of them are given: :func:`.lexicon.embed`."""


def stages(steps: int, *, few_episodes: bool = False) -> tuple[Stage, ...]:
    """Return the stages of a warm start of ``steps`` steps in all; ``DataError`` below 600.

    ``few_episodes``: after copying, one step in twenty is on whole episodes, and one of five of
    those on such of several hops. That leaves going on after the first hop to reinforcement
    learning, for a model that reads well; without any, going on would never be tried, and rewards
    cannot teach what samples never do.
    """
    if steps < 2 * COPYING:
        raise DataError(f"a warm start takes at least {2 * COPYING} steps, got {steps}")
    rest = steps - COPYING
    copying = Stage(COPYING, {"copy": 1.0})
    if few_episodes:
        shares = {"plan": 0.15, "cloze": 0.1, "drill": 0.7, "one": 0.04, "trace": 0.01}
        return (copying, Stage(rest, shares))
    asked, reading = rest // 10, rest * 2 // 5
    return (
        copying,
        Stage(asked, {"plan": 1.0}),
        Stage(reading, {"plan": 0.25, "cloze": 0.05, "drill": 0.6, "one": 0.1}),
        Stage(rest - asked - reading, {"plan": 0.2, "drill": 0.3, "trace": 0.5}),
    )


class WarmStart(NamedTuple):
    """A reader made by :func:`warm_start`, and how long it took."""

    model: Any
    tokenizer: Any
    tokens: int
    """Read in training, without padding."""
    seconds: float
    """Seconds spent in optimiser steps, earlier sessions of a resumed run included."""


def warm_start(
    out: str | os.PathLike[str],
    plan: Sequence[Stage],
    *,
    worlds: int = 60,
    vocabulary: int | None = None,
    width: int = 128,
    tokens: int = 1500,
    max_tokens: int = 1000,
    cooldown: float = 0.25,
    others: int = OTHERS,
    seed: int = 0,
    dtype: torch.dtype | None = None,
    encoder: Any | None = None,
    paraphrases: bool = False,
    keywords: Mapping[str, Any] = DEFAULTS,
    entities: int = ENTITIES,
    processes: int = 1,
    report: Callable[[Progress], None] | None = None,
    written: Callable[[int], None] | None = None,
) -> WarmStart:
    """Train a reader from nothing in folder ``out``; an interrupted run goes on.

    ``out`` then holds the model and tokenizer as ``transformers`` loads them, and the run.

    Args:
        out: A folder.
        plan: Its stages: ``stages(5_000)``.
        worlds: Where the examples come from.
        vocabulary: Pieces of words that are tokens; default: 600 beside whole words, else 2,048.
        width: Of the model.
        tokens: Per step.
        max_tokens: Longer rows are left out.
        cooldown: Last share of the steps, over which the learning rates fall to 0.
        others: Tokens beside those of a batch among which the next one is looked for.
        seed: Of worlds, weights and order.
        dtype: Of matrix products in training; ``None``: that of the run in ``out``, which may have
            been begun on another processor, else whichever is faster here
            (:func:`~searchgym.llms.acceleration.fast_dtype`).
        encoder: Where the embeddings of words come from (:mod:`.lexicon`), beside which names are
            slots; ``None``: all are learnt, words and names in pieces.
        paraphrases: Whether three of four worlds are worded in many more ways.
        keywords: Of the environment.
        entities: Per world.
        processes: Write the examples, in whichever number the same; with more than one, the call
            stands under ``if __name__ == "__main__":``.
        report: Is told each step's progress.
        written: Is told how many worlds' examples are written.

    Raises:
        DataError: no stages, no examples, the folder holds another run, or another training is
            writing it.
    """
    out = Path(out)
    if not plan:
        raise DataError("a warm start needs at least one stage")
    check_width(width)
    with FolderLock(out) as lock:  # before the examples are written, which takes a while
        texts = examples(
            worlds, keywords=keywords, entities=entities, paraphrases=paraphrases,
            seed=seed, processes=processes, report=written,
        )  # fmt: skip
        lexicon = None if encoder is None else lexicon_of(texts.texts(), encoder)
        if lexicon is None:
            vocabulary = vocabulary or 2048
            tokenizer = texts.tokenizer(vocabulary)
        else:
            vocabulary = vocabulary or 600
            tokenizer = word_tokenizer(texts.tokenizer(vocabulary, known(lexicon)), lexicon)
        mixture = Mixture(texts.rows(tokenizer, max_tokens), plan, tokens=tokens, seed=seed)
        config = SftConfig(steps=len(mixture), cooldown=cooldown, seed=seed)
        model = small_model(tokenizer, width=width, seed=seed)
        # the fused attention's backward pass alone took a quarter of a step on a CPU
        model.set_attn_implementation("eager")
        given = None if lexicon is None else embed(model, tokenizer, lexicon)
        dtype = dtype or _dtype_of(out / STATE) or fast_dtype()
        trainer = TraceTrainer(model, mixture, config, dtype, given, others)
        about = {
            "stages": [[stage.steps, dict(sorted(stage.shares.items()))] for stage in plan],
            "worlds": worlds, "vocabulary": vocabulary, "width": width, "tokens": tokens,
            "dtype": str(dtype), "words": None if encoder is None else encoder.name,
            "max_tokens": max_tokens, "entities": entities, "others": others,
            **({"paraphrases": True} if paraphrases else {}),
            **({} if given is None else {"projection": PROJECTION}),
            "keywords": json.dumps(
                dict(keywords), sort_keys=True, default=lambda o: type(o).__name__
            ),
        }  # fmt: skip
        train_to_play(
            trainer, tokenizer, out, about, renderer="names" if has_slots(tokenizer) else "bare",
            turn_tokens=OWN_TOKENS, freeze=() if encoder is None else (EMBEDDINGS,),
            report=report, lock=lock,
        )  # fmt: skip
        return WarmStart(model, tokenizer, rows_read(mixture, trainer.step), trainer.seconds)


def _dtype_of(state: Path) -> torch.dtype | None:
    """Return the dtype in which a run was begun; ``None`` if there is no run."""
    if not state.exists():
        return None
    _, header = read_state(state, "this trainer")
    named = {str(dtype): dtype for dtype in (torch.float32, torch.bfloat16)}
    return named.get((header.get("settings") or {}).get("dtype", ""))
