"""Plain text, reStructuredText and PDF."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from typing import Any

from .blocks import TextBlock, outlined
from .encoding import Unreadable

_UNDERLINE = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}")


def plain_blocks(text: str) -> Iterator[TextBlock]:
    """Paragraphs with their lines as they are. A line above a line of marks of its length is a
    heading; the mark that came first is the outermost, as in reStructuredText."""
    return outlined(_items(text.replace("\f", "\n\n").splitlines()))


def _items(lines: list[str]) -> Iterator[tuple[int, str]]:
    levels, held = dict[str, int](), list[str]()
    for i, raw in enumerate(lines):
        line = raw.rstrip()
        below = lines[i + 1].strip() if i + 1 < len(lines) else ""
        mark = _UNDERLINE.fullmatch(below)
        bare = line.strip()
        rule = _UNDERLINE.fullmatch(bare)
        heading = mark and not held and not rule and 0 < len(bare) <= len(below) + 2
        if not bare or rule or heading:
            if held:
                yield 0, "\n".join(held)
                held = []
            if heading and mark:
                yield levels.setdefault(mark[1], len(levels) + 1), bare
        else:
            held.append(line)
    if held:
        yield 0, "\n".join(held)


def pdf_blocks(raw: bytes) -> Iterator[TextBlock]:
    """The text of every page of a PDF file, a section each.

    Raises:
        Unreadable: it is encrypted, damaged, or holds no text (scanned pages).
    """
    import pypdf
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of every small repair
    try:
        pages, title = _pages(pypdf.PdfReader(io.BytesIO(raw)))
    except PyPdfError as error:
        raise Unreadable(f"not a PDF file that can be read: {error}") from None
    if not any(page.strip() for page in pages):
        raise Unreadable(f"its {len(pages)} pages hold no text (scanned pages need OCR first)")
    for number, page in enumerate(pages, 1):
        name = f"{title} › page {number}" if title else f"page {number}"
        for paragraph in re.split(r"\n\s*\n", page):
            if paragraph.strip():
                yield TextBlock(number, name if len(pages) > 1 else title, paragraph.strip("\n"))


def _pages(reader: Any) -> tuple[list[str], str]:
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("encrypted: save it without a password")
    title = str((reader.metadata.title if reader.metadata else "") or "").strip()
    return [page.extract_text() for page in reader.pages], title
