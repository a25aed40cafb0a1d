"""Building a dense index in a folder, so that a build survives being killed, and opening it again.

``plan.json`` says what is encoded, by what, in shards of how many passages. A shard in ``shards/``
is whole or absent, and beside it stands its SHA-256, which a restarted build compares before it
keeps the shard. Passages are encoded shard by shard, so a build that was killed ends with the same
bytes as one that was not. The FAISS file of "hnsw" follows, and
``manifest.json`` is written last. Another kind of index over the same vectors reuses the shards.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...corpora.corpus import Corpus
from ...errors import DataError, EngineError
from ...storage import files
from ...storage.files import (
    LOCK,
    FolderLock,
    file_digest,
    replacing,
    settled,
    value_digest,
    waiting_lock,
)
from ..passage_cache import VectorCache
from .encoder import Progress, SentenceEncoder
from .index import (
    AT_SEARCH,
    DenseIndex,
    Floats,
    Vectors,
    build_faiss,
    check_graph,
    import_faiss,
    parameters,
    read_faiss,
)

PLAN, MANIFEST = "plan.json", "manifest.json"
SHARD = 8192
"""Passages per shard: what a killed build loses at most."""
_FORMAT = 1
_PROBES, _TOP = 256, 10
_MANY = 1000
"""Passages from which encoding takes long enough to show how far it is."""


def build_dense(
    corpus: Corpus,
    encoder: SentenceEncoder,
    folder: str | Path,
    *,
    kind: str = "flat",
    numbers: Mapping[str, Any] | None = None,
    shard: int = SHARD,
    threads: int = 1,
    progress: Progress | None = None,
    wait: bool = False,
) -> dict[str, Any]:
    """Build or finish an index and return its manifest; a finished one is left as it is.

    Args:
        corpus: Passages to search.
        encoder: Encoder of the passages.
        folder: Empty, or an unfinished build of the same corpus by the same encoder.
        kind: A name of ``KINDS``.
        numbers: Numbers of that kind.
        shard: Passages per shard.
        threads: For FAISS's part; with more than one, HNSW graphs depend on timing.
        progress: Told how many more passages have been encoded.
        wait: For another build that is at work in the folder, instead of raising.

    Raises:
        EngineError: an empty corpus, a folder of something else, another build at work.
    """
    faiss = import_faiss()
    _not_empty(corpus)
    folder = Path(folder)
    full = parameters(kind, numbers or {})
    with locked(folder, wait=wait):
        plan = _plan(corpus, encoder, shard)
        digests = _encode_shards(corpus, encoder, folder, plan, progress)
        old: dict[str, Any] = {}
        if (folder / MANIFEST).exists():
            old = read_json(folder / MANIFEST)
            same = (old["kind"], old["numbers"], old["threads"]) == (kind, full, threads)
            if same and old["shards"] == digests and _whole(folder, old):
                return old
        vectors = Vectors(open_shards(folder, plan))
        built = build_faiss(kind, vectors, full, threads)
        file = f"{kind}.faiss" if built is not None else None
        if file:
            if old.get("file") == file:  # which others may be opening
                file = f"{kind}-{value_digest([full, threads])}.faiss"
            with replacing(folder / file) as partial:
                faiss.write_index(built, str(partial))
        manifest = {
            **plan,
            "kind": kind,
            "numbers": full,
            "threads": threads,
            "longest": vectors.longest,
            "shards": digests,
            "file": file,
            "file_digest": file and file_digest(folder / file),
            "recall": _recall(corpus, encoder, DenseIndex(kind, vectors, built, full)),
        }
        _write_json(folder / MANIFEST, manifest)
        for other in folder.glob("*.faiss"):
            if other.name != file:
                other.unlink()
    return read_json(folder / MANIFEST)


def open_dense(
    folder: str | Path,
    corpus: Corpus,
    numbers: Mapping[str, Any],
    *,
    gpu: bool | None = None,
    verify: bool = True,
) -> tuple[DenseIndex, dict[str, Any]]:
    """A finished index, memory-mapped, and its manifest; ``numbers`` of ``AT_SEARCH`` override.

    Args:
        folder: Written by ``build_dense``.
        corpus: The one it was built from.
        numbers: See above.
        gpu: Search with FAISS on a GPU; default: where there is one.
        verify: Compare the SHA-256 of the vectors with the manifest's, two to three seconds per
            gigabyte. FAISS's own file is always compared.

    Raises:
        EngineError: the build is unfinished, altered, or was made from another corpus.
    """
    path = Path(folder)
    try:
        return settled(
            path / MANIFEST, lambda: _open_dense(path, corpus, numbers, gpu, verify), EngineError
        )
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise EngineError(
            f"the index in {folder} is damaged ({type(error).__name__}: {error}): build it again"
        ) from error


def _open_dense(
    folder: Path, corpus: Corpus, numbers: Mapping[str, Any], gpu: bool | None, verify: bool
) -> tuple[DenseIndex, dict[str, Any]]:
    if (folder / PLAN).exists() and not (folder / MANIFEST).exists():
        raise EngineError(f"the index in {folder} is not finished: run the build again")
    manifest = read_json(folder / MANIFEST)
    if manifest["corpus"]["digest"] != corpus.digest:
        raise EngineError(
            f"the index in {folder} was not built from corpus {corpus.name!r} as it is now (index "
            f"{manifest['corpus']['digest']}, corpus {corpus.digest}): build it again"
        )
    kind = manifest["kind"]
    if wrong := sorted(set(numbers) - AT_SEARCH):
        raise EngineError(
            f"{', '.join(wrong)} of {folder} cannot be changed after the build; "
            f"{', '.join(sorted(AT_SEARCH))} can"
        )
    full = parameters(kind, {**manifest["numbers"], **numbers})
    if manifest["corpus"]["passages"] != len(corpus):
        raise ValueError("another number of passages")
    longest = float(manifest["longest"])
    if not 0 < longest < math.inf:
        raise ValueError(f"longest is {longest}")
    vectors = Vectors(open_shards(folder, manifest, verify=verify), longest=longest)
    made = None
    if kind != "flat":
        file = folder / manifest["file"]
        named = re.fullmatch(rf"{kind}(?:-[0-9a-f]{{16}})?\.faiss", file.name)
        if not named or str(manifest["file"]) != file.name or not _whole(folder, manifest):
            raise EngineError(f"{file} is not what the manifest describes: build the index again")
        made = read_faiss(str(file))
        check_graph(made, len(corpus), manifest["dim"], file)
    return DenseIndex(kind, vectors, made, full, gpu=gpu), manifest


def index_in_memory(
    corpus: Corpus,
    encoder: SentenceEncoder,
    kind: str,
    numbers: Mapping[str, Any],
    *,
    threads: int = 1,
    gpu: bool | None = None,
    progress: Progress | None = None,
    kept: VectorCache | None = None,
) -> DenseIndex:
    """An index that is nowhere on disk; only passages that are not ``kept`` are encoded."""
    import_faiss()
    _not_empty(corpus)
    full = parameters(kind, numbers)
    kept = VectorCache() if kept is None else kept
    rows = kept.vectors(
        [json.dumps((p.title, p.text)) for p in corpus],
        f"{encoder.digest} {encoder.device.type}",
        lambda new: encoder.passages([tuple(json.loads(text)) for text in new], progress),
    )
    vectors = Vectors([rows])
    return DenseIndex(kind, vectors, build_faiss(kind, vectors, full, threads), full, gpu=gpu)


def recall(index: DenseIndex, queries: Floats, k: int = _TOP) -> dict[str, float]:
    """Measure the share of the exact k nearest that an index finds: {"served", "raw"}.

    "served" is what the engine answers, "raw" what FAISS ranks first before exact scoring. A
    passage that ties with the k-th nearest counts as found.
    """
    k = min(k, len(index.vectors))
    exact = index.vectors.nearest(queries, k)
    served = index.search(queries, k)
    raw = index.candidates(queries, k) if index.kind != "flat" else [rows for rows, _ in served]
    kept: dict[str, list[float]] = {"served": [], "raw": []}
    for query, (_, best), (rows, _), first in zip(queries, exact, served, raw, strict=True):
        for name, ranked in (("served", rows), ("raw", first[first >= 0])):
            kept[name].append(float((index.vectors.score(query, ranked) >= best[-1]).sum()) / k)
    return {name: round(float(np.mean(values)), 6) for name, values in kept.items()}


def _recall(corpus: Corpus, encoder: SentenceEncoder, index: DenseIndex) -> dict[str, Any]:
    """Recall@10 for the first sentences of passages spread over the corpus, asked as queries."""
    if index.kind == "flat":
        return {"k": _TOP, "queries": 0, "served": 1.0, "raw": 1.0}
    rows = np.unique(np.linspace(0, len(corpus) - 1, min(_PROBES, len(corpus))).astype(int))
    texts = [corpus[row].text.split(". ", 1)[0][:300] for row in rows.tolist()]
    queries = encoder.queries([text for text in texts if text.strip()] or [corpus[0].title])
    return {"k": _TOP, "queries": len(queries), **recall(index, queries)}


@contextmanager
def shown_progress(encoder: SentenceEncoder, passages: int) -> Iterator[Progress | None]:
    """Show on standard error how far encoding is, where there are many passages."""
    if passages < _MANY:
        yield None
        return
    from rich.console import Console

    from ...utils.progress import LineProgress

    with LineProgress(console=Console(stderr=True)) as bar:
        task = bar.add_task(f"encoding with {encoder.name}", total=passages, unit="passages")
        yield lambda more: bar.advance(task, more)


# --- shards -----------------------------------------------------------------------------------
def _plan(corpus: Corpus, encoder: SentenceEncoder, shard: int) -> dict[str, Any]:
    """All that decides the vectors."""
    if shard < 1:
        raise EngineError(f"a shard holds at least one passage, got {shard}")
    return {
        "format": _FORMAT,
        "corpus": {"name": corpus.name, "digest": corpus.digest, "passages": len(corpus)},
        "encoder": {"source": encoder.source, "digest": encoder.digest, **encoder.settings},
        "dim": encoder.dim,
        "shard": shard,
    }


def _encode_shards(
    corpus: Corpus, encoder: SentenceEncoder, folder: Path, plan: Mapping[str, Any],
    progress: Progress | None,
) -> list[str]:  # fmt: skip
    """Encode what is not there yet; return the SHA-256 of every shard, in order."""
    _check_plan(folder, plan)
    digests: list[str] = []
    for start in range(0, len(corpus), plan["shard"]):
        stop = min(start + plan["shard"], len(corpus))
        path = shard_path(folder, len(digests))
        digest = _finished(path, (stop - start, encoder.dim))
        if digest is None:
            pairs = [(p.title, p.text) for p in map(corpus.__getitem__, range(start, stop))]
            vectors = encoder.passages(pairs, progress)
            with replacing(path) as partial, partial.open("wb") as stream:
                np.save(stream, vectors, allow_pickle=False)
            digest = file_digest(path)
            files.write_whole(path.with_suffix(".sha256"), digest)
        elif progress:
            progress(stop - start)
        digests.append(digest)
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


def _check_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    (folder / "shards").mkdir(exist_ok=True)
    path = folder / PLAN
    if not path.exists():
        others = {f.name for f in folder.iterdir() if f.suffix != ".part"} - {"shards", LOCK}
        if others or any((folder / "shards").glob("*.npy")):
            shown = ", ".join(sorted(others)[:3]) or "shards"
            raise EngineError(f"{folder} holds other files ({shown}); choose an empty folder")
        _write_json(path, plan)
    stored, wanted = read_json(path), json.loads(json.dumps(plan))
    if stored != wanted:
        keys = [k for k in wanted if stored.get(k) != wanted[k]]
        raise EngineError(
            f"{folder} holds vectors of another build (other {', '.join(keys)}): choose another "
            "folder, or delete this one"
        )
    for left in [*folder.glob("*.part"), *(folder / "shards").glob("*.part")]:
        left.unlink()


def _finished(path: Path, shape: tuple[int, int]) -> str | None:
    """The digest of a shard that is there and whole, else ``None``."""
    note = path.with_suffix(".sha256")
    if not path.exists() or not note.exists():
        return None
    expected = note.read_text(encoding="ascii").strip()
    if file_digest(path) != expected:
        return None  # a disk that lied about flushing: encode this shard again
    return expected if np.load(path, mmap_mode="r", allow_pickle=False).shape == shape else None


def _write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    files.write_whole(path, text)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; ``EngineError`` if the file is absent, broken or of another format."""
    try:
        value = files.read_json(path)
    except (OSError, ValueError) as error:
        raise EngineError(f"no readable dense index in {path.parent}: {error}") from error
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise EngineError(f"the dense index in {path.parent} has another format: build it again")
    return value


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Allow only one build per folder. ``EngineError`` if another is at work, unless told to
    ``wait`` for it."""
    folder.mkdir(parents=True, exist_ok=True)
    if wait:
        with waiting_lock(folder / LOCK):
            yield
        return
    lock = FolderLock(folder)
    try:
        lock.acquire()
    except DataError as error:
        if files.locked(lock.path):
            raise EngineError(f"another build is writing to {folder}: wait for it") from error
        raise
    try:
        yield
    finally:
        lock.release()


def _whole(folder: Path, manifest: Mapping[str, Any]) -> bool:
    if manifest["file"] is None:
        return True
    path = folder / manifest["file"]
    return path.exists() and file_digest(path) == manifest["file_digest"]


def _not_empty(corpus: Corpus) -> None:
    if not len(corpus):
        raise EngineError(f"corpus {corpus.name!r} is empty: there is nothing to search")
