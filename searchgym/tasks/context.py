"""Material that every task family draws from: one world, its corpus, and which facts may be
used."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..corpora.corpus import GeneratedCorpus
from ..text import normalise_answer
from ..worlds.schema import Phrases, Property
from ..worlds.world import Fact, World
from .names import Surfaces
from .paths import Lookup, Path, PathStep, backward, forward

T = TypeVar("T")

INVERSE_SHARE = 0.3
"""Share of walks that insist on an inverse step where there is one: definite ones are rare, and
things described by what they did ("the magazine founded by …") are what real questions ask for."""


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One option, uniformly (faster than ``Generator.choice``)."""
    return options[int(rng.random() * len(options))]


def both_sides(phrases: Phrases) -> bool:
    """Return whether a bank has wording for training and held-out worlds: otherwise the choice of
    wording would decide which tasks exist."""
    return bool(phrases.train) and bool(phrases.heldout)


class Context:
    """Context shared by the families while a task set is built; nothing in it depends on wording.

    Over a world's ``derived`` one, what its rules imply can be asked like what pages state.
    """

    def __init__(self, world: World, corpus: GeneratedCorpus) -> None:
        self.world, self.corpus = world, corpus
        self.schema = world.schema
        self.lookup = Lookup(world)
        self.names = Surfaces(world)
        self.invertible = [p.is_relation and both_sides(p.inverse) for p in self.schema.properties]
        self.of_type = [world.entities_of(i).tolist() for i in range(len(self.schema.types))]
        self.memo: dict[Any, Any] = {}
        """Results that families work out once per world, under keys of their own."""
        self._starts = [entities for entities in self.of_type if entities]
        self._passages: dict[int, list[int]] = {}
        self._mentions: dict[int, int] = {}
        self._stated: dict[int, bool] = {}
        self._steps: dict[int, tuple[PathStep, ...]] = {}
        self._tokens: dict[int, frozenset[str]] = {}

    @cached_property
    def derived(self) -> Context:
        """The context in which relations that follow by the schema's rules are asked about, too."""
        from ..worlds.derive import derived

        return Context(derived(self.world), self.corpus)

    def parts(self, fact: int) -> tuple[int, ...]:
        """The stated facts behind a fact: itself, or those that it follows from."""
        return self.world.parts(fact)

    def prop(self, index: int) -> Property:
        return self.schema.properties[index]

    def label(self, prop: int) -> str:
        """A property's name in words, without its type: "genre" for ``film_genre``."""
        about = self.schema.properties[prop]
        return about.name.removeprefix(f"{about.source}_").replace("_", " ")

    def noun(self, entity: int) -> str:
        return self.schema.types[int(self.world.type_of[entity])].noun

    def passages(self, fact: int) -> list[int]:
        """Passages that state a fact, its subject's own page first; none for an implied one."""
        passages = self._passages.get(fact)
        if passages is None:
            passages = self.corpus.stating(fact)
            own = int(self.corpus.page_of[self.world.subject_of[fact]])
            if own in passages[1:]:
                passages = [own, *(p for p in passages if p != own)]
            self._passages[fact] = passages
        return passages

    def page(self, fact: int) -> int:
        """The passage a task takes a stated fact from; -1 if no passage states it."""
        where = self.passages(fact)
        return where[0] if where else -1

    def mentions(self, entity: int) -> int:
        """Number of other entities' pages that mention an entity in a fact."""
        count = self._mentions.get(entity)
        if count is None:
            stated = self.world.stated
            about = self.lookup.into(entity).values()
            mentioning = {f.subject for facts in about for f in facts if f.id < stated}
            count = self._mentions[entity] = len(mentioning)
        return count

    def stated(self, fact: int) -> bool:
        """Return whether passages state a fact, or all that it follows from."""
        stated = self._stated.get(fact)
        if stated is None:
            stated = all(self.passages(part) for part in self.parts(fact))
            self._stated[fact] = stated
        return stated

    def usable_as_value(self, step: PathStep) -> bool:
        """Return True if a step may end a question: its outcome is clear to a reader."""
        if step.inverse or self.prop(step.property).is_relation:
            return self.names.clear(step.value)
        return True

    def steps(self, entity: int) -> tuple[PathStep, ...]:
        """Definite steps out of an entity, stated in the corpus."""
        usable = self._steps.get(entity)
        if usable is None:
            steps = [forward(f[0]) for f in self.lookup.out(entity).values() if len(f) == 1]
            steps += [
                backward(f[0])
                for p, f in self.lookup.into(entity).items()
                if len(f) == 1 and self.invertible[p] and not self.prop(p).symmetric
            ]
            usable = tuple(s for s in steps if self.stated(s.fact) and self.usable_as_value(s))
            self._steps[entity] = usable
        return usable

    def leads_on(self, step: PathStep) -> bool:
        """Return True if a step leads to an entity from which further steps can be taken."""
        return step.inverse or self.prop(step.property).is_relation

    def walk(
        self, rng: np.random.Generator, start: int, hops: int, *, end: bool | None = None
    ) -> Path | None:
        """A random definite path of ``hops`` steps that meets no entity twice.

        Two-step paths never read both facts off one page (an inverse step followed by a forward
        one), so that each step takes its own search. ``end``: True ends at an entity, False at an
        attribute's value, None at either. None when the walk gets stuck.
        """
        seen = {start}
        steps: list[PathStep] = []
        here = start
        for i in range(hops):
            last = i == hops - 1
            options = []
            for step in self.steps(here):
                onward = self.leads_on(step)
                if (onward and step.value in seen) or not (onward or last):
                    continue
                if last and end is not None and end != onward:
                    continue
                if hops == 2 and steps and steps[-1].inverse and not step.inverse:
                    continue
                options.append(step)
            if not options:
                return None
            described = [s for s in options if s.inverse]
            if described and rng.random() < INVERSE_SHARE:
                options = described
            step = pick(rng, options)
            steps.append(step)
            here = step.value
            seen.add(here if self.leads_on(step) else -1)
        return Path(start, tuple(steps))

    def any_entity(self, rng: np.random.Generator) -> int:
        """A random entity: its type first, so that rare types are asked about too."""
        return pick(rng, pick(rng, self._starts))

    def any_fact(self, rng: np.random.Generator, prop: int) -> Fact | None:
        """A random fact of a property; None if this world has none."""
        rows = self.lookup.facts_with(prop)
        return self.world.fact(int(rows[int(rng.random() * len(rows))])) if len(rows) else None

    def any_start(self, rng: np.random.Generator) -> int | None:
        """A random entity that a question can name."""
        entity = self.any_entity(rng)
        return entity if self.names.given(entity) is not None else None

    def tokens(self, entity: int) -> frozenset[str]:
        tokens = self._tokens.get(entity)
        if tokens is None:
            words = normalise_answer(self.world.names[entity]).split()
            tokens = self._tokens[entity] = frozenset(words)
        return tokens

    def hidden(self, named: Sequence[int], unnamed: Sequence[int]) -> bool:
        """Return whether no unnamed entity's name can be read off the names in the question."""
        given: frozenset[str] = frozenset().union(*(self.tokens(e) for e in named))
        return all(not self.tokens(e) <= given for e in unnamed)
