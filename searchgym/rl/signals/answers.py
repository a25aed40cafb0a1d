"""Signal: 1.0 for each turn whose tool results hold the answer."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.episode import Episode
from ...engines.simulated.text import mentions, telling
from ...types import Page, ToolResult
from ..slots.protocols import Slot
from ..slots.records import Group, Signals, Workers
from .turns import in_columns


class AnswerShown(Slot):
    """``turn_answer_shown``: (M, K) 1 for a turn whose results hold an accepted answer as whole
    words, else 0 (MT-GRPO, arXiv 2505.11821). Needs no gold passages. Answers such as yes and
    small numbers, which texts hold everywhere, are shown by none."""

    registered = "answer_shown"
    provides = frozenset({"turn_answer_shown"})

    def measure(self, groups: Sequence[Group], workers: Workers) -> list[Signals]:
        return [
            {"turn_answer_shown": in_columns([shown_by_turn(m.episode) for m in group.members])}
            for group in groups
        ]


def shown_by_turn(episode: Episode) -> list[float]:
    """Return 1.0 for each turn one of whose results holds an accepted answer, else 0.0."""
    answers = [a for a in episode.config.task.answers if telling(a)]
    return [
        float(bool(answers) and any(mentions(_text(episode, r), answers) for r in turn.results
                                    if isinstance(r, ToolResult)))
        for turn in episode.turns
    ]  # fmt: skip


def _text(episode: Episode, result: ToolResult) -> str:
    """Return the text of a result that the policy sees, truncated as the environment does."""
    rules = episode.config.rules
    texts = [f"{p.title} . {p.text[: rules.snippet_chars]}" for p, _ in result.hits]
    texts += [part for part in result.parts if isinstance(part, str)]
    page = result.meta.get("page")
    if isinstance(page, Page):
        texts.append(f"{page.title} . {page.text[: rules.page_chars]}")
    return " . ".join(texts)
