"""Notes: what a reader writes about a page before it looks anything up there.

Every fact the page states, in the page's order and words, each with its name: ``directed by Ann Bee
= director``. Then what was asked for is found among them by name: ``> + director: Ann Bee``. Each
step is easy for a small model: to copy on from where the last quote ended, to name what was just
copied, to find an equal name in its own writing. To find a fact among a page's paraphrases in one
go is not: it then quotes a wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..corpora.corpus import GeneratedCorpus
from ..errors import TaskError
from ..worlds.world import World
from .hops import Hop, hop_of


class NoteTaker:
    """Takes notes of the pages of a generated world.

    ``TaskError`` without one.
    """

    def __init__(self, world: World | None, corpus: object) -> None:
        if world is None or not isinstance(corpus, GeneratedCorpus):
            raise TaskError("notes need a generated world, e.g. corpus='encyclopedia'")
        self._world, self._corpus = world, corpus
        self._pages: dict[str, tuple[tuple[int, str], ...]] = {}

    def thought(self, hops: Sequence[Hop], shown: Mapping[str, int]) -> str:
        """The notes that lead to ``hops``, and each hop's finding after the notes of its page.

        ``shown``: characters shown of each passage, by its id.
        """
        lines: list[str] = []
        page = ""
        for hop in hops:
            if hop.passage != page:
                page = hop.passage
                lines += [note for end, note in self._notes(page) if end <= shown[page]]
            lines.append(f"> {hop.label}: {hop.found}")
        return "; ".join(lines)

    def _notes(self, page: str) -> tuple[tuple[int, str], ...]:
        """(where the fact ends in the text, the note) for each fact of a page about its subject."""
        if page not in self._pages:
            place = self._corpus.position(page)
            made: list[tuple[int, str]] = []
            noted: set[int] = set()
            for statement in sorted(self._corpus.stated_in(place), key=lambda s: s.start):
                fact = self._world.fact(statement.fact)
                if self._corpus.page_of[fact.subject] == place:
                    hop = hop_of(fact.id, page, False, self._world, self._corpus)
                    # of a list, the words that introduce it stand before its first member only
                    made.append((statement.end, _note(hop, fact.property in noted)))
                    noted.add(fact.property)
            self._pages[page] = tuple(made)
        return self._pages[page]


def _note(hop: Hop, again: bool) -> str:
    """A forward hop's fact, quoted and named."""
    quote = hop.found if again else hop.quote + (f" | {hop.found}" if hop.named else "")
    return f"{quote} = {hop.label[2:]}"
