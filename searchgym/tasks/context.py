"""Material that every task family draws from: a world's facts, paths of them, and its names.

A path starts at a named entity and takes steps, forward ("the director of S") or inverse ("the
film directed by O"). A step is *definite* when it has exactly one outcome in the world, so that
"the …" is justified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import chain, product
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..corpora.corpus import GeneratedCorpus
from ..text import normalise_answer
from ..utils.english import NUMBER_WORDS
from ..worlds.schema import Phrases, Property
from ..worlds.values import value_answers
from ..worlds.world import Fact, World


class PathStep(NamedTuple):
    """One hop. ``value`` is where it leads: an entity number, or an attribute's raw value."""

    property: int
    inverse: bool
    value: int
    fact: int
    """Row of the fact in the world; -1 for a fact the world does not hold (false premises)."""


class Path(NamedTuple):
    start: int
    steps: tuple[PathStep, ...] = ()

    @property
    def end(self) -> int:
        return self.steps[-1].value if self.steps else self.start

    @property
    def prefix(self) -> Path:
        return Path(self.start, self.steps[:-1])

    def then(self, step: PathStep) -> Path:
        return Path(self.start, (*self.steps, step))

    @property
    def entities(self) -> tuple[int, ...]:
        """Start and every intermediate entity (the end is excluded when there are steps)."""
        return (self.start, *(s.value for s in self.steps[:-1]))


class FactGroup(NamedTuple):
    """All facts by which one relation links others to one thing."""

    anchor: int
    relation: int
    inverse: bool
    """True: the members are subjects ("the films directed by X"); False: objects."""
    facts: tuple[Fact, ...]

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(f.subject if self.inverse else f.object for f in self.facts)


def forward(fact: Fact) -> PathStep:
    """The step from a fact's subject to its object."""
    return PathStep(fact.property, False, fact.object, fact.id)


def backward(fact: Fact) -> PathStep:
    """The step from a fact's object to its subject."""
    return PathStep(fact.property, True, fact.subject, fact.id)


class Lookup:
    """Facts by subject and property, and by property and object (attributes included)."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._out: dict[int, dict[int, list[Fact]]] = {}
        self._into: dict[int, dict[int, list[Fact]]] = {}
        self._columns: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def out(self, entity: int) -> dict[int, list[Fact]]:
        """Facts of an entity by property, each list by object."""
        by_property = self._out.get(entity)
        if by_property is None:
            by_property = self._out[entity] = {}
            for fact in self.world.facts_of(entity):
                by_property.setdefault(fact.property, []).append(fact)
        return by_property

    def into(self, entity: int) -> dict[int, list[Fact]]:
        """Relation facts about an entity by property, each list by subject."""
        by_property = self._into.get(entity)
        if by_property is None:
            by_property = self._into[entity] = {}
            for fact in self.world.facts_about(entity):
                by_property.setdefault(fact.property, []).append(fact)
        return by_property

    def objects(self, entity: int, prop: int) -> list[Fact]:
        """Facts (entity, prop, ?)."""
        return self.out(entity).get(prop, [])

    def subjects(self, prop: int, value: int) -> list[Fact]:
        """Facts (?, prop, value); ``value`` is an entity number or an attribute's raw value."""
        if self.world.schema.properties[prop].is_relation:
            return self.into(value).get(prop, [])
        values, rows = self._sorted(prop)
        lo, hi = np.searchsorted(values, [value, value + 1])
        return [self.world.fact(int(i)) for i in rows[lo:hi]]

    def facts_with(self, prop: int) -> NDArray[np.int64]:
        """Rows of every fact of a property, by object then subject."""
        return self._sorted(prop)[1]

    def values_of(self, prop: int) -> list[int]:
        """Distinct objects a property takes in this world, ascending."""
        return [int(v) for v in np.unique(self._sorted(prop)[0])]

    def _sorted(self, prop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        columns = self._columns.get(prop)
        if columns is None:
            rows = self._rows_by_property[self._bounds[prop] : self._bounds[prop + 1]]
            objects = self.world.object_of[rows]
            order = np.argsort(objects, kind="stable")
            columns = self._columns[prop] = (objects[order], rows[order])
        return columns

    @cached_property
    def _rows_by_property(self) -> NDArray[np.int64]:
        return np.argsort(self.world.property_of, kind="stable")

    @cached_property
    def _bounds(self) -> NDArray[np.int64]:
        ordered = self.world.property_of[self._rows_by_property]
        return np.searchsorted(ordered, np.arange(len(self.world.schema.properties) + 1))


_SPOKEN = tuple(NUMBER_WORDS)[:21]


def number_answers(number: int) -> tuple[str, ...]:
    """Digits first, then the number word up to twenty."""
    words = (_SPOKEN[number],) if 0 <= number < len(_SPOKEN) else ()
    return (str(number), *words)


def amount_answers(number: int, unit: str = "") -> tuple[str, ...]:
    """Accepted forms of a worked-out number: "1234", "1,234", up to twenty the word, each also with
    its unit."""
    forms = dict.fromkeys((*number_answers(number), f"{number:,}"))
    return (*forms, *(f"{form} {unit}" for form in forms if unit))


def joined_answers(parts: Sequence[tuple[str, ...]], limit: int = 64) -> tuple[str, ...]:
    """Accepted forms of a list answer, its parts in order: "X and Y", "X, Y", "X, Y and Z"; names
    first, then titles (or second forms), then other combinations, ``limit`` in all.

    Other orders, and what is left out here, are read from a task's ``items``
    (``searchgym.scoring.sets``).
    """
    first, second = ([forms[min(place, len(forms) - 1)] for forms in parts] for place in (0, 1))
    joined: dict[str, None] = {}
    for chosen in chain((first, second), product(*parts)):
        joined[" and ".join(chosen)] = None
        joined[", ".join(chosen)] = None
        if len(chosen) > 2:
            joined[f"{', '.join(chosen[:-1])} and {chosen[-1]}"] = None
        if len(joined) >= limit:
            break
    return tuple(joined)[:limit]


class Surfaces:
    """Surfaces of one world's entities and values."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._bearers = Counter(name.lower() for name in world.names)
        self._bearers.update(alias.lower() for alias in world.alias_of if alias)
        self._clear: dict[int, bool] = {}

    def given(self, entity: int) -> str | None:
        """Return the name by which a question means an entity and nothing else: its name if no
        other entity bears it, else its title if that has a disambiguator, else None (do not name
        it)."""
        name, title = self._world.names[entity], self._world.titles[entity]
        if self._bearers[name.lower()] == 1:
            return name
        return title if not self._bearers[title.lower()] else None

    def clear(self, entity: int) -> bool:
        """Return whether a reader who knows the kind of thing meant cannot mistake it for a
        namesake."""
        name = self._world.names[entity]
        if self._bearers[name.lower()] == 1:
            return True
        clear = self._clear.get(entity)
        if clear is None:
            kind = self._world.type_of[entity]
            clear = self._clear[entity] = self._namesakes[name.lower()].count(int(kind)) == 1
        return clear

    @cached_property
    def _namesakes(self) -> dict[str, list[int]]:
        types_of: dict[str, list[int]] = {}
        world = self._world
        for entity in range(world.n_entities):
            for name in {world.names[entity].lower(), world.alias_of[entity].lower()}:
                if self._bearers[name] > 1:
                    types_of.setdefault(name, []).append(int(world.type_of[entity]))
        return types_of

    def name(self, entity: int) -> str:
        return self._world.names[entity]

    def title(self, entity: int) -> str:
        return self._world.titles[entity]

    def entity_answers(self, entity: int) -> tuple[str, ...]:
        """Name, title with its disambiguator, other names."""
        world = self._world
        forms = (world.names[entity], world.titles[entity], *world.aliases(entity))
        return tuple(dict.fromkeys(forms))

    def value_answers(self, prop: int, value: int) -> tuple[str, ...]:
        """Accepted forms of a relation's object or an attribute's value, canonical first."""
        about = self._world.schema.properties[prop]
        return self.entity_answers(value) if about.is_relation else value_answers(about, value)

    def text(self, prop: int, value: int) -> str:
        """Canonical text of a reasoning graph's node: a unique title, or the formatted value."""
        about = self._world.schema.properties[prop]
        return self._world.titles[value] if about.is_relation else value_answers(about, value)[0]


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
        from ..worlds.rules import derived

        return Context(derived(self.world), self.corpus)

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
            stated = all(self.passages(part) for part in self.world.parts(fact))
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
