"""Puts structures into words as questions. Only this module and the phrase banks decide wording.

Choices are keyed by (wording seed, task, place), never drawn from a shared generator, so that a
changed wording seed changes nothing but words.
"""

from __future__ import annotations

from ..errors import TaskError
from ..seeding import derive
from ..worlds.schema import Phrases
from .context import Context
from .grammar import PEOPLE, capitalised, predicate
from .paths import Path, Step

PHRASINGS = ("train", "heldout")

_LOOKUP = Phrases(
    (
        "What is {d}?",
        "What is the name of {d}?",
        "Name {d}.",
        "Can you name {d}?",
        "Tell me the name of {d}.",
        "What do people call {d}?",
        "Give the name of {d}.",
        "By what name is {d} known?",
        "I am looking for the name of {d}. What is it?",
        "Which name belongs to {d}?",
    ),
    (
        "Identify {d}.",
        "What name belongs to {d}?",
        "I want to know the name of {d}.",
    ),
)
_LOOKUP_PERSON = Phrases(
    (
        "Who is {d}?",
        "What is the name of {d}?",
        "Name {d}.",
        "Can you name {d}?",
        "Tell me who {d} is.",
        "Do you know who {d} is?",
        "Give the name of {d}.",
        "By what name is {d} known?",
        "Which person is {d}?",
        "I would like to know the name of {d}.",
    ),
    (
        "Identify {d}.",
        "Who might {d} be?",
        "I want to know who {d} is.",
    ),
)


class Voice:
    """Wording for one task: every choice is fixed by (seed, task key, place in the question)."""

    def __init__(self, ctx: Context, phrasing: str, seed: int, *key: int | str) -> None:
        if phrasing not in PHRASINGS:
            raise TaskError(f"phrasing must be 'train' or 'heldout', got {phrasing!r}")
        self._ctx = ctx
        self._phrasing = phrasing
        self._seed = derive(seed, "question", *key)
        self._place = 0

    def options(self, phrases: Phrases) -> tuple[str, ...]:
        return phrases.train if self._phrasing == "train" else phrases.heldout

    def pick(self, phrases: Phrases) -> str:
        """The next choice from a bank."""
        self._place += 1
        options = self.options(phrases)
        return options[derive(self._seed, self._place) % len(options)]

    def named(self, entity: int) -> str:
        name = self._ctx.names.given(entity)
        if name is None:
            raise TaskError(f"entity {entity} cannot be named without ambiguity")
        return name

    def describe(self, path: Path) -> str:
        """A definite description: "the founder of the company that made S"."""
        text = self.named(path.start)
        for step in path.steps:
            text = self.step(step, text)
        return text

    def phrase(self, step: Step) -> str:
        """A description of a step's outcome, with its slot ({s} or {o}) still open."""
        prop = self._ctx.prop(step.property)
        return self.pick(prop.inverse if step.inverse else prop.noun)

    def step(self, step: Step, known: str) -> str:
        return self.phrase(step).replace("{o}" if step.inverse else "{s}", known)

    def ask(self, path: Path) -> str:
        """A whole question for the end of a path of at least one step."""
        known = self.describe(path.prefix)
        step = path.steps[-1]
        prop = self._ctx.prop(step.property)
        if step.inverse:
            return self.which(prop.source, self.pick(prop.inverse), known)
        text = self.pick(prop.question)
        # Banks hold lower-case questions on purpose, as people type them; names stay as they are.
        return text.replace("{s}", capitalised(known) if text.startswith("{s}") else known)

    def which(self, source: str, inverse: str, known: str) -> str:
        """A question for the thing an inverse phrase describes ("the film directed by {o}")."""
        asked = predicate(inverse)
        if asked is not None and self.coin():
            return capitalised(f"{asked.replace('{o}', known)}?")
        noun = self._ctx.schema.types[self._ctx.schema.type_index(source)].noun
        bank = _LOOKUP_PERSON if noun in PEOPLE else _LOOKUP
        return capitalised(self.pick(bank).replace("{d}", inverse.replace("{o}", known)))

    def coin(self) -> bool:
        self._place += 1
        return derive(self._seed, self._place) % 4 != 0
