"""A served folder of documents that changes: the corpus and the engine are exchanged as one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from ..corpora.corpus import Corpus
from ..corpora.documents.folder import walk
from ..engines.folders import FolderIndex
from ..errors import SearchGymError
from ..types import Query, Ranking

LOG = logging.getLogger("searchgym.serve")
EVERY_S = 1.0
"""Seconds between two looks at the folder. A change is taken up once two looks agree, so that a
file is not read while it is being written."""


class LiveCorpus(Corpus):
    """A corpus whose passages are exchanged all at once; readers see the old ones or the new."""

    def __init__(self, corpus: Corpus) -> None:
        self.take(corpus)

    def take(self, corpus: Corpus) -> None:
        self.__dict__ = corpus.__dict__


class LiveEngine:
    """Answers by the newest engine; a batch under way is finished by the one it began with."""

    def __init__(self, engine: Any) -> None:
        self.current = engine

    @property
    def fingerprint(self) -> str:
        return str(self.current.fingerprint)

    @property
    def needs_task(self) -> bool:
        return bool(self.current.needs_task)

    @property
    def in_memory(self) -> bool:
        return bool(getattr(self.current, "in_memory", False))

    def cache_key(self, request: Query, /) -> bytes | None:
        """The newest engine's key, with its fingerprint: answers of an older one do not count."""
        engine = self.current
        key = engine.cache_key(request)
        return None if key is None else engine.fingerprint.encode() + b"\0" + key

    def run(self, batch: Sequence[Query], /) -> Sequence[Ranking]:
        return self.current.run(batch)


class Watcher:
    """Looks at a folder in a thread of its own, until ``stop``.

    Args:
        index: The folder's documents and engine, brought up to date here and nowhere else.
        every_s: Seconds between two looks.
    """

    def __init__(self, index: FolderIndex, *, every_s: float = EVERY_S) -> None:
        self.corpus, self.engine = LiveCorpus(index.corpus), LiveEngine(index.engine)
        self._index, self._every = index, every_s
        self._ended = threading.Event()
        self._seen = self._look()
        self._thread = threading.Thread(target=self._watch, name="folder-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        before = self._seen
        while not self._ended.wait(self._every):
            now = self._look()
            if now == before and now != self._seen:
                self._seen = now
                self._take_up()
            before = now

    def _take_up(self) -> None:
        try:
            changed = self._index.refresh()
        except (SearchGymError, OSError) as error:
            LOG.error("%s: the change is not taken up: %s", self._index.source, error)
            return
        if changed:
            warm_up = getattr(self._index.engine, "warm_up", None)
            if warm_up is not None:
                warm_up()
            self.corpus.take(self._index.corpus)
            self.engine.current = self._index.engine
            LOG.warning("%s changed: %d passages now", self._index.source, len(self._index.corpus))

    def _look(self) -> list[tuple[str, int, int, int]]:
        """Path, size and times of change (ns) of every file of the folder."""
        source = self._index.source
        states = []
        for path, unusable in [(source, None)] if source.is_file() else walk(source):
            if unusable is not None:
                continue
            try:
                state = path.stat()
            except OSError:  # deleted between listing and looking: the next look settles it
                continue
            states.append((str(path), state.st_size, state.st_mtime_ns, state.st_ctime_ns))
        return states
