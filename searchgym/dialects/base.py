"""Dialect protocol, look-up by name, table, class or object, and references by which a dialect is
recorded.

A dialect is pure and stateless (a bounded cache of rendered passages aside): the same call gives
the same text, so one object serves all episodes and threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, Self, cast, runtime_checkable

from ..errors import CardError, DialectError, check_known, unknown
from ..objects import check_fits, from_spec, load_known, load_object
from ..plugins import Registry
from ..types import Access, Action, Call, Delegate, Judge, Page, Parsed, Ranking, ToolSpec


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
    """agent | planner | executor | a role to which sub-tasks are handed"""
    may_abstain: bool
    targets: tuple[str, ...] = ()
    """Roles of which a sub-task names one."""
    prompt: str = ""
    """First sentence of the role's instructions, in place of the dialect's."""


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
    these can be written down (:func:`searchgym.dialects.base.reference`).
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
    check_known(
        f"option of dialect {use!r}", getattr(make, "FLAGS", ()), *flags, error=DialectError
    )
    table = {"use": use, **dict.fromkeys(flags, True), **json.loads(options)}
    # of the registry this name alone: all of it would have the files of plug-ins read
    known = {} if ":" in use else {use: DIALECTS.get(use) or SELF_SEARCH[use]}
    return _checked(_built(use, lambda: from_spec("dialect", table, known, accepts=Dialect)), use)


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


Reference = str | Mapping[str, Any] | Dialect
"""A name or path with flags; a table where options are more than on or off; and the dialect itself
where neither can say what it is (an object of a class that has no import path)."""
_KINDS: Mapping[str, type] = {"access": Access, "judge": Judge, "delegate": Delegate, "tools": Call}
_OBJECT = "object"
"""Key of the table that stands in a record for a dialect that cannot be written down."""


class _Parts(NamedTuple):
    use: str
    options: Mapping[str, Any]


def reference(spec: Any) -> Reference:
    """Return ``spec`` (as :func:`~searchgym.dialects.base.get_dialect` takes it) as it is recorded.

    Raises:
        DialectError: An unknown name or option, or what is no dialect.
    """
    dialect = get_dialect(spec)
    parts = _parts(spec, dialect)
    return dialect if parts is None else _written(parts, getattr(dialect, "FLAGS", ()))


def reference_to_json(spec: Reference) -> Any:
    """Return JSON values for a reference. A dialect that cannot be written down leaves its class's
    name, which :func:`reference_from_json` explains."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Mapping):
        return dict(spec)
    return {_OBJECT: f"{type(spec).__module__}.{type(spec).__qualname__}"}


def reference_from_json(data: Any, dialect: Dialect | None = None) -> Reference:
    """Return the reference of :func:`reference_to_json`.

    Args:
        data: Recorded spec.
        dialect: The object to use where the record could not say which it was.

    Raises:
        DialectError: The record needs an object and none was given.
    """
    if not isinstance(data, Mapping) or _OBJECT not in data:
        return data
    if dialect is None:
        raise DialectError(
            f"this was played under a dialect object of the class {data[_OBJECT]}, which cannot be "
            "found by an import path: pass the object, for example Episode.restore(snapshot, "
            "dialect=…), or move its class into a module and name it 'package.module:Class'"
        )
    return dialect


def with_required_flags(
    spec: Any,
    *,
    tools: Collection[str] = (),
    max_parallel: int = 1,
    judge: bool = False,
    delegate: bool = False,
) -> Reference:
    """Return a dialect's reference with every option switched on that the rules need, so that no
    tool is offered which the policy has no way to call.

    Raises:
        DialectError: ``spec`` is no dialect.
        CardError: The dialect has no words for a tool or for what is asked.
    """
    called = [tool for tool in tools if tool not in ("search", "access")]
    needs = {
        "access": "access" in tools,
        "parallel": max_parallel > 1,
        "judge": judge,
        "delegate": delegate,
        "tools": bool(called),
    }
    dialect = get_dialect(spec)
    flags: tuple[str, ...] = getattr(dialect, "FLAGS", ())
    parts = _parts(spec, dialect)
    lacking = [flag for flag, needed in needs.items() if needed and not _says(dialect, flag, parts)]
    if parts is not None and (new := [flag for flag in lacking if flag in flags]):
        parts = parts._replace(options={**parts.options, **dict.fromkeys(new, True)})
        dialect = get_dialect({"use": parts.use, **parts.options})
        lacking = [flag for flag in lacking if flag not in new]
    for flag in lacking:
        if flag in flags:
            raise CardError(
                f"the dialect object {dialect.name!r} must be made with {flag}=True for this "
                "environment: make it so, or pass its class"
            )
        if flag in _KINDS and _KINDS[flag] not in dialect.renders:
            raise CardError(f"the dialect {dialect.name!r} has no way to say {flag!r}; choose "
                            "another")  # fmt: skip
    sayable: frozenset[str] | None = getattr(dialect, "CALLS", None)
    if sayable is not None and (unsaid := sorted(set(called) - sayable)):
        raise CardError(
            f"the dialect {dialect.name!r} can call {', '.join(sorted(sayable))} only, not "
            f"{unsaid[0]}; use another, for example dialect='json_tools'"
        )
    return dialect if parts is None else _written(parts, flags)


def is_self_search(spec: Any) -> bool:
    """Check whether a dialect lets the policy write its own search results."""
    return bool(getattr(get_dialect(spec), "self_search", False))


def self_search_form(spec: Any) -> Reference:
    """Return the dialect in which a policy writes its own search results: ``spec`` itself if it is
    one, or the form registered for it (its name and ``_self``).

    Raises:
        CardError: There is none.
    """
    dialect = get_dialect(spec)
    if is_self_search(dialect):
        return reference(spec)
    parts = _parts(spec, dialect)
    if parts is None or f"{parts.use}_self" not in SELF_SEARCH:
        known = ", ".join(repr(name.removesuffix("_self")) for name in SELF_SEARCH)
        raise CardError(
            f"the dialect {dialect.name!r} has no self-search form; with engine='self' use "
            f"dialect={known}"
        )
    unused = ("access", "parallel", "tools")
    kept = {name: value for name, value in parts.options.items() if name not in unused}
    return reference({"use": f"{parts.use}_self", **kept})


def _says(dialect: Dialect, flag: str, parts: _Parts | None) -> bool:
    if parts is not None and flag in getattr(dialect, "FLAGS", ()):
        return bool(parts.options.get(flag))
    if flag == "parallel":  # a dialect without this option reads several queries or cannot
        return flag not in getattr(dialect, "FLAGS", ()) or bool(getattr(dialect, flag, False))
    return _KINDS[flag] in dialect.renders


def _parts(spec: Any, dialect: Dialect) -> _Parts | None:
    """Name or path, and options; ``None`` for an object that cannot be written down."""
    if isinstance(spec, str | Mapping):
        table = {"use": spec} if isinstance(spec, str) else dict(spec)
        name, *flags = str(table.pop("use")).split("+")
        return _Parts(name, {**dict.fromkeys(flags, True), **table})
    cls = type(dialect)
    path = import_path(cls)
    known = {**DIALECTS, **SELF_SEARCH}
    use = next((name for name, where in known.items() if where == path), path)
    if not isinstance(dialect, Described):  # of its options nothing is known, unless it has none
        return _Parts(use, {}) if use and isinstance(spec, type) else None
    if use is None or dialect.options is None:
        return None
    try:
        same = json.loads(json.dumps(dialect.options)) == dict(dialect.options)
    except (TypeError, ValueError):
        return None
    return _Parts(use, dialect.options) if same else None


def _written(parts: _Parts, flags: tuple[str, ...]) -> str | Mapping[str, Any]:
    """The shortest record: flags that are off go, others are appended in the class's order."""
    on = [flag for flag in flags if parts.options.get(flag)]
    rest = {name: value for name, value in sorted(parts.options.items()) if name not in flags}
    name = "+".join([parts.use, *on])
    return {"use": name, **rest} if rest else name
