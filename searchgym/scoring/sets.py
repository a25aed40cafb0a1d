"""Answers of several parts, sets and lists: how they are written, read, and scored.

Written with semicolons ("Oldeth Marn; Kira Sanu"), a set in any order. Read are also lines with or
without bullets, JSON lists, and lists with commas and "and", in any mixture: an answer is cut at
every separator, but a member whose own name holds one stays whole. Set F1 is the harmonic mean of
precision and recall over members, 2 · hits / (said + gold), as for lists in PhantomWiki (arXiv
2502.20377); exact match is a set F1 of 1: every member and nothing else. Of a list in order, a
member counts at its own place alone.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from ..text import answer_words, covers, normalise_answer, normalised_answers, overlap_f1

SEPARATOR = "; "
_PIECE, _PART, _AND = "\x00", "\x01", "\x02"
"""Marks of cuts: at lines and semicolons, at commas, at "and"."""
_MARK = re.compile("([\x00-\x02])")
_STRONG = re.compile(r"[;\n\r]+")
_WEAK = re.compile(r" ?, ?and | and ", re.IGNORECASE)
_BULLET = re.compile(r"(?<=\x00 )(?:[-*•–]|\(?\d{1,3}[.)]) ")


class SetScore(NamedTuple):
    """Scores of an answer against a set; ``exact`` is 1 if and only if ``f1`` is."""

    exact: float
    precision: float
    recall: float
    f1: float
    cover: float
    """1 if every member stands somewhere in the answer as whole words."""
    tokens: float
    """Token F1 without separators, each member in the form that fits best."""


def set_text(members: Iterable[str]) -> str:
    """The canonical text of a set: its members in alphabetical order, each once."""
    return SEPARATOR.join(sorted(set(members)))


def score_set(answer: str, items: Sequence[Sequence[str]], *, ordered: bool = False) -> SetScore:
    """Score an answer against a set's members, each given by its accepted forms.

    A member said twice counts once, also under two of its names. An empty answer scores 0. With
    ``ordered``, what is said first must be the first member, and so on.
    """
    forms = [normalised_answers(tuple(of)) for of in items]
    said = read_set(answer, [form for of in items for form in of])
    if ordered:
        hits = sum(part in of for part, of in zip(said, forms, strict=False))
        spoken = len(said)
    else:
        member = {normal: i for i, of in enumerate(forms) for normal in of}
        hits = len({member[part] for part in said if part in member})
        spoken = hits + len({part for part in said if part not in member})
    whole = normalise_answer(answer)
    cover = bool(items) and all(any(covers(whole, normal) for normal in of) for of in forms)
    tokens = _token_f1(said, forms, ordered)
    if not hits:
        return SetScore(0.0, 0.0, 0.0, 0.0, float(cover), tokens)
    f1 = 2 * hits / (spoken + len(items))
    exact = float(f1 == 1.0)
    return SetScore(exact, hits / spoken, hits / len(items), f1, float(cover), exact or tokens)


def _token_f1(said: Sequence[str], forms: Sequence[Sequence[str]], ordered: bool) -> float:
    """Token F1 of parts; with ``ordered``, a word counts at its part's place alone."""

    def words(part: str, place: int) -> Iterable[tuple[int, str]]:
        return ((place, word) for word in answer_words(part) if word != "and")

    places = len(forms) if ordered else 0
    got = Counter(words(" ".join(said[places:]), places))
    for place, part in enumerate(said[:places]):
        got.update(words(part, place))
    gold: Counter[tuple[int, str]] = Counter()
    for place, of in enumerate(forms):
        each = [Counter(words(form, min(place, places))) for form in of]
        fitting = max(each, key=lambda form: overlap_f1(got, form), default=None)
        gold.update(fitting or ())
    return overlap_f1(got, gold)


def read_set(answer: str, names: Iterable[str] = ()) -> list[str]:
    """The normalised members that an answer names, in its order, with repeats.

    ``names``: forms of members, which stay whole although they hold separators.
    """
    known = _known(tuple(names))
    answer = _MARK.sub("", answer)
    listed = _json_list(answer)
    words, spans = _cut(_STRONG.split(answer) if listed is None else listed)
    ends = {end: number for number, (_, end) in enumerate(spans)}
    members: list[str] = []
    at = 0
    while at < len(spans):
        start, end = spans[at]
        found = None
        if words[start - 1] == "and" and "and" in known:  # which separates, or begins a name
            found = _longest(known["and"], words, start - 1, ends)
        if found is None and words[start] in known:
            found = _longest(known[words[start]], words, start, ends)
        stop, member = found or (end, " ".join(words[start:end]))
        members.append(member)
        at = ends[stop] + 1
    return members


@lru_cache(maxsize=1024)
def _known(names: tuple[str, ...]) -> Mapping[str, Mapping[tuple[str, ...], str]]:
    """Names by their first word, as words (also as an answer's are read: without what looks like a
    bullet) and as normalised texts."""
    known: dict[str, dict[tuple[str, ...], str]] = {}
    for name in names:
        normal = normalise_answer(name)
        for spelt in (normal.split(), _cut([name])[0][1:]):
            if spelt:
                known.setdefault(spelt[0], {})[tuple(spelt)] = normal
    return known


def _longest(
    names: Mapping[tuple[str, ...], str], words: Sequence[str], at: int, ends: Collection[int]
) -> tuple[int, str] | None:
    """The longest name that begins at a word and ends with a part: where it ends, and it."""
    return max(
        (
            (at + len(spelt), name)
            for spelt, name in names.items()
            if at + len(spelt) in ends and tuple(words[at : at + len(spelt)]) == spelt
        ),
        default=None,
    )


def _cut(pieces: Iterable[str]) -> tuple[list[str], list[tuple[int, int]]]:
    """Normalised words of pieces, with a mark before each piece and each "and" that separates; and
    where the parts lie in them. Marks of punctuation alone are no part."""
    text = f" {' '.join(f' {_PIECE} '.join(['', *pieces]).split())} "
    text = _WEAK.sub(f" {_AND} ", _BULLET.sub("", text)).replace(",", f" {_PART} ")
    _, *normal = _MARK.split(normalise_answer(text))  # in one go: parts are short and may be many
    _, *raw = _MARK.split(text)
    again = cache(normalise_answer)
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    for mark, part, said in zip(normal[::2], normal[1::2], raw[1::2], strict=True):
        if mark != _PART:
            words.append("and" if mark == _AND else _PIECE)
        own = part.split()
        if not own and any(map(str.isalnum, said)):  # "The The"
            own = again(said).split()
        if own:
            spans.append((len(words), len(words) + len(own)))
            words += own
    return words, spans


def _json_list(answer: str) -> list[str] | None:
    if not answer.lstrip().startswith("["):
        return None
    try:
        read = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    plain = isinstance(read, list) and all(isinstance(one, (str, int, float)) for one in read)
    return [_MARK.sub("", str(one)) for one in read] if plain else None
