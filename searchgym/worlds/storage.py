"""Worlds on disk: one ``.npy`` per column, texts by the line, JSON for the rest; and their digest.

No pickle anywhere: columns are read with ``allow_pickle=False`` and can stay memory-mapped.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .loader import load_schema, schema_to_dict
from .world import World

FORMAT = 1
COLUMNS = (
    "type_of", "subject_of", "property_of", "object_of", "indptr", "inverse_order",
    "inverse_indptr", "facet_of",
)  # fmt: skip
TEXTS = ("titles", "names", "alias_of")


def world_digest(world: World) -> str:
    """SHA-256 (hex, 16 characters) over schema, columns and texts: equal worlds, equal digests."""
    h = hashlib.sha256()
    h.update(json.dumps(schema_to_dict(world.schema), sort_keys=True).encode())
    h.update(str(world.seed).encode())
    for name in COLUMNS:
        column = getattr(world, name)
        # Byte order is fixed, so that the digest is the same on every machine.
        h.update(name.encode() + np.ascontiguousarray(column, column.dtype.newbyteorder("<")).data)
    for name in TEXTS:
        h.update(name.encode())
        for text in getattr(world, name):
            h.update(text.encode() + b"\n")
    return h.hexdigest()[:16]


def save_world(world: World, folder: str | Path) -> Path:
    """Write a world into ``folder`` (made if missing); returns the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in COLUMNS:
        np.save(folder / f"{name}.npy", getattr(world, name), allow_pickle=False)
    for name in TEXTS:
        write_lines(folder / name, getattr(world, name))
    head = {
        "format": FORMAT,
        "seed": world.seed,
        "digest": world_digest(world),
        "schema": schema_to_dict(world.schema),
    }
    (folder / "world.json").write_text(json.dumps(head, ensure_ascii=False), encoding="utf-8")
    return folder


def load_world(folder: str | Path, *, mmap_mode: bool = False, verify: bool = True) -> World:
    """Read what ``save_world`` wrote. ``mmap_mode``: columns and texts stay on disk and are read
    when used. ``verify`` compares the digest. Raises ``DataError`` for anything missing or changed.
    """
    folder = Path(folder)
    try:
        head = json.loads((folder / "world.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder}: no world.json; is this a folder made by save_world?") from None
    except ValueError as error:  # no JSON, or no UTF-8
        raise DataError(f"{folder / 'world.json'}: not valid JSON: {error}") from None
    if not isinstance(head, dict):
        raise DataError(f"{folder / 'world.json'}: expected an object, got {type(head).__name__}")
    if head.get("format") != FORMAT:
        raise DataError(f"{folder}: format {head.get('format')!r}, expected {FORMAT}; save it anew")
    if missing := {"seed", "digest", "schema"} - head.keys():
        raise DataError(f"{folder / 'world.json'}: no {', '.join(sorted(missing))}")
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        try:
            array = np.load(
                folder / f"{name}.npy", mmap_mode="r" if mmap_mode else None, allow_pickle=False
            )
        except (OSError, EOFError, ValueError) as error:
            raise DataError(f"{folder / name}.npy: {error}") from None
        if not mmap_mode:
            array.flags.writeable = False
        columns[name] = array
    for name in TEXTS:
        lines = Lines(folder / name)
        columns[name] = lines if mmap_mode else list(lines)
        if len(lines) != len(columns["type_of"]):
            raise DataError(
                f"{folder / name}.txt: {len(lines)} lines for {len(columns['type_of'])} entities"
            )
    world = World(schema=load_schema(head["schema"]), seed=int(head["seed"]), **columns)
    if verify and world_digest(world) != head["digest"]:
        raise DataError(f"{folder}: the files do not match the digest {head['digest']}")
    return world


def write_lines(base: Path, texts: Iterable[str]) -> None:
    """``base.txt`` with one text per line and ``base.ends.npy`` with where each line ends."""
    ends = []
    at = 0
    with base.with_name(base.name + ".txt").open("wb") as file:
        for text in texts:
            if "\n" in text:
                raise DataError(f"a text with a line break cannot be stored: {text!r}")
            line = text.encode() + b"\n"
            file.write(line)
            at += len(line)
            ends.append(at)
    np.save(base.with_name(base.name + ".ends.npy"), np.array(ends, np.int64), allow_pickle=False)


class Lines(Sequence[str]):
    """Texts of ``write_lines``, read from the mapped file when asked for."""

    def __init__(self, base: Path) -> None:
        path = base.with_name(base.name + ".txt")
        try:
            self._ends: NDArray[np.int64] = np.load(
                base.with_name(base.name + ".ends.npy"), mmap_mode="r", allow_pickle=False
            )
            with path.open("rb") as file:
                size = file.seek(0, 2)
                self._data: mmap.mmap | bytes = (
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
                )
        except (OSError, EOFError, ValueError) as error:
            raise DataError(f"{path}: {error}") from None
        last = int(self._ends[-1]) if len(self._ends) else 0
        if last != len(self._data):
            raise DataError(f"{path}: {len(self._data)} bytes, expected {last}")

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        n = len(self)
        if not -n <= index < n:
            raise IndexError(index)
        index %= n
        start = int(self._ends[index - 1]) if index else 0
        return self._data[start : int(self._ends[index]) - 1].decode()

    def __iter__(self) -> Iterator[str]:
        start = 0
        for end in self._ends.tolist():
            yield self._data[start : end - 1].decode()
            start = end
