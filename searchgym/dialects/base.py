"""What a dialect is, and how one is found by name.

A dialect is pure and stateless (a bounded cache of rendered passages aside): the same call gives
the same text, so one object serves all episodes and threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

from searchgym.errors import CardError, DialectError, unknown
from searchgym.objects import check_fits, load_known, load_object
from searchgym.types import Action, Call, Page, Parsed, Ranking, ToolSpec


class View(NamedTuple):
    """What a dialect needs to know of the episode when it writes instructions."""

    tools: tuple[ToolSpec, ...]
    max_parallel: int
    """Most queries one turn may hold."""
    k: int
    """Passages shown per query."""
    turns_left: int
    queries_left: int | None
    """Searches and tool calls. None: unlimited. 0: asking is off."""
    judge: bool
    delegate: bool
    role: str
    """agent | planner | executor"""
    may_abstain: bool


@runtime_checkable
class Dialect(Protocol):
    """One wire format between a policy and its episode.

    Policies' text must still hold the stop string (``include_stop_str_in_output`` in vLLM): an
    unclosed tag is not an action.
    """

    @property
    def name(self) -> str:
        """``get_dialect(name)`` gives an equal dialect."""
        ...

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings for generation."""
        ...

    @property
    def renders(self) -> frozenset[type]:
        """The kinds of action ``render_action`` can write and ``parse`` can return."""
        ...

    def instructions(self, view: View) -> str:
        """What the policy must know, without the question."""
        ...

    def question(self, text: str) -> str:
        """How the question is put, ready to be followed by the policy's first text."""
        ...

    def parse(self, text: str) -> Parsed:
        """Read one action. Never raises, whatever the text; time linear in its length.

        ``cut`` is where the policy's text ends; ``spans`` lie before it. A span covers its content
        without surrounding white space; ``text[start:end]`` is that content, except that control
        characters (which are dropped from actions) and JSON escapes still stand in the text. Kinds:
        think, search (one per query), access, tool, answer, judge, task. Where a call has no
        literal of its own (a tool's, a judgement or a list of queries in JSON) the span covers the
        call.
        """
        ...

    def canonical(self, action: Action) -> Action:
        """The nearest action this dialect can express: ``parse(render_action(a)).action``.

        Idempotent. Control characters go, surrounding white space goes, and what would be read as
        syntax is written in a harmless form.

        Raises:
            DialectError: if the action's kind is not in ``renders``, or it would be empty.
        """
        ...

    def render_action(self, action: Action, thought: str = "") -> str:
        """The text a policy would write for ``canonical(action)``; raises as ``canonical``."""
        ...

    def render_hits(self, groups: Sequence[tuple[str, Ranking]]) -> str:
        """The observation for (query, hits) groups, one per query of the turn, with wrapper."""
        ...

    def render_call(self, call: Call, text: str, hits: Ranking) -> str:
        """The observation for a tool's output: free text, passages, or both, with wrapper."""
        ...

    def render_page(self, page: Page, text: str, *, part: int, parts: int) -> str:
        """The observation for chunk ``text`` of a page; ``part`` counts from 1 to ``parts``."""
        ...

    def render_stub(self, page_title: str, url: str, text: str, *, part: int = 1) -> str:
        """The short form that later stands in for ``render_page`` of the same chunk."""
        ...

    def render_missing(self, url: str) -> str:
        """The observation when no page has this URL."""
        ...

    def render_invalid(self, reason: str) -> str:
        """The corrective observation after an ``Invalid`` action."""
        ...

    def render_report(self, text: str) -> str:
        """An executor's answer as the planner sees it."""
        ...

    def render_note(self, text: str) -> str:
        """Any other message of the environment."""
        ...

    def escape(self, text: str) -> str:
        """Foreign text made harmless: nothing in it can be read as this dialect's syntax, and the
        result can be encoded as UTF-8. Text without such things is returned unchanged."""
        ...

    def force_answer(self, answer: str) -> tuple[str, str]:
        """(bridge, target): appended to a context, ``bridge`` makes the policy answer now and
        ``target`` is the answer with its closing tag, for gold-log-probability signals (IGPO,
        arXiv 2510.14967). ``parse(bridge + target)`` is the answer, its last span the part to
        score without the tag. Raises DialectError for an empty answer."""
        ...


DIALECTS: dict[str, str] = {
    "search_r1": "searchgym.dialects.search_r1:SearchR1",
    "asearcher": "searchgym.dialects.asearcher:ASearcher",
    "agentgl": "searchgym.dialects.agentgl:AgentGL",
    "json_tools": "searchgym.dialects.json_tools:JsonTools",
    "plain": "searchgym.dialects.plain:Plain",
}
"""Name → where it lives. The callable takes boolean keyword options, listed in ``FLAGS``."""
SELF_SEARCH: dict[str, str] = {"search_r1_self": "searchgym.dialects.self_search:SelfSearch"}
"""The self-search forms of dialects (their name and ``_self``), which ``engine="self"`` chooses.
Kept apart from ``DIALECTS``: they write answers only."""


@lru_cache(maxsize=256)
def get_dialect(name: str) -> Dialect:
    """The dialect of this name; equal names share one object.

    ``"search_r1"``, or with options appended ``"search_r1+parallel+judge"``, or somebody else's
    ``"package.module:Class"``.

    Raises:
        DialectError: unknown name, unknown option, or a class that cannot be imported.
    """
    base, *flags = name.split("+")
    where = DIALECTS.get(base) or SELF_SEARCH.get(base)
    if where is None and ":" not in base:
        raise DialectError(unknown("dialect", base, DIALECTS))
    try:
        make = load_known(where) if where else load_object(base)
        check_fits("dialect", base, make, Dialect)
    except CardError as error:
        raise DialectError(str(error)) from error
    known = getattr(make, "FLAGS", ())
    for flag in flags:
        if flag not in known:
            raise DialectError(unknown(f"option of dialect {base!r}", flag, known))
    made = make(**dict.fromkeys(flags, True))
    if not isinstance(made, Dialect):
        raise DialectError(
            f"{base} is not a dialect: expected the methods of searchgym.dialects.base.Dialect"
        )
    return made
