"""Whole-or-nothing writes, one-line errors, JSON of others, digests, and a lock that one process
holds."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from ..errors import DataError

T = TypeVar("T")
LOCK = ".lock"
"""Name of a folder's lock file. It stays behind; only the operating system's lock on it counts."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failed write (disk full, read-only folder) into one line.

    Raises:
        DataError: naming ``path`` and what the operating system said.
    """
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error


_FULL = {errno.ENOSPC: "the disk is full", errno.EFBIG: "a file would be too large"}
if hasattr(errno, "EDQUOT"):  # Windows has no quotas
    _FULL[errno.EDQUOT] = "your quota of the disk is used up"
_FULL_TEXTS = ("No space left on device", "File too large", "StorageFull", "FileTooLarge",
               "database or disk is full", "Disk quota exceeded")  # fmt: skip


def out_of_space(error: BaseException | None) -> str | None:
    """A sentence if an error, or what it came from, is that nothing more could be written; else
    None. Libraries (safetensors, SQLite, Arrow) raise errors of their own kinds for it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        text = str(error)
        number = error.errno if isinstance(error, OSError) else None
        if number in _FULL or any(full in text for full in _FULL_TEXTS):
            what = _FULL.get(number or 0, "the disk is full, or a file would be too large")
            name = getattr(error, "filename", None)
            return f"{f'{name}: ' if name else ''}{what}. Free some space and run the command again"
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the place of a file that takes the place of ``path`` in one step, once it is written:
    readers, also after a kill, see the old file or the new one. Of several that write at once, in
    threads or processes, the last one's stays, whole.

    Raises:
        DataError: it cannot be written; the old one is kept.
    """
    partial = path.with_name(f"{path.name}.{threading.get_native_id()}.part")
    try:
        with writing(path):
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(partial, path)
    except BaseException:  # Ctrl-C, too, leaves no part of a file behind
        partial.unlink(missing_ok=True)
        raise


def write_whole(path: Path, text: str) -> None:
    """Replace a file by a text in one step; see :func:`replacing`."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


class JsonError(DataError, ValueError):
    """Raised when a text is no JSON as this program writes it."""


LARGEST_JSON = 1 << 30
"""Most bytes of a JSON text of others."""
DEEPEST_JSON = 64
"""Most tables and lists within each other in a JSON text of others. Files of this program have at
most a dozen, and what walks through them must not meet Python's limit."""


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise ValueError(f"the key {name!r:.80} occurs twice in one table")
        table[name] = value
    return table


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        _no_number(text[:20])
    return value


_STRICT = json.JSONDecoder(object_pairs_hook=_table, parse_constant=_no_number, parse_float=_finite)
_WITH_NAN = json.JSONDecoder(object_pairs_hook=_table)


def parse_json(text: str | bytes, where: object, *, nan: bool = False) -> Any:
    """The value of a JSON text that others may have written.

    Args:
        text: In UTF-8, if it is bytes.
        where: Its file or place, with which the error begins.
        nan: Whether the numbers NaN and Infinity, which Python writes, and numbers as large are
            taken.

    Raises:
        JsonError: it is no JSON, has a key twice in one table, is nested in more than
            :data:`DEEPEST_JSON` levels, or has more than :data:`LARGEST_JSON` characters.
    """
    try:
        if len(text) > LARGEST_JSON:
            raise ValueError(f"{len(text):,} characters, at most {LARGEST_JSON:,} are read")
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        value = (_WITH_NAN if nan else _STRICT).decode(text)
        _check_depth(value)
    except RecursionError:
        raise JsonError(f"{where} cannot be read: it is nested too deeply") from None
    except ValueError as error:
        raise JsonError(f"{where} cannot be read: {error}") from error
    return value


def read_json(path: str | os.PathLike[str], *, nan: bool = False) -> Any:
    """The value of a JSON file that others may have written; as :func:`parse_json`.

    Raises:
        JsonError: as there; or it is no file that can be read.
        FileNotFoundError: there is none.
    """
    path = Path(path)
    try:
        said = path.stat()
        if not stat.S_ISREG(said.st_mode):  # a pipe would never end
            raise JsonError(f"{path} cannot be read: it is no file")
        if said.st_size > LARGEST_JSON:
            raise JsonError(
                f"{path} cannot be read: {said.st_size:,} bytes, at most {LARGEST_JSON:,} are read"
            )
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(*error.args) from None
    except OSError as error:
        raise JsonError(f"{path} cannot be read: {error.strerror or error}") from error
    return parse_json(text, path, nan=nan)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST_JSON + 1):
        level = [
            part
            for one in level
            for part in (one.values() if type(one) is dict else one if type(one) is list else ())
            if type(part) is dict or type(part) is list
        ]
        if not level:
            return
    raise ValueError(f"it is nested in more than {DEEPEST_JSON} levels")


def settled(path: Path, read: Callable[[], T], failure: type[Exception]) -> T:
    """Return what ``read`` returns. Where it raises ``failure`` and ``path``, which says what else
    is to be read, was exchanged meanwhile, it is called again."""
    while True:
        before = _stamp(path)
        try:
            return read()
        except failure:
            if _stamp(path) == before:
                raise


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def file_digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def value_digest(value: Any) -> str:
    """The first 16 digits of the SHA-256 of a JSON value; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def locked(path: Path) -> bool:
    """Return whether a process holds the lock file ``path`` of a :class:`FolderLock`. Writes
    nothing; False where there is no such file."""
    try:
        with path.open("r", encoding="utf-8") as file:
            holder = file.read().strip()
            if not holder.isdecimal():
                return False
            os.kill(int(holder), 0)  # its process is gone: the lock need not be tried, which
            lock_file(file)  # would hinder a training that starts at this very moment
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        return False
    return False


class FolderLock:
    """An exclusive lock on a run's folder, held by one training at a time.

    The operating system releases it when the process ends, however it ends. May be acquired several
    times through the same object and is free once it has been released as often. Systems without
    ``fcntl`` (Windows) have no such lock.

    Args:
        folder: Made if it does not exist.
        name: Name of the lock file, where a folder holds several runs.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str = LOCK) -> None:
        self.folder = Path(folder)
        self.path = self.folder / name
        self._file: IO[Any] | None = None
        self._holds = 0
        self._made_folder = False

    @property
    def held(self) -> bool:
        """True while this object holds the lock."""
        return self._holds > 0

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            DataError: another training holds it, or the folder cannot be written.
        """
        if not self._holds:
            with writing(self.path):
                self._made_folder = not self.folder.exists()
                self.folder.mkdir(parents=True, exist_ok=True)
                file = self.path.open("a+", encoding="utf-8")
            try:
                lock_file(file)
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip()
                file.close()
                raise DataError(
                    f"{self.folder} is being written by another training"
                    f"{f' (process {holder})' if holder else ''}: wait for it, or use another "
                    "folder"
                ) from None
            self._file = file
            with writing(self.path):
                file.truncate(0)
                file.write(str(os.getpid()))
                file.flush()
        self._holds += 1

    def release(self) -> None:
        """Give the lock back once; does nothing if it is not held."""
        self._holds = max(self._holds - 1, 0)
        if not self._holds and self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and self._holds == 1 and self._made_folder:
            self._remove_empty()
        self.release()

    def _remove_empty(self) -> None:
        with suppress(OSError):
            if [path.name for path in self.folder.iterdir()] == [self.path.name]:
                self.path.unlink()
                self.folder.rmdir()


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``, once other processes have let go of it. Systems without
    ``fcntl`` (Windows) have no such lock.

    Raises:
        DataError: the file cannot be written.
    """
    with writing(path):
        file = path.open("a", encoding="utf-8")
    with file:
        lock_file(file, wait=True)
        yield


def lock_file(file: IO[Any], *, wait: bool = False) -> None:
    """Lock an open file until it is closed or its process ends. ``BlockingIOError`` if another
    open file holds the lock, unless told to ``wait`` for it; Windows has no such lock."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
