"""Demonstrations: episodes that an expert solves, mostly in many worlds, as a model's tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..envs.search import SearchEnv
from ..errors import DataError
from ..objects import load_object
from ..policies.trainable import TrainableLM
from ..rl.rollouts.demonstrations import Demonstrations
from ..rl.slots.records import TaskPlan, Workers
from ..seeding import derive
from ..utils.state_file import read_state, write_state

FILE = "demonstrations.safetensors"


class Demonstration(NamedTuple):
    """An expert's episode as N tokens of a model."""

    ids: NDArray[np.int64]
    own: NDArray[np.bool_]
    """(N,) mask of what the expert wrote."""
    family: str
    """Family of the task; a chain's has its number of hops: chain-2."""
    searches: int


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
) -> list[Demonstration]:
    """Play every question of a recipe's environments with its expert; keep what was solved.

    Args:
        lm: Its tokenizer writes the rows; its weights are not asked.
        recipe: As of :func:`environments_of`; ``expert``, the import path of a class that makes an
            agent of an environment; and ``results``, true to learn the results that an expert of
            self-search writes, too, which rewards are not to change.
        renderer: Prompt format.
        max_tokens: Longer episodes are left out.
        report: Called after each environment with the number of them done.

    Raises:
        DataError: nothing was solved.
    """
    policy, whole = lm.policy(renderer), bool(recipe.get("results"))
    rows: list[Demonstration] = []
    for done, keywords in enumerate(environments_of(recipe), 1):
        env = SearchEnv(**keywords)
        slot = Demonstrations(load_object(recipe["expert"])(env))
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
                task = played.episode.config.task
                chain = task.family == "chain"
                family = f"chain-{task.hops}" if chain else task.family
                searches = sum(len(turn.calls) for turn in played.episode.turns)
                for row in played.rows:
                    own = row.sampled if whole else row.loss_mask
                    if len(row) <= max_tokens:
                        rows.append(Demonstration(row.ids, own, family, searches))
        if report is not None:
            report(done)
    if not rows:
        raise DataError(
            f"the expert solved no question within {max_tokens} tokens: raise max_tokens, or give "
            "it tasks that it can solve"
        )
    return rows


def save(rows: Sequence[Demonstration], path: Path, about: Mapping[str, Any]) -> None:
    """Write demonstrations into one file, with what they were made by."""
    import torch

    lengths = torch.tensor([len(row.ids) for row in rows])
    tensors = {
        "ids": torch.from_numpy(np.concatenate([row.ids for row in rows]).astype(np.int32)),
        "own": torch.from_numpy(np.concatenate([row.own for row in rows])),
        "lengths": lengths,
        "searches": torch.tensor([row.searches for row in rows]),
    }
    families = [row.family for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_state(path, tensors, {"about": about, "families": families})


def load(path: Path, about: Mapping[str, Any]) -> list[Demonstration] | None:
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
    searches = tensors["searches"].tolist()
    return [Demonstration(*row) for row in zip(ids, own, header["families"], searches, strict=True)]
