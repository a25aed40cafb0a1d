"""Results of a folder's last reading, kept in one file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ...utils.files import write_whole
from .encoding import CannotReadNow, Unreadable
from .readers import ParsedFile

VERSION = 2
"""Raised whenever a reader gives other passages for the same file."""
_LIBRARIES = ("lxml", "pypdf", "markdown-it-py")
"""Packages whose version decides what is read, and whether it can be."""
_SETTLED_NS = 2_000_000_000
"""A file that changed so shortly before it was read may change again within the same tick of the
file system's clock: it is read again."""


class RememberedFiles:
    """Keeps what was read of files that did not change.

    A file is the same if its size, its times of change and its number (inode) are. A reason that is
    not the file's (``CannotReadNow``) is not kept, and nothing is once a library has changed.
    """

    def __init__(self, path: Path, *, words: int, max_file_bytes: int) -> None:
        self._path = path
        self._key = [VERSION, words, max_file_bytes, *map(_version, _LIBRARIES)]
        self._known: dict[str, Any] = self._load()
        self._used: dict[str, Any] = {}
        self.read = 0
        """Number of files that had to be read since ``begin``."""

    def begin(self) -> None:
        """Begin a pass over the folder: files that it does not ask for are forgotten at its end."""
        self._used, self.read = {}, 0

    def parse(self, path: Path, parse: Callable[[Path], ParsedFile]) -> ParsedFile:
        """Result of reading a file with ``parse``, remembered where it has not changed.

        Raises:
            Unreadable: with the reason.
        """
        name = os.path.abspath(path)
        try:
            state = os.stat(path)
        except OSError as error:
            raise CannotReadNow(f"cannot be read: {error.strerror or error}") from None
        stamp = [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
        entry = self._known.get(name)
        if entry is None or entry["stamp"] != stamp:
            self.read += 1
            entry = {"stamp": stamp, **_parsed(path, parse)}
            if max(state.st_mtime_ns, state.st_ctime_ns) > time.time_ns() - _SETTLED_NS:
                entry["stamp"] = None
        self._used[name] = entry
        if "reason" in entry:
            raise Unreadable(entry["reason"])
        pieces = [(title, text) for title, text in entry["pieces"]]
        return ParsedFile(entry["format"], entry["encoding"], pieces)

    def end(self) -> None:
        """End a pass, and write what is known now if anything was read or forgotten."""
        changed = self.read or self._used.keys() != self._known.keys()
        self._known = self._used
        if changed:
            write_whole(self._path, json.dumps({"key": self._key, "files": self._known}))

    def _load(self) -> dict[str, Any]:
        try:
            saved = json.loads(self._path.read_text(encoding="utf-8"))
            if saved["key"] != self._key:
                return {}
            files: dict[str, Any] = saved["files"]
            for entry in files.values():
                if not ("reason" in entry or all(len(piece) == 2 for piece in entry["pieces"])):
                    return {}
            return files
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}


def _parsed(path: Path, parse: Callable[[Path], ParsedFile]) -> dict[str, Any]:
    try:
        return parse(path)._asdict()
    except CannotReadNow:
        raise
    except Unreadable as error:
        return {"reason": str(error)}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
