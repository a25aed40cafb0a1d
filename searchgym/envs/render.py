"""Episodes for people: a plain transcript, coloured output in the terminal, a picture of text (what
video recorders take), and HTML for a page or a notebook."""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.episode import Episode
from ..errors import MissingExtraError
from ..types import Hit, Passage, Segment

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont


_LABELS = {
    "question": "QUESTION", "results": "RESULTS", "page": "PAGE", "missing": "NO SUCH PAGE",
    "invalid": "NOT AN ACTION", "stub": "PAGE (SHORTENED)", "task": "TASK", "report": "REPORT",
    "note": "NOTE",
}  # fmt: skip
_COLOURS = {"question": "bold cyan", "action": "bold yellow", "results": "white", "page": "white",
            "invalid": "bold red", "missing": "red"}  # fmt: skip
COLUMNS = 96
"""Columns of a terminal that a transcript fills."""


class ShownBlock(NamedTuple):
    """A segment of an episode as people read it."""

    kind: str
    """Kind of the segment: question, action, results, …"""
    label: str
    texts: tuple[str, ...]
    """Texts of the segment; of results, one for each passage."""
    hits: tuple[Hit, ...]


def blocks(episode: Episode) -> list[ShownBlock]:
    """Every segment of an episode, in order, instructions included."""
    return [_block(segment) for segment in episode.contexts.segments]


def transcript(episode: Episode) -> str:
    """The whole episode as plain text: question, turns, results, and how it ended."""
    lines = [f"── {heading(episode)} ──", ""]
    for block in blocks(episode):
        if block.kind != "instructions":
            lines += [block.label, *_body(block), ""]
    return "\n".join([*lines, *(text for text, _ in ending(episode))])


def heading(episode: Episode) -> str:
    """Task, turns and searches: "chain-12 · turn 1 of 8 · 1 search"."""
    task, rules = episode.config.task, episode.config.rules
    left, done = episode.queries_left, episode.queries
    searches = f"{done} search{'' if done == 1 else 'es'}"
    if left is not None:
        searches += f", {left} left"
    return f"{task.id} · turn {len(episode.turns)} of {rules.max_turns} · {searches}"


def _block(segment: Segment) -> ShownBlock:
    label = _LABELS.get(segment.kind, segment.kind.upper())
    if segment.kind == "action":
        label = "AGENT" if segment.context == 0 else f"AGENT (context {segment.context})"
    if not segment.visible:
        label += " (hidden)"
    texts: tuple[str, ...] = (segment.text.strip(),)
    if segment.hits:
        texts = tuple(_titled(hit.passage) for hit in segment.hits)
    return ShownBlock(segment.kind, label, texts, tuple(segment.hits))


def _titled(passage: Passage) -> str:
    title, text = passage.title, passage.text
    return text if not title or text.startswith(title) else f"{title}: {text}"


def _body(block: ShownBlock) -> list[str]:
    if not block.hits:
        return _wrap(block.texts[0], "   ")
    body: list[str] = []
    for i, hit in enumerate(block.hits, 1):
        body += _wrap(f"{i}. {hit.passage.title}  [{hit.score:.2f}]", "   ")
        body += _wrap(hit.passage.text, "      ")
    return body


def _wrap(text: str, indent: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        lines += textwrap.wrap(line, COLUMNS, initial_indent=indent, subsequent_indent=indent) or [
            ""
        ]
    return lines


def ending(episode: Episode) -> list[tuple[str, bool]]:
    """Return an episode's end in words, and whether that is good; empty before its end."""
    outcome = episode.outcome()
    if outcome is None:
        return []
    task = episode.config.task
    right = f"Right: {' / '.join(task.answers[:3])}"
    if outcome.end == "unanswered":
        return [(f"NO ANSWER. {right}", False)]
    if outcome.end != "answered":
        return [(f"TRUNCATED ({outcome.end}). {right}", False)]
    verdict = "RIGHT" if outcome.parts["em"] else f"WRONG (F1 {outcome.parts['f1']:.2f})"
    told = f"{verdict}: {outcome.answer!r}"
    if outcome.answer not in task.answers:
        told += f". {right}"
    return [(told, bool(outcome.parts["em"]))]


def print_turn(episode: Episode) -> None:
    """Print what is new since the last action, coloured, through rich."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(width=COLUMNS + 8, highlight=False, emoji=False)
    segments = episode.contexts.segments
    new = segments
    if episode.turns:
        actions = [i for i, s in enumerate(segments) if s.author == "policy"]
        new = segments[actions[-1] :]
    console.print(f"[dim]── {escape(heading(episode))} ──[/dim]")
    for block in map(_block, new):
        if block.kind == "instructions":
            continue
        colour = _COLOURS.get(block.kind, "white")
        console.print(f"[{colour}]{escape(block.label)}[/{colour}]")
        console.print(escape("\n".join(_body(block))))
    for line, good in ending(episode):
        colour = "bold green" if good else "bold red"
        console.print(f"[{colour}]{escape(line)}[/{colour}]")


WIDTH, HEIGHT = 960, 720
"""Pixels of every frame; recorders want them all alike."""
_MARGIN, _LINE, _SIZE, _SMALL = 28, 25, 18, 15
_PAPER, _INK, _MUTED, _RULE = "#faf9f7", "#1c1b19", "#5d594f", "#dcd8d0"
_INKS = {"question": "#0a58a6", "action": "#7d4a00", "invalid": "#a8201a", "missing": "#a8201a"}
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
    yield _Line(block.label, _INKS.get(block.kind, _MUTED), True, 0)
    for text in block.texts:
        lines = list(_wrapped(text))
        if len(lines) > _MOST and block.kind not in ("question", "action"):
            lines[_MOST - 1 :] = [f"{lines[_MOST - 1]} …"]
        for number, line in enumerate(lines):
            yield _Line(line, _INK, False, 18 if number == 0 else 30)


def _wrapped(text: str) -> Iterator[str]:
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


def page(episode: Episode) -> str:
    """An episode as an HTML page that needs no other file: question, turns, passages (those of the
    evidence marked), rewards, how it ended.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    whole: str = _templates().standalone("episode_page.html", **_parts(episode))
    return whole


def card(env: Any) -> str:
    """A ``SearchEnv`` as a fragment of HTML: its set, its rules, and the current episode."""
    from ..web.pages import asset

    rules, setup = env.rules, env.setup
    facts = {
        "questions": f"{len(env.tasks):,}",
        "passages": f"{len(env.corpus):,} of {env.corpus.name}",
        "engine": env.engine.fingerprint.partition(":")[0],
        "tools": ", ".join(tool.name for tool in rules.tools),
        "passages per search": str(rules.k),
        "turns": str(rules.max_turns),
        "dialect": rules.dialect,
        "split": setup.options.split,
    }
    templates = _templates()
    fragment: str = templates.environment.get_template("environment_card.html").render(
        name=type(env).__name__, facts=facts, css=asset("episode.css"),
        **(_parts(env.episode) if env._episode is not None else {}),
    )  # fmt: skip
    return fragment


def _templates() -> Any:
    from ..web.pages import Templates

    return Templates(styles=["episode.css"])


def _parts(episode: Episode) -> dict[str, Any]:
    question, *rest = [block for block in blocks(episode) if block.kind != "instructions"]
    return {
        "heading": heading(episode), "question": question, "blocks": rest,
        "turns": episode.turns, "ending": ending(episode),
        "evidence": frozenset(episode.config.task.evidence),
    }  # fmt: skip
