"""Blocks of a document (paragraphs, lists, tables) under their headings, packed into passages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...text import UNSPACED

BETWEEN = " › "
"""Stands between a heading and the one below it in a passage's title."""
_UNIT = re.compile(rf"\s*(?:[{UNSPACED}]|[^\s{UNSPACED}]+)")
_PACKED = re.compile(f"[{UNSPACED}]")


class TextBlock(NamedTuple):
    """A paragraph, list, table or row."""

    section: int
    """Number of the section; a passage never holds blocks of two."""
    title: str
    """Headings above it, outermost first; may be empty."""
    text: str


class Outline:
    """The headings above what is being read, and the number of the section.

    The headings of a section are kept by their level, from 1.
    """

    def __init__(self, top: str = "") -> None:
        self._open: list[tuple[int, str]] = [(0, top)] if top else []
        self.section = 0

    def heading(self, level: int, text: str) -> None:
        """Begin a section: headings of this level and deeper ones end."""
        self._open = [(at, name) for at, name in self._open if at < level]
        self.section += 1
        if text:
            self._open.append((level, text))

    def block(self, text: str) -> TextBlock:
        return TextBlock(self.section, BETWEEN.join(name for _, name in self._open), text)


def pieces(blocks: Iterable[TextBlock], words: int) -> Iterator[tuple[str, str]]:
    """(title, text) of passages: whole blocks packed up to ``words`` words, longer ones cut at line
    ends, and longer lines between words. Two characters of a script without blanks are a word."""
    section, title, held, size = -1, "", list[str](), 0
    for block in blocks:
        if block.section != section and held:
            yield title, "\n".join(held)
            held, size = [], 0
        section, title = block.section, block.title
        for part, part_size in _parts(block.text, 2 * words):
            if held and size + part_size > 2 * words:
                yield title, "\n".join(held)
                held, size = [], 0
            held.append(part)
            size += part_size
    if held:
        yield title, "\n".join(held)


def _parts(text: str, most: int) -> Iterator[tuple[str, int]]:
    """Pieces of a block and their sizes in half words."""
    units = _UNIT.findall(text)
    sizes = [1 if _PACKED.search(unit) else 2 for unit in units]
    if sum(sizes) <= most:
        if units:
            yield text.strip("\n").rstrip(), sum(sizes)
        return
    if "\n" in text.strip():
        for line in text.splitlines():
            yield from _parts(line, most)
        return
    held, size = list[str](), 0
    for unit, one in zip(units, sizes, strict=True):
        if held and size + one > most:
            yield "".join(held).strip(), size
            held, size = [], 0
        held.append(unit)
        size += one
    yield "".join(held).strip(), size
