"""JSON tool calls in the Hermes/Qwen form: ``<tool_call>{"name": …, "arguments": …}</tool_call>``.

What a JSON string can hold, an action can say: tags inside queries survive a round trip, written
with ``\\u003c``. An answer is a call of the tool ``answer``, or an ``<answer>`` tag.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..errors import DialectError, unknown
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
from .calls import OWN_FORM, call_of, dumps, loads, read_object, tool_table, write_call
from .escape import clean, escape_tags, one_line
from .instructions import NO_SEARCH, callable_tools, handed, limits, opening
from .tags import MAX_QUERIES, TOO_MANY, TextDialect, make_tag, thoughts, trim

_CALL = make_tag("tool_call")
_ANSWER = make_tag("answer")
_SPACE = re.compile(r"\s*+")
# A JSON string value of a key, quotes excluded. Possessive: read once, so linear.
_VALUE = r'"{}"\s*+:\s*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_VALUES = {
    key: re.compile(_VALUE.format(key), re.DOTALL) for key in ("query", "url", "answer", "task")
}
_SHOWN_NAME = 40
_FORMS: Mapping[str, tuple[str, Any, str]] = {
    "search": ("query", lambda text: Search((text,)), "search"),
    "access": ("url", Access, "access"),
    "answer": ("answer", Answer, "answer"),
    "delegate": ("task", Delegate, "task"),
}
"""Name of a call → its argument, what it becomes, and the kind of the argument's span."""


def _spec(name: str, description: str, key: str, kind: str) -> dict[str, Any]:
    properties = {"type": "object", "properties": {key: {"type": kind}}, "required": [key]}
    return {"name": name, "description": description, "parameters": properties}


def _decode(literal: str) -> str | None:
    try:
        return str(loads(f'"{literal}"'))
    except ValueError:
        return None


class JsonTools(TextDialect):
    """Options: ``parallel``, several calls of ``search`` in one turn, or a list ``queries``;
    ``tools``, calls of any other tool by its name; ``native``, for chat templates that describe the
    tools and wrap results themselves: instructions and results leave both out."""

    BASE: ClassVar[str] = "json_tools"
    FLAGS: ClassVar[tuple[str, ...]] = ("parallel", "tools", "native")

    def __init__(
        self, *, parallel: bool = False, tools: bool = False, native: bool = False
    ) -> None:
        super().__init__()
        self.parallel, self._calls, self.native = parallel, tools, native
        # Where several calls may follow each other, generation must not stop after the first.
        self.stop: tuple[str, ...] = (_ANSWER.close,) if parallel else (_CALL.close, _ANSWER.close)
        kinds = {Search, Access, Answer, Judge, Delegate}
        self.renders = frozenset(kinds | {Call} if tools else kinds)

    # --- reading ------------------------------------------------------------------------------
    def parse(self, text: str) -> Parsed:
        call_end = text.find(_CALL.close)
        answer_end = text.find(_ANSWER.close, 0, call_end if call_end >= 0 else len(text))
        if answer_end >= 0:
            return self._read_answer(text, answer_end)
        if call_end < 0:
            return Parsed(Invalid("no closed tool call"), thoughts(text, len(text)), len(text))
        cut = call_end + len(_CALL.close)
        start = text.find(_CALL.open, 0, call_end)
        if start < 0:
            return Parsed(Invalid("a tool call is closed but not opened"), thoughts(text, cut), cut)
        before = thoughts(text, start)
        action, spans = self._read_call(text, start + _CALL.size, call_end)
        if self.parallel and isinstance(action, Search):
            queries, query_spans = list(action.queries), list(spans)
            while len(queries) <= MAX_QUERIES and (more := self._read_next(text, cut)) is not None:
                extra, extra_spans, cut = more
                queries += extra
                query_spans += extra_spans
            action, spans = Search(tuple(queries)), tuple(query_spans)
            if len(queries) > MAX_QUERIES:
                action, spans = Invalid(TOO_MANY), ()
        return Parsed(action, before + spans, cut)

    def _read_answer(self, text: str, end: int) -> Parsed:
        cut = end + len(_ANSWER.close)
        start = text.find(_ANSWER.open, 0, end)
        if start < 0:
            return Parsed(Invalid("an answer is closed but not opened"), thoughts(text, cut), cut)
        before = thoughts(text, start)
        start, end = trim(text, start + _ANSWER.size, end)
        content = clean(text[start:end]).strip()
        if not content:
            return Parsed(Invalid("empty answer"), before, cut)
        return Parsed(Answer(content), (*before, Span("answer", start, end)), cut)

    def _read_next(
        self, text: str, at: int
    ) -> tuple[tuple[str, ...], tuple[Span, ...], int] | None:
        """A further search call right behind the last one, if there is a sound one."""
        space = _SPACE.match(text, at)
        start = space.end() if space else at
        if not text.startswith(_CALL.open, start):
            return None
        end = text.find(_CALL.close, start)
        if end < 0:
            return None
        action, spans = self._read_call(text, start + _CALL.size, end)
        if not isinstance(action, Search):
            return None
        return action.queries, spans, end + len(_CALL.close)

    def _read_call(self, text: str, start: int, end: int) -> tuple[Action, tuple[Span, ...]]:
        pair = read_object(text[start:end])
        if isinstance(pair, Invalid):
            return pair, ()
        return self._read_arguments(text, start, end, *pair)

    def _read_arguments(
        self, text: str, start: int, end: int, name: object, arguments: dict[str, Any]
    ) -> tuple[Action, tuple[Span, ...]]:
        if name == "search" and "query" not in arguments and "queries" in arguments:
            return self._read_queries(text, start, end, arguments["queries"])
        if self._calls and isinstance(name, str) and clean(name).strip() not in OWN_FORM:
            call = call_of(name, arguments)
            return call, () if isinstance(call, Invalid) else (
                Span("tool", *trim(text, start, end)),
            )
        if name == "judge":
            useful = arguments.get("useful")
            if not isinstance(useful, bool):
                return Invalid('judge needs "useful": true or false'), ()
            return Judge(useful), (Span("judge", *trim(text, start, end)),)
        if not isinstance(name, str):
            return Invalid("the name of a tool is a string"), ()
        if name not in _FORMS:
            shown, known = one_line(clean(name))[:_SHOWN_NAME], ("search", "access", "answer")
            return Invalid(unknown("tool", shown, known)), ()
        key, make, label = _FORMS[name]
        value = arguments.get(key)
        if not isinstance(value, str):
            return Invalid(f'{name} needs "{key}", a string'), ()
        content = clean(value).strip()
        if not content:
            return Invalid(f"empty {key}"), ()
        return make(content), (Span(label, *self._locate(text, start, end, key, value)),)

    def _read_queries(
        self, text: str, start: int, end: int, queries: object
    ) -> tuple[Action, tuple[Span, ...]]:
        if not isinstance(queries, list) or not all(isinstance(q, str) for q in queries):
            return Invalid('"queries" is a list of strings'), ()
        kept = tuple(filter(None, (clean(q).strip() for q in queries)))
        if not kept:
            return Invalid("empty query"), ()
        if len(kept) > (MAX_QUERIES if self.parallel else 1):
            return Invalid(TOO_MANY), ()
        return Search(kept), (Span("search", *trim(text, start, end)),)

    def _locate(self, text: str, start: int, end: int, key: str, value: str) -> tuple[int, int]:
        """Locate the value's literal (JSON keeps the last of equal keys), else the call."""
        span = trim(text, start, end)
        for match in _VALUES[key].finditer(text, start, end):
            literal = match[1]
            if literal == value or ("\\" in literal and _decode(literal) == value):
                span = trim(text, match.start(1), match.end(1))
        return span

    # --- writing ------------------------------------------------------------------------------
    def _text(self, text: str) -> str:
        return clean(text).strip()

    def render_action(self, action: Action, thought: str = "") -> str:
        action = self.canonical(action)
        calls: list[tuple[str, Mapping[str, Any]]]
        if isinstance(action, Search):
            calls = [("search", {"query": q}) for q in action.queries]
        elif isinstance(action, Call):
            calls = [(action.tool, action.args)]
        elif isinstance(action, Judge):
            calls = [("judge", {"useful": action.useful})]
        else:
            name = type(action).__name__.lower()
            calls = [(name, {_FORMS[name][0]: action[0]})]
        thought = escape_tags(thought).strip()
        head = f"<think>\n{thought}\n</think>\n\n" if thought else ""
        return head + "\n".join([self._call(name, args) for name, args in calls])

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        return f"{_CALL.open}\n{write_call(name, arguments)}\n{_CALL.close}"

    def _wrap(self, *bodies: str) -> str:
        if self.native:
            return "\n".join(bodies)
        blocks = [f"\n<tool_response>\n{body}\n</tool_response>" for body in bodies]
        return "".join(blocks) + "\n"

    def _write_tail(self, passage: Passage) -> str:
        fields = {"title": passage.title, "url": passage.url, "text": passage.text}
        return dumps({key: escape_tags(value) for key, value in fields.items()})[1:]

    def _docs(self, hits: Ranking) -> str:
        tail = self._tail
        return ", ".join([f'{{"rank": {i}, {tail[hit.passage]}' for i, hit in enumerate(hits, 1)])

    def render_hits(self, groups: Sequence[tuple[str, Ranking]]) -> str:
        docs = self._docs
        bodies = [
            f'{{"query": {dumps(escape_tags(query))}, "results": [{docs(hits)}]}}'
            for query, hits in groups
        ]
        return self._wrap(*bodies)

    def render_call(self, call: Call, text: str, hits: Ranking) -> str:
        body = f'{{"tool": {dumps(escape_tags(call.tool))}'
        if text:
            body += f', "output": {dumps(escape_tags(text))}'
        if hits:
            body += f', "results": [{self._docs(hits)}]'
        return self._wrap(body + "}")

    def _object(self, **fields: object) -> str:
        safe = {k: escape_tags(v) if isinstance(v, str) else v for k, v in fields.items()}
        return self._wrap(dumps(safe))

    def render_page(self, page: Page, text: str, *, part: int, parts: int) -> str:
        return self._object(title=page.title, url=page.url, part=part, parts=parts, text=text)

    def render_stub(self, page_title: str, url: str, text: str, *, part: int = 1) -> str:
        return self._object(title=page_title, url=url, part=part, shortened=True, text=text)

    def render_missing(self, url: str) -> str:
        return self._object(error="no page has this URL", url=url)

    def render_invalid(self, reason: str) -> str:
        return self._object(
            error=f"invalid action: {reason}",
            expected='{"name": …, "arguments": {…}} between tool_call tags',
        )

    def render_report(self, text: str) -> str:
        return self._object(report=text)

    def escape(self, text: str) -> str:
        return escape_tags(text)

    def force_answer(self, answer: str) -> tuple[str, str]:
        text = escape_tags(answer).strip()
        if not text:
            raise DialectError("Answer needs a text that is not empty")
        return "<think>\nI know enough to answer.\n</think>\n\n<answer> ", f"{text} </answer>"

    def instructions(self, view: View) -> str:
        specs = []
        for tool in view.tools:
            if tool.name not in OWN_FORM and not self._calls:
                continue
            if view.role != "planner" and (tool.name == "access" or view.queries_left != 0):
                specs.append(tool_table(tool))
        parts = [opening(view)]
        searching = any(tool.name == "search" for tool in view.tools) and view.queries_left != 0
        if view.role != "planner" and not searching and not callable_tools(view, self.renders):
            parts.append(NO_SEARCH)
        if view.judge:
            specs.append(_spec("judge", "Keep or remove the newest results.", "useful", "boolean"))
        if view.delegate:
            told = f" The task reads: {handed(view)}." if view.targets else ""
            specs.append(_spec("delegate", f"Hand over a sub-task.{told}", "task", "string"))
        specs.append(_spec("answer", "Finish with the answer alone.", "answer", "string"))
        parts += limits(view, parallel=self.parallel)
        if self.parallel and view.max_parallel > 1:
            parts.append("Write several search calls one after another to run them together.")
        if self.native:  # the template lists the tools and says how they are called
            own = [spec for spec in specs if spec["name"] in ("judge", "delegate")]
            if own:
                parts.append("Besides, you may call " + " and ".join(map(dumps, own)) + ".")
            parts.append("To finish, write only the answer itself, <answer> like this </answer>.")
            return " ".join(parts) + "\n\n"
        listed = "\n".join(dumps({"type": "function", "function": spec}) for spec in specs)
        return (
            f"{' '.join(parts)}\n\nYour tools, one JSON signature per line:\n{listed}\n\n"
            "After thinking between <think> and </think>, call a tool like this:\n"
            '<tool_call>\n{"name": "answer", "arguments": {"answer": "…"}}\n</tool_call>\n\n'
        )

    def question(self, text: str) -> str:
        return f"Question: {escape_tags(text).strip()}\n"
