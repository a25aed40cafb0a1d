"""The tools of an environment, run in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..types import Failure, ToolCall, ToolResult, ToolSpec
from .base import ToolProtocol


class Toolbox:
    """The tools of an environment by name; runs mixed calls as one batch per tool."""

    def __init__(self, tools: Mapping[str, ToolProtocol]) -> None:
        self.tools = dict(tools)

    def specs(self, names: Sequence[str]) -> tuple[ToolSpec, ...]:
        return tuple(self.tools[name].spec for name in names)

    @property
    def needs_task(self) -> frozenset[str]:
        return frozenset(name for name, tool in self.tools.items() if tool.needs_task)

    def run(self, calls: Sequence[ToolCall]) -> list[ToolResult | Failure]:
        """Results in the order of ``calls``; one ``run`` per tool, however many episodes."""
        if not calls:
            return []
        if len(self.tools) == 1:
            return self.tools[calls[0].tool].run(calls)
        by_tool: dict[str, list[int]] = {}
        for i, call in enumerate(calls):
            by_tool.setdefault(call.tool, []).append(i)
        results: list[Any] = [None] * len(calls)
        for name, where in by_tool.items():
            for i, result in zip(
                where, self.tools[name].run([calls[i] for i in where]), strict=True
            ):
                results[i] = result
        return results
