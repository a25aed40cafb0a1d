"""Addresses of documents as clients see them: never a path of this machine.

The passages of a folder have ``file://`` URLs. Those name the owner's folders, so clients see the
path below the folder instead (``notes/n1.md``), and may open the document by it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

from ..corpora.corpus import Corpus
from ..types import Passage

_SCHEME = "file:"


class Addresses:
    """The addresses of a corpus, there and back."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._own: dict[str, str] | None = None

    def shown(self, passage: Passage) -> Passage:
        """The passage with the address that clients see."""
        if not passage.url.startswith(_SCHEME):
            return passage
        return passage._replace(url=_public(passage.url, passage.id))

    def page(self, page: Any) -> Any:
        """A page (or None) with the address that clients see."""
        if page is None or not page.url.startswith(_SCHEME):
            return page
        return page._replace(url=_public(page.url, page.passage_ids[0]))

    def own(self, address: str) -> str:
        """The address by which this machine knows what a client asks for."""
        if self._own is None:
            self._own = {}
            if len(self._corpus) and self._corpus[0].url.startswith(_SCHEME):
                for passage in self._corpus:
                    self._own.setdefault(self.shown(passage).url, passage.url)
        return self._own.get(address.strip(), address)


def _public(url: str, passage_id: str) -> str:
    """The path below the folder: the part of the passage's id that ends the URL's path, else the
    name of the file. A fragment (``#page=3``) stays."""
    parts = urlsplit(url)
    path, key = unquote(parts.path), passage_id.rpartition("#")[0]
    shown = key if key and path.endswith(f"/{key}") else path.rpartition("/")[2]
    return f"{shown}#{parts.fragment}" if parts.fragment else shown
