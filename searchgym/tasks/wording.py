"""Wording of structures as questions, and the small pieces of English for it. Only this module and
the phrase banks decide wording.

Choices are keyed by (wording seed, task, place), never drawn from a shared generator, so that a
changed wording seed changes nothing but words. Functions that take a schema's descriptions apart
answer None, or leave the text alone, where they are not sure.
"""

from __future__ import annotations

import copy
import re
import tomllib
from functools import cache
from pathlib import Path as File

from ..errors import TaskError
from ..seeding import derive
from ..worlds.schema import Phrases
from .context import Context, Path, PathStep

PEOPLE = ("person", "people", "human", "man", "woman")

_IRREGULAR_VERBS = (
    "written|built|born|held|led|set|known|made|drawn|sung|sold|run|spoken|worn|given|taken|shot|"
    "won|begun|chosen|found|kept|sent|taught|driven|grown|laid|put|wed"
)
_PARTICIPLE = rf"(?:\w+ly )?(?:\w+ed|{_IRREGULAR_VERBS})"
_STATES = re.compile(r"^(?:located|based|headquartered|situated|found|native|twinned|partnered) ")
_FINITE = {"starring": "stars", "featuring": "features"}
_DESCRIPTION = re.compile(
    r"^(?:the|an?) (?P<head>(?:[\w-]+ ){0,2}?[\w-]+) (?P<rest>(?:"
    r"that|which|who|whom|whose|where|of|in|on|at|by|for|from|with|to|about|along|into|since|through|under|"
    rf"native|sovereign|starring|featuring|{_PARTICIPLE}) .*)$"
)
_RELATIVE = re.compile(r"^(?:that|which|who) (?!\{[so]\})")
_PASSIVE = re.compile(rf"^{_PARTICIPLE} (?:by|in|at|on|after|to|from|for|as|under|near|with) ")
_PLURALS = {"person": "people", "child": "children", "man": "men", "woman": "women",
            "alumnus": "alumni", "grandchild": "grandchildren"}  # fmt: skip
_UNCHANGED = ("series", "species", "alumni")


def split_description(phrase: str) -> tuple[str, str] | None:
    """Head noun and the clause after it: ("film", "directed by {o}"); None if not "the NOUN …"."""
    match = _DESCRIPTION.match(phrase)
    return (match["head"], match["rest"]) if match else None


def predicate(phrase: str) -> str | None:
    """A description turned into a question's words: "which film was directed by {o}" for "the film
    directed by {o}", "who directed {o}" for "the person who directed {o}"."""
    parts = split_description(phrase)
    if parts is None:
        return None
    head, rest = parts
    subject = "who" if head in PEOPLE else f"which {head}"
    first, _, after = rest.partition(" ")
    if _RELATIVE.match(rest):
        return f"{subject} {_RELATIVE.sub('', rest)}"
    if _STATES.match(rest):
        return f"{subject} is {rest}"
    if _PASSIVE.match(rest):
        return f"{subject} was {rest}"
    if first in _FINITE:
        return f"{subject} {_FINITE[first]} {after}"
    return f"{subject} is {rest}" if first in ("by", "from", "about") else None


def clause(phrase: str, noun: str) -> str | None:
    """Clause that can follow ``noun`` instead of the description's own head: "directed by {o}"."""
    parts = split_description(phrase)
    if parts is None:
        return None
    head, rest = parts
    free = _PASSIVE.match(rest) or rest.split()[0] in (
        *("that", "which", "who", "whose", "by", "from", "with", "native"),
        *_FINITE,
    )
    return rest if head == noun or free else None


def finite(rest: str, noun: str) -> str:
    """A clause that can follow "and": "that was directed by {o}" for "directed by {o}"."""
    first, _, after = rest.partition(" ")
    who = "who" if noun in PEOPLE else "that"
    if first in ("that", "which", "who", "whom", "whose", "where") or re.match(
        r"\w+ (?:which|whom|whose) ", rest
    ):
        return rest
    if first in _FINITE:
        return f"{who} {_FINITE[first]} {after}"
    if first == "with":
        return f"{who} has {after}"
    return f"{who} {passive(rest) or 'is'} {rest}"


def passive(rest: str) -> str:
    """The verb before a clause without one, "was" before "directed by …"; "" if that has one."""
    return "is" if _STATES.match(rest) else "was" if _PASSIVE.match(rest) else ""


def indefinite(phrase: str) -> str:
    """ "a native of X" for "the native of X": used where many would fit."""
    if not phrase.startswith("the "):
        return phrase
    article = "an" if re.match(r"[aeio]", phrase[4:], re.IGNORECASE) else "a"
    return f"{article} {phrase[4:]}"


def plural_description(phrase: str) -> str | None:
    """ "films directed by {o}" for "the film directed by {o}"."""
    parts = split_description(phrase)
    return None if parts is None else f"{plural(parts[0])} {_plural_clause(parts[1])}"


def plural(noun: str) -> str:
    """English plural of a noun phrase whose head comes last, or of two that "or" joins."""
    if " or " in noun:
        return " or ".join(map(plural, noun.split(" or ")))
    first, _, last = noun.rpartition(" ")
    if last in _PLURALS:
        last = _PLURALS[last]
    elif last in _UNCHANGED:
        pass
    elif re.search(r"[^aeiou]y$", last):
        last = last[:-1] + "ies"
    elif re.search(r"(s|x|z|ch|sh)$", last):
        last += "es"
    else:
        last += "s"
    return f"{first} {last}" if first else last


_BE = {"is": "are", "was": "were", "has": "have", "does": "do"}


def _plural_clause(rest: str) -> str:
    """Plural of a clause: "that was made" -> "that were made", "that plays" -> "that play"."""
    match = re.match(r"^(that|which|who) (\w+) (.*)$", rest)
    if match is None:
        return rest
    pronoun, verb, after = match.groups()
    if verb in _BE:
        verb = _BE[verb]
    elif re.search(r"\w[^aeiou]ies$", verb):
        verb = verb[:-3] + "y"
    elif re.search(r"(sh|ch|ss|x)es$", verb):
        verb = verb[:-2]
    elif verb.endswith("s") and not verb.endswith("ss"):
        verb = verb[:-1]
    return f"{pronoun} {verb} {after}"


def capitalised(text: str) -> str:
    """First letter in upper case, the rest untouched."""
    return text[:1].upper() + text[1:]


_ORDERS = re.compile(
    r"(?i)(?:tell|i |do you|give|name|could|can you|identify|find|list|state|look|please|count)\b"
)


@cache
def _natural() -> dict[str, Phrases]:
    text = (File(__file__).parent / "natural.toml").read_text(encoding="utf-8")
    return {
        name: Phrases(tuple(bank["train"]), tuple(bank["heldout"]))
        for name, bank in tomllib.loads(text).items()
    }


def _after(phrase: str) -> int:
    """Words after a phrase's slot; a possessive counts as many."""
    *_, rest = re.split(r"\{[so]\}", phrase)
    return 99 if rest.startswith("'s") else len(rest.rstrip("?").split())


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
LOOKUP_PERSON = Phrases(
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
        self.ordered = False
        """True if the words chosen ask for the answer's items in their order."""

    def about(self, ctx: Context) -> Voice:
        """The same voice, place and all, over another context of the same world."""
        other = copy.copy(self)
        other._ctx = ctx
        return other

    def options(self, phrases: Phrases) -> tuple[str, ...]:
        """The phrases of this voice's side. Worlds in connected prose are asked as people ask in
        real sets, who do not give orders, where a bank has a question."""
        real = bool(self._ctx.schema.prose)
        if real:
            phrases = _natural().get(phrases.train[0] if phrases.train else "", phrases)
        options = phrases.train if self._phrasing == "train" else phrases.heldout
        if not real:
            return options
        return tuple(o for o in options if not _ORDERS.match(o)) or options

    def pick(self, phrases: Phrases, room: int | None = None) -> str:
        """The next choice from a bank, of those that fit."""
        self._place += 1
        options = self.fitting(phrases, room)
        return options[derive(self._seed, self._place) % len(options)]

    def fitting(self, phrases: Phrases, room: int | None) -> tuple[str, ...]:
        """Phrases of a bank with at most ``room`` words after what is put in, where worlds in
        connected prose have such a phrase, so that long descriptions stand last."""
        options = self.options(phrases)
        if room is not None and self._ctx.schema.prose:
            options = tuple(o for o in options if _after(o) <= room) or options
        return options

    def named(self, entity: int) -> str:
        name = self._ctx.names.given(entity)
        if name is None:
            raise TaskError(f"entity {entity} cannot be named without ambiguity")
        return name

    def describe(self, path: Path, *, last: bool = False) -> str:
        """A definite description: "the founder of the company that made S"; the name its ``last``
        word, if possible."""
        text = self.named(path.start)
        for i, step in enumerate(path.steps):
            text = self.step(step, text, nested=last or i > 0)
        return text

    def phrase(self, step: PathStep, *, nested: bool = False) -> str:
        """A description of a step's outcome, with its slot ({s} or {o}) still open: the last word,
        if possible, for a ``nested`` description."""
        prop = self._ctx.prop(step.property)
        return self.pick(prop.inverse if step.inverse else prop.noun, 0 if nested else None)

    def step(self, step: PathStep, known: str, *, nested: bool = False) -> str:
        slot = "{o}" if step.inverse else "{s}"
        return self.phrase(step, nested=nested).replace(slot, known)

    def ask(self, path: Path) -> str:
        """A whole question for the end of a path of at least one step."""
        known = self.describe(path.prefix)
        step = path.steps[-1]
        prop = self._ctx.prop(step.property)
        nested = len(path.steps) > 1
        if step.inverse:
            return self.which(prop.source, self.phrase(step, nested=nested), known)
        short = len(path.steps) == 2 and known.endswith(self.named(path.start))
        room = 2 if short else 0 if nested else None
        text = self.pick(prop.question, room)
        if room is not None and self._ctx.schema.prose and _after(text) > room:
            who = "Who" if prop.target and self.person(prop.target) else "What"
            return f"{who} is {self.step(step, known, nested=True)}?"
        # Banks hold lower-case questions on purpose, as people type them; names stay as they are.
        return text.replace("{s}", capitalised(known) if text.startswith("{s}") else known)

    def which(self, source: str, inverse: str, known: str) -> str:
        """A question for the thing an inverse phrase describes ("the film directed by {o}")."""
        asked = predicate(inverse)
        if asked is not None and self.coin():
            return capitalised(f"{asked.replace('{o}', known)}?")
        bank = LOOKUP_PERSON if self.person(source) else _LOOKUP
        return capitalised(self.pick(bank).replace("{d}", inverse.replace("{o}", known)))

    def person(self, kind: str) -> bool:
        """Return whether things of a type are asked for with "who"."""
        t = self._ctx.schema.types[self._ctx.schema.type_index(kind)]
        return t.noun in PEOPLE or bool(self._ctx.schema.prose and t.pronouns[0] == "he/his")

    def coin(self) -> bool:
        self._place += 1
        return derive(self._seed, self._place) % 4 != 0
