"""Pages by URL, from a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..corpora.corpus import Corpus
from ..types import Page, PageRequest, PageSource


def pages_of(engine: Any, default: PageSource) -> PageSource:
    """Return the reader of the pages behind an engine's hits: ``engine.pages(default)`` if it has
    that method (a web engine has a reader of its own, a degraded one degrades ``default``), else
    ``default``."""
    hook = getattr(engine, "pages", None)
    if not callable(hook):
        return default
    source: PageSource = hook(default)
    return source


class CorpusPages:
    """Shows the document behind a URL of the corpus; ``None`` for a URL it does not have."""

    needs_task = False

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.fingerprint = f"pages:{corpus.digest}"

    def cache_key(self, request: PageRequest, /) -> bytes | None:
        """The URL."""
        return request.url.encode("utf-8", "surrogatepass")

    def run(self, batch: Sequence[PageRequest], /) -> list[Page | None]:
        """One page, or None, per request in order."""
        return [self.corpus.page(request.url) for request in batch]
