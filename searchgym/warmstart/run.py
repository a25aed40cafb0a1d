"""The whole warm start: traces, tokenizer, model, and training in stages, easy ones first.

Copying is learned first. In single runs, short rows in small batches got there with a fraction of
the tokens that mixed ones took, so the first stage reads one passage for one fact; the later ones
add hops and passages that do not help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DataError
from ..llms.sft import Progress, SftConfig, train
from ..llms.small import small_model
from .reading import TraceRow, encode_traces, reader_tokenizer
from .traces import ENTITIES, SETTING, Trace, many_traces
from .training import TraceTrainer


class Stage(NamedTuple):
    """Part of a warm start."""

    k: int
    """Passages shown per search."""
    hops: tuple[int, ...]
    """Lengths of the questions."""
    worlds: int
    """Where its traces come from; no stage sees another's worlds."""
    config: SftConfig


STAGES: tuple[Stage, ...] = (
    Stage(1, (1,), 60, SftConfig(steps=500, batch=16, cooldown=0.1)),
    Stage(2, (1, 2, 3), 120, SftConfig(steps=900, batch=8, max_tokens=700)),
)
"""A starting point, not a tuned recipe: no figure has been measured for these steps together."""


class WarmStart(NamedTuple):
    """What came out."""

    model: Any
    tokenizer: Any
    tokens: int
    """Read in training, without padding."""
    seconds: float
    """Spent in optimiser steps, earlier sessions of a resumed run included."""


def stage_traces(
    stage: Stage,
    seed: int,
    *,
    keywords: Mapping[str, Any] = SETTING,
    entities: int = ENTITIES,
) -> list[Trace]:
    """The traces of a stage."""
    found = many_traces(
        stage.worlds, keywords={**keywords, "k": stage.k}, entities=entities, seed=seed
    )
    kept = [trace for trace in found if trace.hops in stage.hops]
    if not kept:
        raise DataError(f"no trace has {stage.hops} hops: give keywords with tasks that do")
    return kept


def warm_start(
    out: Path,
    stages: Sequence[Stage] = STAGES,
    *,
    vocabulary: int = 2048,
    width: int = 128,
    seed: int = 0,
    keywords: Mapping[str, Any] = SETTING,
    entities: int = ENTITIES,
    report: Callable[[int, Progress], None] | None = None,
) -> WarmStart:
    """Train a reader from nothing in folder ``out``; an interrupted run goes on.

    ``out`` then holds the model and tokenizer as ``transformers`` loads them, and a folder for each
    stage. The tokenizer is made of the last stage's traces. ``report`` is told stage and progress.
    ``DataError``: the folder holds another run.
    """
    if not stages:
        raise DataError("a warm start needs at least one stage")
    traces = [
        stage_traces(stage, seed * 1_000 + i, keywords=keywords, entities=entities)
        for i, stage in enumerate(stages)
    ]
    tokenizer = reader_tokenizer(traces[-1], vocabulary)
    model = small_model(tokenizer, width=width, seed=seed)
    tokens, seconds = 0, 0.0
    for i, (stage, some) in enumerate(zip(stages, traces, strict=True)):
        rows = encode_traces(tokenizer, some, stage.config.max_tokens)
        trainer = TraceTrainer(model, rows, stage.config)

        def told(now: Progress, stage_number: int = i) -> None:
            if report is not None:
                report(stage_number, now)

        about = {"stage": i, "seed": seed, "vocabulary": vocabulary, "width": width}
        train(trainer, tokenizer, out / f"stage{i}", about=about, report=told)
        tokens += tokens_of(trainer, rows)
        seconds += trainer.seconds
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return WarmStart(model, tokenizer, tokens, seconds)


def tokens_of(trainer: TraceTrainer, rows: Sequence[TraceRow]) -> int:
    """Tokens that a trainer's steps so far have read."""
    return sum(len(rows[i].ids) for step in range(trainer.step) for i in trainer._batch(step))
