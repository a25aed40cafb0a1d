"""A run of very many trajectories: real episodes of a small world, written again and again with
other ids, steps and words, so that the index has as much to tell apart as in a real run."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from searchgym.core import Trajectory
from searchgym.seeding import stream

from ..viewer.runs import agents, episodes

AGENTS = ("rules", "best-sentence", "random", "oracle")
STEPS = 10


def write(folder: Path, count: int, of_each: int = 150) -> int:
    """``<agent>-step-<n>.trajectories.jsonl``, ``count`` lines in all; returns their bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    played = {
        name: [Trajectory.of(e).to_json() for e in episodes(agents()[name], of_each)]
        for name in AGENTS
    }
    size = 0
    files = list(itertools.product(AGENTS, range(STEPS)))
    for place, (name, step) in enumerate(files):
        here = count // len(files) + (place < count % len(files))
        path = folder / f"{name}-step-{step * 50}.trajectories.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for record in itertools.islice(varied(played[name], f"{name}/{step}"), here):
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        size += path.stat().st_size
    return size


def varied(records: list[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """The records without end; each time round other tasks, ids, queries and rewards."""
    draw = stream(0, "varied", name)
    for number in itertools.count():
        record = copy.copy(records[number % len(records)])
        turn = number // len(records)
        record["id"] = f"{record['id']}-{name}-{turn}"
        record["task_id"] = f"{record['task_id']}-{turn}"
        record["question"] = f"{record['question'].rstrip('?.')} ({turn})?"
        if draw.random() < 0.3:
            record["parts"] = {**record["parts"], "em": 0.0, "f1": float(draw.random())}
            record["ret"] = record["parts"]["f1"]
        word = f"word{int(draw.integers(5000))}"
        record["turns"] = [{**t, "text": f"{t['text']} {word}"} for t in record["turns"]]
        yield record
