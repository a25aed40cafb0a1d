"""Formats of other programs: TREC runs and judgements, BrowseComp-Plus run files, and trajectories
as a parquet table."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.episode import Episode
from ..core.trajectory import Trajectory, from_line, to_line
from ..corpora.beir import add_judgement, read_judgements
from ..corpora.lines import read_lines
from ..corpora.parquet import read_parquet, write_parquet
from ..dialects.escape import without_thoughts
from ..errors import DataError
from ..storage.files import read_json
from ..storage.records import json_text
from ..types import Failure, Task

Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id → (passage id, score), best first."""
Qrels = Mapping[str, Mapping[str, int]]
"""Query id → passage id → grade; 0 is not relevant."""
_ANSWER = re.compile(r"^[ \t*]*+Exact Answer[ \t*]*+:(.*+)", re.I | re.MULTILINE)
PARTS = ("em", "f1", "cover_em")
USAGE = ("tokens_in", "tokens_out", "cost", "overflowed", "length_cut")


# --- TREC: "query Q0 passage rank score tag", and judgements "query 0 passage grade" ------------
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


# --- BrowseComp-Plus: one JSON file a question ---------------------------------------------------
# {query_id, tool_call_counts: {tool: n}, status, retrieved_docids: […], result: [steps …,
# {"type": "output_text", "output": text}]}; the final text has a line "Exact Answer: …".
class RunFile(NamedTuple):
    """One question and an agent's answer to it."""

    query_id: str
    answer: str
    """Text of the line ``Exact Answer: …``, or the whole final text; "" if there is none."""
    retrieved: tuple[str, ...]
    """Ids of the documents it was shown, each once."""
    calls: Mapping[str, int]
    """Tool → number of calls."""
    completed: bool


def record_of(episode: Episode) -> dict[str, Any]:
    """A finished episode as a run file's JSON."""
    outcome = episode.outcome()
    if outcome is None:
        raise DataError(f"episode {episode.config.episode_id} has not ended")
    steps: list[dict[str, Any]] = []
    for turn in episode.turns:
        for call, result in zip(turn.calls, turn.results, strict=False):
            if isinstance(result, Failure):
                shown: Any = f"{result.kind}: {result.message}"
            else:
                texts = [part if isinstance(part, str) else part.alt for part in result.parts]
                shown = [hit.passage.id for hit in result.hits] or "".join(texts)
            steps.append(
                {
                    "type": "tool_call", "tool_name": call.tool,
                    "arguments": json.dumps(dict(call.args)), "output": json.dumps(shown),
                }
            )  # fmt: skip
    if outcome.end == "answered":
        said = f"Exact Answer: {' '.join(outcome.answer.split())}"
        steps.append({"type": "output_text", "tool_name": None, "arguments": None, "output": said})
    return {
        "query_id": episode.config.task.id,
        "tool_call_counts": dict(Counter(s["tool_name"] for s in steps if s["tool_name"])),
        "status": "completed" if outcome.end == "answered" else "incomplete",
        "retrieved_docids": list(episode.seen),
        "result": steps,
    }


def write_runs(folder: Path, episodes: Iterable[Episode]) -> int:
    """One file per episode, named by its place; how many. The folder must hold none yet."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.json")):
        raise DataError(f"{folder} holds JSON files already; name an empty folder")
    number = 0
    for number, episode in enumerate(episodes, 1):
        path = folder / f"run_{number:06d}.json"
        path.write_text(json_text(record_of(episode), indent=1), encoding="utf-8")
    return number


def read_runs(folder: Path) -> Iterator[RunFile]:
    """Every run file of a folder, by name; ``DataError`` names one that is broken, or answers a
    question again."""
    paths = sorted(Path(folder).glob("*.json"))
    if not paths:
        raise DataError(f"{folder} holds no run files (*.json, one a question)")
    first: dict[str, Path] = {}
    for path in paths:
        try:
            run = _run_file(read_json(path))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path}: not a run file of BrowseComp-Plus: {type(error).__name__} {error}"
            ) from error
        if run.query_id in first:
            raise DataError(f"{path}: question {run.query_id!r} is also in {first[run.query_id]}")
        first[run.query_id] = path
        yield run


def _run_file(record: Mapping[str, Any]) -> RunFile:
    texts = [s["output"] for s in record["result"] if s["type"] == "output_text" and s["output"]]
    final = without_thoughts(str(texts[-1])) if texts else ""
    said = _ANSWER.findall(final)
    return RunFile(
        str(record["query_id"]),
        said[-1].strip(" \t*") if said else final.strip(),
        tuple(dict.fromkeys(str(key) for key in record["retrieved_docids"])),
        {str(tool): int(n) for tool, n in record["tool_call_counts"].items()},
        record["status"] == "completed",
    )


# --- trajectories as a table: a row an episode ----------------------------------------------------
def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> int:
    """Write them; how many. ``messages`` is the chat (environment: user, agent: assistant);
    ``trajectory`` the whole record as JSON."""
    rows = [row(t) for t in trajectories]
    write_parquet(path, rows)
    return len(rows)


def read_trajectories(path: Path) -> Iterator[Trajectory]:
    """Read exactly what :func:`write_trajectories` wrote; ``DataError`` for another table."""
    for where, record in read_parquet(path):
        if not isinstance(line := record.get("trajectory"), str):
            raise DataError(f"{where}: no column 'trajectory'; it has {', '.join(record)}")
        yield from_line(line, str(where))


def row(trajectory: Trajectory) -> dict[str, Any]:
    """One episode's columns; what is not known is null."""
    recall = trajectory.evidence_recall
    return {
        "id": trajectory.id,
        "task_id": trajectory.task_id,
        "family": trajectory.family,
        "question": trajectory.question,
        "answers": list(trajectory.answers),
        "end": trajectory.end,
        "answer": trajectory.answer,
        **{name: trajectory.parts.get(name) for name in PARTS},
        "reward": trajectory.ret,
        "searches": trajectory.queries,
        "turns": len(trajectory.turns),
        "evidence_recall": None if math.isnan(recall) else recall,
        **{name: trajectory.usage.get(name) for name in USAGE},
        "messages": messages(trajectory.segments),
        "trajectory": to_line(trajectory),
    }


def messages(segments: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The first context as a chat: what the environment wrote is the user's."""
    out: list[dict[str, str]] = []
    for segment in segments:
        if segment["context"] != 0:
            continue
        role = "assistant" if segment["author"] == "policy" else "user"
        if out and out[-1]["role"] == role:
            out[-1]["content"] += segment["text"]
        else:
            out.append({"role": role, "content": segment["text"]})
    return out
