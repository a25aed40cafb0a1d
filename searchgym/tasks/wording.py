"""How structures become questions. Only this module and the phrase banks decide wording.

Choices are keyed by (wording seed, task, place), never drawn from a shared generator, so that a
changed wording seed changes nothing but words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import TaskError
from ..seeding import derive
from ..worlds.schema import EntityType, Phrases
from .context import Context
from .paths import Path, Step

PHRASINGS = ("train", "heldout")

_RELATIVE = re.compile(r"^(?:that|which|who) (?!\{o\})")
_PARTICIPLE = re.compile(
    r"^(?:\w+ly )?(?:\w+ed|written|built|born|held|led|set|known|made|drawn|sung|sold|run|spoken|"
    r"worn|given|taken|shot|cast|won|begun|chosen|found|kept|sent|taught|driven|grown|laid) "
    r"(?:by|in|at|on|after|to|from|for|as|under|near) "
)
PEOPLE = ("person", "people", "human", "man", "woman")

_LOOKUP = Phrases(
    ("What is {d}?", "What is the name of {d}?", "Name {d}.", "Which {n} is {d}?"),
    ("Can you name {d}?", "Tell me the name of {d}.", "What do people call {d}?"),
)
_LOOKUP_PERSON = Phrases(
    ("Who is {d}?", "What is the name of {d}?", "Name {d}.", "Which person is {d}?"),
    ("Can you name {d}?", "Tell me who {d} is.", "Do you know who {d} is?"),
)


def capitalised(text: str) -> str:
    """First letter in upper case, the rest untouched."""
    return text[:1].upper() + text[1:]


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
        if not step.inverse:
            return capitalised(self.pick(prop.question).replace("{s}", known))
        kind = self._ctx.schema.types[self._ctx.schema.type_index(prop.source)]
        return self.which(kind, self.pick(prop.inverse), known)

    def which(self, kind: EntityType, inverse: str, known: str) -> str:
        """A question for the thing an inverse phrase describes ("the film directed by {o}")."""
        rest = predicate(inverse, kind)
        if rest is not None and self.coin():
            wh = "Who" if kind.noun in PEOPLE and self.coin() else f"Which {kind.noun}"
            return f"{wh} {rest.replace('{o}', known)}?"
        bank = _LOOKUP_PERSON if kind.noun in PEOPLE else _LOOKUP
        described = inverse.replace("{o}", known)
        return capitalised(self.pick(bank).replace("{d}", described).replace("{n}", kind.noun))

    def coin(self) -> bool:
        self._place += 1
        return derive(self._seed, self._place) % 4 != 0


def clause(phrase: str, kind: EntityType) -> str | None:
    """What follows the head noun of a description: "directed by {o}" of "the film directed by
    {o}"; None if the phrase is not "the NOUN …"."""
    head = f"the {kind.noun} "
    return phrase[len(head) :] if phrase.startswith(head) else None


def predicate(phrase: str, kind: EntityType) -> str | None:
    """A verb phrase saying the same: "was directed by {o}", "directed {o}" (of "the person who
    directed {o}"); None where grammar is not certain."""
    rest = clause(phrase, kind)
    if rest is None:
        return None
    if _RELATIVE.match(rest):
        return _RELATIVE.sub("", rest)
    return f"was {rest}" if _PARTICIPLE.match(rest) else None


def plural_clause(rest: str) -> str:
    """A clause that fits a plural head: "that was made in" becomes "that were made in"."""
    for singular, plural in (("is", "are"), ("was", "were"), ("has", "have"), ("does", "do")):
        rest = re.sub(rf"^(that|which|who) {singular} ", rf"\1 {plural} ", rest)
    return rest


def listed(parts: Sequence[str]) -> str:
    """ "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
