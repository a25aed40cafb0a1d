"""Episodes over a few tools and the small corpus; shared by tests."""

from __future__ import annotations

from typing import Any

from searchgym.core import Episode, EpisodeConfig, Rules, run_tools
from searchgym.dialects import get_dialect
from searchgym.engines import build_engine
from searchgym.tools import ToolContext, make_toolbox
from searchgym.types import Call
from tests.small import CORPUS, TASKS

DIALECT = "json_tools+tools"
SMALL = {"corpus": CORPUS, "tasks": TASKS}


def context() -> ToolContext:
    return ToolContext(CORPUS, build_engine("bm25", CORPUS))


def begin(*tools: Any, dialect: str = DIALECT, seed: int = 1) -> tuple[Episode, Any]:
    toolbox = make_toolbox(tools, context())
    rules = Rules(
        toolbox.specs(tuple(toolbox.tools)), dialect=dialect, max_turns=40,
        needs_task=tuple(toolbox.needs_task),
    )  # fmt: skip
    return Episode(EpisodeConfig(TASKS[0], rules, seed, f"e{seed}")), toolbox


def call(e: Episode, toolbox: Any, tool: str, **args: Any) -> str:
    e.act(get_dialect(e.config.rules.dialect).render_action(Call(tool, args)))
    run_tools([e], toolbox)
    return "".join(map(str, e.turns[-1].results[0].parts)) if e.turns[-1].results else ""
