"""Demonstrations: episodes that an expert solves, mostly in many worlds, as a model's tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from searchgym.envs.search import SearchEnv
from searchgym.errors import DataError
from searchgym.llms.sft_data import Example
from searchgym.policies.trainable import TrainableLM
from searchgym.rl.rollouts.demonstrations import Demonstrations, expert_maker
from searchgym.rl.slots.records import TaskPlan, Workers
from searchgym.seeding import derive
from searchgym.storage.checkpoint import read_state, write_state

FILE = "demonstrations.safetensors"


def environments_of(recipe: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the keywords of an environment for each world of a recipe.

    Args:
        recipe: ``seeds`` (first, last), ``env`` (keywords that all worlds share) and ``variants``,
            a list of further keywords that worlds take in turn. Without ``seeds`` (a real set) each
            variant is one environment.
    """
    variants = recipe.get("variants") or [{}]
    if recipe.get("seeds") is None:
        yield from ({**recipe["env"], **variant} for variant in variants)
        return
    for place, seed in enumerate(range(*recipe["seeds"])):
        env = {**recipe["env"], **variants[place % len(variants)]}
        yield {**env, "world": {**env.get("world", {}), "seed": seed}}


def count_of(recipe: Mapping[str, Any]) -> int:
    """Return how many environments :func:`environments_of` yields."""
    if recipe.get("seeds") is None:
        return len(recipe.get("variants") or [{}])
    return len(range(*recipe["seeds"]))


def demonstrations(
    lm: TrainableLM,
    recipe: Mapping[str, Any],
    *,
    renderer: Any,
    max_tokens: int,
    report: Callable[[int], object] | None = None,
) -> list[Example]:
    """Play every question of a recipe's environments with its expert; keep what was solved.

    Args:
        lm: Its tokenizer writes the rows; its weights are not asked.
        recipe: As of :func:`environments_of`; ``expert``, by name or import path (see
            :class:`~searchgym_agents.experts.Expert`); and ``results``, true to learn the results
            that an expert of self-search writes, too, which rewards are not to change.
        renderer: Prompt format.
        max_tokens: Longer episodes are left out.
        report: Called after each environment with the number of them done.

    Raises:
        DataError: nothing was solved.
    """
    policy, whole = lm.policy(renderer), bool(recipe.get("results"))
    rows: list[Example] = []
    for done, keywords in enumerate(environments_of(recipe), 1):
        env = SearchEnv(**keywords)
        slot = Demonstrations(expert_maker(recipe["expert"])(env))
        seed = done if recipe.get("seeds") is None else keywords["world"]["seed"]
        plans = [
            TaskPlan(task, f"{seed}/{task.id}", derive(seed, "demonstration", task.id))
            for task in env.tasks
        ]
        for group in slot.collect(plans, Workers(policy, env, lm)):
            for played in group.members:
                outcome = played.episode.outcome()
                if outcome is None or outcome.parts.get("em") != 1.0:
                    continue
                rows += (
                    Example(row.ids, row.sampled if whole else row.loss_mask)
                    for row in played.rows
                    if len(row) <= max_tokens
                )
        if report is not None:
            report(done)
    if not rows:
        raise DataError(
            f"the expert solved no question within {max_tokens} tokens: raise max_tokens, or give "
            "it tasks that it can solve"
        )
    return rows


def save(rows: Sequence[Example], path: Path, about: Mapping[str, Any]) -> None:
    """Write demonstrations into one file, with what they were made by."""
    import torch

    tensors = {
        "ids": torch.from_numpy(np.concatenate([row.ids for row in rows]).astype(np.int32)),
        "own": torch.from_numpy(np.concatenate([row.own for row in rows])),
        "lengths": torch.tensor([len(row.ids) for row in rows]),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_state(path, tensors, {"about": about})


def load(path: Path, about: Mapping[str, Any]) -> list[Example] | None:
    """Read what :func:`save` wrote; ``None`` if there is nothing.

    Raises:
        DataError: the file is another's, or was made by other settings.
    """
    if not path.exists():
        return None
    tensors, header = read_state(path, "demonstrations")
    if header.get("about") != json.loads(json.dumps(about)):
        raise DataError(
            f"{path} holds demonstrations made by other settings: use another folder, or delete "
            "the file to make them anew"
        )
    ends = np.cumsum(tensors["lengths"].numpy())[:-1]
    ids = np.split(tensors["ids"].numpy().astype(np.int64), ends)
    own = np.split(tensors["own"].numpy(), ends)
    return [Example(*row) for row in zip(ids, own, strict=True)]
