"""Run files of BrowseComp-Plus: a folder with one JSON file a question.

``{query_id, tool_call_counts: {tool: n}, status, retrieved_docids: […], result: [steps …,
{"type": "output_text", "output": text}]}``; the final text has a line ``Exact Answer: …``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..core.episode import Episode
from ..dialects.escape import without_thoughts
from ..errors import DataError
from ..storage.files import read_json
from ..storage.records import json_text
from ..types import Failure

_ANSWER = re.compile(r"^[ \t*]*+Exact Answer[ \t*]*+:(.*+)", re.I | re.MULTILINE)


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
            run = run_of(read_json(path))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path}: not a run file of BrowseComp-Plus: {type(error).__name__} {error}"
            ) from error
        if run.query_id in first:
            raise DataError(f"{path}: question {run.query_id!r} is also in {first[run.query_id]}")
        first[run.query_id] = path
        yield run


def run_of(record: Mapping[str, Any]) -> RunFile:
    """A run file's JSON as a record."""
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
