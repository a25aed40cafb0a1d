"""The leaderboard: every score that is stored with its number of questions and its command.

Rows come from the ``expected.json`` files of the catalogue (``agents/*/expected.json``,
``envs/*/expected.json``), from result files that others submitted
(``agents/<name>/results/*.json``), and from result files that are named. A result file is what
``searchgym eval … --out DIR`` writes, with its trajectories beside it; ``searchgym verify FILE``
checks it.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from ..cards import cards, catalog
from ..errors import EvaluationError, unknown
from ..evaluation.intervals import Interval
from ..evaluation.machine import NOTE
from ..evaluation.result import EvalResult
from .expected import load

METRICS = ("f1", "em", "evidence_recall", "searches")
FEWEST = 50
"""Fewest questions of a row; fewer say too little about a method."""
SORTS = ("set", "method", *METRICS, "questions", "date")


class Entry(NamedTuple):
    """A method's scores on one set of questions, as one run measured them."""

    method: str
    set: str
    """A real set, an environment, or a rung of one ladder: "held-out world (candidate)". One whose
    options are not its own is marked: "SearchQA-v0 (altered)"."""
    run: str
    """Owner and name of the run: rows of one run were measured alike."""
    scores: Mapping[str, Interval]
    """Metric → mean with its 95 % interval, over seeds and questions."""
    questions: int
    seeds: int
    date: str
    """Day of the measurement (ISO), or "" where the file does not say."""
    version: str
    """Version of searchgym."""
    command: str
    """Command that measures it again."""


def expected_files() -> list[Path]:
    """Every ``expected.json`` of the catalogue, in alphabetical order."""
    return sorted(p for kind in ("agents", "envs") for p in catalog(kind).glob("*/expected.json"))


def submitted_files() -> list[Path]:
    """Every result file that lies beside an agent's card."""
    return sorted(catalog("agents").glob("*/results/*.json"))


def entries(results: Iterable[Path] = (), *, fewest: int = FEWEST) -> list[Entry]:
    """All rows with at least ``fewest`` questions; ``results``: result files to add.

    Raises:
        EvaluationError: a file is neither stored runs nor a result.
    """
    all_entries = [entry for path in expected_files() for entry in recorded(path)]
    all_entries += [measured(path) for path in (*submitted_files(), *results)]
    return [entry for entry in all_entries if entry.questions >= fewest]


def recorded(path: Path) -> list[Entry]:
    """The rows of an ``expected.json`` file."""
    rows = []
    owner = path.parent.name
    for name, run in load(path).items():
        cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in run["table"]:
            cells.setdefault((row["rung"], row["agent"]), []).append(row)
        command = ["searchgym", run.get("command", "transfer"), *run["arguments"]]
        kinds = {rung["name"]: rung["kind"] for rung in run["rungs"]}
        for (rung, agent), these in cells.items():
            scores = {row["metric"]: _interval(row) for row in these if row["metric"] in METRICS}
            rows.append(
                Entry(
                    agent,
                    rung if kinds.get(rung) == "real" or rung == owner else f"{rung} ({owner})",
                    f"{owner}/{name}", scores, these[0]["questions"],
                    these[0]["seeds"], run.get("date", ""), run["versions"]["searchgym"],
                    shlex.join(command),
                )
            )  # fmt: skip
    return rows


def measured(path: Path) -> Entry:
    """The row of a result file, its means computed from the stored rows."""
    result = EvalResult.load(path)
    if not result.complete:
        raise EvaluationError(f"{path}: the run was interrupted; the same command goes on with it")
    settings = result.settings
    command = ["searchgym", "eval", result.set, "-a", result.agent, "-n", str(len(result.rows))]
    for flag, options in (("-A", settings["agent"].get("options") or {}), ("-s", _set(result))):
        for key, value in options.items():
            command += [flag, f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    if result.seed:
        command += ["--seed", str(result.seed)]
    name = settings["corpus"]["name"] if _is_real(settings) else result.set
    name = name.removeprefix("searchgym/") + (" (altered)" if _set(result) else "")
    return Entry(
        result.agent, name, f"{path.parent.name}/{path.stem}",
        {metric: result.means[metric] for metric in METRICS}, len(result.rows), 1, _day(path),
        settings["versions"].get("searchgym", ""), shlex.join(command),
    )  # fmt: skip


def _set(result: EvalResult) -> dict[str, Any]:
    """Options of a result's environment that are not those of its id."""
    known = gym.registry.get(result.set) or gym.registry.get(f"searchgym/{result.set}")
    if known is None:
        return {}
    given: Mapping[str, Any] = result.settings["environment"]
    return {
        k: v for k, v in given.items() if k != "data_dir" and _as_json(known.kwargs.get(k)) != v
    }


def _as_json(value: Any) -> Any:
    """A value as it is read back from JSON: tuples are lists."""
    return json.loads(json.dumps(value, default=str))


def _day(path: Path) -> str:
    """Day on which a run was made, as its folder notes it, or ""."""
    note = path.parent / NOTE
    if not note.is_file():
        return ""
    return str(json.loads(note.read_text(encoding="utf-8")).get("date", ""))


def _is_real(settings: Mapping[str, Any]) -> bool:
    card = cards("corpora").get(settings["corpus"]["name"])
    return card is not None and card.body["kind"] == "real"


def ordered(rows: Sequence[Entry], by: str = "set", *, of: str | None = None) -> list[Entry]:
    """Rows sorted by a column: scores best first (fewest searches first), dates newest first.

    Args:
        rows: What to sort.
        by: One of :data:`SORTS`; "set" puts the best F1 of each set first.
        of: Keep only this set.

    Raises:
        EvaluationError: an unknown column or set; the nearest are named.
    """
    if by not in SORTS:
        raise EvaluationError(unknown("column", by, SORTS))
    if of is not None:
        if of not in (sets := {row.set for row in rows}):
            raise EvaluationError(unknown("set", of, sets))
        rows = [row for row in rows if row.set == of]
    best = sorted(rows, key=lambda row: -_mean(row, "f1"))
    if by == "searches":
        return sorted(best, key=lambda row: _mean(row, by, math.inf))
    if by in METRICS:
        return sorted(best, key=lambda row: -_mean(row, by))
    if by in ("questions", "date"):
        return sorted(best, key=lambda row: getattr(row, by), reverse=True)
    return sorted(best, key=lambda row: getattr(row, by))


def markdown(rows: Sequence[Entry] | None = None) -> str:
    """The leaderboard as Markdown for the documentation: a table a set, best F1 first, and the
    command that repeats each run."""
    rows = ordered(entries() if rows is None else rows)
    parts = []
    for name in dict.fromkeys(row.set for row in rows):
        head = ["method", "F1", "EM", "recall", "searches", "questions", "seeds", "date",
                "version", "run"]  # fmt: skip
        lines = [f"### {name}", "", _line(head), "|" + "---|" * len(head)]
        for row in (r for r in rows if r.set == name):
            shown = [_bounds(row, metric, places) for metric, places in _PLACES.items()]
            about = [f"{row.questions:,}", str(row.seeds), row.date or "–", row.version, row.run]
            lines.append(_line([row.method, *shown, *about]))
        parts.append("\n".join(lines))
    commands = {row.run: row.command for row in rows}
    told = [f"**{run}**\n\n```\n{command}\n```" for run, command in sorted(commands.items())]
    return "\n\n".join([*parts, "### Commands", *told]) + "\n"


_PLACES = {"f1": 3, "em": 3, "evidence_recall": 2, "searches": 2}


def _bounds(row: Entry, metric: str, places: int) -> str:
    """A mean and its interval, or a dash."""
    return format(row.scores[metric], f".{places}f") if metric in row.scores else "–"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _mean(row: Entry, metric: str, absent: float = -math.inf) -> float:
    score = row.scores.get(metric)
    return absent if score is None or math.isnan(score.mean) else score.mean


def _interval(row: Mapping[str, Any]) -> Interval:
    mean, low, high = (math.nan if row[k] is None else row[k] for k in ("mean", "low", "high"))
    return Interval(mean, low, high, row["questions"], "stored")
