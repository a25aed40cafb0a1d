"""Trajectories as a parquet table: a row an episode, to be read by anything that reads columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core.trajectory import Trajectory, from_line, to_line
from ..corpora.parquet import read_parquet, write_parquet
from ..errors import DataError

PARTS = ("em", "f1", "cover_em")
USAGE = ("tokens_in", "tokens_out", "cost", "overflowed", "length_cut")


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
