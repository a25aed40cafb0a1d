"""Reports that cite pages, sentence by sentence: which facts each states, and whether a page that
it cites states them. No judge: what can be said is a :class:`Dossier` of facts, with the pages that
state them and the words in which the world speaks of them.

A sentence states a fact if it names subject and object (or begins with "It", "The film", … after a
sentence about the subject), denies nothing, and the words around the object are at least as much
those of the fact's property as of another one that the object could fill. Every number and every
capitalised word of a sentence must belong to what it states; what says more is not supported.

Precision, recall and coverage follow ALCE (Gao et al., arXiv 2305.14627), whose judge is a model.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, Self

STATES = ("asked", "beside", "repeated", "uncited", "wrong page", "unknown")
"""Verdicts on a sentence: it states something asked for and a page that it cites says so; something
else that is true, likewise; only what a sentence before it stated; something true without citing;
something true that no cited page states; something that is not known, or nothing."""
_STOP = frozenset(
    "a an the of in on at by to for from with as and or is are was were be been being has have had "
    "it its he his she her they their who whom whose which that this these those there where when "
    "also one some".split()
)
_DENIES = frozenset(
    "not never no neither nor without false falsely wrong wrongly untrue incorrect incorrectly "
    "contrary cannot hardly instead nobody none nothing anything unlike unlikely doubt doubts "
    "doubted doubtful deny denies denied myth rumour rumoured rumor rumored reject rejects "
    "rejected disputed refuted allegedly supposedly".split()
)
_WORD = re.compile(r"\w+")
_CUT = re.compile(r"[,;:()]|\b(?:and|but|while|whereas|with|who|which|where|whose)\b")
_END = re.compile(r"(?<=[.!?])[\"”’')]*\s+(?=[^\sa-z])|\n+")
_BARE = re.compile(r"https?://[^\s\[\]()<>\"]+")
_CITE = re.compile(r"\[([^\[\]\n]{1,300})\](?:\((https?://[^\s()]{1,500})\))?")
_LISTED = re.compile(r"(?:[-*•] ?)?\[?(\d{1,4})[\].):]+ ?(\S.*)")
_HEADING = re.compile(r"(?im)^[ \t#*_]{0,9}(?:references|sources|bibliography)[ \t*_:]{0,9}$")
_AGAIN = re.compile(
    r"(?:[Ii]ts?|[Hh]e|[Hh]is|[Ss]he|[Hh]er|[Tt]hey|[Tt]heir|(?:The|This|That) [a-z]+)\b"
)
_STRAY = re.compile(r"\d[\d,.]*|\b[^\W\d_a-z]\w*")
LONGEST = 2_000
"""Characters of a sentence; a longer one states nothing, so that time is linear in a report."""


class Spoken(NamedTuple):
    """A property as sentences speak of it."""

    source: str
    """Type of its subjects."""
    kind: str
    """Type of its objects, or kind of its values: properties with the same compete for a word."""
    cues: frozenset[str]
    """Beginnings of the words it is told in."""
    plain: frozenset[str] = frozenset()
    """Those of words that say nothing of it ("film"), for they only say what its ends are."""
    of: Mapping[str, str] = MappingProxyType({})
    """Noun → the end ("s" or "o") that stands after its "of", where both ends have one type."""
    among: tuple[str, ...] = ()
    """All values that there are, where they are words: who names several has guessed."""


class Claim(NamedTuple):
    """A fact of a dossier: numbers of its subject and object among the things."""

    subject: int
    property: str
    object: int
    pages: frozenset[str]
    """Ids of the passages that state it."""
    asked: bool


class Sentence(NamedTuple):
    """A sentence of a report: its text without citations, and what it cites."""

    text: str
    cited: tuple[str, ...]
    """Citations as they are written, without brackets."""


class Verdict(NamedTuple):
    """Verdict on a sentence."""

    sentence: Sentence
    state: str
    """One of :data:`STATES`."""
    facts: tuple[int, ...]
    """Numbers of the facts that it states."""
    supporting: tuple[str, ...]
    """Those of its citations of which a page states one of them."""
    stray: tuple[str, ...] = ()
    """Names and numbers in it that belong to no fact it states."""


class Dossier:
    """Things by their names, facts about them, and the words of their properties.

    Args:
        things: Accepted forms of each entity and value.
        facts: Facts over these.
        properties: The properties of the facts, and those that compete with them.
    """

    def __init__(
        self,
        things: Sequence[Sequence[str]],
        facts: Iterable[Claim],
        properties: Mapping[str, Spoken],
    ) -> None:
        self.things = [list(forms) for forms in things]
        self.facts = tuple(facts)
        self.properties = dict(properties)

    def to_json(self) -> dict[str, Any]:
        """JSON values, as a task's meta keeps them."""
        return {
            "things": self.things,
            "facts": [
                [f.subject, f.property, f.object, sorted(f.pages), f.asked] for f in self.facts
            ],
            "properties": {
                name: [
                    p.source,
                    p.kind,
                    " ".join(sorted(p.cues)),
                    " ".join(sorted(p.plain)),
                    {**p.of},
                    [*p.among],
                ]
                for name, p in sorted(self.properties.items())
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_json`."""
        properties = {
            name: Spoken(
                source,
                kind,
                frozenset(cues.split()),
                frozenset(plain.split()),
                of,
                tuple(among[0]) if among else (),
            )
            for name, (source, kind, cues, plain, of, *among) in data["properties"].items()
        }
        facts = [Claim(s, p, o, frozenset(pages), asked) for s, p, o, pages, asked in data["facts"]]
        return cls(data["things"], facts, properties)

    @cached_property
    def _names(self) -> tuple[re.Pattern[str], dict[str, list[int]]]:
        bearers: dict[str, list[int]] = {}
        for i, forms in enumerate(self.things):
            for form in forms:
                bearers.setdefault(form.lower(), []).append(i)
        longest = sorted(bearers, key=len, reverse=True)
        names = "|".join(map(re.escape, longest)) or "(?!)"
        return re.compile(rf"(?<!\w)(?<!\d[,.])(?:{names})(?!\w|[,.]\d)", re.I), bearers

    def stated(self, text: str, before: int | None = None) -> Understood:
        """The facts that a sentence states. ``before``: the thing that the one before it was about,
        which "It" and "The film" mean."""
        if len(text) > LONGEST or text.rstrip("\"”’')* ").endswith("?"):
            return Understood((), (), None)
        pattern, bearers = self._names
        found = [(m.start(), m.end(), bearers[m[0].lower()]) for m in pattern.finditer(text)]
        subjects = {thing for _, _, things in found for thing in things}
        again = before is not None and _AGAIN.match(text.lstrip("\"'“‘(")) is not None
        if again and before is not None:
            subjects.add(before)
        masked = _marked(text, ((start, end, "\x00") for start, end, _ in found))
        cuts = [0, *(m.start() for m in _CUT.finditer(masked)), len(masked) + 1]
        clauses = [masked[i:j] for i, j in pairwise(cuts)]
        facts: list[int] = []
        for number, fact in enumerate(self.facts):
            if fact.subject not in subjects or self._turned(fact, text, found):
                continue
            where = {bisect_right(cuts, i) - 1 for i, _, things in found if fact.object in things}
            near = {bisect_right(cuts, i) - 1 for i, _, things in found if fact.subject in things}
            if any(self._told(fact, clauses[i], masked, i in near) for i in sorted(where)):
                facts.append(number)
        named = {t for n in facts for t in (self.facts[n].subject, self.facts[n].object)}
        left = _marked(text, ((i, j, " ") for i, j, things in found if named.intersection(things)))
        first = len(left) - len(left.lstrip(" \"'“‘("))
        stray = [m[0] for m in _STRAY.finditer(left) if m.start() > first]
        stray = [s for s in stray if s[0].isdigit() or s[0].isupper()]
        stray += [word for n in facts for word in self._others(self.facts[n], text, found)]
        if again:
            about = before
        else:
            about = self.facts[facts[0]].subject if facts else found[0][2][0] if found else before
        return Understood(tuple(facts), tuple(dict.fromkeys(stray)), about)

    def _others(
        self, fact: Claim, text: str, found: Sequence[tuple[int, int, Sequence[int]]]
    ) -> list[str]:
        """Values of a fact's property in a text that are in no name found there."""
        among = getattr(self.properties.get(fact.property), "among", ())
        values = "|".join(map(re.escape, sorted(among, key=len, reverse=True)))
        said = re.finditer(rf"(?<!\w)(?:{values})(?!\w)", text, re.I) if values else ()
        return [m[0] for m in said if not any(i <= m.start() and m.end() <= j for i, j, _ in found)]

    def _told(self, fact: Claim, clause: str, sentence: str, whole: bool) -> bool:
        """Check whether the words of a clause, or of its sentence, are those of the property.
        ``whole``: both ends stand in the clause."""
        own = self.properties.get(fact.property)
        for text in (clause, sentence):
            said = words(text)
            if not _DENIES.isdisjoint(said) or "n't" in text or "n’t" in text:
                return False
            if own is None:  # nothing is known of its words
                continue
            stems = cue_words(said) - own.plain
            score = len(stems & own.cues)
            rival = max(
                (len(stems & p.cues) for name, p in self.properties.items()
                 if name != fact.property and (p.source, p.kind) == (own.source, own.kind)),
                default=0,
            )  # fmt: skip
            if score or rival:
                return score >= rival
            if whole and not stems:  # "X is a palm": no word says anything else
                return True
        return own is None or not stems

    def _turned(
        self, fact: Claim, text: str, found: Sequence[tuple[int, int, Sequence[int]]]
    ) -> bool:
        """Check whether "the father of A" has the fact's wrong end in A's place."""
        own = self.properties.get(fact.property)
        if own is None or not own.of:
            return False
        for at, _, things in found:
            ahead = text[max(0, at - 60) : at].lower().split()
            if len(ahead) > 1 and ahead[-1] == "of" and (end := own.of.get(ahead[-2])):
                ends = (fact.subject, fact.object)
                right, wrong = ends if end == "s" else ends[::-1]
                if wrong in things and right not in things:
                    return True
        return False


def _marked(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """A text with a mark in the place of each character of some spans, which are in order."""
    pieces, at = [], 0
    for start, end, mark in spans:
        pieces += [text[at:start], mark * (end - start)]
        at = end
    return "".join([*pieces, text[at:]])


class Understood(NamedTuple):
    """Facts that a sentence states."""

    facts: tuple[int, ...]
    stray: tuple[str, ...]
    about: int | None
    """Thing that it is about."""


def words(text: str) -> frozenset[str]:
    """The words of a text, in lower case."""
    return frozenset(word.lower() for word in _WORD.findall(text))


def cue_words(said: Collection[str]) -> frozenset[str]:
    """First five letters of the words that say something, so that "published" is "publisher"."""
    return frozenset(word[:5] for word in said if word not in _STOP and not word.isdigit())


def read_report(text: str) -> tuple[list[Sentence], dict[str, str]]:
    """The sentences of a report and its list of references, number → what it names.

    Citations stand in brackets within or behind a sentence (``[2]``, ``[2, 3]``, ``[Title]``,
    ``[id]``, ``[2](https://…)``), or are bare URLs. A list of references stands at the end, below
    the line "References". Time is linear in the text.
    """
    references: dict[str, str] = {}
    headings = list(_HEADING.finditer(text))
    if headings:
        tail = text[headings[-1].end() :]
        text = text[: headings[-1].start()]
        for line in tail.splitlines():
            if entry := _LISTED.match(" ".join(line.split())):
                references.setdefault(entry[1], entry[2].strip())
    sentences: list[Sentence] = []
    for piece in _END.split(text):
        lead = re.match(rf"(?:\s*{_CITE.pattern})*\s*", piece)
        if sentences and lead and lead.end():  # "It is so. [1] Next": the sentence before cites
            last = sentences[-1]
            sentences[-1] = last._replace(cited=last.cited + tuple(_cited(lead[0])))
            piece = piece[lead.end() :]
        bare = _BARE.sub(" ", _CITE.sub(" ", piece)).strip()
        if _WORD.search(bare):
            sentences.append(Sentence(" ".join(bare.split()), tuple(_cited(piece))))
    return sentences, references


def _cited(piece: str) -> list[str]:
    names: list[str] = []
    for match in _CITE.finditer(piece):
        inner = match[1].strip()
        if match[2]:
            names.append(match[2])
        elif re.fullmatch(r"\d+(?:\s*[,;]\s*\d+)+", inner):
            names += re.findall(r"\d+", inner)
        else:
            names.append(inner)
    names += [url.rstrip(".,;") for url in _BARE.findall(_CITE.sub(" ", piece))]
    return list(dict.fromkeys(names))


class Judged(NamedTuple):
    """A report's verdicts and its measures, each in [0, 1]."""

    verdicts: tuple[Verdict, ...]
    told: frozenset[int]
    """Numbers of the facts asked for that are stated with support."""
    precision: float
    """Share of the citations of which a page states what their sentence states."""
    recall: float
    """Share of the sentences that are ``asked``."""
    coverage: float
    """Share of the facts asked for that such sentences state."""

    def score(self, others: float = 0.0) -> float:
        """Coverage · harmonic mean of precision and recall; ``others``: what a sentence that is
        ``beside`` counts in recall."""
        beside = sum(v.state == "beside" for v in self.verdicts)
        recall = self.recall + (others * beside / len(self.verdicts) if beside else 0.0)
        both = self.precision + recall
        return self.coverage * 2 * self.precision * recall / both if both else 0.0


def judge_report(text: str, dossier: Dossier, shown: Mapping[str, Collection[str]]) -> Judged:
    """Judge each sentence of a report.

    Args:
        text: The report.
        dossier: What can be said.
        shown: Citation as it may be written (id, title, URL, number of showing) → ids of the
            passages that it means. What is not in it was not shown, and supports nothing.
    """
    sentences, references = read_report(text)
    folded = {name.lower(): set(ids) for name, ids in shown.items()}

    def pages(name: str) -> set[str]:
        target = references.get(name, name)
        for option in (target, *_BARE.findall(target)[:1], *_CITE.findall(target)[:1]):
            key = option if isinstance(option, str) else option[0]
            if (ids := folded.get(key.strip(" .").lower())) is not None:
                return ids
        return set()

    verdicts: list[Verdict] = []
    known: set[int] = set()
    before: int | None = None
    citations = right = 0
    for sentence in sentences:
        reading = dossier.stated(sentence.text, before)
        before = reading.about
        facts = [dossier.facts[n] for n in reading.facts]
        cited = {name: pages(name) for name in sentence.cited}
        supporting = tuple(
            name for name, ids in cited.items() if any(ids & fact.pages for fact in facts)
        )
        citations += len(cited)
        everything = set().union(*cited.values()) if cited else set()
        if not facts or reading.stray:
            state, supporting = "unknown", ()
        elif not cited:
            state = "uncited"
        elif not all(everything & fact.pages for fact in facts):
            state = "wrong page"
        elif known.issuperset(reading.facts):
            state = "repeated"
        else:
            fresh = [n for n in reading.facts if n not in known and dossier.facts[n].asked]
            state = "asked" if fresh else "beside"
            known.update(reading.facts)
        right += len(supporting)
        verdicts.append(Verdict(sentence, state, reading.facts, supporting, reading.stray))
    asked = {n for n, fact in enumerate(dossier.facts) if fact.asked}
    good = [verdict for verdict in verdicts if verdict.state == "asked"]
    told = frozenset(n for verdict in good for n in verdict.facts if n in asked)
    return Judged(
        tuple(verdicts),
        told,
        right / citations if citations else 0.0,
        len(good) / len(verdicts) if verdicts else 0.0,
        len(told) / len(asked) if asked else 0.0,
    )
