"""Training steps of GRPO with the settings of a card, for as long as there is time."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from searchgym.errors import SearchGymError
from searchgym.llms import resolve
from searchgym.policies import TrainableLM, read_note, sampling_of
from searchgym.rl import TrainConfig, Trainer, read

from .models import SIZES, random_model, tokenizer
from .setting import Report, Setting, clean, peak_gib
from .world import card, env

DEFAULT = "smollm2-135m"
"""Model that learns; random weights stand in where it cannot be fetched."""
TASKS = 16
"""Questions of a step on a GPU, which writes 128 texts as fast as 32."""
SHOWN = ("reward", "em", "searches", "loss", "grad_norm", "rollout_s", "update_s")


def part(setting: Setting) -> Report:
    """Train; one entry of the curve per step."""
    clean(setting.device)
    on_gpu, table = setting.device.type == "cuda", card()["set"]
    lm, about = loaded(setting, table["load"])
    sampling = sampling_of({**table["sampling"], **({"max_tokens": 8} if setting.dry else {})})
    policy = lm.policy(sampling=sampling, seed=0)
    size = 2 if setting.dry else table["rollout"]["size"]
    recipe = {**read(card()["recipe"]), "rollout": {"use": "chains", "size": size}}
    changes = {**table["train"], "steps": 2 if setting.dry else 100_000}
    changes["tasks"] = 2 if setting.dry else TASKS if on_gpu else changes["tasks"]
    if on_gpu:
        changes["tokens"] = lm.tokens = 32_768
    config = TrainConfig(**changes)
    report: Report = {**about, "config": dict(changes), "group": size, "curve": []}
    written: dict[str, int] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(env(setting.dry), lm, recipe, config, policy=policy)
        _count_tokens(trainer, written)
        longest = 0.0
        while trainer.steps < config.steps and (
            setting.left > 1.3 * longest or not report["curve"]
        ):
            written.clear()
            begun = time.perf_counter()
            metrics = trainer.advance()
            longest = max(longest, time.perf_counter() - begun)
            entry = {name: metrics.get(name) for name in SHOWN} | written
            report["curve"].append({"step": trainer.steps, **entry})
    report["peak_gib"] = peak_gib(setting.device)
    playing = sum(e["rollout_s"] for e in report["curve"])
    updating = sum(e["update_s"] for e in report["curve"])
    tokens = [sum(e.get(k, 0) for e in report["curve"]) for k in ("written", "trained_on")]
    return {
        **report, "steps": trainer.steps, "playing_s": playing, "updating_s": updating,
        "written_per_s": tokens[0] / playing, "updated_per_s": tokens[1] / updating,
    }  # fmt: skip


def loaded(setting: Setting, options: dict[str, Any]) -> tuple[TrainableLM, Report]:
    """The model that was asked for, else one with random weights, and which it is."""
    device = str(setting.device)
    size = setting.model if setting.model in SIZES else setting.sizes[0]
    if size == setting.model or (setting.dry and setting.model == DEFAULT):
        why = "it was asked for" if size == setting.model else "a dry run"
    else:
        os.environ.setdefault("PIP_RETRIES", "0")  # a machine without network must not wait
        os.environ.setdefault("PIP_DEFAULT_TIMEOUT", "8")
        try:
            path = Path(resolve(setting.model))
            note = read_note(path) if path.is_dir() else {}
            lm = TrainableLM(
                str(path), device=device, dtype="float32", freeze=note.get("freeze", ()), **options
            )
            return lm, {"model": setting.model}
        except (SearchGymError, OSError) as error:
            if setting.model != DEFAULT:
                raise
            why = str(error)
    model = random_model(size, setting.device, torch.float32)
    lm = TrainableLM(model, tokenizer(size), **options)
    about = {"model": f"random weights of {size}", "instead_of": setting.model, "because": why}
    return lm, about


def _count_tokens(trainer: Trainer, into: dict[str, int]) -> None:
    """Note how many tokens each update's batch has."""
    update = trainer.updater.update

    def counted(batch: Any, coef: Any, step: int) -> dict[str, float]:
        into["written"] = sum(int(row.sampled.sum()) for row in batch.rows)
        into["trained_on"] = sum(map(len, batch.rows))
        return update(batch, coef, step)

    trainer.updater.update = counted  # type: ignore[method-assign]
