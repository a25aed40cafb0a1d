"""A real set with its names exchanged for invented ones, as FictionalHot has it.

Every word that is a name in the set's passages is exchanged, one for one, in questions, answers,
queries and passages: what a model remembers of the names is of no use any more, while what the
passages say still leads to the answers. Numbers, dates and common words stay. (FictionalHot,
arXiv 2510.00568, has a language model do this for questions; here it is a table of words, exact
and the same everywhere.)
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from ..seeding import stream
from ..types import Passage, Task
from ..worlds.grammar import words
from .corpus import Corpus

_WORD = re.compile(r"[^\W\d_]+")


class WordTable:
    """Exchanges words for others, one for one, wherever they stand in a text.

    Keys and values are in lower case, and no two words become the same, so that what was equal
    stays equal, what was different stays different, and the table can be read backwards.

    Raises:
        DataError: two words become the same one, or a key or value is no lower-case word.
    """

    def __init__(self, words: Mapping[str, str]) -> None:
        self.words = dict(words)
        for word in (*self.words, *self.words.values()):
            if not _WORD.fullmatch(word) or word != word.lower():
                raise DataError(f"a table of words has lower-case words only, got {word!r}")
        if len({*self.words.values()}) != len(self.words):
            raise DataError("two words of the table become the same one; they must differ")

    def __call__(self, text: str) -> str:
        """The text with its words exchanged: "Marn" as a title, "MARN" in capitals, "marn"."""
        return _WORD.sub(self._exchange, text)

    def inverse(self) -> WordTable:
        """The table that leads back. Exact where no new word stood in the texts before."""
        return WordTable({new: old for old, new in self.words.items()})

    def _exchange(self, match: re.Match[str]) -> str:
        word = match[0]
        other = self.words.get(word.lower())
        if other is None:
            return word
        if word.isupper() and len(word) > 1:
            return other.upper()
        return other.capitalize() if word[0].isupper() else other


def words_of(text: str) -> list[str]:
    """The words of a text, as a table exchanges them."""
    return _WORD.findall(text)


KEPT = frozenset(
    "january february march april may june july august september october november december monday "
    "tuesday wednesday thursday friday saturday sunday the and for from with are was were not yes "
    "its his her who what which when where".split()
)
"""Words that stay although they are written like names."""
COMMON = 0.05
"""Share of lower-case occurrences from which a word is a common one."""
LEAST = 3
"""Letters of the shortest word that is exchanged."""
_SENTENCE = re.compile(r"(?:^|[.!?:\"“(]\s*|\n)([^\W\d_]+)")
_KINDS = ("family", "place", "word")
_SYLLABLES = 40


class Substituted(NamedTuple):
    """A set under other names, and the table that made it."""

    corpus: Corpus
    tasks: list[Task]
    table: WordTable


def name_words(texts: Iterable[str], keep: Collection[str] = ()) -> list[str]:
    """Words (lower case, sorted) that texts write with a capital in mid-sentence, and in lower case
    in less than ``COMMON`` of all places; numbers, months and ``keep`` are none."""
    capital: Counter[str] = Counter()
    small: Counter[str] = Counter()
    for text in texts:
        starts = Counter(word for word in _SENTENCE.findall(text) if word[0].isupper())
        for word, n in Counter(words_of(text)).items():
            if word == word.lower():
                small[word] += n
            elif (n := n - starts.get(word, 0)) > 0:
                capital[word.lower()] += n
    stay = KEPT.union(word.lower() for word in keep)
    return sorted(
        word
        for word, n in capital.items()
        if len(word) >= LEAST
        and word not in stay
        and small[word] < COMMON * (small[word] + n)
        and words_of(word) == [word]  # not so where lower case adds a mark, as in Turkish
    )


def invented_words(names: Sequence[str], taken: Collection[str], seed: int) -> WordTable:
    """A table that gives each word an invented one, which is neither in ``taken`` nor a name."""
    rng = stream(seed, "substitute")
    used = {*taken, *names}
    table: dict[str, str] = {}
    left = list(names)
    for attempt in range(_SYLLABLES):
        for kind in _KINDS:
            drawn = words(kind, len(left), rng, syllables=0 if attempt < 3 else 3)
            again = []
            for name, new in zip(left, drawn, strict=True):
                word = new.lower()
                if not word or word in used:
                    again.append(name)
                    continue
                used.add(word)
                table[name] = word
            left = again
            if not left:
                return WordTable(table)
    raise DataError(f"{len(left)} of {len(names)} words found no invented one; keep some of them")


def substitute(
    corpus: Corpus,
    tasks: Sequence[Task],
    *,
    seed: int = 0,
    keep: Collection[str] = (),
    among: Iterable[Passage] = (),
) -> Substituted:
    """The set with its names exchanged. Passage ids and addresses, which may hold names, become
    numbers; ids of tasks stay, so that both sets' results are paired.

    Args:
        corpus: The passages.
        tasks: Their questions.
        seed: Fixes the invented names.
        keep: Words that stay as they are.
        among: Further passages, which tell names from other words and hold none that is invented.

    Raises:
        DataError: the passages hold no names.
    """
    said = [text for p in (*corpus, *among) for text in (p.title, p.text)]
    asked = [text for t in tasks for text in (t.question, *t.answers)]
    names = name_words(said, keep)
    if not names:
        raise DataError(f"the passages of {corpus.name!r} hold no words that are written as names")
    taken = {word.lower() for text in (*said, *asked) for word in words_of(text)}
    table = invented_words(names, taken, seed)
    ids = {p.id: f"p{i:07d}" for i, p in enumerate(corpus)}
    passages = [
        Passage(ids[p.id], table(p.title), table(p.text), f"corpus://substituted/{ids[p.id]}")
        for p in corpus
    ]
    changed = [
        replace(
            task,
            question=table(task.question),
            answers=tuple(map(table, task.answers)),
            evidence=tuple(ids.get(e, e) for e in task.evidence),
            queries=tuple(map(table, task.queries)),
            items=tuple(tuple(map(table, forms)) for forms in task.items),
            graph=None,
            meta={},
        )
        for task in tasks
    ]
    return Substituted(Corpus(f"{corpus.name}-substituted", passages), changed, table)


def save_substituted(substituted: Substituted, folder: str | Path) -> None:
    """Write ``passages.jsonl``, ``questions.jsonl`` and ``words.json`` (the table) into a folder;
    environments read them back: ``corpus="DIR/passages.jsonl", tasks="DIR/questions.jsonl"``."""
    from ..storage.files import write_whole

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "passages.jsonl", _lines(p._asdict() for p in substituted.corpus))
    write_whole(folder / "questions.jsonl", _lines(map(_question, substituted.tasks)))
    table = json.dumps(substituted.table.words, ensure_ascii=False, indent=0, sort_keys=True)
    write_whole(folder / "words.json", table + "\n")


def _question(task: Task) -> dict[str, object]:
    row: dict[str, object] = {
        "id": task.id, "question": task.question, "answers": list(task.answers),
        "evidence": list(task.evidence), "hops": task.hops, "family": task.family,
    }  # fmt: skip
    if task.items:
        row |= {"items": [list(forms) for forms in task.items], "ordered": task.ordered}
    return row


def _lines(rows: Iterable[dict[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
