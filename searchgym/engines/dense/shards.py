"""A corpus encoded into shard files, so that a build survives being killed at any moment.

``plan.json`` says what is being encoded, by what, in shards of how many passages. A shard is
written under another name, flushed to disk and renamed, so it is whole or absent, and beside its
array stands its SHA-256, which a restarted build compares before it keeps the shard. Passages are
encoded shard by shard with fixed limits, so a build that was killed ends with the same bytes as one
that was not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...corpora.corpus import Corpus
from ...errors import EngineError
from ...storage.files import file_digest
from ...storage.files import read_json as parse
from ..forward import Progress
from .encoder import SentenceEncoder
from .vectors import Floats

SHARD = 8192
"""Passages per shard: what a killed build loses at most."""
PLAN, MANIFEST = "plan.json", "manifest.json"
_FORMAT = 1


def plan_of(corpus: Corpus, encoder: SentenceEncoder, shard: int) -> dict[str, Any]:
    """Plan: all that decides the vectors, byte for byte."""
    return {
        "format": _FORMAT,
        "corpus": {"name": corpus.name, "digest": corpus.digest, "passages": len(corpus)},
        "encoder": {"source": encoder.source, "digest": encoder.digest, **encoder.settings},
        "dim": encoder.dim,
        "shard": shard,
    }


def encode_shards(
    corpus: Corpus,
    encoder: SentenceEncoder,
    folder: Path,
    *,
    shard: int = SHARD,
    progress: Progress | None = None,
) -> list[str]:
    """Encode what is not there yet; the SHA-256 of every shard, in order.

    Call it with the folder locked (``locked``). Raises ``EngineError`` if the folder holds other
    things, or shards of another corpus, encoder or size.
    """
    if shard < 1:
        raise EngineError(f"a shard holds at least one passage, got {shard}")
    plan = plan_of(corpus, encoder, shard)
    _check_plan(folder, plan)
    digests: list[str] = []
    n, done = len(corpus), 0
    for number, start in enumerate(range(0, n, shard)):
        stop = min(start + shard, n)
        digest = _finished(folder, number, (stop - start, encoder.dim))
        if digest is None:
            pairs = [(p.title, p.text) for p in (corpus[i] for i in range(start, stop))]
            digest = _write_shard(
                folder, number, encoder.passages(pairs, _later(progress, done, n))
            )
        digests.append(digest)
        done += stop - start
        if progress:
            progress(done, n)
    return digests


def open_shards(folder: Path, plan: Mapping[str, Any], *, verify: bool = False) -> list[Floats]:
    """The shards of a finished build, memory-mapped. ``EngineError`` if one is missing or cut, or,
    to ``verify``, not the one whose SHA-256 is among ``plan["shards"]``."""
    n, size = plan["corpus"]["passages"], plan["shard"]
    blocks: list[Floats] = []
    for number, start in enumerate(range(0, n, size)):
        path = shard_path(folder, number)
        try:
            block = np.load(path, mmap_mode="r", allow_pickle=False)
            if verify and file_digest(path) != plan["shards"][number]:
                raise ValueError("other bytes than were written")
        except (OSError, ValueError, EOFError) as error:
            raise EngineError(f"{path} cannot be read ({error}): build the index again") from error
        if block.shape != (min(size, n - start), plan["dim"]) or block.dtype != np.float32:
            raise EngineError(f"{path} is not the shard the manifest names: build the index again")
        blocks.append(block)
    return blocks


def shard_path(folder: Path, number: int) -> Path:
    """Path of a shard; its SHA-256 lies beside it."""
    return folder / "shards" / f"{number:06}.npy"


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file, then move it into place: it appears whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    write(temporary)
    with temporary.open("rb") as stream:
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    if hasattr(os, "O_DIRECTORY"):  # the new name reaches the disk too
        handle = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """JSON that appears whole or not at all."""
    text = json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    write_whole(path, lambda made: made.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; ``EngineError`` if the file is absent, broken or of another format."""
    try:
        value = parse(path)
    except (OSError, ValueError) as error:
        raise EngineError(f"no readable dense index in {path.parent}: {error}") from error
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise EngineError(f"the dense index in {path.parent} has another format: build it again")
    return value


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Allow only one build per folder (the system drops the lock when a process dies).

    ``EngineError`` if another holds it, unless told to ``wait`` for it. Windows has no such lock:
    there it is the caller's care.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / ".lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise EngineError(f"another build is writing to {folder}: wait for it") from error
        yield


def _check_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    (folder / "shards").mkdir(exist_ok=True)
    path = folder / PLAN
    if not path.exists():
        others = {f.name for f in folder.iterdir()} - {"shards", ".lock", PLAN + ".tmp"}
        if others or any((folder / "shards").glob("*.npy")):
            shown = ", ".join(sorted(others)[:3]) or "shards"
            raise EngineError(f"{folder} holds other files ({shown}); choose an empty folder")
        write_json(path, plan)
    stored_plan = read_json(path)
    if stored_plan != json.loads(json.dumps(plan)):
        keys = [k for k in plan if stored_plan.get(k) != json.loads(json.dumps(plan[k]))]
        raise EngineError(
            f"{folder} holds vectors of another build (other {', '.join(keys)}): choose another "
            "folder, or delete this one"
        )
    for left in [*folder.glob("*.tmp"), *(folder / "shards").glob("*.tmp")]:
        left.unlink()


def _finished(folder: Path, number: int, shape: tuple[int, int]) -> str | None:
    """The digest of a shard that is there and whole, else ``None``."""
    path = shard_path(folder, number)
    note = path.with_suffix(".sha256")
    if not path.exists() or not note.exists():
        return None
    expected = note.read_text(encoding="ascii").strip()
    if file_digest(path) != expected:
        return None  # a disk that lied about flushing: encode this shard again
    return expected if np.load(path, mmap_mode="r", allow_pickle=False).shape == shape else None


def _write_shard(folder: Path, number: int, vectors: Floats) -> str:
    path = shard_path(folder, number)

    def write(made: Path) -> None:
        with made.open("wb") as stream:
            np.save(stream, vectors, allow_pickle=False)

    write_whole(path, write)
    digest = file_digest(path)
    write_whole(path.with_suffix(".sha256"), lambda made: made.write_text(digest))
    return digest


def _later(progress: Progress | None, before: int, total: int) -> Progress | None:
    return progress and (lambda done, _: progress(before + done, total))
