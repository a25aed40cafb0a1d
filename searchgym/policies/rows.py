"""Training rows: an episode as token ids, with what was sampled, what is trained on, and how likely
it was when it was drawn.

A row is one sequence a model can read in one forward pass. Turns share a row while their context
only grows; where it was edited (a page became a stub, an observation was hidden, another context
took over) a new row begins. That is decided by the ids themselves: a turn joins a row if its prompt
begins with the whole row so far. Each sampled token is trained on in exactly one row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.episode import Episode
from ..core.trajectory import Trajectory
from ..dialects.masks import loss_mask
from ..errors import EpisodeError
from ..llms.base import Floats, Ids
from ..types import Span
from .record import Kept, Written, kept

POLICY = "policy"
"""Role of whoever is asked the question: an agent alone, or the planner."""
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """N tokens of one context. Arrays are (N,)."""

    trajectory_id: str
    turn_uids: tuple[str, ...]
    """The turns whose tokens were sampled in this row: ``"<trajectory>/<number>"``."""
    context: int
    baseline_group: str
    """Rows of equal groups share a baseline."""
    ids: Ints
    sampled: Bools
    """Mask of tokens the policy drew in one of ``turn_uids``. In a row that begins after an edit,
    the policy's older tokens are context: they were sampled in another row."""
    loss_mask: Bools
    """Mask of tokens that are trained on: sampled and outside masked spans (self-search)."""
    logp: Floats
    """Behaviour log-probabilities, untempered; 0 where not sampled."""
    version: Ints
    """Version of the weights that drew the token; -1 where not sampled."""
    turn_of_token: Ints
    """Index into ``turn_uids``; -1 where not sampled."""
    role: str = POLICY
    """Role that wrote it, to which a training may give weights of its own."""

    def __len__(self) -> int:
        return len(self.ids)


class _Turn(NamedTuple):
    """Fields that both kinds of record have of a turn."""

    number: int
    context: int
    role: str
    text: str
    spans: tuple[Span, ...]


class _Building:
    def __init__(self, context: int, role: str) -> None:
        self.context = context
        self.role = POLICY if role in ("agent", "planner") else role
        self.ids: list[int] = []
        self.sampled: list[Bools] = []
        self.trained: list[Bools] = []
        self.logp: list[Floats] = []
        self.version: list[Ints] = []
        self.turn: list[Ints] = []
        self.uids: list[str] = []

    def read(self, ids: Ids) -> None:
        self._add(ids, np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.float32), -1, -1)

    def write(self, uid: str, tokens: Kept, trained: Bools, version: int) -> None:
        self.uids.append(uid)
        self._add(tokens.ids, trained, tokens.logp, version, len(self.uids) - 1)

    def _add(self, ids: Ids, trained: Bools, logp: Floats, version: int, turn: int) -> None:
        self.ids += ids
        self.sampled.append(np.full(len(ids), turn >= 0))
        self.trained.append(trained)
        self.logp.append(np.asarray(logp, np.float32))
        self.version.append(np.full(len(ids), version, np.int64))
        self.turn.append(np.full(len(ids), turn, np.int64))

    def done(self, trajectory_id: str, group: str) -> TrainingRow:
        return TrainingRow(
            trajectory_id,
            tuple(self.uids),
            self.context,
            group,
            np.array(self.ids, np.int64),
            np.concatenate(self.sampled),
            np.concatenate(self.trained),
            np.concatenate(self.logp),
            np.concatenate(self.version),
            np.concatenate(self.turn),
            self.role,
        )


def rows_of(
    played: Episode | Trajectory,
    written: Mapping[int, Written],
    *,
    group: str | None = None,
    since: int = 0,
    others: Collection[str] = (),
) -> list[TrainingRow]:
    """The rows of an episode, in the order they began.

    Args:
        played: The episode or its record.
        written: Turn → what the policy read and wrote (``Memory.written``).
        group: ``baseline_group`` of the rows; default: the task's id.
        since: Turns before this one are context only; for forks whose first turns are trained on
            in the parent's rows (``played.parent[1]``).
        others: Roles whose turns somebody else wrote, and which are in no row.

    Raises:
        EpisodeError: a turn is missing from ``written``, or its text is not what was written.
    """
    if isinstance(played, Episode):
        name, task = played.config.episode_id, played.config.task.id
    else:
        name, task = played.id, played.task_id
    finished: list[_Building] = []
    open_: dict[int, _Building] = {}
    for turn in _turns(played):
        if turn.number < since or turn.role in others:
            continue
        record = written.get(turn.number)
        if record is None and not turn.text:  # a wrapper's turn, not the policy's
            continue
        if record is None:
            raise EpisodeError(
                f"turn {turn.number} of episode {name!r} is not among the {len(written)} turns "
                "this policy remembers: make rows before forget(), from the policy that played it"
            )
        tokens = kept(record.completion, turn.text)
        if not tokens.ids:  # no room was left for this turn
            continue
        prompt = (*chain.from_iterable(record.prompt), *record.prefill)
        row = open_.get(turn.context)
        if row is None or tuple(row.ids) != prompt[: len(row.ids)]:
            row = open_[turn.context] = _Building(turn.context, turn.role)
            finished.append(row)
        row.read(prompt[len(row.ids) :])
        trained = loss_mask(turn.text, turn.spans, tokens.ends)
        row.write(f"{name}/{turn.number}", tokens, trained, record.completion.version)
    return [row.done(name, task if group is None else group) for row in finished]


def _turns(played: Episode | Trajectory) -> Iterator[_Turn]:
    if isinstance(played, Episode):
        for turn in played.turns:
            yield _Turn(turn.number, turn.context, turn.role, turn.text, turn.spans)
    else:
        for record in played.turns:
            spans = tuple(Span(*s) for s in record["spans"])
            role = record.get("role", "agent")
            yield _Turn(record["number"], record["context"], role, record["text"], spans)
