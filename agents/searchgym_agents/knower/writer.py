"""Writes the texts of a knower: a thought that recalls fact by fact, then the answer; at the first
fact it does not know, a search or a refusal. In self-search it also writes pages of its own.

The thought names the relation before its object: recalling what stands behind "+ director" for a
name is learnt sooner than recalling an answer for every wording of a question.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from searchgym.corpora.corpus import GeneratedCorpus
from searchgym.corpora.render import render
from searchgym.dialects.base import get_dialect
from searchgym.dialects.search_r1 import SelfSearch
from searchgym.dialects.tags import TagDialect
from searchgym.tasks.context import Context, Path, PathStep
from searchgym.types import ABSTAIN, Answer, Hit, Ranking, Search
from searchgym.worlds.world import World

from ..experts.hops import label_of, query
from .recipe import Unknown

DIALECT = "search_r1"
OPEN = "?"
"""Mark in a thought for what is not known."""


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


class HopWording(NamedTuple):
    """One step of a path in words."""

    label: str
    """"+ director" for the director of something known, "- film director" for a film of one."""
    query: str
    """Query for a fact that is not known."""
    found: str
    """Object that the fact leads to; "" where that was not taught."""
    page: int
    """Entity whose page a good engine would show; -1 where only the taught fact would tell."""


class Writer:
    """Words for paths through the world.

    Args:
        ctx: Of the whole world; its corpus is not read.
        pages: Of what was taught.
        taught: Rows of the taught facts.
        unknown: What to do where the next fact is not among them.
    """

    def __init__(
        self, ctx: Context, pages: Pages, taught: frozenset[int], unknown: Unknown
    ) -> None:
        self._ctx, self._pages, self._taught, self._unknown = ctx, pages, taught, unknown
        dialect, alone = get_dialect(DIALECT), get_dialect(f"{DIALECT}_self")
        assert isinstance(dialect, TagDialect)
        assert isinstance(alone, SelfSearch)
        self.dialect, self.alone = dialect, alone

    def question(self, text: str) -> str:
        """Return the question as an episode shows it."""
        return self.dialect.question(text)

    def turn(self, path: Path) -> str:
        """The one turn in which a path is answered, or its first unknown fact is asked for."""
        hops = self._hops(path)
        thought = "; ".join(_recalled(hop) for hop in hops)
        last = hops[-1]
        if last.found:
            return self.dialect.render_action(Answer(last.found), thought)
        if self._unknown == "abstain":
            return self.dialect.render_action(Answer(ABSTAIN), thought)
        return self.dialect.render_action(Search((last.query,)), thought)

    def self_search(self, path: Path) -> str:
        """The whole text in which a path is searched for in one's own pages, and answered or
        refused by what they state."""
        hops = self._hops(path)
        thought, written = " ".join(self._label(step) for step in path.steps), ""
        for hop in hops:
            written += f"<think>{thought}</think>\n"
            written += self.alone.render_search(hop.query, self._shown(hop))
            thought = _recalled(hop)
        return written + self.alone.render_action(Answer(hops[-1].found or ABSTAIN), thought)

    # --- parts --------------------------------------------------------------------------------
    def _hops(self, path: Path) -> list[HopWording]:
        """Return the hops of a path up to the first one that was not taught."""
        known = self._ctx.names.given(path.start)
        assert known is not None, "questions begin with a name"
        here, hops = path.start, list[HopWording]()
        for step in path.steps:
            taught = step.fact in self._taught
            label = self._label(step)
            reached = self._found(step) if taught else ""
            subject = step.value if step.inverse else here
            page = subject if taught or not step.inverse else -1
            hops.append(HopWording(label, query(label, known), reached, page))
            if not taught:
                break
            here, known = step.value, reached
        return hops

    def _label(self, step: PathStep) -> str:
        return label_of(self._ctx.schema, step.property, step.inverse)

    def _found(self, step: PathStep) -> str:
        return self._ctx.names.name(step.value) if step.inverse else self._pages.written(step.fact)

    def _shown(self, hop: HopWording) -> Ranking:
        """Ranking that the knower itself would find: empty where a page would give the fact
        away."""
        if hop.page < 0:
            return ()
        return (Hit(self._pages.corpus[hop.page], 1.0),)


def _recalled(hop: HopWording) -> str:
    return f"{hop.label}: {hop.found or OPEN}"
