"""The index on disk: Tantivy's files, every passage's term numbers, and what it was built from."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ...corpora.corpus import Corpus
from ...errors import EngineError, MissingExtraError
from ...types import Passage
from ..analysis import WORD, Analyser

ABOUT = "searchgym.json"
_FORMAT = 2
_FORWARD, _STARTS = "terms.bin", "starts.npy"
_HEAP, _LEAST = 500_000_000, 15_000_000
"""Bytes that a writing thread fills before it writes a segment: on disk, and Tantivy's least."""
_BUFFER = 1 << 20


def build(
    folder: str | Path, passages: Iterable[Passage], analyser: Analyser, *, threads: int = 1
) -> None:
    """Index a stream of passages into a folder, which appears whole or not at all.

    The stream is read once and never held in memory; its ids must differ.

    Raises:
        EngineError: the folder is there already, the stream is empty, or an id occurs twice.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise EngineError(f"{folder} holds files already; choose an empty folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        about, *_ = fill(new_index(staging), passages, analyser, threads, staging)
        if not about["passages"]:
            raise EngineError("there is no passage to index")
        (staging / ABOUT).write_text(json.dumps(about), encoding="ascii")
        os.replace(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)  # gone already unless something failed


def fill(
    index: Any,
    passages: Iterable[Passage],
    analyser: Analyser,
    threads: int,
    folder: Path | None,
) -> tuple[dict[str, Any], NDArray[np.uint32], NDArray[np.int64]]:
    """Write every passage; return what tells the index from others, term numbers and starts.

    Term numbers are those of all passages in a row, passage i's at ``starts[i]:starts[i + 1]``.
    With a folder, passages and term numbers are written there, and the numbers returned are empty.
    """
    tantivy = library()
    writer = index.writer(heap_size=(_LEAST if folder is None else _HEAP) * threads,
                          num_threads=threads)  # fmt: skip
    digest = hashlib.sha256()
    numbers, starts, ids = array("I"), array("q", [0]), array("Q")
    known = _Numbers()
    plain = analyser.pattern == WORD
    sink = None if folder is None else (folder / _FORWARD).open("wb")
    try:
        for place, passage in enumerate(passages):
            terms = analyser.terms(_text(passage))
            document = tantivy.Document()
            words = terms if plain else [word_of(analyser, term) for term in terms]
            document.add_text("terms", " ".join(words))
            document.add_unsigned("place", place)
            numbers.extend(map(known.__getitem__, terms))
            starts.append(starts[-1] + len(terms))
            if sink is not None:
                document.add_bytes("passage", json.dumps(passage).encode("ascii"))
                ids.append(key_of("id", passage.id))
                document.add_unsigned("key", ids[-1])
                document.add_unsigned("key", key_of("url", passage.url))
                document.add_unsigned("key", key_of("title", passage.title))
                if len(numbers) > _BUFFER:
                    numbers.tofile(sink)
                    del numbers[:]
            writer.add_document(document)
            if not isinstance(passages, Corpus):
                for piece in passage:
                    digest.update(piece.encode("utf-8", "surrogatepass") + b"\0")
        if sink is not None:
            numbers.tofile(sink)
            del numbers[:]
        if len(np.unique(np.frombuffer(ids, np.uint64))) < len(ids):
            raise EngineError("an id of a passage occurs twice; ids must differ")
        writer.commit()
    except BaseException:  # Ctrl-C, too: its threads must not write on while the folder goes
        writer.rollback()
        raise
    finally:
        if sink is not None:
            sink.close()
        writer.wait_merging_threads()
    index.reload()
    about = {
        "format": _FORMAT,
        "analysis": analyser.settings,
        "digest": passages.digest if isinstance(passages, Corpus) else digest.hexdigest()[:16],
        "passages": len(starts) - 1,
        "terms": starts[-1],
    }
    if folder is not None:
        np.save(folder / _STARTS, np.asarray(starts, np.int64), allow_pickle=False)
    return about, np.asarray(numbers, np.uint32), np.asarray(starts, np.int64)


def new_index(folder: Path | None) -> Any:
    """Create an empty index, in memory or in a folder."""
    tantivy = library()
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("terms", tokenizer_name="terms", index_option="freq")
    schema.add_unsigned_field("place", fast=True, indexed=True)
    schema.add_unsigned_field("key", indexed=True)
    schema.add_bytes_field("passage", stored=True)
    index = tantivy.Index(schema.build(), path=None if folder is None else str(folder))
    split = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    index.register_tokenizer("terms", split)
    return index


def open_index(
    folder: Path, about: Mapping[str, Any]
) -> tuple[Any, NDArray[np.uint32], NDArray[np.int64]]:
    """Open the index in a folder and map its term numbers and their starts."""
    try:
        index = library().Index.open(str(folder))
        starts = np.load(folder / _STARTS, mmap_mode="r", allow_pickle=False)
        if starts.shape != (about["passages"] + 1,) or starts[-1] != about["terms"]:
            raise ValueError(f"{_STARTS} is not of this index")
        size = about["terms"]
        forward: Any = np.zeros(0, np.uint32)
        if size:
            forward = np.memmap(folder / _FORWARD, np.uint32, mode="r", shape=(size,))
    except (ValueError, OSError) as error:
        raise EngineError(f"the index in {folder} is damaged ({error}): build it again") from error
    return index, forward, starts


class _Numbers(dict[str, int]):
    """Term → number, remembered for the terms seen first."""

    def __missing__(self, term: str) -> int:
        number = number_of(term)
        if len(self) < 1 << 20:
            self[term] = number
        return number


def key_of(kind: str, text: str) -> int:
    """Return 64 bits by which a passage is found: of its "id", its "url" or its "title"."""
    told = f"{kind}:{text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little")


def number_of(term: str) -> int:
    """Return 32 bits for a term; two terms of a language share them about once in four billion."""
    return int.from_bytes(
        hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little"
    )


def read_about(folder: Path, analyser: Analyser) -> dict[str, Any]:
    """Read what an index was built from; ``EngineError`` if it does not fit the analysis."""
    about = _parse_about(folder)
    if about["analysis"] != analyser.settings:
        raise EngineError(
            f"the index in {folder} was built with the analysis {about['analysis']}, not "
            f"{analyser.settings}: give these options, or build it again"
        )
    return about


def is_index(folder: str | Path) -> bool:
    """Return whether a folder holds an index of this engine."""
    return (Path(folder) / ABOUT).is_file()


def analysis_of(folder: str | Path) -> dict[str, Any]:
    """Return the arguments of ``Analyser`` with which the index in a folder was built.

    Raises:
        EngineError: there is no readable index, or it needs a token pattern, which is taken from
            the caller alone: one of a stranger may run for ever.
    """
    told = _parse_about(Path(folder))["analysis"]
    try:
        lowercase, pattern, stemmer, stopwords = json.loads(told)
    except (ValueError, TypeError) as error:
        raise EngineError(f"no readable Tantivy index in {folder}: {error}") from error
    if pattern != WORD:
        raise EngineError(f"the index in {folder} needs its own token pattern: give pattern=…")
    return {"lowercase": lowercase, "stemmer": stemmer, "stopwords": stopwords}


def _parse_about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="ascii"))
        if about["format"] != _FORMAT:
            raise ValueError(f"its format is {about['format']}, not {_FORMAT}; build it again")
        if about["passages"] < 1 or about["terms"] < 0:
            raise ValueError("it counts no passages")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"no readable Tantivy index in {folder}: {error}") from error
    return dict(about)


def word_of(analyser: Analyser, term: str) -> str:
    """Spell a term so that it holds no white space, by which Tantivy is told to split."""
    return term if analyser.pattern == WORD else quote(term, safe="", errors="surrogatepass")


def _text(passage: Passage) -> str:
    return f"{passage.title}\n{passage.text}"


def library() -> Any:
    """Import tantivy, or raise ``MissingExtraError``."""
    try:
        import tantivy
    except ImportError as error:
        raise MissingExtraError("the engine 'tantivy'", "tantivy") from error
    return tantivy
