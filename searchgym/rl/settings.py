"""What a run is made of besides what its checkpoint holds: a resumed one must agree with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..llms.prompts import weights_digest

if TYPE_CHECKING:
    from .trainer import Trainer

FREE = ("steps", "save_every", "save_rollouts")
"""Options that a resumed run may change."""


def settings_of(run: Trainer) -> dict[str, dict[str, Any]]:
    """By table: options, recipe, who plays, where, and what of the model is not trained."""
    policy, env = run.policy, run.env
    config = {name: value for name, value in asdict(run.config).items() if name not in FREE}
    return {
        "config": config,
        "recipe": dict(run.recipe.table),
        "player": {
            "renderer": getattr(policy.renderer, "fingerprint", type(policy.renderer).__name__),
            "sampling": policy.sampling._asdict(),
            "seed": policy.seed,
        },
        "env": {
            "tasks": _digest([[task.id, task.question, *task.answers] for task in env.tasks]),
            "rules": _digest(asdict(env.rules)),
            "engine": getattr(env.engine, "fingerprint", type(env.engine).__name__),
        },
        "model": {"held": weights_digest(_held(run.lm))},
    }


def _held(lm: Any) -> Iterator[tuple[str, Any]]:
    """Weights that no checkpoint holds: those that are not trained, and the reference's. Shards of
    a model (FSDP2) are left out: to gather all of it would take longer than it is worth."""
    for name, tensor in lm.untrained():
        if not hasattr(tensor, "full_tensor"):
            yield name, tensor


def _digest(value: Any) -> str:
    plain = json.dumps(value, sort_keys=True, default=lambda o: type(o).__qualname__)
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()
