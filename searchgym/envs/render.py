"""Episodes for people: a plain transcript, and coloured output in the terminal."""

from __future__ import annotations

import textwrap

from ..core.episode import Episode
from ..types import Segment

_LABELS = {
    "question": "QUESTION", "results": "RESULTS", "page": "PAGE", "missing": "NO SUCH PAGE",
    "invalid": "NOT AN ACTION", "stub": "PAGE (SHORTENED)", "task": "TASK", "report": "REPORT",
    "note": "NOTE",
}  # fmt: skip
_COLOURS = {"question": "bold cyan", "action": "bold yellow", "results": "white", "page": "white",
            "invalid": "bold red", "missing": "red"}  # fmt: skip
WIDTH = 96


def transcript(episode: Episode) -> str:
    """The whole episode as plain text: question, turns, results, and how it ended."""
    lines = [_heading(episode), ""]
    for segment in episode.contexts.segments:
        if segment.kind != "instructions":
            lines += [*_block(episode, segment), ""]
    return "\n".join([*lines, *_ending(episode)])


def _heading(episode: Episode) -> str:
    task, rules = episode.config.task, episode.config.rules
    left = episode.queries_left
    searches = "unlimited" if left is None else str(left)
    return (
        f"── {task.id} · turn {len(episode.turns)} of {rules.max_turns} · "
        f"{episode.queries} queries so far, {searches} left ──"
    )


def _block(episode: Episode, segment: Segment) -> list[str]:
    label = _LABELS.get(segment.kind, segment.kind.upper())
    if segment.kind == "action":
        label = "AGENT" if segment.context == 0 else f"AGENT (context {segment.context})"
    if not segment.visible:
        label += " (hidden)"
    if segment.hits:
        body: list[str] = []
        for i, hit in enumerate(segment.hits, 1):
            body += _wrap(f"{i}. {hit.passage.title}  [{hit.score:.2f}]", "   ")
            body += _wrap(hit.passage.text, "      ")
    else:
        body = _wrap(segment.text.strip(), "   ")
    return [label, *body]


def _wrap(text: str, indent: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        lines += textwrap.wrap(line, WIDTH, initial_indent=indent, subsequent_indent=indent) or [""]
    return lines


def _ending(episode: Episode) -> list[str]:
    outcome = episode.outcome()
    if outcome is None:
        return []
    task = episode.config.task
    if outcome.end == "unanswered":
        return [f"NO ANSWER. Right: {' / '.join(task.answers[:3])}"]
    if outcome.end != "answered":
        return [f"TRUNCATED ({outcome.end}). Right: {' / '.join(task.answers[:3])}"]
    verdict = "RIGHT" if outcome.parts["em"] else f"WRONG (F1 {outcome.parts['f1']:.2f})"
    right = "" if outcome.answer in task.answers else f". Right: {' / '.join(task.answers[:3])}"
    return [f"{verdict}: {outcome.answer!r}{right}"]


def print_turn(episode: Episode) -> None:
    """Print what is new since the last action, coloured, through rich."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(width=WIDTH + 8, highlight=False)
    segments = episode.contexts.segments
    new = segments
    if episode.turns:
        actions = [i for i, s in enumerate(segments) if s.author == "policy"]
        new = segments[actions[-1] :]
    console.print(f"[dim]{escape(_heading(episode))}[/dim]")
    for segment in new:
        if segment.kind == "instructions":
            continue
        label, *body = _block(episode, segment)
        colour = _COLOURS.get(segment.kind, "white")
        console.print(f"[{colour}]{escape(label)}[/{colour}]")
        console.print(escape("\n".join(body)))
    for line in _ending(episode):
        colour = "bold green" if line.startswith("RIGHT") else "bold red"
        console.print(f"[{colour}]{escape(line)}[/{colour}]")
