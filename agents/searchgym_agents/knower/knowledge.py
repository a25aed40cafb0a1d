"""Draws the facts that a knower is taught, and records them beside the model.

A larger share holds all facts of a smaller one. Facts that give one another away are taught
together or not at all: the two sides of a symmetric relation (A is married to B, B to A), and facts
that imply another by the schema (the capital of a country lies in it).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from searchgym.envs.search import SearchEnv
from searchgym.errors import DataError, TaskError
from searchgym.seeding import derive, stream, unit
from searchgym.storage.files import parse_json, read_json, write_whole
from searchgym.tasks.context import Surfaces
from searchgym.types import Task
from searchgym.worlds.export import world_digest
from searchgym.worlds.world import World

from ..experts.hops import walked
from .recipe import KnowerRecipe, world_of

FACTS, ABOUT = "taught.jsonl", "knower.json"


@dataclass(frozen=True)
class Knowledge:
    """The facts of one world (their rows in it) that a model was taught.

    Those that some question of one hop asks for are asked; the others (one of several awards of
    several winners) stand in practised chains and self-written pages at most.
    """

    recipe: KnowerRecipe
    world: str
    """Digest of the world."""
    taught: frozenset[int]
    shown: frozenset[int]
    """Facts that were not taught, but of which the model was shown that it does not know them."""

    @classmethod
    def drawn(cls, recipe: KnowerRecipe, world: World) -> Knowledge:
        """Draw the facts by the recipe; a recipe always gives the same ones."""
        taught = taught_facts(world, recipe.taught, recipe.seed)
        shown = shown_facts(world, recipe.shown, recipe.seed) & ~taught
        if recipe.unknown == "nothing":
            shown[:] = False
        return cls(
            recipe, world_digest(world), frozenset(np.flatnonzero(taught).tolist()),
            frozenset(np.flatnonzero(shown).tolist()),
        )  # fmt: skip

    # --- asking ---------------------------------------------------------------------------------
    def knows(self, task: Task) -> bool:
        """Return whether all facts that a task of this world needs were taught. A fact that the
        world does not hold (unanswerable questions) is never known. ``TaskError`` for tasks without
        facts."""
        return all(fact in self.taught for fact in facts_of(task))

    def backward(self, task: Task) -> bool:
        """Return whether a question walks some fact from object to subject, which ``inverse=False``
        leaves untaught. ``TaskError`` unless it is a path of facts."""
        return any(inverse for _, inverse in walked(task))

    def sure_of(self, world: World) -> None:
        """``DataError`` unless the facts are this world's: rows of another mean other facts."""
        if (digest := world_digest(world)) != self.world:
            raise DataError(
                f"the facts are those of the world {self.world} ({self.recipe.corpus!r}, "
                f"{self.recipe.entities} entities, seed {self.recipe.seed}), not of {digest}: give "
                f"the environment world={{'entities': {self.recipe.entities}, 'seed': "
                f"{self.recipe.seed}}}, corpus={self.recipe.corpus!r} and split='train'"
            )

    def known_tasks(self, made: SearchEnv) -> dict[str, bool]:
        """Task id → whether it is known, for every task of a setting of this world."""
        self.sure_of(world_of(made))
        return {task.id: self.knows(task) for task in made.tasks}

    # --- on disk --------------------------------------------------------------------------------
    def save(self, folder: Path, world: World) -> None:
        """Write ``taught.jsonl`` (a fact a line) and ``knower.json``, each whole or not at all.

        Raises:
            DataError: the folder holds other knowledge, or ``world`` is not this one.
        """
        self.sure_of(world)
        if (folder / ABOUT).exists() and Knowledge.load(folder) != self:
            raise DataError(
                f"{folder} holds a model of other facts: use another folder, or delete this one to "
                "start afresh"
            )
        folder.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(row, ensure_ascii=False) for row in self.rows(world))
        write_whole(folder / FACTS, "".join(f"{line}\n" for line in lines))
        about = {**asdict(self.recipe), "world": self.world}
        write_whole(folder / ABOUT, json.dumps(about, indent=1))

    def rows(self, world: World) -> Iterator[Mapping[str, Any]]:
        """Every fact of the world in words."""
        names = Surfaces(world)
        for row in range(world.n_facts):
            fact = world.fact(row)
            yield {
                "fact": row,
                "subject": names.title(fact.subject),
                "relation": world.prop(fact).name,
                "object": names.text(fact.property, fact.object),
                "taught": row in self.taught,
                "shown": row in self.shown,
                "world": self.world,
            }

    @classmethod
    def load(cls, folder: Path | str) -> Knowledge:
        """Read what ``save`` wrote; ``DataError`` for anything missing or broken."""
        folder = Path(folder)
        try:
            about = read_json(folder / ABOUT)
            text = (folder / FACTS).read_text(encoding="utf-8")
            rows = [parse_json(line, FACTS) for line in text.split("\n") if line]
            world = about.pop("world")
            taught = frozenset(int(row["fact"]) for row in rows if row["taught"])
            shown = frozenset(int(row["fact"]) for row in rows if row["shown"])
            strangers = {row["world"] for row in rows} - {world}
            recipe = KnowerRecipe(**about)
        except FileNotFoundError as error:
            raise DataError(
                f"{error.filename} is missing: 'searchgym knower --out {folder}' makes a model "
                "whose knowledge is noted"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{folder}: {FACTS} or {ABOUT} cannot be read: {error}") from error
        if strangers:
            raise DataError(f"{folder / FACTS} has facts of other worlds: {sorted(strangers)}")
        return cls(recipe, world, taught, shown)


def facts_of(task: Task) -> tuple[int, ...]:
    """Rows of the facts a task needs; -1 for one its world lacks. ``TaskError`` without any."""
    if task.graph is None or not task.graph.edges:
        raise TaskError(
            f"task {task.id!r} names no facts, so whether it is known cannot be said; use the "
            "tasks of a generated world"
        )
    return tuple(fact for edge in task.graph.edges for fact, _ in edge.stated())


def taught_facts(world: World, share: float, seed: int) -> NDArray[np.bool_]:
    """(F,) mask of the facts that are taught: as many as fit into ``share`` of all. With equal
    seeds those of a smaller share are among those of a larger."""
    units = _units(world)
    names, counts = np.unique(units, return_counts=True)
    order = stream(seed, "knower", "taught").permutation(len(names))
    fits = np.cumsum(counts[order]) <= round(share * world.n_facts)
    return np.isin(units, names[order[fits]])


def shown_facts(world: World, share: float, seed: int) -> NDArray[np.bool_]:
    """(F,) mask of the facts at which a model is shown what not to know looks like, unless they
    are taught. Each by a draw of its own, whatever is taught."""
    units = _units(world)
    names = np.unique(units)
    chosen = [unit(derive(seed, "knower", "shown", int(name))) < share for name in names]
    return np.isin(units, names[np.array(chosen, dtype=bool)])


def _units(world: World) -> NDArray[np.int64]:
    """(F,) facts that are taught together have one number, the least of theirs."""
    pairs: list[tuple[int, int]] = []
    for row in range(world.n_facts):
        fact = world.fact(row)
        prop = world.prop(fact)
        back = fact.property if prop.symmetric else None
        if prop.within:
            back = world.schema.property_index(prop.within)
        if back is not None:
            pairs += [
                (row, other.id)
                for other in world.objects(fact.object, back)
                if other.object == fact.subject
            ]
    units = np.arange(world.n_facts)
    for part in nx.connected_components(nx.Graph(pairs)):
        units[list(part)] = min(part)
    return units
