"""``decoy``: tools that look like another one and find nothing (ASTRA's look-alikes, the many tools
that ToolGen's agents choose from).

``tools=[*real, *decoys(real, 8)]`` offers eight of them after the real ones, so that the axis
``tools`` says how many an episode has.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

from ..errors import CardError
from ..types import ToolResult
from .base import Tool, ToolContext
from .registry import make_tool

_NAMES = (
    "{}_plus", "quick_{}", "{}_archive", "smart_{}", "global_{}", "{}_lite", "deep_{}", "{}_beta",
)  # fmt: skip
_SAYS = (
    "Extended version. {}", "Answers at once. {}", "Covers older entries, too. {}",
    "Understands more forms of input. {}", "Covers all regions. {}", "Light-weight version. {}",
    "Goes deeper. {}", "New version. {}",
)  # fmt: skip


class DecoyTool(Tool):
    """A tool with the arguments of another, a name and a description like its, and no result.

    Args:
        of: The tool that it looks like, in any form that ``tools=`` takes.
        number: Which of its look-alikes, from 0; each has a name and a description of its own.
        cost: Cost of each call.

    Raises:
        CardError: ``number`` is no whole number from 0.
    """

    registered = "decoy"
    time_limit = None

    def __init__(self, of: Any, number: int = 0, *, cost: float = 0.0) -> None:
        super().__init__(cost=cost)
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise CardError(f"the number of a decoy is a whole number from 0, got {number!r}")
        self.of, self.number = of, number

    def bind(self, context: ToolContext) -> Self:
        """A copy that looks like the tool as ``context`` binds it."""
        real = make_tool(self.of, context).spec
        again, form = divmod(self.number, len(_NAMES))
        name = _NAMES[form].format(real.name) + (f"_{again + 1}" if again else "")
        bound = copy.copy(self)
        described = _SAYS[form].format(real.description)
        bound.spec = real._replace(name=name, description=described, shares="")
        return bound

    def use(self, args: Mapping[str, Any], state: Any = None) -> ToolResult:
        return ToolResult(("No result.",))


def decoys(tools: Sequence[Any], count: int) -> list[dict[str, Any]]:
    """``count`` decoys as tables for ``tools=``, of each of ``tools`` in turn."""
    if not tools and count:
        raise CardError("decoys look like real tools: name at least one")
    rounds = [divmod(i, len(tools)) for i in range(count)]
    return [{"use": "decoy", "of": tools[place], "number": number} for number, place in rounds]
