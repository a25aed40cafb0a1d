"""An append-only store of word vectors on disk: safe under kill, no pickle, no index to corrupt.

A shard is one safetensors file written under a temporary name and renamed when complete, so a
reader sees whole shards or none. Rows of many texts are concatenated; ``ends`` cuts them apart.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from searchgym.errors import DataError, MissingExtraError
from searchgym.utils.user_cache import used

Vectors = NDArray[np.int8]


class VectorStore:
    """digest (16 bytes) → int8 vectors (W, D). ``folder=None`` keeps everything in memory only.

    A copy in another process reads the shards that this one knows of, not those that others have
    written since, so that what it knows does not depend on who is faster.
    """

    def __init__(self, folder: Path | str | None) -> None:
        self.folder = Path(folder) if folder is not None else None
        self._rows: dict[bytes, Vectors] = {}
        self._fresh: list[bytes] = []
        self._shards: list[str] = []
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            for shard in sorted(self.folder.glob("*.safetensors")):
                self._read(shard)
                used(shard)

    def __getstate__(self) -> tuple[Path | None, list[str]]:
        return self.folder, self._shards

    def __setstate__(self, state: tuple[Path | None, list[str]]) -> None:
        self.folder, shards = state
        self._rows, self._fresh, self._shards = {}, [], []
        for name in shards:
            if self.folder is not None and (self.folder / name).is_file():
                self._read(self.folder / name)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, digest: object) -> bool:
        return digest in self._rows

    def __getitem__(self, digest: bytes) -> Vectors:
        return self._rows[digest]

    def add(self, digest: bytes, rows: Vectors) -> None:
        if digest not in self._rows:
            self._rows[digest] = rows
            self._fresh.append(digest)

    def flush(self) -> None:
        """Write what was added since the last flush as one new shard."""
        if self.folder is None or not self._fresh:
            self._fresh.clear()
            return
        save_file = _safetensors().save_file
        parts = [self._rows[d] for d in self._fresh]
        keys = np.frombuffer(b"".join(self._fresh), dtype=np.uint8).reshape(-1, 16)
        ends = np.cumsum([len(p) for p in parts], dtype=np.int64)
        name = f"{len(self._rows):010d}-{self._fresh[0].hex()[:12]}-{os.getpid()}"
        unfinished = self.folder / f".{name}.tmp"
        save_file(
            {"keys": keys.copy(), "ends": ends, "rows": np.concatenate(parts)}, str(unfinished)
        )
        os.replace(unfinished, self.folder / f"{name}.safetensors")
        self._shards.append(f"{name}.safetensors")
        self._fresh.clear()

    def _read(self, shard: Path) -> None:
        try:
            arrays = _safetensors().load_file(str(shard))
            keys, ends, rows = arrays["keys"], arrays["ends"], arrays["rows"]
        except (KeyError, ValueError, OSError, RuntimeError) as error:
            raise DataError(f"{shard}: not a shard of word vectors ({error}); delete it") from error
        except Exception as error:
            if type(error).__name__ != "SafetensorError":
                raise
            raise DataError(f"{shard}: not a shard of word vectors ({error}); delete it") from error
        start = 0
        for key, end in zip(keys, ends.tolist(), strict=True):
            self._rows[key.tobytes()] = rows[start:end]
            start = end
        self._shards.append(shard.name)


def _safetensors():  # type: ignore[no-untyped-def]
    try:
        import safetensors.numpy
    except ImportError as error:  # pragma: no cover - exercised without the extra
        raise MissingExtraError("the vector cache", "train") from error
    return safetensors.numpy
