"""Any tool on record; see :mod:`searchgym.engines.recorded`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ...errors import EngineError
from ...types import Failure, ToolCall, ToolResult, ToolSpec
from .engine import RecordedService


class RecordedTool(RecordedService[ToolCall, ToolResult]):
    """Any tool on record, e.g. ``RecordedTool(SearchTool(engine), path)``.

    The fingerprint is made of the tool's name and that of the engine or page source behind it;
    where there is none, give ``fingerprint``. Replay without the tool needs its ``spec``.
    """

    def __init__(
        self,
        inner: Any,
        path: str | os.PathLike[str],
        *,
        fingerprint: str | None = None,
        spec: ToolSpec | None = None,
        **options: Any,
    ) -> None:
        tool_spec = spec or getattr(inner, "spec", None)
        if tool_spec is None:
            raise EngineError("replaying a tool without the tool needs its 'spec'")
        self.spec: ToolSpec = tool_spec
        if inner is not None:
            inner, fingerprint = _AsService(inner, fingerprint), None
        super().__init__(inner, path, kind="tool", fingerprint=fingerprint, **options)


class _AsService:
    """A tool as a service; its answers depend on the call's arguments and handed-back state."""

    def __init__(self, tool: Any, fingerprint: str | None) -> None:
        behind = getattr(tool, "engine", None) or getattr(tool, "pages", None)
        behind_it = fingerprint or getattr(behind, "fingerprint", None)
        if behind_it is None:
            raise EngineError(
                f"recording the tool {tool.spec.name!r} needs 'fingerprint': a text that changes "
                "whenever its answers may"
            )
        k = getattr(tool, "k", None)  # hits per query: a setting of the tool, not an argument
        self.fingerprint = f"tool:{tool.spec.name}:{behind_it}" + ("" if k is None else f":k={k}")
        self.needs_task: bool = tool.needs_task
        self.degrades: bool = getattr(behind, "degrades", False)
        self._tool = tool

    def cache_key(self, request: ToolCall, /) -> bytes | None:
        return None

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        answered: list[ToolResult | Failure] = self._tool.run(batch)
        return answered
