"""Name grammars: a schema says in one line how a type's names look.

A grammar is patterns separated by ``;``, each drawn equally often. ``{slot}`` is filled with a
word of that kind, ``{slot2}`` with another one, ``{=Park,Arena}`` with one of the listed texts.
``pattern => other name`` gives entities a second name built from the same words, which their page
states. Example: ``"{word} {=Group,Works} => {word}; {family} & Sons"``. A bare word such as
``person`` or ``city`` stands for a grammar that ships with SearchGym.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ..errors import WorldError, unknown

OPEN = ("place", "country", "word", "river", "genus", "epithet")
"""Slots filled with a word made for this entity."""
POOLED = ("given", "family")
"""Slots filled from a pool of invented words that entities share, as people share first names."""
LISTED = ("adj", "noun", "nouns", "gerund", "field")
"""Slots filled from a list of English words."""

SHIPPED = {
    "person": "{given} {family}; {given} {family}; {given} {family} => {given} {given2} {family}; "
    "{given} {family}-{family2}",
    "city": "{place}; {place}; {place}; {=Port,North,South,East,West,New,San,Mount} {place}",
    "country": "{country} => {country}{demonym}",
    "company": "{word} {=Group,Works,Holdings,Industries,Corporation,Media} => {word}; "
    "{family} & {family2}; {word} {=Pictures,Entertainment,Studios,Press,Records}; "
    "{family} {=Brothers,Company}",
    "university": "University of {place}; {place} University; {family} College; "
    "{family} Institute of Technology; {place} {=State,National,Catholic,Technical} University",
    "work": "The {adj} {noun} of {place}; The {place} {noun}; {gerund} {given}; {given}'s {noun}; "
    "{noun} of the {adj} {word}; The {noun} and the {noun2} of {family}; {adj} {word}; "
    "A {noun} for {given}; {gerund} the {adj} {word}; The {noun} from {place}; "
    "{given} and the {adj} {noun}; {word}; The {family} {noun}; {noun} in {place}",
    "album": "{adj} {noun} {word}; {gerund} {place}; {word}; The {adj} {word} {noun}; "
    "{noun} for {given}; {noun}, {noun2} and {word}; Live in {place}; {adj} {gerund} {word}",
    "magazine": "{place} {=Weekly,Review,Quarterly,Herald,Monthly}; The {word} {=Review,Journal}; "
    "{word} Magazine; {family}'s {=Weekly,Journal,Magazine}",
    "band": "The {word} {nouns}; {word}; {place} {nouns}; {adj} {word}; {family} and the {nouns}",
    "team": "{place} {nouns}; {place} {=United,City,Rovers,Athletic,Wanderers}; FC {place}",
    "stadium": "{family} {=Stadium,Park,Arena,Field}; {place} {=Stadium,Dome,Coliseum}; "
    "{word} {=Arena,Centre}",
    "award": "{family} {=Prize,Medal,Award}; {place} {=Prize,Award} for {adj} {noun}; "
    "{word} Award; Order of {place}",
    "festival": "{place} {=Film,Music,Book,Jazz,Folk,Theatre} Festival; {word} Festival; "
    "{place} {=Biennale,Carnival,Fair}",
    "species": "{genus} {epithet} => {adj} {word}; {genus} {epithet}",
    "river": "{river}; {river} River; River {river}",
    "lab": "{family} Laboratory; {place} Institute of {field}; {place} Centre for {field}; "
    "{word} Lab => {word} Laboratory",
    "instrument": "{word} {=Telescope,Spectrometer,Microscope,Array,Detector}; "
    "{family} {=Telescope,Collider,Interferometer,Sequencer}",
    "disease": "{family} {=syndrome,disease,fever}; {family}-{family2} syndrome; {place} fever",
    "compound": "{genus}in; {word}ase; {word}ol",
    "paper": "On the {field} of {place}; {gerund} {word} in {field}; "
    "{adj} {noun} in {word} {field}; A {adj} Theory of {word}; The {word} {noun} in {field}",
}

_SLOT = re.compile(r"\{(=?)([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """Literal pieces around slots: ``pieces[0] slots[0] pieces[1] …``, likewise the alias."""

    pieces: tuple[str, ...]
    slots: tuple[str, ...]
    alias_pieces: tuple[str, ...] = ()
    alias_slots: tuple[str, ...] = ()


def expand(grammar: str) -> str:
    """The patterns a shipped grammar's name stands for; other texts stay as they are."""
    return SHIPPED.get(grammar.strip(), grammar)


@lru_cache(maxsize=256)
def parse_grammar(grammar: str) -> tuple[Pattern, ...]:
    """Patterns of a grammar. ``{=a,b}`` becomes the slot ``=a,b``."""
    patterns = []
    for text in expand(grammar).split(";"):
        name, _, alias = (part.strip() for part in text.partition("=>"))
        pieces, slots = _cut(name)
        alias_pieces, alias_slots = _cut(alias) if alias else ((), ())
        patterns.append(Pattern(pieces, slots, alias_pieces, alias_slots))
    return tuple(patterns)


def kind_of(slot: str) -> str:
    """``noun2`` draws another word of the kind ``noun``."""
    return slot if slot.startswith("=") else slot.rstrip("0123456789")


def check_grammar(grammar: str, where: str) -> None:
    """Raise ``WorldError`` if a grammar cannot make different names."""
    kinds = (*OPEN, *POOLED, *LISTED)
    if not _SLOT.search(expand(grammar)):
        known = ", ".join(sorted(SHIPPED))
        near = unknown("name grammar", grammar, SHIPPED) if " " not in grammar else ""
        raise WorldError(
            f"{where}: names: {near or f'{grammar!r} has no slot'}; give a shipped grammar "
            f"({known}) or patterns such as '{{family}} Laboratory'"
        )
    for pattern in parse_grammar(grammar):
        if not all(kind_of(s).startswith("=") or kind_of(s) in kinds for s in pattern.slots):
            wrong = next(s for s in pattern.slots if kind_of(s) not in kinds and s[0] != "=")
            raise WorldError(f"{where}: names: {unknown('slot', wrong, kinds)}")
        if not any(kind_of(s) in (*OPEN, *POOLED) for s in pattern.slots):
            raise WorldError(
                f"{where}: names: every pattern needs an invented word: one of "
                f"{', '.join((*OPEN, *POOLED))}"
            )
        for slot in pattern.alias_slots:
            new = kind_of(slot) in (*POOLED, "demonym", *LISTED)
            if slot not in pattern.slots and not new and kind_of(slot) not in OPEN:
                raise WorldError(f"{where}: names: {unknown('slot', slot, kinds)}")


def _cut(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    pieces, slots, at = [], [], 0
    for match in _SLOT.finditer(text):
        pieces.append(text[at : match.start()])
        slots.append(match.group(1) + match.group(2))
        at = match.end()
    return (*pieces, text[at:]), tuple(slots)
