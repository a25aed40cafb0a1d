"""An episode as an animated SVG that needs no script: for the start page.

Everything is readable in the still picture, with which the animation also begins; then the turns
come one after the other. Who prefers reduced motion sees the still picture alone.
"""

from __future__ import annotations

import textwrap
from html import escape
from typing import NamedTuple

from searchgym.errors import DataError
from searchgym.viewer.record import OUTCOMES, Record, ViewedTurn
from searchgym.web.pages import plain

WIDTH = 860
MOST_TURNS = 6
_EDGE, _INSET, _LINE, _GAP = 28, 20, 22, 14
_CHARS = 92
"""Characters of a line of passage text; of the question fewer, since its letters are larger."""
_STILL, _EACH, _HOLD = 1.5, 2.2, 4.0
"""Seconds of the still picture, for each turn, and of the whole episode at the end."""
_STYLE = """
svg { --paper: #ffffff; --ink: #1f2328; --muted: #59636e; --line: #d1d9e0; --act: #9a5b00;
  --soft: #fff6e5; --good: #116329; --gold: #e6f4ea; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { svg { --paper: #0d1117; --ink: #e6edf3; --muted: #9198a1;
  --line: #3d444d; --act: #f0b45a; --soft: #2a2113; --good: #6fd08c; --gold: #12301d;
  --bad: #ff8f86; } }
text { font: 15px system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif;
  fill: var(--ink); white-space: pre; }
.paper { fill: var(--paper); stroke: var(--line); } .act { fill: var(--soft); }
.gold { fill: var(--gold); } .rule { stroke: var(--line); stroke-width: 3; }
.question { font-size: 19px; font-weight: 600; } .small { font-size: 12.5px; fill: var(--muted); }
.number { font-size: 12.5px; font-weight: 700; fill: var(--muted); }
.said { font: 14.5px ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", monospace;
  fill: var(--act); } .title { font-weight: 600; } .evidence { fill: var(--good); }
.verdict { font-size: 17px; font-weight: 650; } .good { fill: var(--good); }
.bad { fill: var(--bad); }
"""


class _Part(NamedTuple):
    """Elements that appear together, and the height that they take."""

    body: str
    height: int


def animated(record: Record) -> str:
    """An episode as an animated SVG: the question, each turn with what it found, the verdict."""
    if not record.turns:
        raise DataError("no turn was played in this episode: there is nothing to animate")
    shown = record.turns
    if len(shown) > MOST_TURNS:
        shown = [*shown[: MOST_TURNS - 1], shown[-1]]
    asked = [(line, "question") for line in _wrapped(record.question, 66, 3)]
    following = [turn.detail for turn in shown[1:]] + [""]
    parts = [_turn(turn, record, then) for turn, then in zip(shown, following, strict=True)]
    parts[-1] = _joined(parts[-1], _verdict(record))
    y = _EDGE + 8
    head = []
    for line, style in asked:
        y += 26
        head.append(f'<text class="{style}" x="{_EDGE}" y="{y - 8}">{line}</text>')
    y += _GAP
    placed = []
    for number, part in enumerate(parts):
        placed.append(f'<g class="turn t{number}" transform="translate(0 {y})">{part.body}</g>')
        y += part.height + _GAP
    height = y + _EDGE - _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-labelledby="t d">\n'
        f'<title id="t">An episode of {len(record.turns)} turns</title>\n'
        f'<desc id="d">{_told(record)}</desc>\n<style>{_STYLE}{_motion(len(parts))}</style>\n'
        f'<rect class="paper" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>\n'
        + "\n".join([*head, *placed])
        + "\n</svg>\n"
    )


def _motion(turns: int) -> str:
    """Keyframes for each turn: seen, gone, seen again from its own moment on."""
    total = _STILL + _EACH * turns + _HOLD
    rules = [f".turn {{ animation: {total:.1f}s linear infinite; }}"]
    for number in range(turns):
        gone = 100 * _STILL / total
        come = 100 * (_STILL + 0.5 + _EACH * number) / total
        rules.append(
            f".t{number} {{ animation-name: t{number}; }} @keyframes t{number} {{ "
            f"0%, {gone:.1f}% {{ opacity: 1; }} {gone + 2:.1f}%, {come + 2:.1f}% {{ opacity: 0; }} "
            f"{come + 5:.1f}%, 100% {{ opacity: 1; }} }}"
        )
    return "@media (prefers-reduced-motion: no-preference) {\n" + "\n".join(rules) + "\n}\n"


def _turn(turn: ViewedTurn, record: Record, then: str) -> _Part:
    """Text that the agent wrote, and the passage that mattered: the first of the evidence, else the
    first; from the sentence on that names what the agent did ``then``."""
    said = _wrapped(" ".join(turn.text.split()), 78, 2)
    tall = 14 + _LINE * len(said)
    inner = WIDTH - 2 * _EDGE
    body = [
        f'<rect class="act" x="{_EDGE}" y="0" width="{inner}" height="{tall}" rx="6"/>',
        f'<text class="number" x="{_EDGE + 10}" y="23">{turn.number + 1}</text>',
    ]
    for i, line in enumerate(said):
        body.append(f'<text class="said" x="{_EDGE + 34}" y="{23 + _LINE * i}">{line}</text>')
    y = tall + 6
    hit = next((hit for hit in turn.hits if hit.id in record.evidence), None)
    gold, hit = hit is not None, hit or next(iter(turn.hits), None)
    if hit is not None and (hit.text or hit.title):
        clues = [clue for clue in (then, *record.answers) if len(clue) > 2]
        text = " ".join(hit.text.split()) or hit.title
        clue = next((clue for clue in clues if clue in text), "")
        lines = _wrapped(_from(text, clue), _CHARS, 2)
        if clue:
            strong = f'<tspan class="title">{_safe(clue, 200)}</tspan>'
            lines = [line.replace(_safe(clue, 200), strong) for line in lines]
        high = 10 + _LINE * (len(lines) + 1)
        rule = f'<path class="rule" d="M{_EDGE + 12} {y} v{high}"/>'
        if gold:
            rule += (
                f'<rect class="gold" x="{_EDGE + 14}" y="{y}" width="{inner - 14}" '
                f'height="{high}" rx="4"/>'
            )
        more = f" and {len(turn.hits) - 1} more passages" if len(turn.hits) > 1 else ""
        chip = '<tspan class="evidence">  ✓ evidence</tspan>' if gold else ""
        body += [
            rule,
            f'<text class="small" x="{_EDGE + 24}" y="{y + 19}"><tspan class="title">'
            f"{_safe(hit.title, 60)}</tspan>{_safe(more, 40)}{chip}</text>",
        ]
        for i, line in enumerate(lines, 1):
            body.append(f'<text x="{_EDGE + 24}" y="{y + 20 + _LINE * i}">{line}</text>')
        y += high
    return _Part("".join(body), y)


def _verdict(record: Record) -> _Part:
    good = record.outcome == "right"
    told = f"{'✓' if good else '✗'} {OUTCOMES[record.outcome]}"
    if not good and record.answers:
        told += f": expected {record.answers[0]}"
    reward = "" if record.reward is None else f"   reward {record.reward:.2f}"
    return _Part(
        f'<text class="verdict {"good" if good else "bad"}" x="{_EDGE}" y="20">{_safe(told, 70)}'
        f'<tspan class="small">{_safe(reward, 30)}</tspan></text>',
        26,
    )


def _joined(above: _Part, below: _Part) -> _Part:
    moved = f'<g transform="translate(0 {above.height + 8})">{below.body}</g>'
    return _Part(above.body + moved, above.height + 8 + below.height)


def _from(text: str, clue: str) -> str:
    """The text, from the sentence on that holds the clue where that comes late."""
    at = text.find(clue) if clue else 0
    if at + len(clue) < _CHARS:
        return text
    return "… " + text[text.rfind(". ", 0, at) + 1 :].strip() if ". " in text[:at] else text


def _wrapped(text: str, width: int, most: int) -> list[str]:
    """Wrap to at most ``most`` lines, escaped; the last ends in an ellipsis where more follows."""
    lines = textwrap.wrap(plain(text, 2000), width, max_lines=most, placeholder=" …")
    return [escape(line) for line in lines] or [""]


def _safe(text: str, most: int) -> str:
    return escape(plain(text, most))


def _told(record: Record) -> str:
    """The episode in words, for those who hear it."""
    turns = " ".join(
        f"Turn {t.number + 1}: {' '.join(t.text.split())[:200]}." for t in record.turns
    )
    return escape(plain(f"{record.question} {turns} Outcome: {OUTCOMES[record.outcome]}.", 2000))
