"""Text analysis: lower-casing, word pattern, stop words, stemming."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..dialects.escape import INVISIBLE
from ..errors import EngineError, MissingExtraError, check_known, unknown


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LUCENE_STOPWORDS = _words(
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
"""The 33 words of Lucene's EnglishAnalyzer, which the published BM25 baselines use."""

ENGLISH_STOPWORDS = LUCENE_STOPWORDS | _words(
    "about above after again against all am any because been before being below between both can "
    "could did do does doing down during each few from further had has have having he her here "
    "hers herself him himself his how i its itself just me more most my myself nor now off once "
    "only other our ours ourselves out over own same she should so some than theirs them "
    "themselves those through too under until up very we were what when where which while who "
    "whom why would you your yours yourself yourselves"
)
"""A longer list that also drops pronouns, question words and auxiliaries."""

STOPWORDS: Mapping[str, frozenset[str]] = {
    "lucene": LUCENE_STOPWORDS,
    "english": ENGLISH_STOPWORDS,
}
WORD = r"\w+"
JOINER = "\u200c"
"""Zero width non-joiner, which Persian writes between the parts of a word."""
_UNSEEN = re.compile("[" + INVISIBLE.replace("\u200b-", "\u200d-") + "]")
REVISION = 2
"""Grows whenever terms of an unchanged text change: indexes and kept terms of before are stale."""
LONGEST_TOKEN = 255
"""Largest length of a word (Lucene's limit); longer runs of word characters are not indexed."""
_CACHED_TOKENS = 1 << 21
_CACHED_LENGTH = 64


def visible(text: str) -> str:
    """Drop characters that show nothing and so part no words (soft hyphens, word joiners, variation
    selectors, …). Two stay: the zero width space, which is a word's edge, and ``JOINER``."""
    return text if text.isascii() else _UNSEEN.sub("", text)


class Analyser:
    """Turns text into index terms; pure and deterministic.

    ``stemmer``: "porter" (Porter, 1980), "snowball" (Porter2, English), a language of PyStemmer
    ("german", "french", …) or None. ``stopwords``:
    "lucene", "english", None, or words of your own, compared before stemming. ``pattern``: a
    regular expression whose matches are the tokens.
    """

    def __init__(
        self,
        *,
        lowercase: bool = True,
        pattern: str = WORD,
        stemmer: str | None = "porter",
        stopwords: str | Iterable[str] | None = "lucene",
    ) -> None:
        if isinstance(stopwords, str):
            check_known("stop word list", STOPWORDS, stopwords, error=EngineError)
            self.stopwords = STOPWORDS[stopwords]
        else:
            self.stopwords = frozenset(stopwords or ())
        try:
            self._find = re.compile(pattern).findall
        except re.error as error:
            raise EngineError(
                f"token pattern {pattern!r} is not a regular expression: {error}"
            ) from error
        if re.compile(pattern).groups > 1:
            raise EngineError(f"token pattern {pattern!r} has several groups; use (?:…)")
        self.lowercase, self.pattern, self.stemmer = lowercase, pattern, stemmer
        self._stem = stem_function(stemmer)
        self._terms: dict[str, str | None] = {}

    @property
    def settings(self) -> str:
        """JSON of everything the terms depend on; equal settings mean equal terms."""
        return json.dumps(
            [REVISION, self.lowercase, self.pattern, self.stemmer, sorted(self.stopwords)],
            ensure_ascii=True,
        )

    def split(self, text: str) -> list[str]:
        """Raw tokens in order, before stop words and stemming."""
        text = visible(text).replace(JOINER, "")
        return self._find(text.lower() if self.lowercase else text)

    def term(self, token: str) -> str | None:
        """The index term of a raw token, or None if it is not indexed."""
        if token in self.stopwords or len(token) > LONGEST_TOKEN:
            return None
        return self._stem(token) or None

    def terms(self, text: str) -> list[str]:
        """Index terms of a text, in order, repetitions kept."""
        known = self._terms
        terms = []
        for token in self.split(text):
            try:
                term = known[token]
            except KeyError:
                term = self.term(token)
                if len(token) <= _CACHED_LENGTH and len(known) < _CACHED_TOKENS:
                    known[token] = term
            if term is not None:
                terms.append(term)
        return terms


class TermIds(dict[str, int]):
    """Raw token → term number in one dictionary look-up; −1 for tokens that match nothing.

    Filled on demand and bounded, so that odd tokens of millions of queries cannot use up memory.
    """

    def __init__(self, analyser: Analyser, vocabulary: Mapping[str, int]) -> None:
        super().__init__()
        self._analyser, self._vocabulary = analyser, vocabulary

    def __missing__(self, token: str) -> int:
        term = self._analyser.term(token)
        number = -1 if term is None else self._vocabulary.get(term, -1)
        if len(token) <= _CACHED_LENGTH:
            if len(self) >= _CACHED_TOKENS:
                self.clear()
            self[token] = number
        return number

    def of(self, text: str) -> list[int]:
        """Term numbers of a text in order, −1 where a token matches nothing."""
        return list(map(self.__getitem__, self._analyser.split(text)))


class NewTermIds(dict[str, int]):
    """Raw token → number of its term, by first appearance; −1 for tokens that are not indexed."""

    def __init__(self, analyser: Analyser) -> None:
        super().__init__()
        self._analyser = analyser
        self.vocabulary: dict[str, int] = {}

    def __missing__(self, token: str) -> int:
        term, known = self._analyser.term(token), self.vocabulary
        number = -1 if term is None else known.setdefault(term, len(known))
        if len(token) <= _CACHED_LENGTH and len(self) < _CACHED_TOKENS:
            self[token] = number
        return number

    def of(self, text: str) -> list[int]:
        """Numbers of a text's terms, in order."""
        return [n for n in map(self.__getitem__, self._analyser.split(text)) if n >= 0]


def index_terms(analyser: Analyser, texts: Iterable[str]) -> tuple[list[list[int]], dict[str, int]]:
    """Term numbers per text, and the vocabulary by first appearance."""
    numbers = NewTermIds(analyser)
    return [numbers.of(text) for text in texts], numbers.vocabulary


def stem_function(stemmer: str | None) -> Callable[[str], str]:
    """Stems a word; safe to use from several threads."""
    if stemmer is None:
        return str
    try:
        import Stemmer
    except ImportError as error:  # pragma: no cover - a core dependency
        raise MissingExtraError("stemming (PyStemmer)", "all") from error
    name = "english" if stemmer == "snowball" else stemmer
    if name not in Stemmer.algorithms():
        raise EngineError(unknown("stemmer", stemmer, ("snowball", *Stemmer.algorithms())))
    made: Any = Stemmer.Stemmer(name, 0)
    lock = threading.Lock()  # a stemmer keeps state; several environments may share this engine

    def stem(token: str) -> str:
        with lock:
            return made.stemWord(token)

    return stem


def as_text(parts: Sequence[str]) -> str:
    """Fields of a passage joined for indexing; empty fields leave nothing behind."""
    return "\n".join(part for part in parts if part)
