"""Grammar that dialects share: spans of a text, the nearest action that can be written, and the
base of the tag dialects (``<search>…</search>``)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from ..errors import DialectError
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
from .base import Described, View
from .escape import PassageCache, clean, escape_tags, one_line

_DOUBLE_HASH = re.compile("#(?=#)")
_KINDS: dict[str, Any] = {
    "search": Search,
    "access": Access,
    "tool": Call,
    "judge": Judge,
    "task": Delegate,
    "answer": Answer,
}
MASKED = "masked"
"""Kind of a span that the policy wrote and is not trained on; it includes the block's tags."""
MAX_QUERIES = 64
"""Largest number of queries in a turn of any dialect; episodes usually allow far fewer."""
MAX_THOUGHTS = 64
"""Thoughts that get a span; a megabyte of tiny ones is not worth a hundred thousand records."""

UNCLOSED = "no closed action tag"
UNOPENED = "a tag is closed but not opened"
TOO_MANY = "too many queries"
BAD_JUDGEMENT = "a judgement is good or bad"
MALFORMED = frozenset({UNCLOSED, UNOPENED, BAD_JUDGEMENT, *(f"empty {kind}" for kind in _KINDS)})
"""Reasons why ``parse`` finds no action, as opposed to what an episode's rules forbid."""


class Tag(NamedTuple):
    kind: str
    open: str
    close: str
    size: int
    """Length of ``open``."""


def make_tag(kind: str) -> Tag:
    """``<kind>`` and ``</kind>``."""
    return Tag(kind, f"<{kind}>", f"</{kind}>", len(kind) + 2)


_THINK = make_tag("think")


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """The bounds of ``text[start:end].strip()``."""
    raw = text[start:end]
    left = raw.lstrip()
    start = end - len(left)
    return start, start + len(left.rstrip())


def thoughts(text: str, end: int, *, inside: bool = False) -> tuple[Span, ...]:
    """Closed, non-empty ``<think>`` spans before ``end``; ``inside``: the text begins in one."""
    spans: list[Span] = []
    at = 0
    if inside:
        close = text.find(_THINK.close, 0, end)
        if close >= 0 and text.find(_THINK.open, 0, close) < 0:
            at = close
            if text[:close].strip():
                spans.append(Span("think", *trim(text, 0, close)))
    while len(spans) < MAX_THOUGHTS:
        start = text.find(_THINK.open, at, end)
        if start < 0:
            break
        start += _THINK.size
        close = text.find(_THINK.close, start, end)
        if close < 0:
            break
        bounds = trim(text, start, close)
        if bounds[0] < bounds[1]:
            spans.append(Span("think", *bounds))
        at = close
    return tuple(spans)


def split_queries(text: str, start: int, end: int) -> tuple[Search | Invalid, tuple[Span, ...]]:
    """The queries in ``text[start:end]``, separated by ``##``, with spans; empty ones go."""
    pieces = text[start:end].split("##")
    if len(pieces) > MAX_QUERIES:
        return Invalid(TOO_MANY), ()
    queries: list[str] = []
    spans: list[Span] = []
    for piece in pieces:
        query = clean(piece).strip()
        if query:
            queries.append(query)
            spans.append(Span("search", *trim(text, start, start + len(piece))))
        start += len(piece) + 2
    return (Search(tuple(queries)) if queries else Invalid("empty search")), tuple(spans)


def checked_queries(queries: Iterable[str], name: str, *, parallel: bool) -> Search:
    """The non-empty queries as an action; DialectError if none, or more than can be written."""
    kept = tuple(filter(None, queries))
    if not kept:
        raise DialectError("a search needs a query that is not empty")
    if len(kept) > 1 and not parallel:
        raise DialectError(
            f"dialect {name!r} writes one query per turn, got {len(kept)}; "
            f"use {name.partition('+')[0] + '+parallel'!r}"
        )
    if len(kept) > MAX_QUERIES:
        raise DialectError(f"a turn holds at most {MAX_QUERIES} queries, got {len(kept)}")
    return Search(kept)


def spread_hashes(query: str) -> str:
    """``##`` separates queries, so inside one it is written ``# #``."""
    return _DOUBLE_HASH.sub("# ", query)


class TextDialect(Described, ABC):
    """Base of dialects that write an action as one text; the passages of results are remembered as
    they were written."""

    parallel: bool
    """True if one turn may hold several queries."""
    renders: frozenset[type]
    longest: ClassVar[int] = 4_096
    """Characters of a passage that is remembered, at most."""

    def __init__(self) -> None:
        self._tail = PassageCache(self._write_tail, longest=self.longest)

    def canonical(self, action: Action) -> Action:
        if type(action) not in self.renders:
            raise DialectError(
                f"dialect {self.name!r} cannot write {type(action).__name__}; "
                f"it writes {', '.join(sorted(t.__name__ for t in self.renders))}"
            )
        if isinstance(action, Search):
            queries = map(self._query, action.queries)
            return checked_queries(queries, self.name, parallel=self.parallel)
        if isinstance(action, Judge):
            return Judge(bool(action.useful))
        if isinstance(action, Call):
            from .calls import canonical_call

            return canonical_call(action)
        assert not isinstance(action, Invalid)
        named = isinstance(action, Delegate) and action.target
        text = self._text(f"{named}: {action[0]}" if named else str(action[0]))
        if not text:
            raise DialectError(f"{type(action).__name__} needs a text that is not empty")
        return type(action)(text)

    @abstractmethod
    def _text(self, text: str) -> str:
        """Write an answer, an address or a task so that it is read as it is."""

    def _query(self, text: str) -> str:
        return self._text(text)

    @abstractmethod
    def _write_tail(self, passage: Passage) -> str:
        """Write a passage, without its rank."""


class TagDialect(TextDialect):
    """Actions as tags. Options: ``parallel`` splits a search on ``##`` (ParallelSearch, arXiv
    2508.09303); ``access``, ``judge`` (ReSeek, arXiv 2510.00568) and ``delegate`` (CoDA) add tags;
    ``tools`` adds calls of any other tool, ``<tool>{"name": …, "arguments": {…}}</tool>``.
    """

    FLAGS: ClassVar[tuple[str, ...]] = ("parallel", "access", "judge", "delegate", "tools")
    MARKS: ClassVar[Mapping[str, Tag]] = {}
    """Marks other than ``<kind>`` and ``</kind>``."""
    TOOLS_FIRST: ClassVar[bool]
    """True if a closed tool tag ends the text even if an answer was closed before it."""
    THINKING: ClassVar[bool] = False
    """True if the environment's text ends in an open ``<think>``."""

    def __init__(
        self,
        *,
        parallel: bool = False,
        access: bool = False,
        judge: bool = False,
        delegate: bool = False,
        tools: bool = False,
    ) -> None:
        super().__init__()
        self.parallel = parallel
        kinds = ["search"]
        kinds += ["access"] * access + ["tool"] * tools + ["judge"] * judge
        kinds += ["task"] * delegate + ["answer"]
        self._tags = tuple(self.MARKS.get(kind) or make_tag(kind) for kind in kinds)
        self._tools = self._tags[:-1]
        self._answer = self._tags[-1]
        self.stop: tuple[str, ...] = tuple(t.close for t in self._tags)
        self.renders = frozenset(_KINDS[k] for k in kinds)

    # --- reading ------------------------------------------------------------------------------
    def parse(self, text: str) -> Parsed:
        cut = self._cut(text)
        if cut < 0:
            return Parsed(Invalid(UNCLOSED), self._thoughts(text, len(text)), len(text))
        first, first_open, first_close = self._answer, cut, -1
        for tag in self._tags:
            start = text.find(tag.open, 0, first_open)
            if start >= 0:
                end = text.find(tag.close, start + tag.size, cut)
                if end >= 0:
                    first, first_open, first_close = tag, start, end
        if first_close < 0:
            return Parsed(Invalid(UNOPENED), self._thoughts(text, cut), cut)
        return self._read(text, first, first_open, first_close, cut)

    def _cut(self, text: str) -> int:
        """End of the text that counts, or -1 if no action tag is closed."""
        best = -1
        for tag in self._tools if self.TOOLS_FIRST else self._tags:
            at = text.find(tag.close, 0, best if best >= 0 else len(text))
            if at >= 0:
                best = at + len(tag.close)
        if best < 0 and self.TOOLS_FIRST:
            at = text.find(self._answer.close)
            best = at + len(self._answer.close) if at >= 0 else -1
        return best

    def _thoughts(self, text: str, end: int) -> tuple[Span, ...]:
        return thoughts(text, end, inside=self.THINKING)

    def _read(self, text: str, tag: Tag, opened: int, closed: int, cut: int) -> Parsed:
        start, end = trim(text, opened + tag.size, closed)
        content = text[start:end]
        if not content.isprintable():  # nearly every turn's is
            content = clean(content).strip()
        spans = self._thoughts(text, opened)
        kind = tag.kind
        if not content:
            return Parsed(Invalid(f"empty {kind}"), spans, cut)
        here: tuple[Span, ...] = (Span(kind, start, end),)
        action: Action
        if kind == "search" and self.parallel and "##" in content:
            action, here = split_queries(text, start, end)
        elif kind == "search":
            action = Search((content,))
        elif kind == "tool":
            from .calls import read_call

            action = read_call(content)
            here = () if isinstance(action, Invalid) else here
        elif kind != "judge":
            action = _KINDS[kind](content)
        elif (verdict := content.lower()) in ("good", "bad"):
            action = Judge(verdict == "good")
        else:
            action, here = Invalid(BAD_JUDGEMENT), ()
        return Parsed(action, spans + here, cut)

    # --- writing ------------------------------------------------------------------------------
    def _text(self, text: str) -> str:
        return escape_tags(text).strip()

    def _query(self, text: str) -> str:
        text = self._text(text)
        return spread_hashes(text) if self.parallel else text

    def render_action(self, action: Action, thought: str = "") -> str:
        action = self.canonical(action)
        tag = next(t for t in self._tags if _KINDS[t.kind] is type(action))
        if isinstance(action, Judge):
            body = "good" if action.useful else "bad"
        elif isinstance(action, Call):
            from .calls import write_call

            body = write_call(*action)
        else:
            text = " ## ".join(action.queries) if isinstance(action, Search) else action[0]
            body = f" {text} "
        return self._think(self._text(thought)) + tag.open + body + tag.close

    def _think(self, thought: str) -> str:
        return f"<think>{thought}</think>\n" if thought else ""

    def force_answer(self, answer: str) -> tuple[str, str]:
        text = self.canonical(Answer(answer))[0]
        return self._think("I know enough to answer.") + "<answer> ", f"{text} </answer>"

    def instructions(self, view: View) -> str:
        from .instructions import tag_instructions

        return tag_instructions(view, self.renders, parallel=self.parallel)

    def render_hits(self, groups: Sequence[tuple[str, Ranking]]) -> str:
        if len(groups) == 1:
            return self._wrap(self._docs(groups[0][1]))
        bodies = [
            f"Query {i}: {self._line(query)}\n{self._docs(hits)}"
            for i, (query, hits) in enumerate(groups, 1)
        ]
        return self._wrap("\n\n".join(bodies))

    def render_call(self, call: Call, text: str, hits: Ranking) -> str:
        parts = [self._text(text), self._docs(hits) if hits else ""]
        return self._wrap("\n".join(filter(None, parts)))

    def render_page(self, page: Page, text: str, *, part: int, parts: int) -> str:
        return self._page(page.title, page.url, f"part {part} of {parts}", text)

    def render_stub(self, page_title: str, url: str, text: str, *, part: int = 1) -> str:
        return self._page(page_title, url, f"part {part}, shortened", text)

    def _page(self, title: str, url: str, part: str, text: str) -> str:
        head = f"{self._line(title)} {self._line(url)} ({part})"
        return self._wrap(f"{head}\n{escape_tags(text)}")

    def render_missing(self, url: str) -> str:
        return self._wrap(f"No page has the URL {self._line(url)}")

    def render_report(self, text: str) -> str:
        return self._wrap(self._text(text))

    @abstractmethod
    def _docs(self, hits: Ranking) -> str:
        """Passages, one after another, without a wrapper."""

    @abstractmethod
    def _wrap(self, body: str) -> str:
        """The wrapper of whatever tools say."""

    def escape(self, text: str) -> str:
        return escape_tags(text)

    def _line(self, text: str) -> str:
        return one_line(escape_tags(text)).strip()
