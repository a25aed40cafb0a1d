"""The record of one finished (or interrupted) episode, as JSON lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..scoring import SCORING_VERSION
from ..storage.files import parse_json
from ..storage.records import json_text
from ..types import Delegate, Turn
from .episode import Episode

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Complete record of an episode: the snapshot replays it, the rest is derived for readers.

    ``turns`` hold, per action: context, role, ids of the segments seen, text, action, parsed spans
    (characters), calls, results, named reward parts. ``segments`` hold every context's text.
    """

    id: str
    task_id: str
    family: str
    question: str
    answers: tuple[str, ...]
    end: str | None
    answer: str
    parts: Mapping[str, float]
    """Measures of the finished episode (``Outcome.parts``); empty while it runs."""
    ret: float
    """Return: the sum of the rewards."""
    queries: int
    evidence_recall: float
    turns: tuple[Mapping[str, Any], ...]
    segments: tuple[Mapping[str, Any], ...]
    snapshot: Mapping[str, Any]
    parent: tuple[str, int] | None = None
    purpose: str = "evaluation"
    infra_error: bool = False
    usage: Mapping[str, float] = field(default_factory=dict)
    """Usage of the agent's turns, as far as known: ``tokens_in``, ``tokens_out``, ``cost``, and
    how many of them ``overflowed`` the model's context or were ``length_cut``."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Training record, if it was trained on: step, group, reward, advantages by turn, and rows of
    tokens (``rl.run_folder``)."""
    scoring_version: int = 1
    """Version of the scoring behind ``parts`` (``searchgym.scoring.SCORING_VERSION``); 1 where a
    record does not say."""

    @classmethod
    def of(
        cls,
        episode: Episode,
        purpose: str = "evaluation",
        usage: Mapping[str, float] | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> Trajectory:
        """The record of an episode as it stands."""
        outcome, task = episode.outcome(), episode.config.task
        return cls(
            id=episode.config.episode_id,
            task_id=task.id,
            family=task.family,
            question=task.question,
            answers=task.answers,
            end=outcome.end if outcome else None,
            answer=outcome.answer if outcome else "",
            parts=dict(outcome.parts) if outcome else {},
            ret=sum(t.reward for t in episode.turns),
            queries=episode.queries,
            evidence_recall=evidence_recall(episode),
            turns=tuple(_turn(t) for t in episode.turns),
            segments=tuple(
                {
                    "id": s.id, "context": s.context, "author": s.author, "kind": s.kind,
                    "text": s.text, "visible": s.visible, "hits": [h.passage.id for h in s.hits],
                }
                for s in episode.contexts.segments
            ),
            snapshot=episode.snapshot(),
            parent=episode.parent,
            purpose=purpose,
            infra_error=bool(outcome and outcome.end == "infra_error"),
            usage=dict(usage or {}),
            training=dict(training or {}),
            scoring_version=SCORING_VERSION,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """JSON values; an evidence recall of NaN becomes null."""
        out = {name: getattr(self, name) for name in self.__slots__}
        out["parts"] = {k: None if math.isnan(v) else v for k, v in self.parts.items()}
        if math.isnan(self.evidence_recall):
            out["evidence_recall"] = None
        return {"schema_version": SCHEMA_VERSION, **out}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trajectory:
        values = dict(data)
        if (version := values.pop("schema_version", None)) != SCHEMA_VERSION:
            raise DataError(f"trajectory schema version {version!r}, expected {SCHEMA_VERSION}")
        if values["evidence_recall"] is None:
            values["evidence_recall"] = math.nan
        values["parts"] = {k: math.nan if v is None else v for k, v in values["parts"].items()}
        values["answers"] = tuple(values["answers"])
        values["turns"], values["segments"] = tuple(values["turns"]), tuple(values["segments"])
        values["parent"] = tuple(values["parent"]) if values["parent"] else None
        return cls(**values)

    def replay(self, **how: Any) -> Episode:
        """Replay the episode, exactly; without any outside call.

        ``how`` brings back what is one's own: ``dialect``, ``reward``, ``trust``, ``scored`` and
        ``reward_transforms`` of :meth:`Episode.restore`.
        """
        return Episode.restore(self.snapshot, **how)


def evidence_recall(episode: Episode) -> float:
    """Share of the task's gold passages that were shown; NaN where there are none to show: tasks
    without any, and self-search."""
    gold = () if episode.self_search else episode.config.task.evidence
    return episode.evidence_found / len(set(gold)) if gold else math.nan


def _turn(turn: Turn) -> dict[str, Any]:
    action, named = turn.action, isinstance(turn.action, Delegate)  # few sub-tasks name a role
    return {
        "number": turn.number,
        "context": turn.context,
        "role": turn.role,
        "prompt": list(turn.prompt),
        "text": turn.text,
        "action": [type(action).__name__, *(v for v in action if not named or v)],
        "spans": [list(s) for s in turn.spans],
        "calls": [{"tool": c.tool, "args": dict(c.args), "key": c.ctx.key} for c in turn.calls],
        "reward_parts": dict(turn.reward_parts),
        "reward": turn.reward,
    }


def write_jsonl(path: Path, trajectories: Iterable[Trajectory]) -> int:
    """Write one trajectory a line; return how many."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for trajectory in trajectories:
            file.write(to_line(trajectory))
            count += 1
    return count


def read_jsonl(path: Path) -> Iterator[Trajectory]:
    """Read what :func:`write_jsonl` wrote; ``DataError`` names file and line of a broken one."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            yield from_line(line, f"{path}:{number}")


def to_line(trajectory: Trajectory) -> str:
    """A trajectory as one line of a file, with its newline."""
    return json_text(trajectory.to_json()) + "\n"


def from_line(line: str | bytes, where: str) -> Trajectory:
    """The inverse of :func:`to_line`; ``DataError`` begins with ``where`` for anything else."""
    try:
        return Trajectory.from_json(parse_json(line, "it"))
    except (ValueError, KeyError, TypeError, DataError) as error:
        raise DataError(f"{where}: not a trajectory: {error}") from error
