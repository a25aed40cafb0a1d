"""A writer of pages by rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from searchgym.llms import Completion, GenRequest
from searchgym.types import Failure


def turned(text: str) -> str:
    """The sentences in another order; a page is a few, and a date or an initial ends none."""
    sentences = re.split(r"(?<=[a-z)\"]\.) (?=[A-Z\"])", text)
    return " ".join([*sentences[1:], sentences[0]]) + " And so on it went."


class Scripted:
    """A writer by rule; class attributes count what was asked, for the command makes its own."""

    needs_task = False
    capabilities = frozenset[str]()
    fingerprint = "scripted"
    asked = 0
    dies_after = 10**9

    def __init__(self, rule: Callable[[str], str] = turned) -> None:
        self.rule = rule

    def cache_key(self, request: GenRequest, /) -> bytes | None:
        return None

    def run(self, batch: Sequence[GenRequest], /) -> list[Completion | Failure]:
        Scripted.asked += len(batch)
        if Scripted.asked > Scripted.dies_after:
            raise KeyboardInterrupt
        pages = [str(r.prompt).partition("\n\nRewrite this page")[0] for r in batch]
        return [Completion(f" {self.rule(page)}\n\n") for page in pages]

    def score(self, batch: Sequence[object], /) -> list[Failure]:
        raise NotImplementedError
