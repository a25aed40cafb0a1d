"""Records which facts a knower was taught; saved beside the model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..envs.search import SearchEnv
from ..errors import DataError, TaskError
from ..tasks.names import Surfaces
from ..types import Task
from ..utils.files import parse_json, read_json, write_whole
from ..warmstart.hops import walked
from ..worlds.storage import world_digest
from ..worlds.world import World
from .recipe import KnowerRecipe, world_of
from .taught import shown_facts, taught_facts

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
