"""Rankings and judgements as TREC files, which trec_eval, ir_measures and ranx read.

A run line is ``query Q0 passage rank score tag``; a judgement (qrels) line ``query 0 passage
grade``. Fields are separated by white space, so ids must hold none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ..errors import DataError
from ..types import Task

N = TypeVar("N", int, float)
Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id → (passage id, score), best first."""
Qrels = Mapping[str, Mapping[str, int]]
"""Query id → passage id → grade; 0 is not relevant."""


def qrels_of(tasks: Iterable[Task]) -> dict[str, dict[str, int]]:
    """The tasks' evidence as judgements of grade 1; tasks without any are left out."""
    return {task.id: dict.fromkeys(task.evidence, 1) for task in tasks if task.evidence}


def run_of(shown: Mapping[str, Iterable[str]]) -> dict[str, list[tuple[str, float]]]:
    """Passages in the order an agent was shown them (``Episode.seen``) as a run: the n-th new one
    scores 1 / n, so that no tool breaks ties its own way."""
    return {
        query: [(key, 1 / place) for place, key in enumerate(dict.fromkeys(keys), 1)]
        for query, keys in shown.items()
    }


def write_run(path: Path | str, run: Run, tag: str = "searchgym") -> Path:
    """Write a run; ranks count from 1.

    Raises:
        DataError: an id or the tag is empty or holds white space, a passage twice for a query, or
            scores that are not finite and descending (tools sort by score and ignore the rank).
    """
    lines = []
    for query, hits in run.items():
        if len({key for key, _ in hits}) != len(hits):
            raise DataError(f"query {query!r} has a passage twice; keep its first place only")
        last = math.inf
        for rank, (key, score) in enumerate(hits, 1):
            if not math.isfinite(score) or score > last:
                raise DataError(
                    f"query {query!r}, {key!r}: score {score} after {last}; scores must be finite "
                    "and descend, because readers order by them"
                )
            last = score
            lines.append(f"{_id(query)} Q0 {_id(key)} {rank} {score!r} {_id(tag)}\n")
    return _write(path, lines)


def write_qrels(path: Path | str, qrels: Qrels) -> Path:
    """Write judgements; ``DataError`` for ids that are empty or hold white space."""
    return _write(
        path,
        [
            f"{_id(query)} 0 {_id(key)} {int(grade)}\n"
            for query, grades in qrels.items()
            for key, grade in grades.items()
        ],
    )


def read_run(path: Path | str) -> dict[str, list[tuple[str, float]]]:
    """Read a run, best score first and ties by passage id, whatever the order of the lines.

    Raises:
        DataError: with file and line, for one that is no run line or names a passage again.
    """
    rankings: dict[str, dict[str, float]] = {}
    for where, fields in _fields(path, 6, "query Q0 passage rank score tag"):
        query, _, key, _, score, _ = fields
        value = _number(float, score, where)
        if not math.isfinite(value):
            raise DataError(f"{where}: score {score!r} is not finite")
        if key in rankings.setdefault(query, {}):
            raise DataError(f"{where}: {key!r} is ranked twice for query {query!r}")
        rankings[query][key] = value
    return {
        query: sorted(hits.items(), key=lambda hit: (-hit[1], hit[0]))
        for query, hits in rankings.items()
    }


def read_qrels(path: Path | str) -> dict[str, dict[str, int]]:
    """Read judgements; ``DataError`` with file and line for a bad or a repeated one."""
    relevance: dict[str, dict[str, int]] = {}
    for where, (query, _, key, grade) in _fields(path, 4, "query 0 passage grade"):
        if key in relevance.setdefault(query, {}):
            raise DataError(f"{where}: {key!r} is judged twice for query {query!r}")
        relevance[query][key] = _number(int, grade, where)
    return relevance


def _fields(path: Path | str, number: int, form: str) -> Iterator[tuple[str, list[str]]]:
    with Path(path).open(encoding="utf-8") as file:
        for line_number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}:{line_number}"
            if len(fields := line.split()) != number:
                raise DataError(f"{where}: got {len(fields)} fields, expected {form!r}")
            yield where, fields


def _number(kind: Callable[[str], N], text: str, where: str) -> N:
    try:
        return kind(text)
    except ValueError:
        raise DataError(f"{where}: {text!r} is not a number") from None


def _id(text: str) -> str:
    if text.split() != [text]:
        raise DataError(
            f"{text!r} cannot stand in a TREC file, whose fields white space parts: give it "
            "another id (a passage of a document is called by its file: rename the file)"
        )
    return text


def _write(path: Path | str, lines: Iterable[str]) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")
    return path
