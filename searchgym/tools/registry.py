"""Tools by name, path, table, class, function and object; what each of them must be."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..errors import CardError
from ..objects import from_spec
from ..plugins import Registry
from ..types import ToolSpec
from .base import FunctionTool, Toolbox, ToolContext, ToolProtocol, require_answers
from .retrieval import AccessTool, SearchTool

_GRAPH = "searchgym.tools.graph:"
TOOLS = Registry(
    "tool",
    {
        "search": "searchgym.tools.retrieval:SearchTool",
        "access": "searchgym.tools.retrieval:AccessTool",
        "calculator": "searchgym.tools.calculator:Calculator",
        "sql": "searchgym.tools.sql:SqlTool",
        "graph_facts": _GRAPH + "FactsTool",
        "graph_neighbors": _GRAPH + "NeighborsTool",
        "graph_path": _GRAPH + "PathTool",
        "graph_rank": _GRAPH + "RankTool",
        "community_search": _GRAPH + "CommunitySearchTool",
        "graph_search": _GRAPH + "HybridTool",
    },
    package="searchgym.tools",
)
"""Name → import path. Others are named by their own path, or entered here."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_ACTIONS = frozenset({"answer", "judge", "delegate"})
"""Actions that dialects write in a form of their own; no tool can have such a name."""


def make_tool(spec: Any, context: ToolContext) -> ToolProtocol:
    """Make one tool for an environment.

    Args:
        spec: A name of :data:`TOOLS`, an import path, ``{"use": either, **options}``, a class, a
            function (see :class:`searchgym.tools.base.FunctionTool`), or an object.
        context: What the tool may need. An object with a method ``bind`` gets it: the tool is what
            ``bind(context)`` returns.

    Raises:
        CardError: an unknown name or option, an object that is no tool, or one that cannot work in
            this environment.
    """
    tool = from_spec("tool", spec, TOOLS, accepts=("run",), functions=True)
    try:
        if inspect.isclass(tool):
            tool = tool()
        elif callable(tool) and not hasattr(tool, "spec"):
            tool = FunctionTool(tool)
    except TypeError as error:
        raise CardError(f"tool {spec!r}: {error}") from error
    bind = getattr(tool, "bind", None)
    return _checked(tool if bind is None else bind(context))


def tool_spec(made: Any) -> ToolSpec | None:
    """The name and arguments of a tool's class or function; None where its options decide."""
    if inspect.isfunction(made):
        return FunctionTool(made).spec
    spec = getattr(made, "spec", None)
    return spec if isinstance(spec, ToolSpec) else None


def make_toolbox(specs: Sequence[Any], context: ToolContext) -> Toolbox:
    """Make the tools of an environment, in their order: the axis ``tools`` offers the first so
    many.

    Raises:
        CardError: as :func:`make_tool`, and for two tools of one name.
    """
    if isinstance(specs, str | Mapping) or not isinstance(specs, Sequence):
        raise CardError(f"tools is a list, for example ['search', 'access']; got {specs!r:.80}")
    tools: dict[str, ToolProtocol] = {}
    for spec in specs:
        tool = make_tool(spec, context)
        if tool.spec.name in tools:
            raise CardError(f"two tools are called {tool.spec.name!r}; give each name once")
        tools[tool.spec.name] = tool
    return Toolbox(tools)


def _checked(tool: Any) -> ToolProtocol:
    spec = getattr(tool, "spec", None)
    if not isinstance(spec, ToolSpec) or not callable(getattr(tool, "run", None)):
        raise CardError(
            f"{type(tool).__name__} is no tool: it needs 'spec', a ToolSpec, and 'run' (derive "
            "from searchgym.tools.Tool and override use)"
        )
    for method in ("use", "run"):
        if (own := getattr(tool, method, None)) is not None:
            require_answers(own, f"{type(tool).__name__}.{method}")
    if not _NAME.fullmatch(spec.name) or spec.name in _ACTIONS:
        raise CardError(
            f"a tool's name is letters, digits, '_', '.' and '-', and none of "
            f"{', '.join(sorted(_ACTIONS))}; got {spec.name!r}"
        )
    if not isinstance(getattr(tool, "needs_task", None), bool):
        raise CardError(f"the tool {spec.name!r} needs 'needs_task', true or false")
    if spec not in (SearchTool.spec, AccessTool.spec):
        from ..utils.arguments import check_schema

        check_schema(spec.parameters, spec.name)
    for own, argument in (("search", "query"), ("access", "url")):
        if spec.name == own and list(spec.parameters.get("properties", {})) != [argument]:
            raise CardError(f"a tool called {own!r} takes one argument, {argument!r}")
    return cast(ToolProtocol, tool)
