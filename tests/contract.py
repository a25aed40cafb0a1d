"""An environment of somebody else's, as a package of his would hold it: a subclass with a reward, a
tool of its own, and an agent that plays by a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

import searchgym as sg


class Shout(sg.Tool):
    """Counts what it is told, and keeps the count."""

    spec = sg.ToolSpec(
        "shout",
        "Say a word aloud.",
        {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    )

    def use(self, args: Mapping[str, Any], state: Any) -> sg.ToolResult:
        count = (state or 0) + 1
        return sg.ToolResult((f"{args['word'].upper()}! ({count})",), state=count)


class LoudQA(sg.SearchEnv):
    """Pays for right answers, for shouting, and for brevity, by a reward of its own."""

    def reward(self, outcome: sg.Outcome) -> Mapping[str, float]:
        shouts = outcome.tool_states.get("shout", 0)
        return {
            "right": 2 * outcome.em,
            "loud": 0.25 * shouts,
            "long": -0.125 * len(outcome.turns),
            "answered": 0.5 * outcome.answered,
        }


class Scripted:
    """Shouts, searches, shouts again, and answers with the name of the first hit's colour."""

    free = True
    fingerprint = "scripted"

    def __init__(self, env: Any = None) -> None:
        """``env``: ignored; demonstrations are made of one."""

    def act(self, requests: Sequence[sg.TurnRequest], /) -> list[str]:
        return [self.text(request.turn) for request in requests]

    def text(self, turn: int) -> str:
        """What is said in a turn."""
        shout = '<tool_call>{"name": "shout", "arguments": {"word": "ha"}}</tool_call>'
        search = '<tool_call>{"name": "search", "arguments": {"query": "Aldor"}}</tool_call>'
        return [shout, search, shout, "<answer>blue</answer>"][min(turn, 3)]


gym.register(
    "LoudQA-v0",
    f"{__name__}:LoudQA",
    vector_entry_point=f"searchgym.envs.vector:{__name__}.LoudQA",
)
