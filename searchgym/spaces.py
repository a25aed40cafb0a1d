"""Gymnasium spaces of free text and of chats.

``gymnasium.spaces.Text`` fixes a character set and therefore rejects ordinary Unicode ("é"), which
passages contain; a space without ``sample`` cannot be checked. These hold any string, and any chat
of JSON values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Space

_WORDS = (
    "search", "answer", "what", "who", "where", "river", "city", "1987", "the", "of", "<search>",
    "</search>", "<answer>", "</answer>", "é", "日本", "?", "{", "}",
)  # fmt: skip


class FreeText(Space[str]):
    """Any string of at most ``max_length`` characters; ``sample`` draws a few words."""

    def __init__(self, max_length: int = 1_000_000, seed: int | np.random.Generator | None = None):
        super().__init__(shape=None, dtype=str, seed=seed)
        self.max_length = int(max_length)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        n = int(self.np_random.integers(0, 12))
        words = [_WORDS[int(i)] for i in self.np_random.integers(0, len(_WORDS), size=n)]
        return " ".join(words)[: self.max_length]

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        return [str(s) for s in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash(("FreeText", self.max_length))

    def __repr__(self) -> str:
        return f"FreeText(max_length={self.max_length})"


ROLES = ("system", "user", "assistant", "tool")


class ChatSpace(Space[Any]):
    """Chats: ``{"messages": [{"role", "content", …}, …], "tools": [schema, …]}`` of JSON values,
    whose contents have at most ``max_length`` characters in all (``searchgym.messages.Chat``).

    ``sample`` draws a short chat. In Gymnasium's ``AsyncVectorEnv`` such observations travel by
    pipe: ``shared_memory=False``.
    """

    def __init__(self, max_length: int = 1_000_000, seed: int | np.random.Generator | None = None):
        super().__init__(shape=None, dtype=None, seed=seed)
        self.max_length = int(max_length)
        self._texts = FreeText(max_length // 8)

    def sample(self, mask: Any = None, probability: Any = None) -> dict[str, Any]:
        self._texts._np_random = self.np_random
        turns = int(self.np_random.integers(1, 4))
        roles = ["system", "user", *["assistant", "tool"] * turns][: 2 * turns]
        return {
            "messages": [{"role": role, "content": self._texts.sample()} for role in roles],
            "tools": [],
        }

    def contains(self, x: Any) -> bool:
        if not isinstance(x, Mapping) or set(x) != {"messages", "tools"}:
            return False
        messages, tools = x["messages"], x["tools"]
        if not isinstance(messages, list) or not isinstance(tools, list):
            return False
        for message in messages:
            if not isinstance(message, Mapping) or message.get("role") not in ROLES:
                return False
            if not isinstance(message.get("content"), str):
                return False
        try:
            json.dumps(x, allow_nan=False)
        except (TypeError, ValueError):
            return False
        return sum(len(message["content"]) for message in messages) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def to_jsonable(self, sample_n: Iterable[Any]) -> list[Any]:
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[Any]:
        return [dict(chat) for chat in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChatSpace) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash(("ChatSpace", self.max_length))

    def __repr__(self) -> str:
        return f"ChatSpace(max_length={self.max_length})"
