"""Search-R1: the episodes that its reward function prints into the log of a run, and the rollouts
that verl writes one a line (``trainer.rollout_data_dir``: input, output, gts, score, step)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...text import exact_match
from ..record import Observation, Record, ShownHit, ViewedTurn

NAME = "search_r1"
_RESULTS = re.compile(r"<information>(.*?)(?:</information>|\Z)", re.DOTALL)
_TAG = re.compile(r"<(search|answer|access)>")
_DOC = re.compile(r"Doc \d+\s*\(Title: ")
_INVALID, _AGAIN = "My previous action is invalid.", "Let me try again."
_NAMES = {"search": "Search", "answer": "Answer", "access": "Access"}
_QUESTION = re.compile(r"Question:\s*(.*?)(?:<\|im_end\|>|\n|\Z)", re.DOTALL)
_PREFIX = re.compile(rb"^\(\w++ pid=\d++[^)\n]*+\) ?", re.MULTILINE)
"""Prefix that Ray puts before the lines of its workers."""
_RULE = b"-" * 32
_GOLDEN = b"Golden answers:"
_AFTER = re.compile(
    r"\n(?:step:\d+ - |epoch \d+, step \d+|\[?INFO|WARNING|ACTIVE_TRAJ_NUM).*", re.DOTALL
)
_OPENING = re.compile(r"\A\s*(?:<\|im_end\|>)?\s*(?:<\|im_start\|>)?\s*(?:assistant\b)?\s*")
_ARRAY = re.compile(r"^array\((.*?)(?:, dtype=\w+)?\)$", re.DOTALL)


def fits(value: Mapping[str, Any]) -> bool:
    """Return whether a first record is of this kind."""
    return {"input", "output", "score"} <= set(value)


def read(value: Mapping[str, Any]) -> Record:
    """A line of verl's dump."""
    prompt = value["input"]
    return _record(
        _asked(prompt), prompt, value["output"], _golden(value.get("gts")), float(value["score"]),
        step=value.get("step"),
        parts={
            name: float(part)
            for name, part in value.items()
            if name not in ("score", "step") and isinstance(part, (int, float))
        },
    )  # fmt: skip


def is_log(path: Path) -> bool:
    """Return whether a text file holds such prints."""
    with path.open("rb") as file:
        for line in file:
            if _GOLDEN in line:
                return True
    return False


def blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of each printed episode of a log: from "Golden answers:" to the next rule of
    dashes."""
    start, kept, at = 0, bytearray(), 0
    with path.open("rb") as file:
        for line in file:
            bare = _PREFIX.sub(b"", line)
            if bare.startswith(_GOLDEN):
                if kept:
                    yield start, bytes(kept)
                start, kept = at, bytearray()
            if kept and bare.strip() == _RULE:
                yield start, bytes(kept)
                kept = bytearray()
            elif kept or bare.startswith(_GOLDEN):
                kept += line
            at += len(line)
    if kept:
        yield start, bytes(kept)


def read_block(data: bytes) -> Record:
    """One printed episode. Its reward is not printed: exact match is computed."""
    text = _PREFIX.sub(b"", data).decode("utf-8", "replace")
    gold, _, rest = text.partition("\nExtracted answer: ")
    extracted, printed, said = rest.partition("\nSolution string: ")
    if not (gold.startswith("Golden answers: ") and printed):
        raise ValueError(
            "expected lines 'Golden answers:', 'Extracted answer:', 'Solution string:'"
        )
    golden = _golden(gold.removeprefix("Golden answers: "))
    whole = _AFTER.sub("", said)
    # prompt and response are decoded together: what the model wrote begins after the question
    mark = _QUESTION.search(whole)
    question = mark[1].strip() if mark else whole.strip()[-300:]
    written = whole[mark.end() :] if mark else whole
    written = _OPENING.sub("", written, count=1)
    prompt = whole[: mark.end()] if mark else ""
    answer = "" if extracted == "None" else extracted
    score = exact_match(answer, golden) if answer else 0.0
    made = _record(question, prompt, written.strip(), golden, score, parts={"em": score})
    made.answer = answer
    return made


def _record(
    question: str, prompt: str, output: str, golden: tuple[str, ...], score: float,
    step: int | None = None, parts: Mapping[str, float] | None = None,
) -> Record:  # fmt: skip
    turns = turns_of(output.replace("<|im_end|>", "").replace("<|endoftext|>", ""))
    answer = answer_of(turns)
    if turns:
        turns[-1].reward = score
    return Record(
        id="",
        question=question,
        task=question,
        answers=golden,
        answer=answer,
        end="answered" if answer else "max_turns",
        reward=score,
        parts=parts or {},
        step=step,
        prompt=[Observation("instructions", prompt)] if prompt else [],
        turns=turns,
    )


def _asked(prompt: str) -> str:
    """The last question in a prompt, which may show another as its example."""
    questions = _QUESTION.findall(prompt)
    return questions[-1].strip() if questions else prompt.strip()[-300:]


def _golden(value: Any) -> tuple[str, ...]:
    """Accepted answers, which dumps hold as a list, a text, a table or the print of one."""
    if isinstance(value, str):
        bare = _ARRAY.sub(r"\1", value.strip())
        try:
            value = ast.literal_eval(bare)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            value = [value]
    if isinstance(value, Mapping):
        value = value.get("target", value.get("ground_truth", ()))
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, (list, tuple, set)) else (str(value),)


# --- text in tags, cut into turns: what the model wrote up to each block of results ---------------
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
    for opening in _TAG.finditer(text):
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
