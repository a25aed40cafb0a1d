"""Pages by URL, from a corpus or from several sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..batching import joint_key, run_batch
from ..corpora.corpus import Corpus
from ..types import Failure, Page, PageRequest, PageSource, SearchEngine


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


def hybrid_pages(engines: Sequence[SearchEngine], default: PageSource) -> PageSource:
    """``default`` if no engine has pages of its own, else their sources one after the other.

    ``default`` comes first, since it sends no request; where an engine degrades it, only the
    degraded source is asked, or a dead link would open after all.
    """
    own: dict[str, PageSource] = {}
    for engine in engines:
        source = pages_of(engine, default)
        if source is not default:
            own.setdefault(source.fingerprint, source)
    if not any(getattr(source, "degrades", False) for source in own.values()):
        own = {default.fingerprint: default, **own}
    sources = list(own.values())
    return sources[0] if len(sources) == 1 else HybridPages(sources)


class HybridPages:
    """The first source that has the page gives it. A page is absent if all sources say so; where
    none has it and one failed, the failure is the answer, for that one might have it."""

    def __init__(self, sources: Sequence[PageSource]) -> None:
        self.sources = tuple(sources)
        self.needs_task = any(source.needs_task for source in sources)
        self.degrades = any(getattr(source, "degrades", False) for source in sources)
        self.fingerprint = "hybrid-pages:" + "+".join(source.fingerprint for source in sources)

    def cache_key(self, request: PageRequest, /) -> bytes | None:
        """Key made of all sources' keys; ``None`` as soon as one of them shares no answers."""
        return joint_key(source.cache_key(request) for source in self.sources)

    def run(self, batch: Sequence[PageRequest], /) -> list[Page | Failure | None]:
        """One page, ``None`` or failure per request, in order."""
        answers: list[Page | Failure | None] = [None] * len(batch)
        left = list(range(len(batch)))
        for source in self.sources:
            pages: Sequence[Any] = run_batch(source, [batch[i] for i in left]) if left else ()
            for i, answer in zip(left, pages, strict=True):
                answers[i] = answers[i] if answer is None else answer
            left = [i for i in left if answers[i] is None or isinstance(answers[i], Failure)]
        return answers
