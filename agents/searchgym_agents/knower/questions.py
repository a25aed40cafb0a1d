"""Every question of one hop that the family ``simple`` can ask, in all its training phrasings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from searchgym.tasks.chains import ends
from searchgym.tasks.context import Context, Path
from searchgym.tasks.wording import Voice
from searchgym.worlds.schema import Phrases


class Asked(NamedTuple):
    """A path of facts and the ways to ask for its end."""

    path: Path
    questions: tuple[str, ...]


class _Spelling(Voice):
    """Wording that makes the choices it is told, the first option where it is told nothing, and
    remembers how many options there were."""

    def __init__(self, ctx: Context, choices: list[int]) -> None:
        super().__init__(ctx, "train", 0)
        self._choices, self.sizes = choices, list[int]()

    def pick(self, phrases: Phrases, room: int | None = None) -> str:
        options = self.fitting(phrases, room)
        return options[self._choose(len(options))]

    def coin(self) -> bool:
        return bool(self._choose(2))

    def _choose(self, options: int) -> int:
        place = len(self.sizes)
        self.sizes.append(options)
        return self._choices[place] if place < len(self._choices) else 0


def phrasings(ctx: Context, path: Path) -> tuple[str, ...]:
    """All training phrasings of a question for a path's end, each once."""
    texts: dict[str, None] = {}
    choices: list[int] = []
    while True:
        voice = _Spelling(ctx, choices)
        texts[voice.ask(path)] = None
        choices += [0] * (len(voice.sizes) - len(choices))
        choices = choices[: len(voice.sizes)]
        while choices and choices[-1] + 1 == voice.sizes[len(choices) - 1]:
            choices.pop()
        if not choices:
            return tuple(texts)
        choices[-1] += 1


def askable(ctx: Context, path: Path) -> bool:
    """Return whether the family ``simple`` or ``chain`` may ask for a path's end: the start can be
    named, and no name in the question gives another away."""
    named = ctx.names.given(path.start) is not None
    return named and ctx.hidden((path.start,), ends(ctx, path))


def one_hop(ctx: Context) -> Iterator[Asked]:
    """Every question of one hop about the world, by entity."""
    for entity in range(ctx.world.n_entities):
        for step in ctx.steps(entity):
            path = Path(entity, (step,))
            if askable(ctx, path):
                yield Asked(path, phrasings(ctx, path))
