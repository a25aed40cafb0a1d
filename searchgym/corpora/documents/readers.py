"""One file to blocks: which reader serves which ending, and what must be installed for it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ...errors import MissingExtraError
from ..lines import open_regular
from .blocks import TextBlock, pieces
from .encoding import CannotReadNow, Unreadable, decode
from .plain import pdf_blocks, plain_blocks
from .rows import csv_blocks, json_blocks

Pieces = list[tuple[str, str]]
_SOFT_HYPHEN = "\u00ad"


class Format(NamedTuple):
    """A file format."""

    name: str
    blocks: Callable[[str], Iterator[TextBlock]] | None
    """Reads decoded text; None: reads bytes (see :func:`_blocks_of_bytes`)."""
    packages: tuple[str, ...] = ()
    """Modules of the extra "documents" that it needs."""


def _markdown(text: str) -> Iterator[TextBlock]:
    from .markdown import markdown_blocks

    return markdown_blocks(text)


_TEXT = Format("text", plain_blocks)
_MARKDOWN = Format("Markdown", _markdown)
_HTML = Format("HTML", None, ("lxml",))
_JSON = Format("JSON", json_blocks)
FORMATS = {
    ".txt": _TEXT, ".text": _TEXT, ".rst": _TEXT, ".log": _TEXT,
    ".md": _MARKDOWN, ".markdown": _MARKDOWN,
    ".html": _HTML, ".htm": _HTML, ".xhtml": _HTML,
    ".pdf": Format("PDF", None, ("pypdf",)),
    ".docx": Format("DOCX", None, ("lxml",)),
    ".csv": Format("CSV", csv_blocks),
    ".tsv": Format("TSV", lambda text: csv_blocks(text, "\t")),
    ".json": _JSON, ".jsonl": _JSON, ".ndjson": _JSON,
}  # fmt: skip
"""Ending → format. A text format's file may be gzipped (``notes.csv.gz``)."""


class ParsedFile(NamedTuple):
    """Result of reading a file."""

    format: str
    encoding: str
    """Empty for formats that are not text."""
    pieces: Pieces
    """(title, text) of its passages; the title may be empty."""


def format_of(path: Path) -> Format | None:
    """The format that a file's name says; None for one that is not read."""
    form = FORMATS.get(Path(path.name.lower().removesuffix(".gz")).suffix)
    packed = path.name.lower().endswith(".gz")
    return None if packed and form is not None and form.blocks is None else form


def parse(path: Path, *, words: int, max_bytes: int) -> ParsedFile:
    """Read one file.

    Raises:
        Unreadable: with the reason; ``CannotReadNow`` if that is not the file.
        MemoryError: there is too little.
    """
    form = format_of(path)
    if form is None:
        raise Unreadable(f"no reader for {path.suffix or 'files without an ending'}")
    try:
        raw = _bytes(path, max_bytes)
        if not raw.strip():
            raise Unreadable("empty")
        if form.blocks is None:
            blocks, encoding = _blocks_of_bytes(form, raw, max_bytes)
        else:
            text, encoding = decode(raw)
            blocks = form.blocks(text)
        passages = [
            (title.replace(_SOFT_HYPHEN, ""), text.replace(_SOFT_HYPHEN, ""))
            for title, text in pieces(blocks, words)
            if text.strip()
        ]
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    except OSError as error:
        raise CannotReadNow(f"cannot be read: {error.strerror or error}") from None
    except (Unreadable, MemoryError):
        raise
    except Exception as error:  # a damaged file makes a library raise anything
        if form.blocks is not None:
            raise
        if "memory" in str(error).lower():
            raise MemoryError from error
        raise Unreadable(f"not a {form.name} file that can be read: {error!r:.120}") from error
    if not passages:
        raise Unreadable("holds no text")
    return ParsedFile(form.name, encoding, passages)


def _bytes(path: Path, most: int) -> bytes:
    with open_regular(path) as file:
        raw = file.read(most + 1)
        if len(raw) > most:
            size = path.stat().st_size
            raise Unreadable(f"too large ({size:,} bytes, limit {most:,})")
        if not path.name.lower().endswith(".gz"):
            return raw
        file.seek(0)
        try:
            unpacked = gzip.GzipFile(fileobj=file).read(most + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise Unreadable(f"broken compression: {error}") from None
    if len(unpacked) > most:
        raise Unreadable(f"unpacks to more than {most:,} bytes")
    return unpacked


def _blocks_of_bytes(form: Format, raw: bytes, max_bytes: int) -> tuple[Iterator[TextBlock], str]:
    """Blocks, and the encoding of a page."""
    try:
        for package in form.packages:
            __import__(package)
    except ImportError:
        raise CannotReadNow(str(MissingExtraError(form.name, "documents"))) from None
    encoding = ""
    if form.name == "PDF":
        blocks = pdf_blocks(raw)
    elif form.name == "DOCX":
        from .word import docx_blocks

        blocks = docx_blocks(raw, 10 * max_bytes)
    else:
        from .web_page import html_blocks

        blocks, encoding = html_blocks(raw)
    return blocks, encoding
