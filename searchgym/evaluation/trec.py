"""Rankings and judgements as TREC files, which trec_eval, ir_measures and ranx read.

A run line is ``query Q0 passage rank score tag``; a judgement (qrels) line ``query 0 passage
grade``. Fields are separated by white space, so ids must hold none.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..corpora.beir import add_judgement, read_judgements
from ..corpora.lines import read_lines
from ..errors import DataError
from ..types import Task

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
    """Read a run in trec_eval's order (:func:`in_order`), whatever the order of the lines. The file
    may be compressed (``.gz``), as may one of judgements.

    Raises:
        DataError: with file and line, for one that is no run line or names a passage again.
    """
    rankings: dict[str, dict[str, float]] = {}
    for place, line in read_lines(Path(path)):
        where = f"{path}:{place.number}"
        if len(fields := line.split()) != 6:
            form = "query Q0 passage rank score tag"
            raise DataError(f"{where}: got {len(fields)} fields, expected {form!r}")
        query, _, key, _, score, _ = fields
        try:
            value = float(score)
        except ValueError:
            raise DataError(f"{where}: {score!r} is not a number") from None
        if not math.isfinite(value):
            raise DataError(f"{where}: score {score!r} is not finite")
        if key in rankings.setdefault(query, {}):
            raise DataError(f"{where}: {key!r} is ranked twice for query {query!r}")
        rankings[query][key] = value
    return {query: in_order(hits.items()) for query, hits in rankings.items()}


def in_order(hits: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Passages with their scores as trec_eval orders them: by score, as a number of 32 bits, and
    equal ones by descending id."""
    return sorted(hits, key=lambda hit: (np.float32(hit[1]), hit[0]), reverse=True)


def read_qrels(path: Path | str) -> dict[str, dict[str, int]]:
    """Read judgements, TREC's or BEIR's.

    Raises:
        DataError: with file and line, for a bad one or another grade than before.
    """
    relevance: dict[str, dict[str, int]] = {}
    for where, query, key, grade in read_judgements(Path(path)):
        add_judgement(relevance, where, query, key, grade)
    return relevance


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
    text = "".join(lines).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path
