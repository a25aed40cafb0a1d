"""One file to blocks: which reader serves which ending, and what must be installed for it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..lines import open_regular
from .blocks import TextBlock, pieces
from .encoding import Unreadable, decode
from .plain import pdf_blocks, plain_blocks
from .rows import csv_blocks, json_blocks

Pieces = list[tuple[str, str]]


class Format(NamedTuple):
    """A file format."""

    name: str
    blocks: Callable[[str], Iterator[TextBlock]] | None
    """Reads decoded text; None: reads bytes (see :func:`_blocks_of_bytes`)."""
    packages: tuple[str, ...] = ()
    """Modules of the extra "documents" that it needs."""


def _markdown(text: str) -> Iterator[TextBlock]:
    from .markup import markdown_blocks

    return markdown_blocks(text)


_TEXT = Format("text", plain_blocks)
_MARKDOWN = Format("Markdown", _markdown)
_HTML = Format("HTML", None, ("bs4", "lxml", "markdownify"))
_JSON = Format("JSON", json_blocks)
FORMATS = {
    ".txt": _TEXT, ".text": _TEXT, ".rst": _TEXT, ".log": _TEXT,
    ".md": _MARKDOWN, ".markdown": _MARKDOWN,
    ".html": _HTML, ".htm": _HTML, ".xhtml": _HTML,
    ".pdf": Format("PDF", None, ("pypdf",)),
    ".docx": Format("DOCX", None, ("mammoth", "bs4", "lxml", "markdownify")),
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
        Unreadable: with the reason.
    """
    form = format_of(path)
    if form is None:
        raise Unreadable(f"no reader for {path.suffix or 'files without an ending'}")
    try:
        raw = _bytes(path, max_bytes)
        if not raw.strip():
            raise Unreadable("empty")
        encoding = ""
        if form.blocks is None:
            blocks = _blocks_of_bytes(form, raw, max_bytes)
        else:
            text, encoding = decode(raw)
            blocks = form.blocks(text)
        passages = [(title, text) for title, text in pieces(blocks, words) if text.strip()]
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror or error}") from None
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


def _blocks_of_bytes(form: Format, raw: bytes, max_bytes: int) -> Iterator[TextBlock]:
    try:
        for package in form.packages:
            __import__(package)
    except ImportError:
        raise Unreadable(
            f'{form.name} needs an optional package: pip install "searchgym[documents]"'
        ) from None
    if form.name == "PDF":
        blocks = pdf_blocks(raw)
    else:
        from .markup import docx_blocks, html_blocks

        blocks = docx_blocks(raw, 10 * max_bytes) if form.name == "DOCX" else html_blocks(raw)
    return _reporting(form.name, blocks)


def _reporting(name: str, blocks: Iterator[TextBlock]) -> Iterator[TextBlock]:
    """A damaged file makes its library raise anything; it is left out, with what was said."""
    try:
        yield from blocks
    except (Unreadable, RecursionError, MemoryError):
        raise
    except Exception as error:
        raise Unreadable(f"not a {name} file that can be read: {error!r:.120}") from error
