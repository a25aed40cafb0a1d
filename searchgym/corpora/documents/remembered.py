"""Results of a folder's last reading, kept in one file."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ...utils.files import write_whole
from .encoding import Unreadable
from .readers import ParsedFile, parse

VERSION = 1
"""Raised whenever a reader gives other passages for the same file."""
_SETTLED_NS = 2_000_000_000
"""A file that changed so shortly before it was read may change again within the same tick of the
file system's clock: it is read again."""


class RememberedFiles:
    """Reads files as ``readers.parse`` does, those that did not change from memory.

    A file is the same if its size, its times of change and its number (inode) are.
    """

    def __init__(self, path: Path, *, words: int, max_file_bytes: int) -> None:
        self._path, self._words, self._most = path, words, max_file_bytes
        self._key = [VERSION, words, max_file_bytes]
        self._known: dict[str, Any] = self._load()
        self._used: dict[str, Any] = {}
        self.read = 0
        """Number of files that had to be read since ``begin``."""

    def begin(self) -> None:
        """Begin a pass over the folder: files that it does not ask for are forgotten at its end."""
        self._used, self.read = {}, 0

    def parse(self, path: Path) -> ParsedFile:
        """Result of reading a file, remembered where it has not changed.

        Raises:
            Unreadable: with the reason.
        """
        name = os.path.abspath(path)
        try:
            state = os.stat(path)
        except OSError as error:
            raise Unreadable(f"cannot be read: {error.strerror or error}") from None
        stamp = [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
        entry = self._known.get(name)
        if entry is None or entry["stamp"] != stamp:
            entry = {"stamp": stamp, **self._parsed(path)}
            self.read += 1
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

    def _parsed(self, path: Path) -> dict[str, Any]:
        try:
            made = parse(path, words=self._words, max_bytes=self._most)
        except Unreadable as error:
            return {"reason": str(error)}
        return made._asdict()

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
