"""Name grammars, by which a schema says in one line how a type's names look, and invented words.

A grammar is patterns separated by ``;``, each drawn equally often. ``{slot}`` is filled with a
word of that kind, ``{slot2}`` with another one, ``{=Park,Arena}`` with one of the listed texts.
``pattern => other name`` gives entities a second name built from the same words, which their page
states. Example: ``"{word} {=Group,Works} => {word}; {family} & Sons"``. A bare word such as
``person`` or ``city`` stands for a grammar that ships with SearchGym.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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


_DATA = Path(__file__).parent / "data"

# (onsets, nuclei, codas) per flavour; a word is of one flavour, so that it sounds like a language.
_FLAVOURS: tuple[tuple[list[str], list[str], list[str]], ...] = (
    ("b br d dr f fl g gl h hal k l m n p r s st t th v w wh".split(),
     "a e i o u ea oo".split(), "l ld ll m n nd r rd rn s th x ck".split()),
    ("b bl br d f fr g gr h k kl l m n r s sch st t v w z".split(),
     "a e i o u ei au ie".split(), "l n r rn rt ch tz lk nd st ck m".split()),
    ("b c ch d f g l m n p qu r s t v z gr tr pr".split(),
     "a e i o u ia io".split(), "l n r s nt nd rd l z".split()),
    ("b d g k kh l m n p r s t v y z zh dr kr vl".split(),
     "a e i o u ya".split(), "l n r k v sk m rn t sh".split()),
    ("b ch d h j k m n r s sh t ts y z ry".split(),
     "a e i o u ai".split(), "n n m r k sh".split()),
    ("ab d f h j k kh l m n q r s sh t y z".split(),
     "a i u aa ee o".split(), "b d f l m n r s z sh q".split()),
    ("b d f g h k l m n s sk sv t v hj fj st".split(),
     "a e i o u y oe".split(), "l lm n r rg rk nd nn gg st".split()),
    ("k l m n p h w t f v r m k".split(),
     "a e i o u ao ei".split(), "n l m k lo na ki".split()),
)  # fmt: skip

_ENDINGS: dict[str, list[str]] = {
    "given0": "an ar en ik in ion is o or os un us ur am ard el ian iel eus emir".split(),
    "given1": "a ia elle ina ine ela ana issa ora etta isa ee ette ira yra".split(),
    "family": "sen er ov ez mann well ik ski ar arro ier is wick man ston ini ello aki ura "
    "strom dahl heim gaard by or ensk anu ade ulo escu ian idis".split(),
    "place": "ton burg ville stad grad mouth ford a o holm by ham haven ona era ino ana is ek "
    "pool dale minster or abad os wick field port".split(),
    "country": "ia land stan ora eth ana or ova ar ea esh una ovia onia en".split(),
    "word": "ex on ix ar um ora en ion is o ant el ax yn us ane eo".split(),
    "river": "a e ine ow ar en is uro one awa u esk el ay".split(),
    "genus": "us a um ella opsis odon ina ium aria ops".split(),
    "epithet": "ensis ii ana ata icola oides ella ica osa ifera".split(),
}


@cache
def stop_words() -> frozenset[str]:
    """Lower-case real single words no invented word may equal."""
    return frozenset(w for line in _stop_lines() if line[0] != "=" for w in line.split())


@cache
def stop_names() -> frozenset[str]:
    """Lower-case real names (single words and full names) no name may equal."""
    return stop_words() | {line[1:] for line in _stop_lines() if line[0] == "="}


@cache
def _stop_lines() -> tuple[str, ...]:
    lines = (_DATA / "stoplist.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and line[0] != "#")


@cache
def listed_words(kind: str) -> tuple[str, ...]:
    """The shipped words of a kind: English ones for titles (adj, noun, nouns, gerund, field), real
    names and parts of names (given0, family, place-end, …); none of others."""
    _, found, rest = (_DATA / "words.txt").read_text(encoding="utf-8").partition(f"[{kind}]\n")
    return tuple(rest.partition("[")[0].split()) if found else ()


def words(kind: str, n: int, rng: np.random.Generator, *, syllables: int = 0) -> list[str]:
    """``n`` capitalised invented words (epithets in lower case); stop-listed ones come back as "".

    ``syllables`` before the ending: 0 draws one (60 %) or two. Words may repeat.
    """
    flavour = rng.integers(len(_FLAVOURS), size=n)
    long = rng.random(n) < 0.4 if syllables == 0 else np.full(n, syllables > 1)
    endings = _ENDINGS[kind]
    parts = [_syllable(flavour, rng), _syllable(flavour, rng), _syllable(flavour, rng)]
    tails = rng.integers(len(endings), size=n).tolist()
    stop = stop_words()
    invented: list[str] = []
    triple = syllables > 2
    for first, second, third, more, tail in zip(*parts, long.tolist(), tails, strict=True):
        end = endings[tail]
        stem = first + second if more else first
        if triple:
            stem += third
        # "ia" after "ii" or "aa" before "a" reads badly: the ending's vowel replaces the stem's.
        if end[0] in "aeiouy":
            stem = stem.rstrip("aeiouy") or stem
        word = stem + end
        if word in stop or len(word) < 4:
            invented.append("")
        else:
            invented.append(word if kind == "epithet" else word.capitalize())
    return invented


@cache
def _syllable_table() -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    table: list[str] = []
    starts, sizes = [], []
    for onsets, nuclei, codas in _FLAVOURS:
        starts.append(len(table))
        table += [
            o + v + c for o in onsets for v in nuclei for c in (*codas, *[""] * 2 * len(codas))
        ]
        sizes.append(len(table) - starts[-1])
    return table, np.array(starts), np.array(sizes)


def _syllable(flavour: NDArray[np.int64], rng: np.random.Generator) -> list[str]:
    table, starts, sizes = _syllable_table()
    place = starts[flavour] + (rng.random(len(flavour)) * sizes[flavour]).astype(np.int64)
    return [table[i] for i in place.tolist()]


def demonym(country: str, choice: int) -> str:
    """The ending that turns a country's name into its adjective (the name stays a prefix)."""
    last = country[-1].lower()
    if last == "a":
        return "n"
    if last in "eiouy":
        return ("an", "nese")[choice % 2]
    return ("ian", "ish", "ese", "ian")[choice % 4]
