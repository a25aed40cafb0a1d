"""``memory``: notes that an agent writes, reads, sums up and forgets.

They outlast what a small context drops (``context_tokens``), and, where a task brings notes
(``meta["notes"]``), what earlier episodes of its group wrote: :func:`with_notes`, after ExpeL
(arXiv 2308.10144), which carries over what was learned as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import CardError
from ..text import normalise_answer
from ..types import Failure, Task, ToolCall, ToolResult, ToolSpec
from .base import Tool

MOST = 1_000
"""Characters of a text that is written or looked for."""


class MemoryTool(Tool):
    """Keep notes in the episode.

    ``write`` adds a note, ``read`` shows all, or those that hold words of ``text``, the best first;
    ``summarise`` puts ``text`` in the place of all notes, or without one keeps the beginning of
    each, so that half the room is free; ``forget`` drops the note ``number``, or all.

    Args:
        room: Characters of all notes together; a note that does not fit is refused.
        shown: Characters that one ``read`` shows.
        cost: Cost of each call.

    Raises:
        CardError: ``room`` or ``shown`` is below 1, or ``room`` above 50,000.
    """

    registered = "memory"
    needs_task = True  # for the notes that it brings
    time_limit = None
    spec = ToolSpec(
        "memory",
        "Keep notes: write one, read all or those about something, summarise them in one text, "
        "forget one by its number or all. Notes stay when older text is no longer shown.",
        {
            "type": "object",
            "properties": {
                "action": {"enum": ["write", "read", "summarise", "forget"]},
                "text": {"type": "string", "maxLength": MOST},
                "number": {"type": "integer", "minimum": 1},
            },
            "required": ["action"],
        },
        shares="memory",
    )

    def __init__(self, room: int = 4_000, shown: int = 2_000, *, cost: float = 0.0) -> None:
        super().__init__(cost=cost)
        if not (1 <= room <= 50_000 and shown >= 1):
            raise CardError(
                f"room is 1 to 50,000 and shown at least 1; got room={room}, shown={shown}"
            )
        self.room, self.shown = room, shown

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        """One result per call, in order."""
        return [self._acted(call) for call in batch]

    def _acted(self, call: ToolCall) -> ToolResult:
        notes: list[str] | None = call.ctx.state
        if notes is None:  # as the episode began
            notes = notes_of(call.ctx.task) if call.ctx.task is not None else []
        action, text = call.args["action"], " ".join(str(call.args.get("text", "")).split())
        number = call.args.get("number")
        if action == "read":
            return ToolResult((self._read(notes, text),), cost=self.cost, state=notes)
        if action == "write":
            said, notes = self._written(notes, text)
        elif action == "summarise":
            half = self.room // 2 // max(len(notes), 1)
            kept = [text] if text else [cut for note in notes if (cut := note[:half].strip())]
            said, notes = self._fit(notes, kept, f"{len(kept)} kept")
        elif number is None:
            said, notes = f"{len(notes)} forgotten", []
        elif number <= len(notes):
            said, notes = "1 forgotten", notes[: number - 1] + notes[number:]
        else:
            said = f"There is no note {number}"
        said = f"{said}; {len(notes)} notes, {_size(notes)} of {self.room} characters."
        return ToolResult((said,), cost=self.cost, state=notes)

    def _written(self, notes: list[str], text: str) -> tuple[str, list[str]]:
        if not text:
            return "Nothing was written: give a text", notes
        return self._fit(notes, [*notes, text], f"Note {len(notes) + 1} written")

    def _fit(self, notes: list[str], wanted: list[str], said: str) -> tuple[str, list[str]]:
        if _size(wanted) > self.room:
            return "It does not fit: summarise or forget", notes
        return said, wanted

    def _read(self, notes: list[str], text: str) -> str:
        numbered = list(enumerate(notes, 1))
        if words := set(normalise_answer(text).split()):
            shared = {n: len(words & set(normalise_answer(note).split())) for n, note in numbered}
            numbered = [pair for pair in numbered if shared[pair[0]]]
            numbered.sort(key=lambda pair: -shared[pair[0]])
        told = "\n".join(f"{number}. {note}" for number, note in numbered)
        return told[: self.shown] or "No note."


def _size(notes: Sequence[str]) -> int:
    return sum(map(len, notes))


def notes_of(task: Task) -> list[str]:
    """The notes that a task brings."""
    return [str(note) for note in task.meta.get("notes", ())]


def with_notes(task: Task, notes: Sequence[str]) -> Task:
    """The task as the tool ``memory`` meets it with these notes, such as those that another episode
    left: ``outcome.tool_states.get("memory", [])``."""
    meta: Mapping[str, Any] = {**task.meta, "notes": [str(note) for note in notes]}
    return replace(task, meta=meta)
