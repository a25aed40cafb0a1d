"""Tokens per second of training updates, and their share of the GPU's peak.

Supervised updates go through ``SftTrainer``, those of GRPO through ``Trainer`` and its ``Updater``,
on episodes whose texts are known beforehand. Passes grow until the rate does not.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from searchgym.llms import Sampling, SftConfig, SftTrainer, compile_layers, training_dtype
from searchgym.policies import CausalLMPolicy, TrainableLM
from searchgym.rl import TrainConfig, Trainer, read
from searchgym.seeding import stream
from tests.benchmarks.scripted import Recites
from tests.benchmarks.scripted import setting as scripted
from tests.benchmarks.scripted import tokenizer as scripted_tokenizer

from .models import SIZES, flops, random_model
from .setting import (
    Report,
    Setting,
    attempted,
    clean,
    peak_gib,
    replaced,
    seconds,
    skipped,
    used_share,
)

LENGTHS = (350, 430, 520, 560, 610, 680, 760, 900)
"""Tokens of demonstrations of one to three hops."""
OWN = 0.17
"""Share of them that the expert wrote."""
GAIN = 1.03
"""Passes twice as large must be this much faster to be doubled again."""
FULL = 0.8
"""Share of the memory beyond which passes are not doubled."""


class Variant(NamedTuple):
    """How weights are held and attention is computed."""

    name: str
    dtype: torch.dtype
    autocast: bool
    attention: str = "sdpa"
    compiled: bool = False


VARIANTS = (
    Variant("float32, autocast", torch.float32, True),
    Variant("float32, autocast, compiled", torch.float32, True, compiled=True),
    Variant("bfloat16, flash 2", torch.bfloat16, False, "flash_attention_2"),
    Variant("bfloat16", torch.bfloat16, False),
    Variant("bfloat16, compiled", torch.bfloat16, False, compiled=True),
)
"""Float32 weights under autocast, as trainers have them; bfloat16 ones with each attention; both
with compiled layers, too, in supervised updates, since compiling takes time."""


class Update(NamedTuple):
    """One optimizer update."""

    seconds: float
    lengths: list[int]
    """Of its rows, in tokens."""
    heads: int
    """Places at which logits were computed."""


class Row(NamedTuple):
    """An example of N tokens."""

    ids: NDArray[np.int64]
    own: NDArray[np.bool_]


def part(setting: Setting, machine: Report) -> Report:
    """Measure both kinds of update for each size; shares of peak are those of ``machine``."""
    found: Report = {"flops": "6·P·T + 6·V·d·H + 6·L·a·ΣT² (see models.flops)"}
    jobs = [(size, kind) for size in setting.sizes for kind in (sft, grpo)]
    for number, (size, kind) in enumerate(jobs):
        mine = setting.until(1 / (len(jobs) - number))
        variants = [v for v in VARIANTS if kind is sft or not v.compiled]
        found.setdefault(size, {})[kind.__name__] = {
            v.name: attempted(
                partial(measured, mine.until(1 / (len(variants) - i)), size, v, kind, machine)
            )
            for i, v in enumerate(variants)
        }
    return found


def measured(
    setting: Setting, size: str, variant: Variant, kind: Callable[..., Any], machine: Report
) -> Report:
    """Rates with passes of 8,192 padded tokens and more; the best one counts."""
    device = setting.device
    if variant.attention == "flash_attention_2":
        if find_spec("flash_attn") is None:
            return skipped("flash-attn is not installed")
        if device.type != "cuda":
            return skipped("flash-attn runs on GPUs")
    if variant.compiled and device.type != "cuda":
        return skipped("layers are compiled for GPUs")
    clean(device)
    passes: list[Report] = []
    stopped, tokens = "", 256 if setting.dry else 8192
    model = random_model(size, device, variant.dtype, variant.attention)
    if variant.compiled:
        compile_layers(model)
    try:
        update = kind(setting, size, variant, model)
        while not stopped:
            begun = time.perf_counter()
            clean(device)
            made: Update = update(tokens)
            used = used_share(device)
            tflops = flops(model, made.lengths, made.heads) / made.seconds / 1e12
            rate = sum(made.lengths) / made.seconds
            passes.append(
                {"pass_tokens": tokens, "tokens_per_s": rate, "tflops": tflops,
                 "seconds": made.seconds, "tokens": sum(made.lengths),
                 "peak_gib": peak_gib(device)}
            )  # fmt: skip
            if len(passes) > 1 and rate < GAIN * passes[-2]["tokens_per_s"]:
                stopped = "no faster"
            elif used > FULL:
                stopped = f"{used:.0%} of the memory is used"
            elif setting.left < 2.5 * (time.perf_counter() - begun):
                stopped = "no time was left"
            elif setting.dry and len(passes) == 2:
                stopped = "a dry run"
            elif tokens > made_of(made):
                stopped = "one pass holds all rows"
            tokens *= 2
    except torch.OutOfMemoryError:
        stopped = f"out of memory at {tokens:,} tokens a pass"
    clean(device)
    if not passes:
        return skipped(stopped)
    best = max(passes, key=lambda p: p["tokens_per_s"])
    promised, ceiling = machine.get("promised_tflops"), machine.get("matmul_tflops")
    return {
        **best, "stopped": stopped, "passes": passes,
        "share_of_promised": best["tflops"] / promised if promised else None,
        "share_of_matmul": best["tflops"] / ceiling if ceiling else None,
    }  # fmt: skip


def made_of(update: Update) -> int:
    """Padded tokens of all rows of an update together."""
    return max(update.lengths) * len(update.lengths)


def sft(setting: Setting, size: str, variant: Variant, model: Any) -> Callable[[int], Update]:
    """Updates of ``SftTrainer``, of about three passes each."""
    rounds = 1 if setting.dry else 3
    dtype = training_dtype(setting.device) if variant.autocast else torch.float32

    def update(tokens: int) -> Update:
        batch = max(2, tokens // 200)
        examples = rows(batch, SIZES[size]["vocab_size"])
        config = SftConfig(
            steps=rounds + 2, batch=batch, lr=1e-5, muon_lr=0.0, prompt_weight=0.0, tokens=tokens
        )
        trainer = SftTrainer(model, examples, config, dtype)
        trainer.advance()  # a warm-up

        def run() -> None:
            for _ in range(rounds):
                trainer.advance()

        spent = seconds(run, setting.device) / rounds
        own = sum(int(row.own[1:].sum()) for row in examples)
        return Update(spent, [len(row.ids) for row in examples], own)

    return update


def rows(count: int, vocabulary: int) -> list[Row]:
    """Examples of random tokens, of which the expert wrote the last ones of three turns."""
    draw = stream(0, "rows")
    made = []
    for number in range(count):
        length = LENGTHS[number % len(LENGTHS)]
        own = np.zeros(length, np.bool_)
        for turn in (0.35, 0.7, 1.0):
            end = int(turn * length)
            own[end - int(OWN * length / 3) : end] = True
        made.append(Row(draw.integers(vocabulary, size=length), own))
    return made


def grpo(setting: Setting, size: str, variant: Variant, model: Any) -> Callable[[int], Update]:
    """Updates of a ``Trainer`` by GRPO, on one batch that it has played."""
    tasks, group, turns, length = (1, 4, 3, 20) if setting.dry else (8, 8, 4, 150)
    lm = TrainableLM(
        model, scripted_tokenizer(), autocast="auto" if variant.autocast else None
    )  # fmt: skip
    policy = CausalLMPolicy(Recites(lm.model, group, turns, length), sampling=Sampling(512))
    recipe = {**read("grpo"), "rollout": {"use": "chains", "size": group}}
    config = TrainConfig(steps=100, tasks=tasks, lr=1e-6, tokens=8192)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that updates of bfloat16 weights are rounded away
        trainer = Trainer(scripted(tasks, turns=turns), lm, recipe, config, policy=policy)
    updater = trainer.updater
    seen: list[Any] = []
    change = updater.update

    def kept(*asked: Any) -> dict[str, float]:
        seen[:] = asked
        return change(*asked)

    with replaced(updater, "update", kept):
        trainer.advance()
    if not seen:
        raise RuntimeError("the scripted episodes gave no batch to learn from")

    def update(tokens: int) -> Update:
        updater.config, lm.tokens = replace(config, tokens=tokens), tokens
        change(*seen)  # a warm-up
        spent = min(
            seconds(lambda: change(*seen), setting.device) for _ in range(1 if setting.dry else 2)
        )
        batch = seen[0].rows
        heads = sum(int(row.sampled.sum()) for row in batch)
        return Update(spent, [len(row) for row in batch], heads)

    return update
