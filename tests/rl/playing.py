"""What rollout workers are made of in tests. Imports and builds all they need, so that a fork of a
process that has imported this starts at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers.models.llama.modeling_llama  # noqa: F401

import searchgym.rl.asynchronous.worker
import searchgym.rl.trainer  # noqa: F401
from searchgym.engines import BM25Engine  # noqa: F401
from searchgym.rl.rollouts.chains import Chains
from searchgym.rl.slots.records import Group, OwnWeights, TaskPlan, Workers
from tests.rl.colours import SAMPLING, blank, setting, tokenizer

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork
setting()
tokenizer()


def make(seed: int = 0, pause: float = 0.0, kill: str = "", fail: bool = False) -> Workers:
    """A blank model, which gets the trainer's weights. ``pause``: seconds before each batch of
    turns; ``kill``: a file that the first worker to see it removes, and dies."""
    from searchgym.policies import TrainableLM

    torch.set_num_threads(1)
    if fail:
        raise RuntimeError("there is no such model")
    lm = TrainableLM(blank(), tokenizer())
    policy = lm.policy("plain", sampling=SAMPLING, seed=seed)
    sample = policy.sample

    def slowly(*args: Any) -> Any:
        time.sleep(pause)
        if kill and Path(kill).exists():
            Path(kill).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return sample(*args)

    policy.sample = slowly  # type: ignore[method-assign]
    return Workers(policy, setting(), lm)


def with_roles(recipe: str, own: str = "") -> Workers:
    """The warm model of ``lookup`` with whoever a recipe plays with besides the policy; ``own``: a
    role with weights of its own."""
    from searchgym.rl.recipe import Recipe
    from tests.rl import lookup

    torch.set_num_threads(1)
    lm, policy = lookup.player()
    roles: dict[str, Any] = dict(lookup.roles_of(Recipe.of(recipe)))
    if own:
        roles[own] = OwnWeights(*lookup.player(3))
    return Workers(policy, lookup.setting(), lm, roles=roles)


class Slow(Chains):
    """Groups of some tasks take long."""

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        time.sleep(0.2 * sum(plan.key % 4 == 0 for plan in plans))
        return super().collect(plans, workers)
