"""The taught part of a world and its pages, which state the taught facts and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..corpora.corpus import GeneratedCorpus
from ..corpora.render import render
from ..worlds.world import World


def restricted(world: World, kept: NDArray[np.bool_]) -> World:
    """The same entities with the facts ``kept`` (F,) alone, numbered anew in the same order."""
    rows = np.flatnonzero(kept)
    subject, prop, obj = (
        column[rows] for column in (world.subject_of, world.property_of, world.object_of)
    )
    relation = np.array([p.is_relation for p in world.schema.properties], dtype=bool)
    about = np.flatnonzero(relation[prop])
    about = about[np.lexsort((subject[about], prop[about], obj[about]))]
    entities = np.arange(world.n_entities + 1)
    made: dict[str, NDArray[Any]] = {
        "subject_of": subject, "property_of": prop, "object_of": obj,
        "indptr": np.searchsorted(subject, entities),
        "inverse_order": about.astype(world.inverse_order.dtype),
        "inverse_indptr": np.searchsorted(obj[about], entities),
    }  # fmt: skip
    for column in made.values():
        column.setflags(write=False)
    return replace(world, **cast(Any, made))


class Pages:
    """Pages that a knower of the facts ``taught`` (F,) could write about its world."""

    def __init__(self, world: World, taught: NDArray[np.bool_], *, wording_seed: int = 0) -> None:
        self._row = np.cumsum(taught) - 1  # a fact's number among those taught
        self._taught = taught
        self.world = restricted(world, taught)
        self.corpus: GeneratedCorpus = render(self.world, wording_seed=wording_seed)

    def written(self, fact: int) -> str:
        """The object of a taught fact as its page writes it."""
        assert self._taught[fact], "only taught facts are written"
        stated = self.corpus.statements(int(self._row[fact]))[0]
        return self.corpus[stated.passage].text[stated.start : stated.end]
