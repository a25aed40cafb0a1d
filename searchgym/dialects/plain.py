"""One line per action, for scripts and people: ``search: …``, ``access: …``, ``answer: …``.

The first line of that form counts; lines before it are thought, lines after it are ignored.
Several queries stand in one line, separated by ``##``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from ..types import (
    Access,
    Action,
    Answer,
    Call,
    Delegate,
    Invalid,
    Judge,
    Page,
    Parsed,
    Passage,
    Ranking,
    Search,
    Span,
)
from .base import View
from .calls import listed, read_call, write_call
from .escape import INVISIBLE, clean, loosely, one_line
from .instructions import NO_SEARCH, callable_tools, handed, limits, opening
from .tags import BAD_JUDGEMENT, TextDialect, split_queries, spread_hashes, trim

_WORDS = ("search", "access", "answer", "judge", "delegate")
_FORMS, _ENDS = "Act by one line:", "'answer: the answer alone', which ends the episode."
"""First and last of what the instructions say on how an action is written."""
_KINDS: dict[str, Any] = {"answer": Answer, "access": Access, "delegate": Delegate}


def _line(words: Sequence[str]) -> re.Pattern[str]:
    return re.compile(
        rf"^[ \t]*+({'|'.join(words)})[ \t]*+:[ \t]*+([^\n]*+)", re.MULTILINE | re.IGNORECASE
    )


def _lookalike(words: Sequence[str]) -> re.Pattern[str]:
    """Pattern looser than ``_line`` on purpose: other blanks, invisible characters, Unicode
    case."""
    keywords = "|".join(map(loosely, words))
    return re.compile(
        rf"^(?=(?:[^\S\n]|[{INVISIBLE}])*+(?:{keywords})(?:[^\S\n]|[{INVISIBLE}])*+:)",
        re.MULTILINE | re.IGNORECASE,
    )


def without_forms(instructions: str) -> str:
    """What the instructions say of the task and its limits, not how an action is written."""
    task, begun, forms = instructions.partition(_FORMS)
    return (task + forms.partition(_ENDS)[2].lstrip() if begun else task).strip()


class Plain(TextDialect):
    """Minimal dialect. Observations are lines that can never look like an action. Option ``tools``:
    calls of any other tool, ``call: {"name": …, "arguments": {…}}``."""

    BASE: ClassVar[str] = "plain"
    FLAGS: ClassVar[tuple[str, ...]] = ("tools",)

    def __init__(self, *, tools: bool = False) -> None:
        super().__init__()
        self.parallel = True
        self.stop: tuple[str, ...] = ()
        kinds = {Search, Access, Answer, Judge, Delegate}
        self.renders = frozenset(kinds | {Call} if tools else kinds)
        words = (*_WORDS, "call") if tools else _WORDS
        self._action, self._lookalike = _line(words), _lookalike(words)

    # --- reading ------------------------------------------------------------------------------
    def parse(self, text: str) -> Parsed:
        match = self._action.search(text)
        if match is None:
            return Parsed(Invalid("no line is an action"), (), len(text))
        kind, cut = match[1].lower(), match.end()
        before = trim(text, 0, match.start())
        thought = (Span("think", *before),) if before[0] < before[1] else ()
        start, end = trim(text, match.start(2), cut)
        content = self._text(text[start:end])
        if not content:
            return Parsed(Invalid(f"empty {kind}"), thought, cut)
        label = "task" if kind == "delegate" else kind
        spans: tuple[Span, ...] = (Span(label, start, end),)
        action: Action
        if kind == "search":
            action, spans = split_queries(text, start, end)
            if isinstance(action, Search):
                action = Search(tuple(map(one_line, action.queries)))
        elif kind == "call":
            action = read_call(content)
            spans = () if isinstance(action, Invalid) else (Span("tool", start, end),)
        elif kind != "judge":
            action = _KINDS[kind](content)
        elif content.lower() in ("good", "bad"):
            action = Judge(content.lower() == "good")
        else:
            action, spans = Invalid(BAD_JUDGEMENT), ()
        return Parsed(action, thought + spans, cut)

    def _text(self, text: str) -> str:
        return one_line(clean(text)).strip()

    def _query(self, text: str) -> str:
        return spread_hashes(self._text(text))

    # --- writing ------------------------------------------------------------------------------
    def render_action(self, action: Action, thought: str = "") -> str:
        action = self.canonical(action)
        if isinstance(action, Search):
            line = f"search: {' ## '.join(action.queries)}"
        elif isinstance(action, Call):
            line = f"call: {write_call(*action)}"
        elif isinstance(action, Judge):
            line = f"judge: {'good' if action.useful else 'bad'}"
        else:
            line = f"{type(action).__name__.lower()}: {action[0]}"
        thought = self.escape(thought).strip()
        return f"{thought}\n{line}" if thought else line

    def _write_tail(self, passage: Passage) -> str:
        return (
            f". {self._text(passage.title)} <{self._text(passage.url)}>: {self._text(passage.text)}"
        )

    def _rows(self, hits: Ranking) -> list[str]:
        tail = self._tail
        return [f"  {i}{tail[hit.passage]}" for i, hit in enumerate(hits, 1)]

    def render_hits(self, groups: Sequence[tuple[str, Ranking]]) -> str:
        blocks = []
        for query, hits in groups:
            rows = self._rows(hits) or ["  none"]
            blocks.append("\n".join([f"results for {self._text(query)!r}:", *rows]))
        return "\n" + "\n".join(blocks) + "\n"

    def render_call(self, call: Call, text: str, hits: Ranking) -> str:
        rows = [f"  {self.escape(self._text(line))}" for line in text.splitlines() if line.strip()]
        shown = "\n".join([*rows, *self._rows(hits)]) or "  none"
        return f"\noutput of {self._text(call.tool)}:\n{shown}\n"

    def render_page(self, page: Page, text: str, *, part: int, parts: int) -> str:
        return self._page(page.title, page.url, f"part {part} of {parts}", text)

    def render_stub(self, page_title: str, url: str, text: str, *, part: int = 1) -> str:
        return self._page(page_title, url, f"part {part}, shortened", text)

    def _page(self, title: str, url: str, what: str, text: str) -> str:
        head = f"page {self._text(title)} <{self._text(url)}> ({what}):"
        return f"\n{head}\n{self.escape(text)}\n"

    def render_missing(self, url: str) -> str:
        return f"\nno page has the URL {self._text(url)}\n"

    def render_invalid(self, reason: str) -> str:
        return (
            f"\ninvalid action ({self._text(reason)}); write one line as you were told, for "
            "example\n  'answer: a name'\n"  # the one action that every episode takes
        )

    def render_report(self, text: str) -> str:
        return f"\nreport: {self._text(text)}\n"

    def escape(self, text: str) -> str:
        text = clean(text)
        return self._lookalike.sub("| ", text) if ":" in text else text

    def force_answer(self, answer: str) -> tuple[str, str]:
        line = self.render_action(Answer(answer))
        bridge = "answer: "
        return f"I know enough to answer.\n{bridge}", line.removeprefix(bridge)

    def instructions(self, view: View) -> str:
        tools = {spec.name for spec in view.tools} if view.role != "planner" else set()
        parts = [opening(view), _FORMS]
        if "search" in tools and view.queries_left != 0:
            several = " (or several: a ## b)" if view.max_parallel > 1 else ""
            parts.append(f"'search: query'{several}, which shows {view.k} passages;")
        elif view.role != "planner" and not callable_tools(view, self.renders):
            parts.insert(1, NO_SEARCH)
        if specs := callable_tools(view, self.renders):
            parts.append(
                '\'call: {"name": …, "arguments": {…}}\' in JSON on one line, which uses one of '
                f"these tools:\n{listed(specs)}\n"
            )
        if "access" in tools:
            parts.append("'access: url', which opens a page;")
        if view.judge:
            parts.append("'judge: good' or 'judge: bad', which keeps or removes the last results;")
        if view.delegate:
            parts.append(f"'delegate: {handed(view)}', which hands over a sub-task;")
        parts.append(_ENDS)
        return " ".join(parts + limits(view, parallel=True)) + "\n\n"

    def question(self, text: str) -> str:
        return f"question: {self._text(text)}\n"
