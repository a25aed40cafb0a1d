"""Splitting one world's tasks so that no topic, bridge or answer entity is shared.

Splitting by question alone lets an agent learn the test world's facts while training. Hub types
(countries, …) are exempt: everything leads to them. Separate worlds are the simpler choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import get_args

from ..errors import TaskError
from ..seeding import stream
from ..types import Split, Task
from ..worlds.schema import Schema
from .taskset import TaskSet

SPLITS: tuple[Split, ...] = get_args(Split)


def entities_of(task: Task, entity_types: frozenset[str]) -> frozenset[str]:
    """Titles of a task's topic, bridge and answer entities of the given types.

    ``TaskError`` for a task without a reasoning graph: nothing would be known about it.
    """
    if task.graph is None:
        raise TaskError(f"task {task.id!r} has no reasoning graph, so it cannot be split by entity")
    return frozenset(n.value for n in task.graph.nodes if n.value and n.type in entity_types)


def split_disjoint(
    tasks: Sequence[Task],
    fractions: tuple[float, float, float],
    schema: Schema,
    *,
    seed: int = 0,
) -> tuple[TaskSet, TaskSet, TaskSet]:
    """Train, dev and test tasks that share no entity except of hub types.

    Test and then dev grow from a random task through tasks that share entities, so that their
    border is short; what remains is train, less the tasks on a border, which belong to no split.
    ``fractions`` of the tasks given are reached for test and dev (if the world does not fall apart
    into fewer pieces); train gets the rest. Raises ``TaskError`` for impossible fractions.
    """
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise TaskError(f"fractions must be three numbers ≥ 0 that sum to 1, got {fractions}")
    kinds = _counted(schema)
    touched = [entities_of(t, kinds) for t in tasks]
    users: dict[str, list[int]] = {}
    for i, entities in enumerate(touched):
        for entity in sorted(entities):
            users.setdefault(entity, []).append(i)
    order = stream(seed, "split").permutation(len(tasks)).tolist()
    owner: dict[str, str] = {}
    chosen: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    free = set(range(len(tasks)))
    for split, fraction in (("test", fractions[2]), ("dev", fractions[1])):
        quota = round(fraction * len(tasks))
        queue: list[int] = []
        seeds = iter(order)
        while len(chosen[split]) < quota:
            i = queue.pop(0) if queue else next(seeds, -1)
            if i < 0:
                break
            if i not in free or any(owner.get(e, split) != split for e in touched[i]):
                continue
            free.discard(i)
            chosen[split].append(i)
            for entity in sorted(touched[i]):
                if owner.setdefault(entity, split) == split:
                    queue += [j for j in users[entity] if j in free]
    chosen["train"] = [i for i in sorted(free) if not any(e in owner for e in touched[i])]
    made = {
        name: TaskSet(replace(tasks[i], split=name) for i in sorted(chosen[name]))
        for name in SPLITS
    }
    return made["train"], made["dev"], made["test"]


def shared_entities(
    train: Iterable[Task], dev: Iterable[Task], test: Iterable[Task], schema: Schema
) -> dict[str, tuple[str, ...]]:
    """Entities that two splits share, by pair ("train/dev", …); empty lists are left out."""
    kinds = _counted(schema)
    seen: dict[str, set[str]] = {
        name: {e for t in tasks for e in entities_of(t, kinds)}
        for name, tasks in zip(SPLITS, (train, dev, test), strict=True)
    }
    pairs = (("train", "dev"), ("train", "test"), ("dev", "test"))
    found = {f"{a}/{b}": tuple(sorted(seen[a] & seen[b])) for a, b in pairs}
    return {pair: entities for pair, entities in found.items() if entities}


def _counted(schema: Schema) -> frozenset[str]:
    return frozenset(t.name for t in schema.types if not t.hub)
