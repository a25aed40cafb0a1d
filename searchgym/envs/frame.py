"""An episode as a picture of text, for ``render_mode="rgb_array"``: what video recorders take."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.episode import Episode
from ..errors import MissingExtraError
from .render import ShownBlock, blocks, ending, heading

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

WIDTH, HEIGHT = 960, 720
"""Pixels of every frame; recorders want them all alike."""
_MARGIN, _LINE, _SIZE, _SMALL = 28, 25, 18, 15
_PAPER, _INK, _MUTED, _RULE = "#faf9f7", "#1c1b19", "#5d594f", "#dcd8d0"
_COLOURS = {"question": "#0a58a6", "action": "#7d4a00", "invalid": "#a8201a", "missing": "#a8201a"}
_GOOD, _BAD = "#166534", "#a8201a"
_MOST = 2
"""Lines of a passage or a note."""
_LONGEST, _CHARACTERS = 400, 8_000
"""Characters of a line at most, and of a text that a whole picture could hold."""


class _Line(NamedTuple):
    text: str
    colour: str
    small: bool
    indent: int


def frame(episode: Episode) -> NDArray[np.uint8]:
    """Draw an episode: the question above, the newest turns below it, how it ended.

    Returns:
        (720, 960, 3) array of red, green and blue, 0 to 255. Equal episodes give equal arrays.

    Raises:
        MissingExtraError: Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:  # pragma: no cover - exercised without the extra
        raise MissingExtraError("render_mode='rgb_array' (Pillow)", "view") from error
    image = Image.new("RGB", (WIDTH, HEIGHT), _PAPER)
    draw = ImageDraw.Draw(image)
    question, *rest = [block for block in blocks(episode) if block.kind != "instructions"]
    top = [_Line(heading(episode), _MUTED, True, 0), *_lines(question)]
    last = [_Line(text, _GOOD if good else _BAD, False, 0) for text, good in ending(episode)]
    below = [line for block in rest for line in _lines(block)] + last
    y = _write(draw, top, _MARGIN)
    draw.line((_MARGIN, y + 5, WIDTH - _MARGIN, y + 5), fill=_RULE, width=1)
    y += 12
    room = (HEIGHT - _MARGIN - y) // _LINE
    if len(below) > room:  # the newest stays in sight
        above = len(below) - room + 1
        below = [_Line(f"… {above} lines above", _MUTED, True, 0), *below[-(room - 1) :]]
    _write(draw, below, y)
    return np.asarray(image, dtype=np.uint8).copy()


def _lines(block: ShownBlock) -> Iterator[_Line]:
    """A block as lines that fit the picture; passages are cut, what the agent wrote is not."""
    yield _Line(block.label, _COLOURS.get(block.kind, _MUTED), True, 0)
    for text in block.texts:
        lines = list(_wrapped(text))
        if len(lines) > _MOST and block.kind not in ("question", "action"):
            lines[_MOST - 1 :] = [f"{lines[_MOST - 1]} …"]
        for number, line in enumerate(lines):
            yield _Line(line, _INK, False, 18 if number == 0 else 30)


def _wrapped(text: str) -> Iterator[str]:
    """Lines of a text that are no wider than the picture."""
    room, font = WIDTH - 2 * _MARGIN - 50, _font(_SIZE)
    line = ""
    for word in text[:_CHARACTERS].split():
        while len(word) >= _LONGEST or font.getlength(word) > room:  # longer than a line
            cut = bisect_right(
                range(1, _LONGEST), room, key=lambda n: int(font.getlength(word[:n]))
            )
            cut = max(1, cut)
            if line:
                yield line
                line = ""
            yield word[:cut]
            word = word[cut:]
        longer = f"{line} {word}" if line else word
        if font.getlength(longer) <= room:
            line = longer
        else:
            yield line
            line = word
    yield line


def _write(draw: Any, lines: list[_Line], y: int) -> int:
    for line in lines:
        size = _SMALL if line.small else _SIZE
        draw.text((_MARGIN + line.indent, y), line.text, fill=line.colour, font=_font(size))
        y += _LINE
    return y


@cache
def _font(size: int) -> FreeTypeFont:
    """The font that Pillow brings, so that pictures are alike on every machine."""
    from PIL import ImageFont

    return ImageFont.load_default(size)  # type: ignore[return-value]
