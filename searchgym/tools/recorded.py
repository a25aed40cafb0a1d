"""``recorded``: any tool with its answers on disk, replayed without it (``engines.recorded``)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

from ..engines.recorded.engine import Mode, RecordedService
from ..storage.files import value_digest
from ..types import Failure, ToolCall, ToolResult
from ..utils.trust import refuse
from .base import Tool, ToolContext, ToolProtocol
from .registry import make_tool


class RecordedTool(Tool):
    """A tool on record: ``{"use": "recorded", "tool": …, "path": "calls.sqlite"}``.

    An answer is found again by the tool, its arguments and the state that it read; what it made of
    the state is recorded with it. Failures are not recorded.

    Args:
        tool: Tool in any form that ``tools=`` takes.
        path: SQLite file; several tools and environments may share one.
        mode: "record" asks every time, "replay" never (a call that was not recorded ends the
            episode with ``infra_error``), "replay_or_live" asks what the file lacks.

    Raises:
        CardError: by :meth:`bind`: in a file of others, which may open nothing.
        EngineError: by :meth:`bind`: a degraded tool, whose noise belongs to an episode, or a file
            that holds nothing of this tool in mode "replay".
    """

    registered = "recorded"
    service: RecordedService[ToolCall, ToolResult]

    def __init__(self, tool: Any, path: str, *, mode: Mode = "replay_or_live") -> None:
        super().__init__()
        self.tool, self.path, self.mode = tool, path, mode

    def bind(self, context: ToolContext) -> Self:
        """A copy that records the tool as ``context`` binds it."""
        refuse(f"the tool 'recorded', which opens {self.path!r}")
        bound = copy.copy(self)
        service = _Service(make_tool(self.tool, context), context)
        bound.spec, bound.needs_task = service.tool.spec, service.tool.needs_task
        bound.service = RecordedService(service, self.path, kind="tool", mode=self.mode)
        return bound

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        """One result per call, in order; what is new is on disk when this returns."""
        return self.service.run(batch)


class _Service:
    """A tool as a service; its answers depend on the call's arguments and handed-back state."""

    def __init__(self, tool: ToolProtocol, context: ToolContext) -> None:
        self.tool = tool
        behind = getattr(tool, "engine", None) or getattr(tool, "pages", None)
        said = [
            list(tool.spec), context.corpus.digest, getattr(behind, "fingerprint", ""),
            getattr(tool, "k", None),
        ]  # fmt: skip
        self.fingerprint = f"tool:{tool.spec.name}:{value_digest(said)}"
        self.needs_task = tool.needs_task
        self.degrades = getattr(tool, "degrades", getattr(behind, "degrades", False))

    def cache_key(self, request: ToolCall, /) -> bytes | None:
        return None

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        return self.tool.run(batch)
