"""Dialect protocol, and look-up by name, table, class or object.

A dialect is pure and stateless (a bounded cache of rendered passages aside): the same call gives
the same text, so one object serves all episodes and threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, Self, cast, runtime_checkable

from ..errors import CardError, DialectError, unknown
from ..objects import check_fits, from_spec, load_known, load_object
from ..plugins import Registry
from ..types import Action, Call, Page, Parsed, Ranking, ToolSpec


class View(NamedTuple):
    """View of an episode from which a dialect writes instructions."""

    tools: tuple[ToolSpec, ...]
    max_parallel: int
    """Largest number of queries in one turn."""
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


class Opening(NamedTuple):
    """Opening text of an episode."""

    instructions: str
    """Instructions of the prompt; empty where the question's text is the whole prompt."""
    question: str
    whole: bool
    """True if ``question`` is a prompt around the question."""


@runtime_checkable
class Dialect(Protocol):
    """One wire format between a policy and its episode.

    Policies' text must still hold the stop string (``include_stop_str_in_output`` in vLLM): an
    unclosed tag is not an action.
    """

    @property
    def name(self) -> str:
        """Name in messages and tables; of a registered dialect or a class that can be
        imported without other options than flags, ``get_dialect(name)`` gives an equal one."""
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
        """Write the instructions for the policy, without the question."""
        ...

    def question(self, text: str) -> str:
        """Write the question so that the policy's first text can follow."""
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


class Described:
    """Base of the dialects here: an object that knows the options it was made with.

    So an object, and a subclass's too, is recorded by name or import path and options wherever
    these can be written down (:func:`searchgym.dialects.specs.reference`).
    """

    BASE: ClassVar[str]
    """Registered name. A subclass without one of its own is known by its import path."""
    FLAGS: ClassVar[tuple[str, ...]] = ()
    """Options that are on or off, and can be appended to a name with ``+``."""

    name: str
    options: Mapping[str, Any] | None
    """Keywords of the constructor; ``None`` where it was given positional arguments."""

    def __new__(cls, *args: Any, **options: Any) -> Self:
        dialect = super().__new__(cls)
        dialect.options = None if args else options
        use = vars(cls).get("BASE") or import_path(cls) or f"{cls.__module__}.{cls.__qualname__}"
        dialect.name = "+".join([use, *(flag for flag in cls.FLAGS if options.get(flag))])
        return dialect


def import_path(cls: type) -> str | None:
    """``"package.module:Class"`` where another process finds the class by it; ``None`` for classes
    made inside a function or in the program that is run."""
    if cls.__module__ == "__main__" or not cls.__qualname__.isidentifier():
        return None
    return f"{cls.__module__}:{cls.__qualname__}"


DIALECTS = Registry(
    "dialect",
    {
        "search_r1": "searchgym.dialects.search_r1:SearchR1",
        "asearcher": "searchgym.dialects.asearcher:ASearcher",
        "agentgl": "searchgym.dialects.agentgl:AgentGL",
        "json_tools": "searchgym.dialects.json_tools:JsonTools",
        "plain": "searchgym.dialects.plain:Plain",
    },
    package="searchgym.dialects",
)
"""Name → where it lives. The callable takes boolean keyword options, listed in ``FLAGS``."""
SELF_SEARCH: dict[str, str] = {"search_r1_self": "searchgym.dialects.search_r1:SelfSearch"}
"""The self-search forms of dialects (their name and ``_self``), which ``engine="self"`` chooses.
Kept apart from ``DIALECTS``: they write answers only."""


def get_dialect(spec: str | Mapping[str, Any] | type | Dialect) -> Dialect:
    """Return the dialect that ``spec`` names or is; equal names and tables share one object.

    Args:
        spec: ``"search_r1"``, or with options appended ``"search_r1+parallel+judge"``; an
            import path ``"package.module:Class"``, with ``+`` as well; a table ``{"use": either,
            **options}`` for options that are more than on or off; a class; or a dialect itself.

    Raises:
        DialectError: An unknown name, an unknown option, or what is no dialect.
    """
    if isinstance(spec, str):
        return _named(spec) if ":" not in spec else _imported(spec, "{}")
    if isinstance(spec, Described):
        return cast("Dialect", spec)  # checking all its methods takes twenty times as long
    if isinstance(spec, Mapping):
        options = dict(spec)
        use = options.pop("use", None)
        if not isinstance(use, str):
            raise DialectError(
                "a dialect table names its dialect: {use = 'name or package.module:Class', …}, "
                f"got {sorted(map(str, spec))}"
            )
        try:
            return _imported(use, json.dumps(options, sort_keys=True))
        except (TypeError, ValueError) as error:
            raise DialectError(f"the options of dialect {use!r} are no JSON: {error}") from error
    if isinstance(spec, type):
        return _checked(_built(spec.__qualname__, lambda: spec()), spec.__qualname__)
    return _checked(spec, type(spec).__qualname__)


@lru_cache(maxsize=256)
def _named(name: str) -> Dialect:
    return _imported(name, "{}")


def _imported(name: str, options: str) -> Dialect:
    """The dialect of a name or path with flags, and JSON options. A path is looked up each time,
    so that a file which may name no code is refused whatever is kept here."""
    use = name.partition("+")[0]
    where = DIALECTS.get(use) or SELF_SEARCH.get(use)
    if where is None and ":" not in use:
        raise DialectError(unknown("dialect", use, DIALECTS) + ", or 'package.module:Class'")
    make = _built(use, lambda: load_known(where) if where else load_object(use))
    _built(use, lambda: check_fits("dialect", use, make, Dialect))
    return _cached(make, name, options)


@lru_cache(maxsize=256)
def _cached(make: Any, name: str, options: str) -> Dialect:
    use, *flags = name.split("+")
    for flag in flags:
        if flag not in (known := getattr(make, "FLAGS", ())):
            raise DialectError(unknown(f"option of dialect {use!r}", flag, known))
    table = {"use": use, **dict.fromkeys(flags, True), **json.loads(options)}
    made = _built(
        use, lambda: from_spec("dialect", table, {**DIALECTS, **SELF_SEARCH}, accepts=Dialect)
    )
    return _checked(made, use)


def _built(name: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (CardError, TypeError, ValueError) as error:
        raise DialectError(f"dialect {name!r}: {error}") from error


def _checked(made: Any, name: str) -> Dialect:
    if not isinstance(made, Dialect):
        raise DialectError(
            f"{name} is not a dialect: expected the methods of searchgym.dialects.base.Dialect"
        )
    return made
