"""Tools for agents: search, pages, graphs, arithmetic, SQL, and tools of your own.

A tool is written as a name of :data:`TOOLS`, as ``"package.module:Object"``, as a table
``{"use": either, **options}``, as a class or a function, or as an object; :func:`make_tool` reads
all of them. See :class:`Tool` for how one is written.
"""

from .base import Tool, Toolbox, ToolContext, ToolProtocol
from .registry import TOOLS, make_tool, make_toolbox
from .retrieval import AccessTool, SearchTool

__all__ = [
    "TOOLS",
    "AccessTool",
    "SearchTool",
    "Tool",
    "ToolContext",
    "ToolProtocol",
    "Toolbox",
    "make_tool",
    "make_toolbox",
]
