"""State of tools within an episode: JSON texts, so that no two episodes share an object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import EngineError
from ..types import ToolResult

MAX_STATE = 100_000
"""Characters of a state's JSON."""


def state_text(tool: str, state: Any) -> str:
    """The JSON of a state.

    Raises:
        EngineError: the state is not made of JSON values alone (a tuple or a number as a key would
            come back as something else, NaN is no JSON), or longer than :data:`MAX_STATE`.
    """
    try:
        text = json.dumps(state, ensure_ascii=False, allow_nan=False)
        same = json.loads(text) == state
    except (TypeError, ValueError, RecursionError) as error:
        raise EngineError(f"the tool {tool!r} returned a state that is not JSON: {error}") from None
    if not same:
        raise EngineError(
            f"the tool {tool!r} returned a state that JSON does not give back as it was: use lists "
            f"instead of tuples and texts as keys; got {state!r:.80}"
        )
    if len(text) > MAX_STATE:
        raise EngineError(
            f"the tool {tool!r} returned a state of {len(text)} characters of JSON; at most "
            f"{MAX_STATE} are kept"
        )
    return text


def with_own_state(tool: str, result: ToolResult) -> ToolResult:
    """Result with a private copy of its state."""
    if result.state is None:
        return result
    return result._replace(state=json.loads(state_text(tool, result.state)))


def states_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of JSON texts, made anew."""
    return {name: json.loads(text) for name, text in texts.items()}
