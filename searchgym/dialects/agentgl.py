"""AgentGL's graph queries (arXiv 2604.05846): ``<|begin_of_query|>TOOL:query<|end_of_query|>``.

TOOL is 1-hop, 2-hop, pagerank or similar; a query without one is an ordinary search, which makes
this GraphRAG-R1's form too (arXiv 2507.23581). Queries stand wherever the policy likes, also inside
a thought; results come back between ``<|begin_of_documents|>`` and ``<|end_of_documents|>``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..errors import DialectError
from ..types import Action, Call, Invalid, Parsed, Passage, Ranking, Search, Span
from .base import View
from .calls import canonical_call
from .escape import escape_tags
from .instructions import NO_SEARCH, limits, opening
from .tags import MALFORMED, Tag, TagDialect

_BEGIN, _END = "<|begin_of_query|>", "<|end_of_query|>"
_TOOL = re.compile(r"(1-hop|2-hop|pagerank|similar):\s*+", re.IGNORECASE)
_CALLS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "1-hop": ("graph_neighbors", "node", {"hops": 1}),
    "2-hop": ("graph_neighbors", "node", {"hops": 2}),
    "pagerank": ("graph_rank", "query", {"method": "ppr"}),
    "similar": ("graph_rank", "query", {"method": "sim"}),
}
"""AgentGL's tool → our tool, the argument that holds the query, the other arguments."""
_DEFAULTS: Mapping[str, dict[str, Any]] = {
    "graph_neighbors": {"hops": 1},
    "graph_rank": {"method": "ppr"},
}
_MEANING = {
    "1-hop": "the neighbours of an entity",
    "2-hop": "the neighbours of its neighbours",
    "pagerank": "the entities most central around those you name",
    "similar": "the entities most like your text",
}


class AgentGL(TagDialect):
    """Searches, the four graph tools and answers. The dialect has no options."""

    BASE: ClassVar[str] = "agentgl"
    systems: ClassVar[tuple[str, ...]] = ("AgentGL",)
    FLAGS: ClassVar[tuple[str, ...]] = ()
    MARKS: ClassVar[Mapping[str, Tag]] = {"search": Tag("search", _BEGIN, _END, len(_BEGIN))}
    TOOLS_FIRST: ClassVar[bool] = False
    CALLS: ClassVar[frozenset[str]] = frozenset(name for name, _, _ in _CALLS.values())
    """The only tools it has words for."""

    def __init__(self) -> None:
        super().__init__()
        self.renders = self.renders | {Call}

    # --- reading ------------------------------------------------------------------------------
    def _read(self, text: str, tag: Tag, opened: int, closed: int, cut: int) -> Parsed:
        parsed = super()._read(text, tag, opened, closed, cut)
        if not isinstance(parsed.action, Search):
            return parsed
        content = parsed.action.queries[0]
        match = _TOOL.match(content)
        if match is None:
            return parsed
        query = content[match.end() :]
        *before, whole = parsed.spans
        if not query:
            return Parsed(Invalid(f"nothing to ask {match[1]}"), tuple(before), cut)
        tool, argument, others = _CALLS[match[1].lower()]
        # The query stands at the end of the block, whatever was cleaned out before it.
        head = _TOOL.match(text, whole.start, whole.end)
        start = head.end() if head else whole.start
        span = Span("tool", start, whole.end)
        return Parsed(Call(tool, {argument: query, **others}), (*before, span), cut)

    # --- writing ------------------------------------------------------------------------------
    def canonical(self, action: Action) -> Action:
        if isinstance(action, Call):
            return self._canonical_call(canonical_call(action))
        done = super().canonical(action)
        if isinstance(done, Search):  # what would be read as a tool's name gets a blank
            match = _TOOL.match(query := done.queries[0])
            return Search((f"{match[1]} : {query[match.end() :]}".strip(),)) if match else done
        return done

    def _canonical_call(self, call: Call) -> Call:
        for tool, argument, others in _CALLS.values():
            given = {**_DEFAULTS.get(tool, {}), **call.args}
            query = given.pop(argument, None)
            if call.tool == tool and given == others and isinstance(query, str):
                text = escape_tags(query).strip()
                if text:
                    return Call(tool, {argument: text, **others})
        raise DialectError(
            f"dialect {self.name!r} writes graph_neighbors(node, hops) and graph_rank(query, "
            f"method) only, got {call.tool}({', '.join(call.args)})"
        )

    def render_action(self, action: Action, thought: str = "") -> str:
        action = self.canonical(action)
        if not isinstance(action, Call):
            return super().render_action(action, thought)
        name, argument = next(
            (name, argument)
            for name, (tool, argument, others) in _CALLS.items()
            if tool == action.tool and others.items() <= action.args.items()
        )
        body = f"{_BEGIN}{name}:{action.args[argument]}{_END}"
        return self._think(self._text(thought)) + body

    def instructions(self, view: View) -> str:
        parts = [opening(view), "Think between <think> and </think>."]
        tools = {spec.name for spec in view.tools} if view.role != "planner" else set()
        asks = [name for name, (tool, _, _) in _CALLS.items() if tool in tools]
        if view.queries_left == 0 or (not asks and "search" not in tools):
            if view.role != "planner":
                parts.append(NO_SEARCH)
        else:
            back = (
                "what is found comes back between <|begin_of_documents|> and <|end_of_documents|>"
            )
            if "search" in tools:
                parts.append(f"To search, write {_BEGIN} query {_END}; {back}.")
            if asks:
                meaning = "; ".join(f"{name}, {_MEANING[name]}" for name in asks)
                parts.append(f"To ask the graph, write {_BEGIN}TOOL:query{_END}, where TOOL is one "
                            f"of: {meaning}; {back}.")  # fmt: skip
        parts.append("To finish, write only the answer itself, <answer> like this </answer>.")
        return " ".join(parts + limits(view, parallel=False)) + "\n\n"

    def question(self, text: str) -> str:
        return f"Question: {escape_tags(text).strip()}\n"

    def _write_tail(self, passage: Passage) -> str:
        return f". {self._line(passage.title)}: {escape_tags(passage.text)}"

    def _docs(self, hits: Ranking) -> str:
        tail = self._tail
        return "\n".join([f"{i}{tail[hit.passage]}" for i, hit in enumerate(hits, 1)])

    def render_hits(self, groups: Sequence[tuple[str, Ranking]]) -> str:
        return self._wrap(
            "\n\n".join(self._docs(hits) or "Nothing was found." for _, hits in groups)
        )

    def _wrap(self, body: str) -> str:
        return f"\n\n<|begin_of_documents|>\n{body}\n<|end_of_documents|>\n\n"

    def render_invalid(self, reason: str) -> str:
        hint = (
            f"Write {_BEGIN} query {_END} or <answer> answer </answer>."
            if reason in MALFORMED
            else "Try again."
        )
        return f"\nThat was not a valid action: {self._line(reason)}. {hint}\n"
