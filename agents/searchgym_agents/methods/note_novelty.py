"""A reward for notes that say something new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from searchgym import CardError
from searchgym.rewards import Outcome
from searchgym.text import normalise_answer
from searchgym.tools import notes_of
from searchgym.types import Call, ToolResult


@dataclass(frozen=True)
class NoteNovelty:
    """Pay a written note ``scale`` · (1 - its largest overlap with a note that was there).

    The overlap is Jaccard's, of the sets of normalised words; ``most`` notes of an episode are
    paid. Notes that the episode began with count, and those that it has forgotten, so that what is
    written again pays no more. ONI (Zheng et al., arXiv 2410.23022) rewards observations that a
    language model calls new and worth while; the rule by words and all numbers are ours.

    Raises:
        CardError: ``most`` is negative.
    """

    registered = "reward:note_novelty"
    systems = ("ONI",)

    scale: float = 0.1
    most: int = 8

    def __post_init__(self) -> None:
        if self.most < 0:
            raise CardError(f"note_novelty pays for most notes, 0 or more, got {self.most}")

    def turn(self, outcome: Outcome) -> float:
        begun = notes_of(outcome.task)
        pairs = [_notes(begun, turn.action, turn.calls, turn.results) for turn in outcome.turns]
        before, after = pairs[-1]
        written = [new[-1] for old, new in pairs if new and new[:-1] == old]
        if not after or after[:-1] != before or len(written) > self.most:
            return 0.0
        said = [set(normalise_answer(note).split()) for note in (*begun, *before, *written)]
        shared = [len(said[-1] & old) / len(said[-1] | old) for old in said[:-1]]
        return self.scale * (1.0 - max(shared, default=0.0))


def _notes(begun: list[str], action: Any, calls: Any, results: Any) -> tuple[Any, Any]:
    """The notes before and after a turn; none where it wrote none."""
    if not (isinstance(action, Call) and action.args.get("action") == "write" and results):
        return [], []
    result = results[0]
    if action.tool != "memory" or not isinstance(result, ToolResult):
        return [], []
    before = calls[0].ctx.state
    return begun if before is None else before, result.state
