"""Building a dense index in a folder, measuring what it misses, and opening it again.

A folder holds ``plan.json`` and ``shards/`` (see ``dense_shards``), the FAISS file of "ivf",
"ivfpq" and "hnsw", and, written last, ``manifest.json``. Another kind of index over the same
vectors reuses the shards.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...corpora.corpus import Corpus
from ...errors import EngineError
from ...storage.files import file_digest, settled
from ..forward import Progress
from ..kept import KeptVectors
from .encoder import SentenceEncoder
from .faiss_check import check_index
from .index import AT_SEARCH, DenseIndex, build_faiss, import_faiss, parameters, read_faiss
from .shards import (
    MANIFEST,
    PLAN,
    SHARD,
    encode_shards,
    locked,
    open_shards,
    plan_of,
    read_json,
    write_json,
    write_whole,
)
from .vectors import Floats, Vectors

_PROBES, _TOP = 256, 10


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
        corpus: what to search.
        encoder: what encodes it.
        folder: empty, or an unfinished build of the same corpus by the same encoder.
        kind: a name of ``KINDS``.
        numbers: of that kind.
        shard: passages per shard.
        threads: for FAISS's part; with more than one, HNSW graphs depend on timing.
        progress: called with (passages encoded, all passages).
        wait: for another build that is at work in the folder, instead of raising.

    Raises:
        EngineError: an empty corpus, a folder of something else, another build at work.
    """
    import_faiss()
    _not_empty(corpus)
    folder = Path(folder)
    full = parameters(kind, numbers or {}, len(corpus), encoder.dim)
    with locked(folder, wait=wait):
        plan = plan_of(corpus, encoder, shard)
        digests = encode_shards(corpus, encoder, folder, shard=shard, progress=progress)
        old: dict[str, Any] = {}
        if (folder / MANIFEST).exists():
            old = read_json(folder / MANIFEST)
            same = (old["kind"], old["numbers"], old["threads"]) == (kind, full, threads)
            if same and old["shards"] == digests and _whole(folder, old):
                return old
        vectors = Vectors(open_shards(folder, plan), longest=1.0)
        longest = _longest(vectors)
        vectors.longest = longest
        built = build_faiss(kind, vectors, full, threads)
        file = f"{kind}.faiss" if built is not None else None
        if file:
            faiss = import_faiss()
            if old.get("file") == file:  # which others may be opening
                told = json.dumps([full, threads], sort_keys=True)
                file = f"{kind}-{hashlib.sha256(told.encode()).hexdigest()[:16]}.faiss"
            write_whole(folder / file, lambda path: faiss.write_index(built, str(path)))
        manifest = {
            **plan,
            "kind": kind,
            "numbers": full,
            "threads": threads,
            "longest": longest,
            "shards": digests,
            "file": file,
            "file_digest": file and file_digest(folder / file),
            "recall": _recall(corpus, encoder, DenseIndex(kind, vectors, built, full)),
        }
        write_json(folder / MANIFEST, manifest)
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
        folder: what ``build_dense`` wrote.
        corpus: what it was built from.
        numbers: see above.
        gpu: search with FAISS on a GPU; default: where there is one.
        verify: compare the SHA-256 of the vectors with the manifest's, two to three seconds per
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
    full = parameters(kind, {**manifest["numbers"], **numbers}, len(corpus), manifest["dim"])
    if manifest["corpus"]["passages"] != len(corpus):
        raise ValueError("another number of passages")
    blocks = open_shards(folder, manifest, verify=verify)
    longest = float(manifest["longest"])
    if not 0 < longest < math.inf:
        raise ValueError(f"longest is {longest}")
    if kind == "flat":
        return DenseIndex(kind, Vectors(blocks, longest=longest), None, full, gpu=gpu), manifest
    file = folder / manifest["file"]
    named = re.fullmatch(rf"{kind}(?:-[0-9a-f]{{16}})?\.faiss", file.name)
    if not named or str(manifest["file"]) != file.name or not _whole(folder, manifest):
        raise EngineError(f"{file} is not what the manifest describes: build the index again")
    made = read_faiss(str(file))
    check_index(kind, made, len(corpus), manifest["dim"], file, full.get("nlist"))
    return DenseIndex(kind, Vectors(blocks, longest=longest), made, full, gpu=gpu), manifest


def index_in_memory(
    corpus: Corpus,
    encoder: SentenceEncoder,
    kind: str,
    numbers: Mapping[str, Any],
    *,
    threads: int = 1,
    gpu: bool | None = None,
    progress: Progress | None = None,
    kept: KeptVectors | None = None,
) -> DenseIndex:
    """An index that is nowhere on disk; only passages that are not ``kept`` are encoded."""
    import_faiss()
    _not_empty(corpus)
    full = parameters(kind, numbers, len(corpus), encoder.dim)
    kept = KeptVectors() if kept is None else kept
    rows = kept.vectors(
        [json.dumps((p.title, p.text)) for p in corpus],
        f"{encoder.digest} {encoder.device.type}",
        lambda new: encoder.passages([tuple(json.loads(text)) for text in new], progress),
    )
    vectors = Vectors([rows])
    vectors.longest = _longest(vectors)
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


def _longest(vectors: Vectors) -> float:
    return max(
        float(np.sqrt((b.astype(np.float64) ** 2).sum(axis=1).max())) for b in vectors.blocks
    )


def _whole(folder: Path, manifest: Mapping[str, Any]) -> bool:
    if manifest["file"] is None:
        return True
    path = folder / manifest["file"]
    return path.exists() and file_digest(path) == manifest["file_digest"]


def _not_empty(corpus: Corpus) -> None:
    if not len(corpus):
        raise EngineError(f"corpus {corpus.name!r} is empty: there is nothing to search")
