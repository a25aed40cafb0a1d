"""Names of things in questions, queries and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import chain, product

from ..worlds.values import value_answers
from ..worlds.world import World

_NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen", "twenty"),
)


def number_answers(number: int) -> tuple[str, ...]:
    """Digits first, then the number word up to twenty."""
    words = (_NUMBER_WORDS[number],) if 0 <= number < len(_NUMBER_WORDS) else ()
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
        """Types of the bearers of every shared name."""
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
