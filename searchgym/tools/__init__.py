"""Tools for agents: search, pages, graphs, arithmetic, SQL, and tools of your own.

A tool is written as a name of :data:`TOOLS`, as ``"package.module:Object"``, as a table
``{"use": either, **options}``, as a class or a function, or as an object; :func:`make_tool` reads
all of them. See :class:`Tool` for how one is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Tool, Toolbox, ToolContext, ToolProtocol
from .decoy import decoys
from .memory import MemoryTool, notes_of, with_notes
from .registry import TOOLS, make_tool, make_toolbox
from .retrieval import AccessTool, SearchTool

if TYPE_CHECKING:
    from .user import AskUser

__all__ = [
    "TOOLS",
    "AccessTool",
    "AskUser",
    "MemoryTool",
    "SearchTool",
    "Tool",
    "ToolContext",
    "ToolProtocol",
    "Toolbox",
    "decoys",
    "make_tool",
    "make_toolbox",
    "notes_of",
    "with_notes",
]


def __getattr__(name: str) -> Any:
    if name == "AskUser":  # which brings what language models need
        from .user import AskUser

        return AskUser
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
