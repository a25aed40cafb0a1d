"""Ordered passages with a digest, and an index of where they state an answer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..cards import cards
from ..errors import DataError
from ..objects import leaves
from ..text import answer_words, covers, normalise_answer
from ..types import Page, Passage, Task

KG_PREFIX = "kg:"
"""Prefix of the names of corpora that are knowledge graphs: ``corpus="kg:triples.tsv"``."""


FILE_ENDINGS = (
    ".jsonl", ".gz", ".tsv", ".parquet", ".csv", ".json", ".ndjson", ".txt", ".md", ".markdown",
    ".rst", ".html", ".htm", ".pdf", ".docx",
)  # fmt: skip
"""Endings by which a name without a separator means a file."""


def is_files(source: str) -> bool:
    """Return whether a name means files of yours rather than a card of the catalogue, whose names
    come before those of what lies in the working directory."""
    if not source or (Path(source) / "card.toml").is_file():
        return False
    if "/" in source or source.lower().endswith(FILE_ENDINGS):
        return True
    return source not in cards("corpora") and Path(source).exists()


class Corpus(Sequence[Passage]):
    """Passages in ascending order of id, so that "ties by id" is "ties by position"."""

    unicode: bool | None = None
    """True if lexical engines analyse it as text of any language rather than as English; None:
    they look at it (``engines.languages``)."""

    def __init__(self, name: str, passages: Iterable[Passage]) -> None:
        self.name = name
        self._passages = sorted(passages, key=lambda p: p.id)
        self._position = {p.id: i for i, p in enumerate(self._passages)}
        if len(self._position) != len(self._passages):
            seen: set[str] = set()
            twice = next(p.id for p in self._passages if p.id in seen or seen.add(p.id))  # type: ignore[func-returns-value]
            raise DataError(f"corpus {name!r}: passage id {twice!r} occurs twice; ids must differ")

    def __len__(self) -> int:
        return len(self._passages)

    def __getitem__(self, index: int) -> Passage:  # type: ignore[override]
        return self._passages[index]

    def __iter__(self) -> Iterator[Passage]:
        return iter(self._passages)

    def position(self, passage_id: str) -> int:
        """Index of a passage id; ``KeyError`` if absent."""
        return self._position[passage_id]

    def passage(self, passage_id: str) -> Passage:
        return self._passages[self._position[passage_id]]

    def __contains__(self, passage_id: object) -> bool:
        return passage_id in self._position

    @cached_property
    def _by_title(self) -> dict[str, int]:
        titles: dict[str, int] = {}
        for i, passage in enumerate(self._passages):
            titles.setdefault(passage.title, i)
        return titles

    @cached_property
    def _by_url(self) -> dict[str, list[int]]:
        urls: dict[str, list[int]] = {}
        for i, passage in enumerate(self._passages):
            urls.setdefault(passage.url, []).append(i)
        return urls

    def page(self, url: str) -> Page | None:
        """The document behind a URL, or with that title (the first, where several bear it): its
        passages joined by blank lines; None if unknown."""
        name = url.strip()
        where = self._by_url.get(name)
        if where is None:
            # results of many dialects show titles and no URLs
            first = self._by_title.get(name)
            if first is None:
                return None
            where = self._by_url[self._passages[first].url]
        parts = [self._passages[i] for i in where]
        return Page(
            parts[0].url,
            parts[0].title,
            "\n\n".join(p.text for p in parts),
            tuple(p.id for p in parts),
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex, 16 characters) over ids, titles, texts and URLs in order."""
        h = hashlib.sha256()
        for p in self._passages:
            for piece in p:
                h.update(piece.encode("utf-8", "surrogatepass"))
                h.update(b"\0")
        return h.hexdigest()[:16]


class Statement(NamedTuple):
    """The place where a fact is stated: ``corpus[passage].text[start:end]``."""

    fact: int
    passage: int
    start: int
    end: int


class GeneratedCorpus(Corpus):
    """A corpus rendered from a world: it knows which characters state which fact.

    ``fact, passage, start, end`` are parallel columns (S,), sorted by fact then passage. Entity e's
    own page is ``corpus[page_of[e]]``.
    """

    unicode = False  # worded in English

    def __init__(
        self,
        name: str,
        passages: Iterable[Passage],
        *,
        fact: NDArray[np.int64],
        passage: NDArray[np.int64],
        start: NDArray[np.int32],
        end: NDArray[np.int32],
        page_of: NDArray[np.int64],
    ) -> None:
        super().__init__(name, passages)
        if not (fact[1:] > fact[:-1]).all():  # a rendered world's already are in order
            order = np.lexsort((passage, fact))
            fact, passage, start, end = fact[order], passage[order], start[order], end[order]
        self._fact, self._where, self._start, self._end = fact, passage, start, end
        self.page_of = page_of
        # Every fact is stated once: its number is its row.
        self._once = bool(np.array_equal(fact, np.arange(len(fact))))

    def statements(self, fact: int) -> list[Statement]:
        """Every place that states a fact (by its index in the world); may be empty."""
        return [
            Statement(fact, int(self._where[i]), int(self._start[i]), int(self._end[i]))
            for i in self._rows(fact)
        ]

    def stating(self, fact: int) -> list[int]:
        """Positions of the passages that state a fact, each once, ascending."""
        return list(dict.fromkeys(map(self._where.item, self._rows(fact))))

    def _rows(self, fact: int) -> range:
        if self._once:
            return range(fact, fact + 1) if 0 <= fact < len(self._fact) else range(0)
        lo, hi = np.searchsorted(self._fact, [fact, fact + 1])
        return range(int(lo), int(hi))

    @property
    def stated(self) -> NDArray[np.int64]:
        """The facts that some passage states, ascending."""
        return np.unique(self._fact)

    @cached_property
    def _by_passage(self) -> dict[int, list[int]]:
        rows_of: dict[int, list[int]] = {}
        for row, where in enumerate(self._where.tolist()):
            rows_of.setdefault(where, []).append(row)
        return rows_of

    def stated_in(self, passage: int) -> list[Statement]:
        """Every fact a passage states, in order of position."""
        rows = self._by_passage.get(passage, [])
        statements = [
            Statement(int(self._fact[i]), passage, int(self._start[i]), int(self._end[i]))
            for i in rows
        ]
        return sorted(statements, key=lambda s: s.start)


YES_NO = frozenset({"yes", "no"})
AGGREGATED = frozenset({"count", "parallel", "fanoutqa"})
"""Families and data sets whose answers are worked out from several passages."""
NUMERICAL = "Numerical reasoning"
"""The name that FRAMES gives to questions whose answer is computed."""


def normalised(passage: Passage) -> str:
    """Title and text as answers are compared, with a blank at both ends."""
    return f" {normalise_answer(f'{passage.title} {passage.text}')} "


def is_aggregated(task: Task) -> bool:
    """Return whether the answer need not stand in any passage: yes or no, a count, a list, a
    sum."""
    if any(normalise_answer(answer) in YES_NO for answer in task.answers):
        return True
    if {task.family, task.meta.get("dataset")} & AGGREGATED:
        return True
    return NUMERICAL in str(task.meta.get("type", ""))


class AnswerIndex:
    """The passages of a corpus by the words in them; built once, in one pass.

    Matching is by whole words after SQuAD's normalisation, so that "Rome" is not found in "Romeo";
    where words have no blanks between them, and in Korean, as cover-EM finds them
    (``text.covers``).
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._texts = [normalised(passage) for passage in corpus]
        self._places: dict[str, list[int]] = {}
        for place, text in enumerate(self._texts):
            for word in set(answer_words(text)):
                self._places.setdefault(word, []).append(place)

    def places(self, answers: Iterable[str]) -> list[int]:
        """Positions of the passages in which an answer can be read, ascending."""
        places: set[int] = set()
        for answer in map(normalise_answer, answers):
            lists = [self._places.get(word, []) for word in answer_words(answer)]
            if lists:
                rarest = min(lists, key=len)
                places.update(i for i in rarest if _states(self._texts[i], answer))
        return sorted(places)

    def readable(self, answers: Sequence[str], passages: Iterable[str]) -> bool:
        """Return whether one of these passages (by id) states an answer; absent ones state none."""
        phrases = [a for a in map(normalise_answer, answers) if a]
        texts = [self._texts[self.corpus.position(p)] for p in passages if p in self.corpus]
        return any(_states(text, phrase) for phrase in phrases for text in texts)


def _states(text: str, answer: str) -> bool:
    """Return whether a passage, as :func:`normalised` gives it, states a normalised answer."""
    if f" {answer} " in text:
        return True
    return answer_words(answer) != answer.split() and covers(text, answer)


def own_files(keywords: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Name, time of change (ns) and size of each file that ``corpus``, ``tasks`` and ``engine``
    name, by itself or by its folder (a corpus or an index as well as a card or a model); equal
    lists mean that nothing was edited meanwhile."""
    files: list[tuple[str, int, int]] = []
    named = [keywords.get(name) for name in ("corpus", "tasks", "engine")]
    for source in (value for _, value in leaves(named) if isinstance(value, str)):
        path = Path(source.removeprefix(KG_PREFIX))
        if "/" not in source and not path.suffix:  # the name of a card or an engine
            continue
        if not os.path.exists(path):  # an address, a prompt, … (a too long one raises in pathlib)
            continue
        for file in sorted(path.rglob("[!.]*")) if path.is_dir() else [path]:
            if file.is_file():
                state = file.stat()
                files.append((str(file), state.st_mtime_ns, state.st_size))
    return files
