"""Notes: what a reader writes about a page before it looks anything up there.

Every fact the page states, in the page's order and words, each with its name: ``directed by Ann Bee
= director``. A quote goes on where the one before ended, or begins with its sentence, so that the
next word to write is nearly always the page's next word: where a fact *begins* need not be known
before it is read, in whatever words it comes. Then what was asked for is found among the notes by
name: ``> + director: Ann Bee``. Each step is easy for a small model: to copy on, to name what was
just copied, to find an equal name in its own writing. To find a fact among a page's paraphrases in
one go is not: it then quotes a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..corpora.corpus import GeneratedCorpus
from ..errors import TaskError
from ..worlds.world import World
from .hops import Hop, hop_of

BEFORE = 3
"""Words that may stand before an object that opens its sentence."""
_SENTENCE = re.compile(r"[.!?] (?=[^a-z0-9])")
"""The end of a sentence, not of an abbreviation ("b. 22 May")."""
_TELLING = re.compile(r"(?!(?:with|from|that|this|into|have|been|were|also)\b)[a-z]{4,}")
"""A word that may say which fact this is; names and small words do not."""
_LEFT, _RIGHT = " ,;.!?)", " ,;.!?"
"""What quotes do not begin or end with."""


class Note(NamedTuple):
    """A quote and the name of the fact it states."""

    text: str
    end: int
    """Where the quote ends on its page."""
    stated: int
    """Where the fact's object ends: before the quote does if words that tell it follow."""


class NoteTaker:
    """Takes notes of the pages of a generated world: of every fact a page states, or, ``brief``,
    of those asked for alone.

    ``TaskError`` without one.
    """

    def __init__(self, world: World | None, corpus: object, *, brief: bool = False) -> None:
        if world is None or not isinstance(corpus, GeneratedCorpus):
            raise TaskError("notes need a generated world, e.g. corpus='encyclopedia'")
        self._world, self._corpus, self._brief = world, corpus, brief
        self._pages: dict[str, tuple[Note, ...]] = {}

    def thought(self, hops: Sequence[Hop], shown: Mapping[str, int]) -> str:
        """The notes that lead to ``hops``, and each hop's finding after the notes of its page.

        ``shown``: characters shown of each passage, by its id.
        """
        lines: list[str] = []
        page = ""
        for hop in hops:
            if self._brief or hop.passage != page:
                page = hop.passage
                readable = [note for note in self._notes(page) if note.end <= shown[page]]
                asked = [note for note in readable if note.stated == hop.end]
                lines += [note.text for note in (asked if self._brief else readable)]
            lines.append(f"> {hop.label}: {hop.found}")
        return "; ".join(lines)

    def _notes(self, page: str) -> tuple[Note, ...]:
        """One for each fact that a page states of its subject."""
        if page not in self._pages:
            place = self._corpus.position(page)
            text = self._corpus[place].text
            stated = sorted(self._corpus.stated_in(place), key=lambda s: s.start)
            made: list[Note] = []
            noted: set[int] = set()
            last = 0
            for i, statement in enumerate(stated):
                fact = self._world.fact(statement.fact)
                if self._corpus.page_of[fact.subject] != place:
                    continue
                label = hop_of(fact.id, page, False, self._world, self._corpus).label[2:]
                sentence = _opening(text, statement.start)
                begin = max(last, sentence)
                quote, last = text[begin : statement.end], statement.end
                # of a list, the words that introduce it stand before its first member only
                named = self._world.names[fact.subject].split()
                first = begin == sentence and fact.property not in noted
                if first and _opens(text[begin : statement.start], named):
                    following = stated[i + 1].start if i + 1 < len(stated) else len(text)
                    last = max(last, min(_close(text, last), following))
                    found = text[statement.start : statement.end]
                    quote = f"{text[begin:last].rstrip(_RIGHT)} | {found}"
                noted.add(fact.property)
                quote = quote.lstrip(_LEFT).rstrip(_RIGHT)
                made.append(Note(f"{quote} = {label}", last, statement.end))
            self._pages[page] = tuple(made)
        return self._pages[page]


def _opens(before: str, named: Sequence[str]) -> bool:
    """Whether an object opens its sentence: nothing ``before`` it there says which fact it is, so
    what follows does."""
    words = before.split()
    return len(words) <= BEFORE and not any(
        word not in named and _TELLING.match(word.lstrip("(")) for word in words
    )


def _opening(text: str, place: int) -> int:
    """Where the sentence around a place begins."""
    return max((m.end() for m in _SENTENCE.finditer(text) if m.end() <= place), default=0)


def _close(text: str, place: int) -> int:
    """Where the sentence around a place ends, its full stop left out."""
    found = _SENTENCE.search(text, place)
    return found.start() if found else len(text)
