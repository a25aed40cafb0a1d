"""Settings of a run that its checkpoint does not hold; a resumed run must have the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Protocol

from ..llms.prompts import weights_digest
from ..policies.trainable import REFERENCE
from ..utils.trust import own_code
from .roles import settings_of_roles

FREE = ("steps", "save_every", "save_rollouts")
"""Options that a resumed run may change."""


class TrainerState(Protocol):
    """State of a trainer that settings and checkpoints read and restore."""

    lm: Any
    policy: Any
    env: Any
    recipe: Any
    config: Any
    critic: Any
    reference: Any
    roles: Any
    monitor: Any
    processes: Any
    updater: Any
    steps: int
    metrics: dict[str, float]


def settings_of(run: TrainerState) -> dict[str, dict[str, Any]]:
    """Tables of settings: training options, recipe, player, environment, and a digest of the
    weights that are not trained."""
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
            "rules": _digest(env.rules.to_json()),
            "engine": getattr(env.engine, "fingerprint", type(env.engine).__name__),
            "search_enabled": env.search_enabled,
            "params": dict(env.params),
            "time_limit": env.time_limit,
            "own code": own_code(env),
        },
        "model": {"frozen": weights_digest(_frozen_weights(run.lm, run.reference is not None))},
        **({"roles": settings_of_roles(run.roles)} if run.roles else {}),
    }


def _frozen_weights(lm: Any, moves: bool) -> Iterator[tuple[str, Any]]:
    """Weights that no checkpoint holds: those that are not trained, and the reference's unless it
    ``moves``. Sharded weights (FSDP2) are left out: gathering them all would take too long."""
    for name, tensor in lm.untrained():
        if not hasattr(tensor, "full_tensor") and not (moves and name.startswith(REFERENCE)):
            yield name, tensor


def _digest(value: Any) -> str:
    plain = json.dumps(value, sort_keys=True, default=lambda o: type(o).__qualname__)
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()
