"""The only place where text is normalised for comparison, or made fit to be printed."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import escape
from typing import Literal, NamedTuple, TypeVar

T = TypeVar("T")
_TYPED = "‘’‚‛“”„‟′″‹›«»ʻʼ\u2010\u2011\u2012\u2013\u2014\u2015\u2212…"  # quotes; dashes, minus
_INVISIBLE = "\xad\u200b\u2060\ufeff"  # soft hyphen, zero-width space, word joiner, BOM
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MORE = re.compile(f"[{re.escape(string.punctuation)}{_TYPED}]+")  # faster where not all is ASCII
_UNSEEN = re.compile(f"[{_INVISIBLE}]+")
_ARTICLES = re.compile(r"\b(a|an|the)\b")

_HAN_KANA = r"\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
_HAN_KANA += r"\uf900-\ufaff\U00020000-\U0003ffff"
UNSPACED = _HAN_KANA + r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Scripts without blanks between words, as a regular expression's character set: Han, kana, Thai,
Lao, Burmese, Khmer."""
HANGUL = r"\uac00-\ud7a3"
_BY_CHARACTER = re.compile(f"[{UNSPACED}{HANGUL}]|[^{UNSPACED}{HANGUL}\\s]+")
# NFKC: full-width, half-width and presentation forms, jamo, and letters with marks of their own
_FORMS = re.compile(
    r"\w[\u0300-\u036f]+|[\u0591-\u06ff\u0900-\u0dff\u1100-\u11ff\u3000-\u30ff\u3130-\u318f"
    r"\ua960-\ua97f\ud7b0-\ud7ff\uf900-\ufaff\ufb1d-\ufdff\ufe30-\ufefc\uff00-\uffef]+"
)
_MARKS = re.compile(  # punctuation that Latin script does not use; vowel points, tatweel
    r"[\u3001-\u3004\u3008-\u3020\u3030\u30fb\u060c\u061b\u061f\u066a-\u066d\u06d4\u0964\u0965"
    r"\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]"
    rf"|(?<=[{UNSPACED}{HANGUL}])[\u00b7\u2010-\u2027]|[\u00b7\u2010-\u2027](?=[{UNSPACED}{HANGUL}])"
)
_UNSPACED = re.compile(f"[{UNSPACED}]")
_GAPS = re.compile(rf"(?<=[{_HAN_KANA}])\s+(?=[{_HAN_KANA}])")
_OTHER = re.compile(r"[\u0300-\u036f\u0590-\u1fff\u2e80-\uffef\U00020000-\U0003ffff]")
# Runs that may be of marks; whether they are, only a look at each character tells
_SIGNS = re.compile(r"[\W\uff9e\uff9f]{31,}+")
_LATENT_MARKS = "\u0f73\u0f75\u0f81\uff9e\uff9f"  # no marks, but normalisation makes marks of them
MARKS_IN_A_ROW = 30
"""Combining marks in a row that a text needs at most (UAX #15, stream-safe text format)."""
QUERY_CHARACTERS = 8_000
"""Characters of a query that are searched for."""
_PARTICLES = re.compile(  # what Korean writes without a blank after a noun
    r"(?:은|는|이|가|을|를|의|에|에서|에게|께서|으로|로|와|과|도|만|까지|부터|이나|나|이다|이며|이고"
    r"|입니다|이었다|였다)(?!\w)"
)

_WHOLE = frozenset(("yes", "no", "noanswer"))  # HotpotQA's: right as a whole or not at all
_UNKNOWN = frozenset(
    "unanswerable unknown unclear undetermined indeterminate inconclusive unspecified "
    "na idk".split()
)
_NOT = frozenset(
    "no not none nobody cannot cant couldnt wont dont didnt doesnt isnt wasnt arent havent unable "
    "impossible insufficient lack lacks lacking without".split()
)
_KNOWN = frozenset(
    "know knows known contain contained answer answers answerable answered find found locate "
    "determine determined identify establish established confirm verify tell say provide provided "
    "give given state stated mention mentioned specified listed available information info data "
    "evidence context details knowledge idea sure certain clear enough sufficient possible help "
    "assist".split()
)
_OF_REFUSALS = _UNKNOWN | _NOT | _KNOWN | frozenset(
    "one i im we ive me my you your our it its this that these there here is are was were be been "
    "am do does did has have had can could would to of for from in on about with within by at as "
    "so or and but because since any anything what which who when where able question questions "
    "asked search searches searching searched result results passage passages page pages document "
    "documents source sources corpus text texts based relevant retrieved reliable reliably "
    "definitive definitively exact specific correct currently after sorry unfortunately afraid "
    "apologise apologies apologize however think".split()
)  # fmt: skip


def listed(parts: Sequence[str]) -> str:
    """Return "A", "A and B", "A, B and C"."""
    return parts[0] if len(parts) < 2 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def printable(text: str) -> str:
    """Replace by a blank what a terminal or page would obey instead of showing: control characters
    and line ends, marks that turn the direction of writing, halves of surrogate pairs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else " " for c in text)


_JOINERS = "\u200c\u200d"
"""Invisible, but part of how words (Persian, Hindi) and emoji are written."""


def unmarked(text: str) -> str:
    """Write somebody's text as Markdown that shows it as it is: nothing in it is Markdown, HTML, or
    the end of a table's cell."""
    return re.sub(r"([\\`*\[\]|])", r"\\\1", escape(printable(text), quote=False))


def normalise_answer(text: str) -> str:
    """SQuAD's normalisation (Rajpurkar et al., 2016), the one all search-agent papers score with.

    Lower-case, delete ASCII punctuation, replace the words a/an/the by a blank, collapse white
    space, in this order; ``"3.5"`` therefore becomes ``"35"``. It differs from SQuAD's in three
    things. Typographic quotes, dashes and the ellipsis are deleted like those of ASCII, and so is
    what cannot be seen. A step that leaves nothing is not taken: ``"The The"`` and ``"*"`` stay.
    Characters of other scripts are first brought to one form (NFKC); their punctuation, the vowel
    points of Arabic and Hebrew, and blanks between Chinese or Japanese characters are deleted.
    """
    text = text.lower()
    if text.isascii():
        bare = text.translate(_PUNCTUATION)
    else:
        bare = text = _UNSEEN.sub("", text)
        if _OTHER.search(text):
            bare = _FORMS.sub(lambda found: normal_form("NFKC", found[0]), text).lower()
            bare = _GAPS.sub("", _MARKS.sub("", bare))
        bare = _MORE.sub("", bare)
    return " ".join(_ARTICLES.sub(" ", bare).split() or bare.split() or text.split())


def normal_form(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """``unicodedata.normalize`` in time linear in the text, which it takes the square of for a run
    of combining marks: a joiner without width is put after every 30 of them, as UAX #15's
    stream-safe text process does."""
    if not text.isascii():
        text = _SIGNS.sub(_parted, text)
    return unicodedata.normalize(form, text)


def _parted(signs: re.Match[str]) -> str:
    parted, marks = [], 0
    for character in signs[0]:
        mark = unicodedata.combining(character) or character in _LATENT_MARKS
        marks = marks + 1 if mark else 0
        if marks > MARKS_IN_A_ROW:
            parted.append("\u034f")
            marks = 1
        parted.append(character)
    return "".join(parted)


def blocks(text: str, tag: str) -> list[str]:
    """Return the texts in ``<tag>…</tag>``, in order: the shortest matches, in linear time also
    where nothing is closed."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    found, at = [], text.find(opening)
    while at >= 0 and (end := text.find(closing, at + len(opening))) >= 0:
        found.append(text[at + len(opening) : end])
        at = text.find(opening, end + len(closing))
    return found


def answer_words(normalised: str) -> list[str]:
    """The words of a normalised text as F1 counts them.

    Where a script has no blanks between words, and in Korean, whose particles are written onto
    words, every character counts as one, as in MLQA (Lewis et al., 2020) and KorQuAD (Lim et al.,
    2019).
    """
    return normalised.split() if normalised.isascii() else _BY_CHARACTER.findall(normalised)


def is_abstention(text: str) -> bool:
    """Return whether an answer is a refusal and nothing else ("unanswerable", "I don't know", "I
    could not find enough information to answer"): all of its words are words of refusals."""
    words = normalise_answer(text).split()
    if not _OF_REFUSALS.issuperset(words):
        return False
    denied = next((place for place, word in enumerate(words) if word in _NOT), len(words))
    return not (_UNKNOWN.isdisjoint(words) and _KNOWN.isdisjoint(words[denied:]))


class Match(NamedTuple):
    """Scores of a prediction against the accepted answers, the best over them."""

    exact: float
    """1.0 if the normalised texts are equal. Empty ones never match."""
    f1: float
    """Token-multiset F1 of the normalised texts (SQuAD); see :func:`answer_words`. As in HotpotQA's
    evaluation, 0 where either is "yes", "no" or "noanswer" and the other is not."""
    cover: float
    """1.0 if an answer stands in the prediction as whole words."""


def match(prediction: str, answers: Iterable[str]) -> Match:
    """All three measures, each text normalised once."""
    got = normalise_answer(prediction)
    golds = normalised_answers(tuple(answers))
    if not got or not golds:
        return Match(0.0, 0.0, 0.0)
    if got in golds:
        return Match(1.0, 1.0, 1.0)
    return Match(0.0, _f1(got, golds), float(any(covers(got, gold) for gold in golds)))


@lru_cache(maxsize=4096)
def normalised_answers(answers: tuple[str, ...]) -> tuple[str, ...]:
    """Normalised answers, without those that are empty; the same ones are asked for again and
    again."""
    return tuple(filter(None, map(normalise_answer, answers)))


def exact_match(prediction: str, answers: Iterable[str]) -> float:
    """1.0 if the normalised prediction equals a normalised answer. Empty answers never match."""
    return float(normalise_answer(prediction) in normalised_answers(tuple(answers)))


def cover_match(prediction: str, answers: Iterable[str]) -> float:
    """1.0 if a normalised answer stands in the prediction as whole words ("cover-EM"; some papers
    call this EM, and most look for a substring, so that "2" is found in "1922"). Scripts without
    blanks between words (Chinese, Japanese, full-width forms) have no such edges. Gameable by
    listing answers, hence kept apart from ``exact_match``."""
    got = normalise_answer(prediction)
    return float(any(covers(got, gold) for gold in normalised_answers(tuple(answers))))


def covers(text: str, words: str) -> bool:
    """Return whether normalised ``words`` stand in a normalised text with an edge on either
    side; a Korean particle may follow."""
    if text.isascii() and text.isprintable():  # its edges are blanks
        return f" {words} " in f" {text} "
    at = text.find(words)
    while at >= 0:
        end = at + len(words)
        if (at == 0 or _edge(text[at - 1], text[at])) and (
            end == len(text)
            or _edge(text[end - 1], text[end])
            or ("\uac00" <= text[end - 1] <= "\ud7a3" and _PARTICLES.match(text, end))
        ):
            return True
        at = text.find(words, at + 1)
    return False


def _edge(left: str, right: str) -> bool:
    """Return whether a word may end between two characters."""
    return not (_joins(left) and _joins(right))


def _joins(character: str) -> bool:
    """Return whether a character is part of a word that blanks delimit. Hangul is, though it is
    wide; Thai is not, though it is narrow."""
    if _UNSPACED.match(character):
        return False
    if unicodedata.east_asian_width(character) in "WF":
        return "\uac00" <= character <= "\ud7a3"
    return character.isalnum() or unicodedata.category(character)[0] == "M"


def _f1(text: str, golds: Iterable[str]) -> float:
    if text in _WHOLE:
        return 0.0
    got = Counter(answer_words(text))
    return max(
        (overlap_f1(got, Counter(answer_words(gold))) for gold in golds if gold not in _WHOLE),
        default=0.0,
    )


def overlap_f1(got: Counter[T], gold: Counter[T]) -> float:
    """F1 of two multisets; 0 where they share nothing."""
    common = sum(min(number, got[each]) for each, number in gold.items())
    return 2 * common / (got.total() + gold.total()) if common else 0.0


_DISAMBIGUATOR = re.compile(r"(?<!\s)\s*+\([^()]*+\)\s*+(?:-\s*+)?$")


def bare_title(title: str) -> str:
    """A title without its disambiguator: ``"Heat (film)"`` becomes ``"Heat"``."""
    return _DISAMBIGUATOR.sub("", title).strip(" -") or title
