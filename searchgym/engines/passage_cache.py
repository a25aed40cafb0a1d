"""Store of engines' work on each passage, so that a changed corpus costs only what changed in it.

A passage is known by the digest of its indexed text. A BM25 engine built with what was kept equals
one built anew, bit for bit; of a dense engine the last bits of vectors depend on what was encoded
together.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..storage.files import parse_json, replacing
from .analysis import Analyser

_DIGEST = 16
Array = NDArray[Any]


class RowCache:
    """A row per passage text. Rows of passages that the last corpus did not hold are dropped.

    Args:
        settings: What the rows depend on besides the text (an analyser, an encoder). Rows that were
            kept under other settings are dropped when it is set.
    """

    def __init__(self, settings: str = "") -> None:
        self.settings = settings
        self._rows: dict[bytes, Array] = {}
        self.computed = 0
        """Number of passages that the last call had to compute."""

    def rows(
        self, texts: Sequence[str], settings: str, compute: Callable[[list[str]], list[Array]]
    ) -> list[Array]:
        """The row of every text; those that are not known are computed, all at once."""
        known = self._rows if settings == self.settings else {}
        keys = [_key(text) for text in texts]
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in known}
        made = zip(missing, compute(list(missing.values())), strict=True) if missing else ()
        self.settings, self.computed = settings, len(missing)
        fresh = dict(made)
        self._rows = {key: fresh[key] if key in fresh else known[key] for key in keys}
        return [self._rows[key] for key in keys]

    def save(self, path: Path) -> None:
        """Write everything to one ``.npz`` file, which appears whole or not at all."""
        rows = list(self._rows.values())
        arrays = {
            "about": _packed(self._about()),
            "keys": np.frombuffer(b"".join(self._rows), np.uint8).reshape(-1, _DIGEST),
            "lengths": np.array([len(row) for row in rows], np.int64),
            "values": np.concatenate(rows) if rows else np.zeros(0, np.float32),
        }
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what ``save`` wrote; what is absent or damaged counts as nothing kept."""
        made = cls()
        try:
            with np.load(path, allow_pickle=False) as arrays:
                about = parse_json(arrays["about"].tobytes(), path)
                keys, lengths, values = arrays["keys"], arrays["lengths"], arrays["values"]
            if lengths.sum() != len(values) or len(keys) != len(lengths) or (lengths < 0).any():
                return made
            made._restore(about, values)
            ends = np.cumsum(lengths)
            made._rows = {
                key.tobytes(): values[end - length : end]
                for key, end, length in zip(keys, ends.tolist(), lengths.tolist(), strict=True)
            }
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile):
            return cls()
        return made

    def _about(self) -> Any:
        return {"settings": self.settings}

    def _restore(self, about: Any, values: Array) -> None:
        self.settings = str(about["settings"])


class TermCache(RowCache):
    """Index terms of passages, as numbers of a vocabulary that only grows."""

    def __init__(self, settings: str = "") -> None:
        super().__init__(settings)
        self._vocabulary: dict[str, int] = {}

    def documents(
        self, texts: Sequence[str], analyser: Analyser
    ) -> tuple[list[list[int]], dict[str, int]]:
        """Term numbers per text and the vocabulary by first appearance: what
        ``analysis.index_terms`` gives."""
        settings = analyser.settings
        if settings != self.settings:
            self._vocabulary = {}
        words = self._vocabulary
        rows = self.rows(
            texts,
            settings,
            lambda new: [
                np.array([words.setdefault(t, len(words)) for t in analyser.terms(text)], np.int32)
                for text in new
            ],
        )
        every = np.concatenate(rows) if rows else np.zeros(0, np.int32)
        old, first, numbers = np.unique(every, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        place = np.empty(len(old), np.int64)
        place[order] = np.arange(len(old))
        names = list(words)
        vocabulary = {names[number]: i for i, number in enumerate(old[order].tolist())}
        renamed = place[numbers]
        ends = np.cumsum([len(row) for row in rows]).tolist()
        return [
            renamed[end - len(row) : end].tolist() for row, end in zip(rows, ends, strict=True)
        ], vocabulary

    def _about(self) -> Any:
        return {"settings": self.settings, "words": list(self._vocabulary)}

    def _restore(self, about: Any, values: Array) -> None:
        super()._restore(about, values)
        self._vocabulary = {str(word): i for i, word in enumerate(about["words"])}
        if len(values) and not 0 <= values.min() <= values.max() < len(self._vocabulary):
            raise ValueError("a number without a word")


class VectorCache(RowCache):
    """Vectors (D,) of passages, each of an encoder's digest."""

    def vectors(
        self, texts: Sequence[str], encoder: str, compute: Callable[[list[str]], Array]
    ) -> NDArray[np.float32]:
        """Return the vectors (len(texts), D) of an encoder; ``compute`` encodes those that are not
        known."""
        rows = self.rows(texts, encoder, lambda new: list(compute(new)))
        return np.ascontiguousarray(np.stack(rows), np.float32)


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def _packed(value: Any) -> Array:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)
