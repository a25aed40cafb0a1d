"""Episodes for people: a plain transcript, and coloured output in the terminal."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from ..core.episode import Episode
from ..types import Hit, Passage, Segment

_LABELS = {
    "question": "QUESTION", "results": "RESULTS", "page": "PAGE", "missing": "NO SUCH PAGE",
    "invalid": "NOT AN ACTION", "stub": "PAGE (SHORTENED)", "task": "TASK", "report": "REPORT",
    "note": "NOTE",
}  # fmt: skip
_COLOURS = {"question": "bold cyan", "action": "bold yellow", "results": "white", "page": "white",
            "invalid": "bold red", "missing": "red"}  # fmt: skip
WIDTH = 96


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
    """The text of a passage, after its title unless it begins with that."""
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
        lines += textwrap.wrap(line, WIDTH, initial_indent=indent, subsequent_indent=indent) or [""]
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

    console = Console(width=WIDTH + 8, highlight=False, emoji=False)
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
