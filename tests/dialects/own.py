"""Dialects as somebody else's module would hold them."""

from __future__ import annotations

from searchgym.dialects.base import View
from searchgym.dialects.search_r1 import SearchR1


class Brief(SearchR1):
    """A subclass that changes the instructions alone."""

    def instructions(self, view: View) -> str:
        return f"Be brief. {view.turns_left} turns.\n\n"


class Greeting(SearchR1):
    """A subclass with an option that is more than on or off."""

    def __init__(self, *, greeting: str = "Hello", parallel: bool = False) -> None:
        super().__init__(parallel=parallel)
        self.greeting = greeting

    FLAGS = ("parallel",)

    def instructions(self, view: View) -> str:
        return f"{self.greeting}.\n\n"


class Unnamed(Brief):
    """Named by a stranger's file alone."""


NOT_A_TEXT = 7
ASK = "Find out: {question} Use {tool_names}."
