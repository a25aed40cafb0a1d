"""Demonstrations: episodes that an expert solves, mostly in many worlds, as a model's tokens."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from searchgym.envs.mixture import mixture, shares
from searchgym.envs.search import SearchEnv
from searchgym.errors import DataError
from searchgym.llms.sft_data import Example
from searchgym.policies.trainable import TrainableLM
from searchgym.rl.rollouts.demonstrations import Demonstrations, expert_maker
from searchgym.rl.slots.records import TaskPlan, Workers
from searchgym.seeding import derive
from searchgym.storage.checkpoint import read_state, write_state

FILE = "demonstrations.safetensors"
OF_WORLDS = ("quoting", "thinking")
"""Experts that read a generated world's facts."""


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
    """Return how many environments a recipe's questions are of."""
    if not isinstance(recipe["env"], Mapping):
        return sum(max(1, len(part.worlds)) for part in mixture(recipe["env"]))
    if recipe.get("seeds") is None:
        return len(recipe.get("variants") or [{}])
    return len(range(*recipe["seeds"]))


def _made(recipe: Mapping[str, Any]) -> Iterator[tuple[int, SearchEnv, int]]:
    """Yield (entry of the mixture, environment, seed of its episodes)."""
    if not isinstance(recipe["env"], Mapping):
        seed = 0
        for place, part in enumerate(mixture(recipe["env"])):
            for env in part.envs():
                seed += 1
                yield place, env, seed
        return
    for done, keywords in enumerate(environments_of(recipe), 1):
        seed = done if recipe.get("seeds") is None else keywords["world"]["seed"]
        yield 0, SearchEnv(**keywords), seed


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
        recipe: ``env`` as of :func:`environments_of`, or a mixture
            (:func:`searchgym.envs.mixture`), of which as much is kept as its weights allow;
            ``expert``, by name or import path (see :class:`~searchgym_agents.experts.Expert`), for
            which "supporting" stands in where texts are no generated world; and ``results``, true
            to learn the results that an expert of self-search writes, too, which rewards are not
            to change.
        renderer: Prompt format.
        max_tokens: Longer episodes are left out.
        report: Called after each environment with the number of them done.

    Raises:
        DataError: nothing was solved.
    """
    policy, whole = lm.policy(renderer), bool(recipe.get("results"))
    rows: dict[int, list[Example]] = defaultdict(list)
    for done, (place, env, seed) in enumerate(_made(recipe), 1):
        expert = recipe["expert"]
        if expert in OF_WORLDS and env.world is None:
            expert = "supporting"
        slot = Demonstrations(expert_maker(expert)(env))
        plans = [
            TaskPlan(task, f"{seed}/{task.id}", derive(seed, "demonstration", task.id))
            for task in env.tasks
        ]
        for group in slot.collect(plans, Workers(policy, env, lm)):
            for played in group.members:
                outcome = played.episode.outcome()
                if outcome is None or outcome.parts.get("em") != 1.0:
                    continue
                rows[place] += (
                    Example(row.ids, row.sampled if whole else row.loss_mask)
                    for row in played.rows
                    if len(row) <= max_tokens
                )
        if report is not None:
            report(done)
    if not any(rows.values()):
        raise DataError(
            f"the expert solved no question within {max_tokens} tokens: raise max_tokens, or give "
            "it tasks that it can solve"
        )
    if isinstance(recipe["env"], Mapping):
        return rows[0]
    return _in_shares(recipe["env"], rows)


def _in_shares(entries: Any, rows: Mapping[int, Sequence[Example]]) -> list[Example]:
    """Rows of the entries of a mixture, thinned evenly to the shares of its weights."""
    parts = mixture(entries)
    sizes = [len(rows[place]) for place in range(len(parts))]
    wanted = shares(parts, sizes)
    whole = min(size / share for size, share in zip(sizes, wanted, strict=True) if share)
    if not whole:
        empty = next(p.name for p, n, s in zip(parts, sizes, wanted, strict=True) if s and not n)
        raise DataError(f"the expert solved no question of {empty}: leave it out, or ask for more")
    kept: list[Example] = []
    for place, share in enumerate(wanted):
        some = np.linspace(0, sizes[place] - 1, round(whole * share)).astype(int)
        kept += (rows[place][i] for i in some.tolist())
    return kept


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
