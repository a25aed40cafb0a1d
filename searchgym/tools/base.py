"""Tool protocol, a base class that does most of it, and tools from functions."""

from __future__ import annotations

import copy
import inspect
import json
import sys
import threading
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from ..corpora.corpus import Corpus
from ..errors import CardError, EngineError, SearchGymError
from ..types import Content, Failure, Hit, SearchEngine, Task, ToolCall, ToolResult, ToolSpec
from ..worlds.world import World


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Context that an environment gives its tools when it is built (:meth:`Tool.bind`)."""

    corpus: Corpus
    """The passages that are searched."""
    engine: SearchEngine
    """Engine that answers searches."""
    world: World | None = None
    """The generated world behind the passages, if there is one."""
    k: int = 3
    """Hits per query."""


class ToolProtocol(Protocol):
    """A named tool; ``run`` answers calls in order, each on its own."""

    spec: ToolSpec
    """Name, description and JSON schema of the arguments. Calls that do not fit the schema never
    reach the tool."""
    needs_task: bool
    """True if calls carry the task (``ctx.task``): for tools that are played by a simulator."""

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]: ...


SHOWN = {
    "search": "a tool called 'search' shows hits and no text: return ToolResult(hits=…), or give "
    "it another name (an engine of your own is searched by engine=… or SearchTool(engine))",
    "access": "a tool called 'access' shows a page and no text: return "
    "ToolResult(meta={'page': Page(…)}), or give it another name",
}
"""Names of tools whose results dialects show in a form of their own → what is wrong with a text."""


class Tool:
    """Base class of tools: set ``spec`` and override :meth:`use`.

    A tool holds no memory of its own. What it wants to remember of an episode it returns as
    ``ToolResult.state`` (JSON values); the episode keeps it and hands it to the next call. Tools
    with the same ``spec.shares`` read and write one state.

    Args:
        cost: Cost of each call, added to ``ToolResult.cost``.
    """

    spec: ToolSpec
    needs_task: bool = False
    cost: float = 0.0
    time_limit: float | None = 60.0
    """Seconds that one call of :meth:`use` may take. It is made in a thread of its own, which
    cannot be ended: after the limit nobody waits for it any more, and the call is a ``Failure``, so
    the episode ends as one that the infrastructure lost. None: no limit, in the caller's thread, as
    for the tools of this package, whose work is bounded."""

    def __init__(self, *, cost: float = 0.0) -> None:
        self.cost = cost

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "initial_state" in vars(cls) and "needs_task" not in vars(cls):
            cls.needs_task = True  # what it begins with stands in the task

    def bind(self, context: ToolContext) -> Self:
        """The tool for an environment: itself, or a copy that knows ``context``.

        Raises:
            CardError: the tool cannot work there; the error says why.
        """
        return self

    def initial_state(self, task: Task | None) -> Any:
        """State of an episode before any call returned one: JSON values, made anew each time. A
        database of its own for every question is read from ``task.meta`` here.

        Args:
            task: The episode's task; None where ``needs_task`` is set to false.
        """
        return None

    def use(self, args: Mapping[str, Any], state: Any) -> str | ToolResult | Failure:
        """Answer one call. A text is the same as ``ToolResult((text,))``.

        Args:
            args: The arguments, which fit ``spec.parameters``.
            state: Copy of the ``ToolResult.state`` that an earlier call of this episode returned;
                at first what :meth:`initial_state` gives.
        """
        raise NotImplementedError(f"{type(self).__name__} has no use(args, state)")

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        """One result per call, in order."""
        return [self._answer(call) for call in batch]

    def _answer(self, call: ToolCall) -> ToolResult | Failure:
        state = call.ctx.state
        try:
            if state is None:
                state = self.initial_state(call.ctx.task)
            answer = _within(self.time_limit, lambda: self.use(call.args, state))
        except _Late:
            return Failure(
                "timeout",
                f"the tool {call.tool!r} took longer than its time_limit, {self.time_limit:g} s",
                retryable=False,
            )
        except SearchGymError:
            raise
        except (Exception, SystemExit) as error:  # the tool is named, the cause kept
            raise EngineError(
                f"the tool {call.tool!r} failed on {dict(call.args)!r:.200}: "
                f"{type(error).__name__}: {error}; a tool that returns a text or Failure(…) "
                "shows it to the agent instead"
            ) from error
        if isinstance(answer, str):
            answer = ToolResult((answer,))
        elif isinstance(answer, Failure):
            return answer
        elif not isinstance(answer, ToolResult):
            raise EngineError(
                f"the tool {call.tool!r} returned {type(answer).__name__} where a text, a "
                f"ToolResult or a Failure was expected: {answer!r:.80}"
            )
        if call.tool in SHOWN and answer.parts and not (answer.hits or "page" in answer.meta):
            raise EngineError(f"{SHOWN[call.tool]}; it returned the text {answer.parts[0]!r:.80}")
        return answer._replace(cost=answer.cost + self.cost) if self.cost else answer


class _Late(Exception):
    pass


def _within(seconds: float | None, work: Callable[[], Any]) -> Any:
    """Return or raise what ``work`` does; ``_Late`` if it takes longer."""
    if seconds is None:
        return work()
    done: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # it is the caller's
            raised.append(error)

    thread = threading.Thread(target=run, name="tool", daemon=True)
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not done:
        raise _Late
    return done[0]


class Toolbox:
    """The tools of an environment by name; runs mixed calls as one batch per tool."""

    def __init__(self, tools: Mapping[str, ToolProtocol]) -> None:
        self.tools = dict(tools)

    def specs(self, names: Sequence[str]) -> tuple[ToolSpec, ...]:
        return tuple(self.tools[name].spec for name in names)

    @property
    def needs_task(self) -> frozenset[str]:
        return frozenset(name for name, tool in self.tools.items() if tool.needs_task)

    def run(self, calls: Sequence[ToolCall]) -> list[ToolResult | Failure]:
        """Results in the order of ``calls``; one ``run`` per tool, however many episodes."""
        if not calls:
            return []
        if len(self.tools) == 1:
            return self._run(calls[0].tool, calls)
        by_tool: dict[str, list[int]] = {}
        for i, call in enumerate(calls):
            by_tool.setdefault(call.tool, []).append(i)
        results: list[Any] = [None] * len(calls)
        for name, where in by_tool.items():
            for i, result in zip(where, self._run(name, [calls[i] for i in where]), strict=True):
                results[i] = result
        return results

    def _run(self, name: str, calls: Sequence[ToolCall]) -> list[ToolResult | Failure]:
        """Run calls of one tool, which gets copies of their arguments: the calls are recorded."""
        results = self.tools[name].run(
            [ToolCall(name, _copied(args), position, ctx) for _, args, position, ctx in calls]
        )
        return [
            _own(name, result) if isinstance(result, ToolResult) else result for result in results
        ]


def _own(tool: str, result: ToolResult) -> ToolResult:
    """The result with copies of what its tool could change later; ``EngineError`` for one that an
    episode cannot show, count or keep."""
    parts, hits, cost, meta, _ = result
    plain = type(hits) is tuple and set(map(type, hits)) == {Hit} and parts == () and not meta
    if plain and type(cost) is float and 0 <= cost <= sys.float_info.max:
        return result  # a plain search's, which nothing can change: by far the most
    number = isinstance(cost, int | float) and not isinstance(cost, bool)
    if not (number and 0 <= cost <= sys.float_info.max):
        raise EngineError(
            f"the tool {tool!r} returned the cost {cost!r:.80}; a cost is a number from 0"
        )
    wanted: tuple[tuple[str, Any, Any], ...] = (("parts", Content, parts), ("hits", Hit, hits))
    for what, kind, items in wanted:
        if not (isinstance(items, Sequence) and all(isinstance(item, kind) for item in items)):
            raise EngineError(
                f"the tool {tool!r} returned the {what} {items!r:.80}; expected a tuple of "
                f"{'hits' if kind is Hit else 'texts or images'}"
            )
    if meta:
        json_of("meta", tool, meta)
        meta = copy.deepcopy(meta)
    return result._replace(parts=tuple(parts), hits=tuple(hits), meta=meta)


def _copied(args: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v if type(v) in _PLAIN else copy.deepcopy(v) for k, v in args.items()}


_PLAIN = frozenset((str, int, float, bool))


class FunctionTool(Tool):
    """A plain function as a tool: its name, its docstring, a schema made of its annotations.

    A parameter named ``state`` is not an argument: it receives the state. The function returns a
    text, a ``ToolResult``, a ``Failure``, or another value, which is shown as ``str(value)``.
    ``functools.partial`` fixes parameters, which are then no arguments.

    Raises:
        CardError: a parameter has no annotation, or one that is not ``str``, ``int``, ``float``,
            ``bool``, ``dict``, ``list[…]``, ``Literal[…]`` or one of them ``| None``; a function
            that is ``async`` or yields, or one called "search" or "access" that returns a text.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        cost: float = 0.0,
        time_limit: float | None = Tool.time_limit,
    ) -> None:
        super().__init__(cost=cost)
        self.time_limit = time_limit
        inner = function
        while hasattr(inner, "func"):
            inner = inner.func
        name = getattr(inner, "__name__", type(inner).__name__)
        try:
            hints = typing.get_type_hints(inner)
            parameters = inspect.signature(function).parameters
        except (NameError, TypeError, ValueError) as error:
            raise CardError(f"{name} cannot be a tool: {error}") from error
        require_answers(inner, name)
        if name in SHOWN and not _may_be_result(hints.get("return", Any)):
            raise CardError(f"{name} cannot be a tool: {SHOWN[name]}")
        fixed = getattr(function, "keywords", {})
        properties, required = {}, []
        for parameter in parameters.values():
            if parameter.name == "state" or parameter.name in fixed:
                continue
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise CardError(f"{name} cannot be a tool: {parameter} has no name to give it by")
            properties[parameter.name] = _schema(hints.get(parameter.name), name, parameter.name)
            if parameter.default is parameter.empty:
                required.append(parameter.name)
        self.function, self._stateful = function, "state" in parameters
        self.spec = ToolSpec(
            name,
            " ".join((inspect.getdoc(inner) or "").split()),
            {"type": "object", "properties": properties, "required": required},
        )

    def use(self, args: Mapping[str, Any], state: Any) -> str | ToolResult | Failure:
        extra = {"state": state} if self._stateful else {}
        value = self.function(**args, **extra)
        if isinstance(value, str | ToolResult | Failure) or inspect.isawaitable(value):
            return value  # type: ignore[return-value]  # what is awaited is no answer: refused
        return str(value)


def require_answers(function: Callable[..., Any], name: str) -> None:
    """Refuse a function that gives something to wait for in place of an answer.

    Raises:
        CardError: it is ``async``, or yields.
    """
    for called in (function, getattr(function, "__call__", None)):  # noqa: B004 (an object's own)
        asynchronous = inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
        if asynchronous or inspect.isgeneratorfunction(called):
            kind = "async" if asynchronous else "a generator (it yields)"
            raise CardError(
                f"{name} cannot be a tool: it is {kind}; a tool is called and returns its answer: "
                "write it with def and return"
                + (", and call asyncio.run(…) within it" if asynchronous else "")
            )


def _may_be_result(hint: Any) -> bool:
    """Check whether what an annotation allows may be a ``ToolResult``."""
    if hint in (Any, object):
        return True
    inner = typing.get_args(hint)
    return any(map(_may_be_result, inner)) if inner else hint is ToolResult


_KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def _schema(hint: Any, tool: str, parameter: str) -> dict[str, Any]:
    """The JSON schema of an annotation."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [part for part in inner if part is not type(None)]
        if len(rest) == 1:  # an optional argument is left out, never null
            return _schema(rest[0], tool, parameter)
    if hint in _KINDS or origin is dict:
        return {"type": _KINDS[dict if origin is dict else hint]}
    if hint is list or origin is list:
        return {"type": "array", **({"items": _schema(inner[0], tool, parameter)} if inner else {})}
    if origin is typing.Literal:
        return {"enum": list(inner)}
    raise CardError(
        f"{tool} cannot be a tool: its parameter {parameter!r} needs an annotation of str, int, "
        f"float, bool, dict, list[…] or Literal[…], got {hint!r}"
    )


# --- what an episode keeps for its tools: JSON texts, so that no two episodes share an object -----
MAX_STATE = 100_000
"""Characters of a state's JSON."""


def state_text(tool: str, state: Any) -> str:
    """The JSON of a state.

    Raises:
        EngineError: the state is not made of JSON values alone (a tuple or a number as a key would
            come back as something else, NaN is no JSON), or longer than :data:`MAX_STATE`.
    """
    text = json_of("state", tool, state)
    if json.loads(text) != state:
        raise EngineError(
            f"the tool {tool!r} returned a state that JSON does not give back as it was: use lists "
            f"instead of tuples and texts as keys; got {state!r:.80}"
        )
    if len(text) > MAX_STATE:
        raise EngineError(
            f"the tool {tool!r} returned a state of {len(text)} characters of JSON; at most "
            f"{MAX_STATE} are kept"
        )
    return text


def json_of(what: str, tool: str, value: Any) -> str:
    """The JSON of a tool's ``what``; ``EngineError`` if there is none."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise EngineError(
            f"the tool {tool!r} returned a {what} that is not JSON: {error}"
        ) from None


def with_own_state(tool: str, result: ToolResult) -> ToolResult:
    """The result with a copy of its state, which nobody else can change."""
    if result.state is None:
        return result
    return result._replace(state=json.loads(state_text(tool, result.state)))


def states_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of JSON texts, made anew."""
    return {name: json.loads(text) for name, text in texts.items()}
