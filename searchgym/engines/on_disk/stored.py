"""The passages of an index on disk as a corpus that takes no memory."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...corpora.corpus import Corpus
from ...errors import EngineError
from ...storage.files import parse_json
from ...types import Page, Passage
from .files import PASSAGES, key_of, sum_of

_COLD = 20
"""MADV_COLD of Linux 5.4, which Python has no name for."""


class StoredCorpus(Corpus):
    """Passages that stay on disk, read one by one, in the order in which they were indexed; one
    that is not what was indexed is an ``EngineError``.

    Args:
        folder: Folder of the index.
        arrays: Its arrays, as ``files.open_arrays`` gives them.
        digest: Digest of the passages.
    """

    def __init__(self, folder: Path, arrays: Mapping[str, NDArray[Any]], digest: str) -> None:
        self.name, self.digest, self._folder = folder.resolve().name, digest, folder
        self._places, self._keys = arrays["places"], arrays["keys"]
        self._owners, self._sums = arrays["owners"], arrays["sums"]
        with (folder / PASSAGES).open("rb") as file:
            self._file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):  # else 128 kB are read for each passage, and the index
            self._file.madvise(mmap.MADV_RANDOM)  # loses its place in memory to them

    def __len__(self) -> int:
        return len(self._places) - 1

    def __getitem__(self, index: int) -> Passage:  # type: ignore[override]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"passage {index} of {len(self)}")
        first, last = self._places[place : place + 2].tolist()
        try:
            line = self._file[first:last]
            if sum_of(line) != self._sums[place]:
                raise ValueError(f"passage {place} is not what was saved")
            read = parse_json(line, self._folder)
            if type(read) is not list or [*map(type, read)] != [str] * 4:
                raise ValueError("no passage")
        except (ValueError, RecursionError) as error:
            raise EngineError(
                f"the passages in {self._folder} are damaged ({error}): build the index again"
            ) from error
        return Passage(*read)

    def fetch(self, places: Iterable[int]) -> None:
        """Have passages that are to be read next brought from the disk all at once, where the
        system can; otherwise each is waited for in turn."""
        if not hasattr(mmap, "MADV_WILLNEED"):
            return
        page = mmap.ALLOCATIONGRANULARITY
        for place in places:
            first, last = self._places[place : place + 2].tolist()
            start = first // page * page
            self._file.madvise(mmap.MADV_WILLNEED, start, last - start)

    def release(self) -> None:
        """Let what was read be the first to go when memory is short, before pages of the index."""
        if sys.platform == "linux":
            with suppress(OSError):  # kernels before 5.4
                self._file.madvise(_COLD)

    def __iter__(self) -> Iterator[Passage]:
        return (self[place] for place in range(len(self)))

    def position(self, passage_id: str) -> int:
        """Index of a passage id; ``KeyError`` if absent."""
        for place in self._of("id", passage_id):
            return place
        raise KeyError(passage_id)

    def passage(self, passage_id: str) -> Passage:
        """Read the passage of an id; ``KeyError`` if absent."""
        return self[self.position(passage_id)]

    def __contains__(self, passage_id: object) -> bool:
        return isinstance(passage_id, str) and bool(self._of("id", passage_id))

    def page(self, url: str) -> Page | None:
        """The document behind a URL, or with that title; see ``Corpus.page``."""
        name = url.strip()
        places = self._of("url", name)
        if not places and (titled := self._of("title", name)):
            places = self._of("url", self[titled[0]].url)
        if not places:
            return None
        parts = [self[place] for place in places]
        text = "\n\n".join(part.text for part in parts)
        return Page(parts[0].url, parts[0].title, text, tuple(part.id for part in parts))

    def _of(self, kind: str, text: str) -> list[int]:
        """Places of the passages with this "id", "url" or "title", in ascending order."""
        key = np.uint64(key_of(kind, text))
        first = int(np.searchsorted(self._keys, key))
        last = int(np.searchsorted(self._keys, key, side="right"))
        return sorted(self._owners[first:last].tolist())
