"""Base of the tag dialects (``<search>…</search>``): reads and writes tagged actions."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from searchgym.dialects.base import Described
from searchgym.dialects.escape import clean, escape_tags, one_line
from searchgym.errors import DialectError
from searchgym.types import (
    Access,
    Action,
    Answer,
    Call,
    Delegate,
    Invalid,
    Judge,
    Parsed,
    Ranking,
    Search,
    Span,
)

_DOUBLE_HASH = re.compile("#(?=#)")
_KINDS: dict[str, type] = {
    "search": Search,
    "access": Access,
    "tool": Call,
    "judge": Judge,
    "task": Delegate,
    "answer": Answer,
}
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


class TagDialect(Described, ABC):
    """Actions as tags. Options: ``parallel`` splits a search on ``##`` (ParallelSearch, arXiv
    2508.09303); ``access``, ``judge`` (ReSeek, arXiv 2510.00568) and ``delegate`` (CoDA) add tags;
    ``tools`` adds calls of any other tool, ``<tool>{"name": …, "arguments": {…}}</tool>``.
    """

    BASE: ClassVar[str]
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
        self.parallel = parallel
        kinds = ["search"]
        kinds += ["access"] * access + ["tool"] * tools + ["judge"] * judge
        kinds += ["task"] * delegate + ["answer"]
        self._tags = tuple(self.MARKS.get(kind) or make_tag(kind) for kind in kinds)
        self._tools = self._tags[:-1]
        self._answer = self._tags[-1]
        self.stop: tuple[str, ...] = tuple(t.close for t in self._tags)
        self.renders: frozenset[type] = frozenset(_KINDS[k] for k in kinds)

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
        if kind == "search":
            if self.parallel and "##" in content:
                action, here = split_queries(text, start, end)
                return Parsed(action, spans + here, cut)
            return Parsed(Search((content,)), spans + here, cut)
        if kind == "answer":
            return Parsed(Answer(content), spans + here, cut)
        if kind == "access":
            return Parsed(Access(content), spans + here, cut)
        if kind == "task":
            return Parsed(Delegate(content), spans + here, cut)
        if kind == "tool":
            from searchgym.dialects.calls import read_call

            call = read_call(content)
            return Parsed(call, spans if isinstance(call, Invalid) else spans + here, cut)
        verdict = content.lower()
        if verdict not in ("good", "bad"):
            return Parsed(Invalid(BAD_JUDGEMENT), spans, cut)
        return Parsed(Judge(verdict == "good"), spans + here, cut)

    # --- writing ------------------------------------------------------------------------------
    def canonical(self, action: Action) -> Action:
        if type(action) not in self.renders:
            raise DialectError(
                f"dialect {self.name!r} cannot write {type(action).__name__}; "
                f"it writes {', '.join(sorted(t.__name__ for t in self.renders))}"
            )
        if isinstance(action, Search):
            return checked_queries(
                map(self._query, action.queries), self.name, parallel=self.parallel
            )
        if isinstance(action, Judge):
            return Judge(bool(action.useful))
        if isinstance(action, Call):
            from searchgym.dialects.calls import canonical_call

            return canonical_call(action)
        text = action.task if isinstance(action, Delegate) else action[0]
        text = escape_tags(str(text)).strip()
        if not text:
            raise DialectError(f"{type(action).__name__} needs a text that is not empty")
        if isinstance(action, Answer):
            return Answer(text)
        return Access(text) if isinstance(action, Access) else Delegate(text)

    def _query(self, text: str) -> str:
        text = escape_tags(text).strip()
        return spread_hashes(text) if self.parallel else text

    def render_action(self, action: Action, thought: str = "") -> str:
        action = self.canonical(action)
        if isinstance(action, Search):
            body = f"<search> {' ## '.join(action.queries)} </search>"
        elif isinstance(action, Answer):
            body = f"<answer> {action.text} </answer>"
        elif isinstance(action, Access):
            body = f"<access> {action.url} </access>"
        elif isinstance(action, Judge):
            body = f"<judge>{'good' if action.useful else 'bad'}</judge>"
        elif isinstance(action, Call):
            from searchgym.dialects.calls import write_call

            body = f"<tool>{write_call(*action)}</tool>"
        else:
            assert isinstance(action, Delegate)
            body = f"<task> {action.task} </task>"
        return self._think(escape_tags(thought).strip()) + body

    def _think(self, thought: str) -> str:
        return f"<think>{thought}</think>\n" if thought else ""

    def render_call(self, call: Call, text: str, hits: Ranking) -> str:
        parts = [escape_tags(text).strip(), self._docs(hits) if hits else ""]
        return self._wrap("\n".join(filter(None, parts)))

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

    def force_answer(self, answer: str) -> tuple[str, str]:
        text = self.canonical(Answer(answer))[0]
        return self._think("I know enough to answer.") + "<answer> ", f"{text} </answer>"


def headed(groups: Sequence[tuple[str, str]]) -> str:
    """Bodies of several queries under one wrapper, each headed by its query."""
    return "\n\n".join(f"Query {i}: {query}\n{body}" for i, (query, body) in enumerate(groups, 1))
