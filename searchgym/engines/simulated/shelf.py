"""Generated documents by address, so that a hit can also be opened."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence

from ...errors import DataError
from ...storage.files import parse_json
from ...storage.store import Store
from ...types import Page, PageRequest, PageSource, Passage
from .parse import SITE

KEPT = 200_000
"""Documents kept in memory; the oldest go first."""
_NAMESPACE = "simulated-documents"


class Shelf:
    """Documents that were shown, in memory and, with a ``store``, on disk."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store
        self._kept: OrderedDict[str, Passage] = OrderedDict()
        self._guard = threading.Lock()

    def put(self, passages: Sequence[Passage]) -> None:
        """Keep documents; on disk when this returns, if there is a store."""
        with self._guard:
            new = [p for p in passages if p.url not in self._kept]
            for p in new:
                self._kept[p.url] = p
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        if self.store is not None and new:
            self.store.add_many(_NAMESPACE, {p.url.encode(): json.dumps(p).encode() for p in new})

    def get(self, url: str) -> Passage | None:
        """``DataError`` for a damaged entry."""
        with self._guard:
            passage = self._kept.get(url)
        if passage is not None or self.store is None:
            return passage
        value = self.store.get(_NAMESPACE, url.encode("utf-8", "surrogatepass"))
        if value is None:
            return None
        try:
            return Passage(*parse_json(value, "it"))
        except (ValueError, TypeError) as error:
            raise DataError(f"{self.store.path}: broken entry for {url} ({error})") from error


class SimulatedPages:
    """A page per generated document; other addresses are the corpus's."""

    needs_task = False

    def __init__(self, shelf: Shelf, default: PageSource, fingerprint: str) -> None:
        self.shelf, self.default = shelf, default
        self.fingerprint = f"simulated-pages:{fingerprint}:{default.fingerprint}"

    def cache_key(self, request: PageRequest, /) -> bytes | None:
        """Return ``None`` for generated pages, which exist only once a search has shown them."""
        if request.url.strip().startswith(SITE):
            return None
        return self.default.cache_key(request)

    def run(self, batch: Sequence[PageRequest], /) -> list[Page | None]:
        """One page, or None, per request in order."""
        answers: list[Page | None] = []
        for request in batch:
            url = request.url.strip()
            if not url.startswith(SITE):
                answers += self.default.run([request])  # type: ignore[arg-type]
                continue
            kept = self.shelf.get(url)
            page = None if kept is None else Page(kept.url, kept.title, kept.text, (kept.id,))
            answers.append(page)
        return answers
