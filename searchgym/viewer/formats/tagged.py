"""Text in Search-R1's tags, cut into turns: what the model wrote up to each block of results."""

from __future__ import annotations

import re

from ..record import Observation, ShownHit, ViewedTurn

_RESULTS = re.compile(r"<information>(.*?)(?:</information>|\Z)", re.DOTALL)
_ACTION = re.compile(r"<(search|answer|access)>(.*?)</\1>", re.DOTALL)
_DOC = re.compile(r"Doc (\d+)\s*\(Title: (.*?)\)\s?(.*?)(?=\n?Doc \d+\s*\(Title: |\Z)", re.DOTALL)
_CORRECTION = re.compile(r"\n?My previous action is invalid\..*?Let me try again\.\n?", re.DOTALL)
_NAMES = {"search": "Search", "answer": "Answer", "access": "Access"}


def turns_of(text: str) -> list[ViewedTurn]:
    """Turns of one transcript; each ends where the environment speaks."""
    turns: list[ViewedTurn] = []
    at = 0
    marks = sorted(
        [(m.start(), m.end(), "results", m.group(1)) for m in _RESULTS.finditer(text)]
        + [(m.start(), m.end(), "invalid", m.group()) for m in _CORRECTION.finditer(text)]
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
    found = _ACTION.findall(text)
    if not found:
        return ViewedTurn(number, text, "Invalid", "no closed action tag")
    tag, inside = found[-1]
    tools = (tag,) if tag != "answer" else ()
    return ViewedTurn(number, text, _NAMES[tag], inside.strip(), tools=tools)


def hits_of(results: str) -> list[ShownHit]:
    """Passages of a block of results; Search-R1 names them by title only."""
    return [ShownHit(title, title, body.strip()) for _, title, body in _DOC.findall(results)]


def answer_of(turns: list[ViewedTurn]) -> str:
    """The last answer given, or nothing."""
    return next((t.detail for t in reversed(turns) if t.action == "Answer"), "")
