"""Tokens written per second: episodes of the real environment against flat batches.

Random weights never end a text, so each turn has a fixed number of tokens. Flat batches read what
the episodes read, and write as many tokens in one go: by our generator, and by ``generate`` of
transformers, which is the ceiling of any player over it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from searchgym.core import Episode, EpisodeConfig, run_episodes
from searchgym.llms import GenRequest, Running, Sampling, left_padded, transformers_generator
from searchgym.policies import CausalLMPolicy, TrainableLM, TrainingRow

from .dialect import NAME
from .models import random_model, tokenizer
from .setting import (
    Report,
    Setting,
    attempted,
    clean,
    peak_gib,
    replaced,
    reserved_gib,
    seconds,
    skipped,
    wait,
)
from .world import env

TURNS = 3
NO_TIME = "no time was left for it"


def part(setting: Setting) -> Report:
    """Measure each size at each number of episodes."""
    found: Report = {"turns": TURNS, "turn_tokens": 8 if setting.dry else 48}
    for number, size in enumerate(setting.sizes):
        mine = setting.until(1 / (len(setting.sizes) - number))
        found[size] = attempted(partial(of_size, mine, size, found["turn_tokens"]))
        clean(setting.device)
    return found


def of_size(setting: Setting, size: str, length: int) -> Report:
    """Rates of one model."""
    device = setting.device
    lm = TrainableLM(random_model(size, device, setting.dtype), tokenizer(size))
    report: Report = {}
    for count in (4, 8) if setting.dry else (64, 256):
        for way, run in ways(lm, count, length).items():
            name = f"{way} x {count}"
            spent = report.get(f"{way} x {count // 4}", {}).get("seconds", 0.0)
            if setting.left < 2 * spent + 2:
                report[name] = skipped(NO_TIME)
                continue
            clean(device)
            report[name] = attempted(partial(run, setting))
            report[name] |= {"peak_gib": peak_gib(device), "reserved_gib": reserved_gib(device)}
    return report


def ways(lm: TrainableLM, count: int, length: int) -> dict[str, Callable[[Setting], Report]]:
    """What is measured, by name."""
    rows: list[TrainingRow] = []

    def lock_step(setting: Setting) -> Report:
        return episodes(setting, lm, count, length, rows)

    def flat(setting: Setting) -> Report:
        return ours_flat(setting, lm, rows)

    def generate(setting: Setting) -> Report:
        return theirs_flat(setting, lm, rows)

    return {"lock step": lock_step, "flat, ours": flat, "generate": generate}


def policy_of(lm: TrainableLM, length: int) -> CausalLMPolicy:
    """A policy as a trainer makes it; its texts end by length alone."""
    policy = lm.policy("plain", sampling=Sampling(max_tokens=length))
    policy.generator.eos = frozenset()  # type: ignore[attr-defined]
    return policy


def fresh(dry: bool, count: int, name: str) -> tuple[list[Episode], Any]:
    """Episodes of ``TURNS`` turns, and the tools."""
    there = env(dry, NAME)
    rules = replace(there.rules, max_turns=TURNS)
    tasks = there.tasks
    made = [
        Episode(EpisodeConfig(tasks[i % len(tasks)], rules, i, f"{name}.{i}")) for i in range(count)
    ]
    return made, there.toolbox


def episodes(
    setting: Setting, lm: TrainableLM, count: int, length: int, into: list[TrainingRow]
) -> Report:
    """Play; the rows go into the list."""
    policy = policy_of(lm, length)
    warm, toolbox = fresh(setting.dry, 2, "warm")
    run_episodes(warm, policy, toolbox)
    policy.release()
    played, toolbox = fresh(setting.dry, count, f"lock{count}")
    with watched(setting.device) as parts:
        begun = time.perf_counter()
        run_episodes(played, policy, toolbox, batch=count)
        wait(setting.device)
        spent = time.perf_counter() - begun
    into[:] = [row for e in played for row in policy.rows(e)]
    written = sum(int(row.sampled.sum()) for row in into)
    read = sum(map(len, into)) - written
    policy.release()
    return {"tokens_per_s": written / spent, "written": written, "read": read, "seconds": spent,
            "shares": {name: value / spent for name, value in parts.items()}}  # fmt: skip


def ours_flat(setting: Setting, lm: TrainableLM, rows: list[TrainingRow]) -> Report:
    """All that the rows read as prompts, all that they wrote in one text."""
    generator = lm.generator()
    generator.eos = frozenset()
    asked = [
        GenRequest(tuple(row.ids[~row.sampled].tolist()), Sampling(int(row.sampled.sum())), key=i)
        for i, row in enumerate(rows)
    ]
    with watched(setting.device) as parts:
        spent = seconds(lambda: generator.run(asked), setting.device)
    written = sum(r.sampling.max_tokens for r in asked)
    return {"tokens_per_s": written / spent, "written": written, "seconds": spent,
            "shares": {name: value / spent for name, value in parts.items()}}  # fmt: skip


def theirs_flat(setting: Setting, lm: TrainableLM, rows: list[TrainingRow]) -> Report:
    """The same by ``generate``, sampling from the whole distribution."""
    prompts = [tuple(row.ids[~row.sampled].tolist()) for row in rows]
    ids, mask = left_padded(prompts, lm.pad, lm.model.device)
    new = int(rows[0].sampled.sum())
    options: dict[str, Any] = {
        "attention_mask": mask, "do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0,
        "max_new_tokens": new, "min_new_tokens": new, "pad_token_id": lm.pad,
    }  # fmt: skip

    def run() -> None:
        with torch.inference_mode():
            made = lm.model.generate(ids, **options)
        assert made.shape == (len(rows), ids.shape[1] + new), made.shape

    spent = seconds(run, setting.device)
    return {"tokens_per_s": len(rows) * new / spent, "written": len(rows) * new, "seconds": spent}


@contextmanager
def watched(device: torch.device) -> Iterator[dict[str, float]]:
    """Seconds in the model and in drawing tokens; the rest is text, Python and the environment.
    The device is waited for after each, which it would be soon anyway."""
    parts = {"model": 0.0, "draw": 0.0}

    def timed(name: str, function: Any) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            wait(device)
            begun = time.perf_counter()
            result = function(*args, **options)
            wait(device)
            parts[name] += time.perf_counter() - begun
            return result

        return run

    drawing = timed("draw", transformers_generator.draw)
    with ExitStack() as stack:
        for method in ("__init__", "step"):
            model = timed("model", getattr(Running, method))
            stack.enter_context(replaced(Running, method, model))
        stack.enter_context(replaced(transformers_generator, "draw", drawing))
        yield parts
