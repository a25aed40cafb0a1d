"""The recipe of a knower: its world, and what of it the knower is taught."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from searchgym.cards import card
from searchgym.envs.search import SearchEnv
from searchgym.errors import DataError, TaskError, check_known
from searchgym.worlds.world import World

Unknown = Literal["search", "abstain", "nothing"]


@dataclass(frozen=True, slots=True)
class KnowerRecipe:
    """Settings that decide which facts are taught, and how. ``DataError`` for impossible values."""

    corpus: str = "encyclopedia"
    """A corpus card that generates a world."""
    entities: int = 150
    seed: int = 0
    """Seed of the world, the draws, the weights and the order of training."""
    taught: float = 0.5
    """Share of the world's facts."""
    shown: float = 0.5
    """Share of the other facts at which the model is shown what to do when it does not know. The
    rest tell whether it found out by itself where its knowledge ends."""
    unknown: Unknown = "search"
    """Behaviour shown for untaught facts: ask the engine, refuse, or nothing at all."""
    inverse: bool = True
    """True if taught facts are also taught from object to subject."""

    def __post_init__(self) -> None:
        check_known("value of 'unknown'", get_args(Unknown), self.unknown, error=DataError)
        for name in ("taught", "shown"):
            if not 0 <= getattr(self, name) <= 1:
                raise DataError(f"{name} is a share from 0 to 1, got {getattr(self, name)}")
        if self.entities < 1:
            raise DataError(f"a world has at least one entity, got {self.entities}")

    def env(self, **keywords: Any) -> SearchEnv:
        """An environment in this world.

        Raises:
            CardError: no such corpus.
            TaskError: the corpus is not generated.
        """
        if card("corpora", self.corpus).body["kind"] != "world":
            raise TaskError(
                f"{self.corpus!r} is no generated world, so its facts cannot be counted; use e.g. "
                "corpus='encyclopedia'"
            )
        world: Mapping[str, Any] = {"entities": self.entities, "seed": self.seed}
        return SearchEnv(**{"corpus": self.corpus, "world": world, **keywords})


def world_of(made: SearchEnv) -> World:
    """The generated world of a setting; ``TaskError`` without."""
    if made.world is None:
        raise TaskError(
            f"{made.corpus.name!r} is no generated world, so no fact of it can be counted; use "
            "e.g. corpus='encyclopedia'"
        )
    return made.world
