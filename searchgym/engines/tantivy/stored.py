"""The passages of an index on disk as a corpus that takes no memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ...corpora.corpus import Corpus
from ...types import Page, Passage
from .index import key_of, library


def read_passage(searcher: Any, address: Any) -> Passage:
    """Read the passage at Tantivy's address."""
    return Passage(*json.loads(searcher.doc(address).get_first("passage")))


class StoredCorpus(Corpus):
    """Passages that stay in the index, read one by one; in the order in which they were indexed.

    Args:
        name: Name of the corpus.
        index: Tantivy's index.
        size: Number of passages.
        digest: Digest of the passages.
    """

    def __init__(self, name: str, index: Any, size: int, digest: str) -> None:
        self.name, self.digest, self._size = name, digest, size
        self._schema, self._searcher = index.schema, index.searcher()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Passage:  # type: ignore[override]
        place = index + self._size if index < 0 else index
        addresses = self._addresses("place", place, 1) if 0 <= place < self._size else []
        if not addresses:
            raise IndexError(f"passage {index} of {self._size}")
        return read_passage(self._searcher, addresses[0])

    def __iter__(self) -> Iterator[Passage]:
        return (self[place] for place in range(self._size))

    def position(self, passage_id: str) -> int:
        """Index of a passage id; ``KeyError`` if absent."""
        for address in self._addresses("key", key_of("id", passage_id), 1):
            (place,) = self._searcher.fast_field_values("place", [address])
            return int(place)
        raise KeyError(passage_id)

    def passage(self, passage_id: str) -> Passage:
        """Read the passage of an id; ``KeyError`` if absent."""
        for address in self._addresses("key", key_of("id", passage_id), 1):
            return read_passage(self._searcher, address)
        raise KeyError(passage_id)

    def __contains__(self, passage_id: object) -> bool:
        return isinstance(passage_id, str) and bool(
            self._addresses("key", key_of("id", passage_id), 1)
        )

    def page(self, url: str) -> Page | None:
        """The document behind a URL, or with that title; see ``Corpus.page``."""
        name = url.strip()
        parts = self._of("url", name)
        if not parts and (titled := self._of("title", name)):
            parts = self._of("url", titled[0].url)
        if not parts:
            return None
        text = "\n\n".join(part.text for part in parts)
        return Page(parts[0].url, parts[0].title, text, tuple(part.id for part in parts))

    def _of(self, kind: str, text: str) -> list[Passage]:
        """Passages with this "url" or "title", in the order in which they were indexed."""
        addresses = self._addresses("key", key_of(kind, text), self._size)
        places = self._searcher.fast_field_values("place", addresses)
        ordered = sorted(zip(places, addresses, strict=True), key=lambda pair: int(pair[0]))
        return [read_passage(self._searcher, address) for _, address in ordered]

    def _addresses(self, field: str, value: int, limit: int) -> list[Any]:
        query = library().Query.term_query(self._schema, field, value)
        hits = self._searcher.search(query, limit=limit, count=False).hits
        return [address for _, address in hits]
