"""Text in Search-R1's tags, cut into turns: what the model wrote up to each block of results."""

from __future__ import annotations

import re

from ..record import Observation, ShownHit, ViewedTurn

_RESULTS = re.compile(r"<information>(.*?)(?:</information>|\Z)", re.DOTALL)
_OPENING = re.compile(r"<(search|answer|access)>")
_DOC = re.compile(r"Doc \d+\s*\(Title: ")
_INVALID, _AGAIN = "My previous action is invalid.", "Let me try again."
_NAMES = {"search": "Search", "answer": "Answer", "access": "Access"}


def turns_of(text: str) -> list[ViewedTurn]:
    """Turns of one transcript; each ends where the environment speaks."""
    turns: list[ViewedTurn] = []
    at = 0
    marks = sorted(
        [(m.start(), m.end(), "results", m.group(1)) for m in _RESULTS.finditer(text)]
        + [(start, end, "invalid", text[start:end]) for start, end in _corrections(text)]
    )
    for start, end, kind, said in marks:
        if start < at:  # words of a correction within a passage
            continue
        turn = turn_of(len(turns), text[at:start].strip("\n"))
        turn.observations.append(Observation(kind, said.strip("\n")))
        if kind == "results":
            turn.hits = hits_of(said)
        turns.append(turn)
        at = end
    if text[at:].strip():
        turns.append(turn_of(len(turns), text[at:].strip("\n")))
    return turns


def turn_of(number: int, text: str) -> ViewedTurn:
    """Turn of a text that the model wrote in one go; its last complete action counts."""
    action = last_action(text)
    if action is None:
        return ViewedTurn(number, text, "Invalid", "no closed action tag")
    tag, inside = action
    tools = (tag,) if tag != "answer" else ()
    return ViewedTurn(number, text, _NAMES[tag], inside.strip(), tools=tools)


def last_action(text: str) -> tuple[str, str] | None:
    """Tag and content of the last closed action; linear in the text, however many tags it holds."""
    action, at = None, 0
    unclosed: set[str] = set()
    for opening in _OPENING.finditer(text):
        tag = opening.group(1)
        if opening.start() < at or tag in unclosed:
            continue
        end = text.find(f"</{tag}>", opening.end())
        if end < 0:  # nor is any later one of its kind closed
            unclosed.add(tag)
            continue
        action, at = (tag, text[opening.end() : end]), end
    return action


def _corrections(text: str) -> list[tuple[int, int]]:
    """Begin and end of each correction by the environment, with the line feeds around it."""
    spans: list[tuple[int, int]] = []
    at = 0
    while (start := text.find(_INVALID, at)) >= 0:
        end = text.find(_AGAIN, start)
        if end < 0:
            break
        at = end + len(_AGAIN)
        before = start > 0 and text[start - 1] == "\n"
        spans.append((start - before, at + text.startswith("\n", at)))
    return spans


def hits_of(results: str) -> list[ShownHit]:
    """Passages of a block of results; Search-R1 names them by title only."""
    headings = list(_DOC.finditer(results))
    ends = [*(heading.start() for heading in headings[1:]), len(results)]
    hits = []
    for heading, end in zip(headings, ends, strict=False):
        title, closed, body = results[heading.end() : end].partition(")")
        if closed:
            hits.append(ShownHit(title, title, body.strip()))
    return hits


def answer_of(turns: list[ViewedTurn]) -> str:
    """The last answer given, or nothing."""
    return next((t.detail for t in reversed(turns) if t.action == "Answer"), "")
