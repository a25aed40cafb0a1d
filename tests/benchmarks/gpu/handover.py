"""Seconds in which new weights come from the model in training to one that plays."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

from searchgym.llms import TransformersGenerator, size_of
from searchgym.policies import TrainableLM
from searchgym.rl import new_folder, newest, publish

from .models import random_model, tokenizer
from .setting import Report, Setting, attempted, clean, seconds, skipped


def part(setting: Setting) -> Report:
    """Measure each size."""
    found: Report = {}
    for size in setting.sizes:
        if found and setting.left < 10:
            found[size] = skipped("no time was left for it")
            continue
        found[size] = attempted(partial(of_size, setting, size))
        clean(setting.device)
    return found


def of_size(setting: Setting, size: str) -> Report:
    """The ways that need no server: one model for both, a copy in the process, and a file for
    another process."""
    device = setting.device
    lm = TrainableLM(random_model(size, device, setting.dtype), tokenizer(size))
    policy = lm.policy("plain")
    weights: dict[str, Any] = {}
    spent = {"shared": seconds(policy.weights_changed, device)}
    lm.merged()  # a warm-up: the memory is asked for once
    spent["collect"] = seconds(lambda: weights.update(lm.merged()), device)
    copy = TransformersGenerator(random_model(size, device, setting.dtype), tokenizer(size))
    spent["load into a copy"] = seconds(lambda: copy.update_weights(weights), device)
    folder = new_folder(2 * size_of(weights))
    try:
        spent["write a file"] = seconds(lambda: publish(folder, untied(weights), 1), device)
        read: list[Any] = []
        spent["read the file"] = seconds(lambda: read.append(newest(folder, None)), device)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    moved = size_of(weights)
    return {"bytes": moved, "seconds": spent,
            "copy_gb_s": moved / (spent["collect"] + spent["load into a copy"]) / 1e9}  # fmt: skip


def untied(weights: dict[str, Any]) -> dict[str, Any]:
    """The weights with memory of their own, as ``publish`` is given them."""
    return {name: value.contiguous() for name, value in weights.items()}
