"""Blocks of a document (paragraphs, lists, tables) under their headings, packed into passages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...text import UNSPACED

BETWEEN = " › "
"""Stands between a heading and the one below it in a passage's title."""
_UNIT = re.compile(rf"(?<!\s)\s*+(?:[{UNSPACED}]|[^\s{UNSPACED}]+)")
_PACKED = re.compile(f"[{UNSPACED}]")


class TextBlock(NamedTuple):
    """A paragraph, list, table or row."""

    section: int
    """Number of the section; a passage never holds blocks of two."""
    title: str
    """Headings above it, outermost first; may be empty."""
    text: str


def outlined(items: Iterable[tuple[int, str]], top: str = "") -> Iterator[TextBlock]:
    """Blocks of a document given as its headings (their level from 1, and the text) and its other
    texts (0, and the text). A heading with nothing below it is a block itself.

    Args:
        top: Title above all headings.
    """
    above: list[tuple[int, str]] = [(0, top)] if top else []
    section, title, lone = 0, top, (0, "")
    for level, text in items:
        if not level:
            lone = (0, "")
            yield TextBlock(section, title, text)
            continue
        if lone[1] and level <= lone[0]:
            yield TextBlock(section, title, lone[1])
        above = [(at, name) for at, name in above if at < level]
        section += 1
        if text:
            above.append((level, text))
        title, lone = BETWEEN.join(name for _, name in above), (level, text)
    if lone[1]:
        yield TextBlock(section, title, lone[1])


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
