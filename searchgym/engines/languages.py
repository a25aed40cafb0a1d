"""Text analysis for other languages than English: folding, bigrams, stemmers by script.

Index terms of English words are those of the plain ``Analyser``, but for accents. Nothing here is
imported while a corpus is English.
"""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from ..text import HANGUL, UNSPACED, normal_form
from .analysis import JOINER, REVISION, Analyser, stem_function, visible

FUNCTION_WORDS = {
    "english": "the of and to in is was for that with on as by from",
    "german": "der die und das ist nicht von mit den ein eine auf für dem sich zu auch wird",
    "french": "le la les et des est une dans du que pour qui sur pas avec au",
    "spanish": "el la los las y que del es una en por con para su se al",
    "italian": "il di che la e è un per non sono della con del una gli nel",
    "portuguese": "o os que do da em um uma não com para dos por é na ao",
    "dutch": "de het een van en is dat niet op te zijn voor met aan ook",
    "swedish": "och att det som en är på för av med den till inte ett har",
    "danish": "og at det er en af til på den med der ikke et har som blev",
    "norwegian": "og det er en av til på som med den ikke et har for ble også",
    "finnish": "ja on ei se että oli hän mutta myös joka ovat kun sen tai",
    "hungarian": "a az és hogy nem egy is volt van meg csak ezt mint már",
    "polish": "w i na z się nie jest do to że jak od po przez oraz był",
    "czech": "a v na se je že s z do to jako pro ale byl jsou nebo",
    "romanian": "și de la în a cu pe este un o nu din care pentru mai sau",
    "turkish": "ve bir bu da de için ile olarak çok olan ne gibi daha kadar",
    "indonesian": "dan yang di dari untuk dengan ini itu pada adalah tidak dalam oleh ke",
    "catalan": "el la els i que del és una en per amb les al dels va",
}
"""Frequent words of languages in Latin script that have a Snowball stemmer, by which a text's
language is told."""
BY_SCRIPT = {
    "armenian": "\u0530-\u058f", "arabic": "\u0600-\u06ff", "greek": "\u0370-\u03ff",
    "hindi": "\u0900-\u097f", "russian": "\u0400-\u04ff", "tamil": "\u0b80-\u0bff",
}  # fmt: skip
"""Stemmer → range of the script that it serves, whatever the corpus's language in Latin script."""
_CHARACTERS = 1000
"""Characters of each text by which a corpus's language is told."""
_MUCH = 0.02
"""Share of letters outside Latin script from which a corpus is not taken for English."""
_TOLD = 0.04
"""Share of words that must be function words of a language to be taken for it."""
_FOLDED = re.compile(  # vowel points and accents; the breve of й is part of a letter
    r"[\u0300-\u0305\u0307-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u0655\u0670]"
    r"|(?<![иИ])\u0306"
)
_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ł": "l", "ð": "d", "þ": "th", "ı": "i"}
) | str.maketrans(  # Persian and Urdu letters and digits that Arabic writes otherwise
    "\u0671\u06a9\u06aa\u0649\u06cc\u06d2\u06be\u06c1\u06d5"
    "٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹",
    "\u0627\u0643\u0643\u064a\u064a\u064a\u0647\u0647\u0647" + "0123456789" * 2,
)  # fmt: skip
_PACKED = f"{UNSPACED}{HANGUL}"
_RUNS = re.compile(f"[{_PACKED}]+|[^{_PACKED}]+")
_is_packed = re.compile(f"[{_PACKED}]").match
_WHOLE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]")


def fold(text: str) -> str:
    """Lower case without accents, vowel points, compatibility forms and what is not seen:
    "Besançon" → "besancon", "ﾄｳｷｮｳ" → "トウキョウ"; Persian letters as Arabic has them."""
    if text.isascii():
        return text.lower()
    text = normal_form("NFKD", visible(text).lower()).lower().translate(_LETTERS)
    return normal_form("NFC", _FOLDED.sub("", text)).lower()


@cache
def _words() -> Callable[[str], list[str]]:
    """Finds runs of word characters, marks and joiners; ``\\w`` alone parts the words of Indic
    scripts."""
    marks = "".join(chr(c) for c in range(0x300, 0x10000) if unicodedata.category(chr(c))[0] == "M")
    return re.compile(rf"[\w{JOINER}{re.escape(marks)}]+").findall


class UnicodeAnalyser(Analyser):
    """Turns text of any language into index terms.

    Text is folded (:func:`fold`). Scripts without blanks between words, and Korean, give
    overlapping pairs of characters, and single Chinese characters besides; every other word is
    stemmed by the stemmer of its script, in Latin script by ``stemmer``.
    """

    def __init__(
        self, *, stemmer: str | None = "porter", stopwords: str | Iterable[str] | None = "lucene"
    ) -> None:
        super().__init__(stemmer=stemmer, stopwords=stopwords)
        self._scripts = [
            (re.compile(f"[{script}]"), stem_function(name if stemmer else None))
            for name, script in BY_SCRIPT.items()
        ]

    @property
    def settings(self) -> str:
        return json.dumps([REVISION, "unicode", self.stemmer, sorted(self.stopwords)])

    def split(self, text: str) -> list[str]:
        if text.isascii():
            return super().split(text)
        return [token for word in _words()(fold(text)) for token in _parts(word)]

    def term(self, token: str) -> str | None:
        if not token.isascii() and "\u0370" <= token[0] <= "\u0bff":
            for script, stem in self._scripts:
                if script.match(token):
                    return stem(token)
        return super().term(token)


def _parts(word: str) -> Iterator[str]:
    if word.isascii():
        yield word
        return
    if JOINER in word:
        parts = [part for part in word.split(JOINER) if part]
        word = "".join(parts)
        if len(parts) > 1 and "\u0600" <= word[0] <= "\u06ff":  # found by its parts, too
            yield from parts
    for run in _RUNS.findall(word):
        if len(run) == 1 or not _is_packed(run):
            yield run
            continue
        for left, right in itertools.pairwise(run):
            if _WHOLE.match(left):
                yield left
            yield left + right
        if _WHOLE.match(run[-1]):
            yield run[-1]


def language_of(texts: Iterable[str]) -> str | None:
    """The language in Latin script whose function words are most frequent; None if none is."""
    words = Counter(word for text in texts for word in re.findall(r"[^\W\d_]+", text.lower()))
    total = sum(words.values())
    counts = {
        name: sum(words[word] for word in listed.split()) for name, listed in FUNCTION_WORDS.items()
    }
    best = max(counts, key=lambda name: (counts[name], name == "english"))
    return best if total and counts[best] >= _TOLD * total else None


def choose_stemmer(texts: list[str], *, always: bool = False) -> str | None:
    """The stemmer for Latin script of a :class:`UnicodeAnalyser` that texts call for ("porter" for
    English ones); None if they are English, unless ``always``."""
    sample = [text[:_CHARACTERS] for text in texts]
    letters = [c for text in sample for c in text if c.isalpha()]
    foreign = sum(c > "\u036f" and not "\u1e00" <= c <= "\u1eff" for c in letters)
    language = language_of(sample)
    stemmer = "porter" if language in (None, "english") else language
    english = stemmer == "porter" and foreign <= _MUCH * len(letters)
    return None if english and not always else stemmer
