"""Dense search over any corpus: a sentence encoder and FAISS, with exact scores and ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from ...batching import text_and_k
from ...corpora.corpus import Corpus
from ...errors import EngineError
from ...storage.files import value_digest
from ...types import Hit, Query, Ranking
from ...utils.trust import allowed, note, registered_only
from ...worlds.world import World
from ..passage_cache import VectorCache
from .build import (
    MANIFEST,
    PLAN,
    build_dense,
    index_in_memory,
    open_dense,
    read_json,
    shown_progress,
)
from .encoder import KNOWN_ENCODERS, POOLINGS, Progress, SentenceEncoder
from .index import AT_SEARCH, KINDS, DenseIndex, parameters

_make_hit = partial(tuple.__new__, Hit)
NUMBERS = frozenset(name for kind in KINDS.values() for name in kind)
"""Options of the engine that belong to the index; the others belong to the encoder."""


class DenseEngine:
    """Passages whose vectors have the largest inner product with the query's.

    Rankings hold min(k, corpus) hits, scores never increase, ties are ordered by passage id. A
    query without a letter gives no hits.

    Equal batches get equal answers, bit for bit; in another batch the encoder's last bits may
    differ. Passages of equal text have equal scores.
    """

    needs_task = False

    def __init__(
        self,
        corpus: Corpus,
        encoder: SentenceEncoder,
        index: DenseIndex,
        *,
        index_digest: str = "",
    ) -> None:
        if len(index.vectors) != len(corpus):
            raise EngineError(
                f"the index holds {len(index.vectors):,} vectors, corpus {corpus.name!r} "
                f"{len(corpus):,} passages: they do not belong together"
            )
        self.corpus, self.encoder, self.index = corpus, encoder, index
        built = [encoder.digest, encoder.device.type, index.kind, index.numbers, index_digest]
        self.fingerprint = f"dense:{corpus.digest}:{value_digest(built)}"

    def cache_key(self, request: Query, /) -> bytes | None:
        """Query text and k."""
        return text_and_k(request)

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        """Answer every query in order; each may have its own k. Texts are encoded together."""
        return self._answer([query.text for query in batch], [query.k for query in batch])

    def search(self, texts: Sequence[str], k: int) -> list[Ranking]:
        """One ranking per text; ``k ≤ 0`` gives no hits."""
        return self._answer(list(texts), [k] * len(texts))

    def warm_up(self) -> None:
        """Let libraries allocate and choose their kernels before the first real query."""
        self.search(["warm"], 1)

    def _answer(self, texts: Sequence[str], ks: Sequence[int]) -> list[Ranking]:
        rankings: list[Ranking] = [()] * len(texts)
        asked = [i for i, text in enumerate(texts) if ks[i] > 0 and text.strip()]
        if not asked:
            return rankings
        distinct = {text: row for row, text in enumerate(dict.fromkeys(texts[i] for i in asked))}
        vectors = self.encoder.queries(list(distinct))
        for k in sorted({ks[i] for i in asked}):
            here = [i for i in asked if ks[i] == k]
            near = self.index.search(vectors[[distinct[texts[i]] for i in here]], k)
            for i, (rows, scores) in zip(here, near, strict=True):
                passages = map(self.corpus.__getitem__, rows.tolist())
                rankings[i] = tuple(map(_make_hit, zip(passages, scores.tolist(), strict=True)))
        return rankings


def make(
    corpus: Corpus,
    world: World | None = None,
    *,
    encoder: str | Path | Mapping[str, Any] | SentenceEncoder | None = None,
    kind: str | None = None,
    index: str | Path | None = None,
    cache: str | Path | None = None,
    gpu: bool | None = None,
    verify: bool = True,
    threads: int = 1,
    progress: Progress | None = None,
    kept: VectorCache | None = None,
    **options: Any,
) -> DenseEngine:
    """Build for the registry.

    Args:
        corpus: Passages to search.
        world: Not used.
        encoder: Folder, hub name, ``{"model": …, **arguments of SentenceEncoder}``, or a ready one;
            default: all-MiniLM-L6-v2, or what ``index`` was built with.
        kind: "flat" (default) or "hnsw".
        index: A folder that ``build_dense`` wrote.
        cache: A folder in which vectors are kept, one sub-folder per corpus, encoder and kind.
            Processes may share it: the first builds, the others wait for it.
        gpu: Search with FAISS on a GPU; default: where there is one (never for "hnsw").
        verify: See ``open_dense``.
        threads: For building.
        progress: Told how many more passages have been encoded; by default, where there are many,
            a bar or lines on standard error.
        kept: Vectors of passages that an earlier engine has encoded; not with index= or cache=.
        options: Numbers of the kind (``KINDS``) and arguments of ``SentenceEncoder``.

    Raises:
        EngineError: options that do not belong together, or an index of something else.
        MissingExtraError: sentence-transformers or FAISS is not installed.
    """
    numbers = {name: options.pop(name) for name in list(options) if name in NUMBERS}
    if kept is not None and (index is not None or cache is not None):
        raise EngineError("kept= belongs to an index in memory: leave index= and cache= out")
    if index is None:
        model = encoder_of(encoder, options)
        wanted = kind or "flat"
        shown = nullcontext(progress) if progress else shown_progress(model, len(corpus))
        if cache is None:
            with shown as told:
                built = index_in_memory(
                    corpus, model, wanted, numbers, threads=threads, gpu=gpu, progress=told,
                    kept=kept,
                )  # fmt: skip
            return DenseEngine(corpus, model, built)
        folder = Path(cache).expanduser() / f"{corpus.digest}-{model.digest}-{wanted}"
        full = parameters(wanted, numbers)
        if not _is_there(folder, full):  # a finished one needs no lock, nor a folder to write to
            with shown as told:
                build_dense(
                    corpus, model, folder, kind=wanted, threads=threads, progress=told,
                    numbers=numbers, wait=True,
                )  # fmt: skip
        at_search = {name: value for name, value in full.items() if name in AT_SEARCH}
        engine = _opened(folder, corpus, model, at_search, gpu)
        if engine.index.numbers != full:
            raise EngineError(
                f"another process has just rebuilt {folder} with other numbers "
                f"({engine.index.numbers}, here {full}): give one of them another cache"
            )
        return engine
    if cache is not None:
        raise EngineError("give index= (an index that is there) or cache=, not both")
    path = Path(index).expanduser()
    if not ((path / MANIFEST).exists() or (path / PLAN).exists()):
        raise EngineError(
            f"no dense index in {path}; make one: searchgym corpus index CORPUS --engine dense "
            f"--out {path}"
        )
    plan = read_json(path / PLAN)
    try:
        model = _encoder_of_index(path, plan, encoder, options)
    except (AttributeError, KeyError, TypeError) as error:
        raise EngineError(f"{path / PLAN} is damaged ({error}): build the index again") from error
    engine = _opened(path, corpus, model, numbers, gpu, verify)
    if kind not in (None, engine.index.kind):
        raise EngineError(f"{path} is of kind {engine.index.kind!r}, not {kind!r}: leave kind= out")
    return engine


def _is_there(folder: Path, numbers: Mapping[str, int]) -> bool:
    """Check whether a cache folder holds the finished index, but for what may change at search."""
    if not (folder / MANIFEST).exists():
        return False
    built = read_json(folder / MANIFEST)["numbers"]
    return all(built.get(name) == numbers[name] for name in numbers if name not in AT_SEARCH)


def _encoder_of_index(
    folder: Path, plan: Mapping[str, Any], encoder: Any, options: Mapping[str, Any]
) -> SentenceEncoder:
    """The encoder that the caller gives, else the one that the index names, if that is a known one:
    an untrusted folder does not choose which model is loaded."""
    if encoder is None:
        own = plan["encoder"]
        source = own["source"]
        if source is not None and source not in KNOWN_ENCODERS and not allowed(_asked(source)):
            raise EngineError(
                f"the index in {folder} names the encoder {source!r}, which is none of the known "
                f"ones: if you trust it, give it yourself, encoder={source!r}, or add --trust"
            )
        names = ("preset", "query_prefix", "passage_prefix", "normalize", "max_length")
        kept = {name: own[name] for name in (*names, "passage_format", "dtype")}
        pooling = own["pooling"] if own["pooling"] in POOLINGS else None
        encoder = {"model": own["source"], **kept, "pooling": pooling}
        with registered_only(folder):
            model = encoder_of(encoder, options)
    else:
        model = encoder_of(encoder, options)
    if model.digest != plan["encoder"]["digest"]:
        raise EngineError(
            f"the index in {folder} was built with another encoder ({plan['encoder']['source']}, "
            f"digest {plan['encoder']['digest']}) than {model.name} with these settings "
            f"({model.digest}): leave encoder= out, or build the index again"
        )
    return model


def _opened(
    folder: Path, corpus: Corpus, encoder: SentenceEncoder, numbers: Mapping[str, Any],
    gpu: bool | None, verify: bool = True,
) -> DenseEngine:  # fmt: skip
    opened, manifest = open_dense(folder, corpus, numbers, gpu=gpu, verify=verify)
    return DenseEngine(corpus, encoder, opened, index_digest=manifest["file_digest"] or "")


def encoder_of(given: Any, options: Mapping[str, Any]) -> SentenceEncoder:
    """Build the encoder that ``encoder=`` and the engine's other options specify."""
    if isinstance(given, SentenceEncoder):
        if options:
            raise EngineError(f"{', '.join(options)} cannot change an encoder that is ready")
        return given
    if isinstance(given, Mapping):
        options = {**given, **options}
    elif given is not None:
        options = {"model": given, **options}
    if "model" in options:
        note(_asked(str(options["model"])))
    return SentenceEncoder(**options)


def _asked(source: str) -> str:
    """Name under which it is noted that the caller of this process asked for an encoder."""
    return f"encoder {source}"
