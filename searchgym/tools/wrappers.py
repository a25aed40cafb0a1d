"""Tools around others: ``degraded`` (fails, lies or is slow, as engines do), ``recorded`` (its
answers on disk, replayed without it: ``engines.recorded``) and ``decoy`` (looks like another one
and finds nothing, as ASTRA's look-alikes and the many tools that ToolGen's agents choose from).

Where a dial strikes is a pure function of the call's key, so equal seeds give equal bytes in any
batching. Searches are degraded by the engine ``degraded``. ``tools=[*real, *decoys(real, 8)]``
offers eight decoys after the real ones, so that the axis ``tools`` says how many an episode has.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple, Self

from ..corpora.corpus import Corpus
from ..engines.degraded.rates import Rates, Weather, strikes
from ..engines.recorded import Mode, RecordedService
from ..errors import CardError
from ..objects import is_number
from ..seeding import derive
from ..storage.files import value_digest
from ..types import OWN_ACTIONS, Failure, ToolCall, ToolResult
from ..utils.trust import refuse
from .base import Tool, ToolContext, ToolProtocol
from .registry import make_tool


# --- degraded ----------------------------------------------------------------------------------
class Dials(NamedTuple):
    """Probabilities of one call in [0, 1]."""

    fail: float = 0.0
    """The agent is told that the tool does not work; the tool is not called."""
    lie: float = 0.0
    """What is shown is false: other numbers, dates and titles, "yes" for "no"."""
    delay: float = 0.0
    """The call is slow."""
    outage: float = 0.0
    """The call is a ``Failure``, which the episode tries again; drawn anew for every try."""

    def under(self, params: Mapping[str, float]) -> Dials:
        """Return the dials, overridden by an episode's parameters ``tool_fail``, ``tool_lie``, …"""
        own = {name: params[f"tool_{name}"] for name in self._fields if f"tool_{name}" in params}
        return self._replace(**own).checked() if own else self

    def checked(self) -> Dials:
        """Return the dials; ``CardError`` for one that is no probability."""
        for name, value in self._asdict().items():
            if not is_number(value) or not 0 <= value <= 1:
                raise CardError(f"the dial {name!r} is a probability in [0, 1], got {value!r}")
        return self


class DegradedTool(Tool):
    """A tool that sometimes fails, lies or is slow: ``{"use": "degraded", "tool": …, "lie": .1}``.

    What struck is told in ``info["degraded"]``: numbers of failures and lies, simulated seconds.
    A failed call costs nothing and changes no state; a lie leaves the state as the tool made it.

    Args:
        tool: Tool in any form that ``tools=`` takes, but no search or access.
        fail: Probability of a failure that the agent sees. This and the next three are overridden
            by an episode's parameters ``tool_fail``, ``tool_lie``, ``tool_delay``, ``tool_outage``.
        lie: Probability of a false result, if it holds anything that can be falsified.
        delay: Probability of a slow call.
        outage: Probability of a ``Failure``.
        delay_s: Mean of the (exponentially distributed) seconds of a slow call.
        timeout_s: Seconds after which a slow call is a ``Failure`` instead.

    Raises:
        CardError: a dial that is no probability, or a tool that is an action of its own.
    """

    registered = "degraded"
    degrades = True
    inner: ToolProtocol
    corpus: Corpus

    def __init__(
        self,
        tool: Any,
        *,
        fail: float = 0.0,
        lie: float = 0.0,
        delay: float = 0.0,
        outage: float = 0.0,
        delay_s: float = 1.0,
        timeout_s: float | None = None,
    ) -> None:
        super().__init__()
        self.tool = tool
        self.dials = Dials(fail, lie, delay, outage).checked()
        self.weather = Weather(delay_s, timeout_s).checked()

    def bind(self, context: ToolContext) -> Self:
        """A copy around the tool as ``context`` binds it."""
        bound = copy.copy(self)
        bound.inner = make_tool(self.tool, context)
        bound.spec, bound.needs_task = bound.inner.spec, bound.inner.needs_task
        if bound.spec.name in OWN_ACTIONS:
            raise CardError(
                f"the tool {bound.spec.name!r} is degraded by its engine: "
                "engine={'name': 'degraded', 'noise': 0.1}"
            )
        bound.corpus = context.corpus
        return bound

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        """One result per call; the tool itself answers those that do not fail as one batch."""
        results: list[Any] = [None] * len(batch)
        seconds = [0.0] * len(batch)
        dials = [self.dials.under(call.ctx.params) for call in batch]
        for i, (call, dial) in enumerate(zip(batch, dials, strict=True)):
            rates = Rates(latency=dial.delay, outage=dial.outage)
            seconds[i], results[i] = self.weather.strike(rates, call.ctx)
            if results[i] is None and strikes(dial.fail, call.ctx.key, "fail"):
                said = f"Error: the tool {call.tool!r} does not work at the moment."
                results[i] = ToolResult((said,), meta={"degraded": {"fail": 1}})
        asked = [i for i, result in enumerate(results) if result is None]
        for i, result in zip(asked, self.inner.run([batch[i] for i in asked]), strict=True):
            lies = strikes(dials[i].lie, batch[i].ctx.key, "lie")
            results[i] = self._false(result, batch[i].ctx.key) if lies else result
        return [
            _told(result, latency=late) if late and not isinstance(result, Failure) else result
            for result, late in zip(results, seconds, strict=True)
        ]

    def _false(self, result: ToolResult | Failure, key: int) -> ToolResult | Failure:
        if isinstance(result, Failure):
            return result
        parts = tuple(
            falsified(part, key, self.corpus) if isinstance(part, str) else part
            for part in result.parts
        )
        return result if parts == result.parts else _told(result, lie=1)._replace(parts=parts)


def _told(result: ToolResult, **what: float) -> ToolResult:
    done = {**result.meta.get("degraded", {}), **what}
    return result._replace(meta={**result.meta, "degraded": done})


_FACTS = re.compile(r"(?P<date>\d{4}-\d{2}-\d{2})|(?P<number>\d+)|(?P<polar>\b(?:yes|no)\b)")
_CELL = re.compile(r"[^|\n:;]+")


def falsified(text: str, key: int, corpus: Corpus) -> str:
    """A text with other facts: every date, number, "yes" and "no" is another one, and titles of the
    corpus that fill a line or a cell are other titles. A text without any comes back as it is."""

    def cell(match: re.Match[str]) -> str:
        said = match[0].strip()
        if len(corpus) > 1 and said and corpus.page(said) is not None:
            at = derive(key, "title", match.start()) % len(corpus)
            other = next(t for i in range(len(corpus))
                         if (t := corpus[(at + i) % len(corpus)].title) != said)  # fmt: skip
            return match[0].replace(said, other)
        return _FACTS.sub(lambda fact: _other(fact, derive(key, match.start(), fact.start())),
                          match[0])  # fmt: skip

    return _CELL.sub(cell, text)


def _other(match: re.Match[str], key: int) -> str:
    said = match[0]
    if match["polar"]:
        return "no" if said == "yes" else "yes"
    if match["date"]:
        try:
            day = date.fromisoformat(said).toordinal()
        except ValueError:
            return said
        return date.fromordinal((day + key % 20_000) % 3_600_000 + 1).isoformat()
    first, rest = int(said[0]), said[1:]
    # the first digit changes, and stays no zero; the others are drawn
    digit = 1 + (first + key % 8) % 9 if rest or first else 1 + key % 9
    return str(digit) + "".join(str((int(d) + (key >> i % 60)) % 10) for i, d in enumerate(rest))


# --- recorded ----------------------------------------------------------------------------------
class RecordedTool(Tool):
    """A tool on record: ``{"use": "recorded", "tool": …, "path": "calls.sqlite"}``.

    An answer is found again by the tool, its arguments and the state that it read; what it made of
    the state is recorded with it. Failures are not recorded.

    Args:
        tool: Tool in any form that ``tools=`` takes.
        path: SQLite file; several tools and environments may share one.
        mode: "record" asks every time, "replay" never (a call that was not recorded ends the
            episode with ``infra_error``), "replay_or_live" asks what the file lacks.

    Raises:
        CardError: by :meth:`bind`: in a file of others, which may open nothing.
        EngineError: by :meth:`bind`: a degraded tool, whose noise belongs to an episode, or a file
            that holds nothing of this tool in mode "replay".
    """

    registered = "recorded"
    service: RecordedService[ToolCall, ToolResult]

    def __init__(self, tool: Any, path: str, *, mode: Mode = "replay_or_live") -> None:
        super().__init__()
        self.tool, self.path, self.mode = tool, path, mode

    def bind(self, context: ToolContext) -> Self:
        """A copy that records the tool as ``context`` binds it."""
        refuse(f"the tool 'recorded', which opens {self.path!r}")
        bound = copy.copy(self)
        service = _Service(make_tool(self.tool, context), context)
        bound.spec, bound.needs_task = service.tool.spec, service.tool.needs_task
        bound.service = RecordedService(service, self.path, kind="tool", mode=self.mode)
        return bound

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        """One result per call, in order; what is new is on disk when this returns."""
        return self.service.run(batch)


class _Service:
    """A tool as a service; its answers depend on the call's arguments and handed-back state."""

    def __init__(self, tool: ToolProtocol, context: ToolContext) -> None:
        self.tool = tool
        behind = getattr(tool, "engine", None) or getattr(tool, "pages", None)
        said = [
            list(tool.spec), context.corpus.digest, getattr(behind, "fingerprint", ""),
            getattr(tool, "k", None),
        ]  # fmt: skip
        self.fingerprint = f"tool:{tool.spec.name}:{value_digest(said)}"
        self.needs_task = tool.needs_task
        self.degrades = getattr(tool, "degrades", getattr(behind, "degrades", False))

    def cache_key(self, request: ToolCall, /) -> bytes | None:
        return None

    def run(self, batch: Sequence[ToolCall], /) -> list[ToolResult | Failure]:
        return self.tool.run(batch)


# --- decoys ------------------------------------------------------------------------------------
_NAMES = (
    "{}_plus", "quick_{}", "{}_archive", "smart_{}", "global_{}", "{}_lite", "deep_{}", "{}_beta",
)  # fmt: skip
_SAYS = (
    "Extended version. {}", "Answers at once. {}", "Covers older entries, too. {}",
    "Understands more forms of input. {}", "Covers all regions. {}", "Light-weight version. {}",
    "Goes deeper. {}", "New version. {}",
)  # fmt: skip


class DecoyTool(Tool):
    """A tool with the arguments of another, a name and a description like its, and no result.

    Args:
        of: The tool that it looks like, in any form that ``tools=`` takes.
        number: Which of its look-alikes, from 0; each has a name and a description of its own.
        cost: Cost of each call.

    Raises:
        CardError: ``number`` is no whole number from 0.
    """

    registered = "decoy"
    time_limit = None

    def __init__(self, of: Any, number: int = 0, *, cost: float = 0.0) -> None:
        super().__init__(cost=cost)
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise CardError(f"the number of a decoy is a whole number from 0, got {number!r}")
        self.of, self.number = of, number

    def bind(self, context: ToolContext) -> Self:
        """A copy that looks like the tool as ``context`` binds it."""
        real = make_tool(self.of, context).spec
        again, form = divmod(self.number, len(_NAMES))
        name = _NAMES[form].format(real.name) + (f"_{again + 1}" if again else "")
        bound = copy.copy(self)
        described = _SAYS[form].format(real.description)
        bound.spec = real._replace(name=name, description=described, shares="")
        return bound

    def use(self, args: Mapping[str, Any], state: Any = None) -> ToolResult:
        return ToolResult(("No result.",))


def decoys(tools: Sequence[Any], count: int) -> list[dict[str, Any]]:
    """``count`` decoys as tables for ``tools=``, of each of ``tools`` in turn."""
    if not tools and count:
        raise CardError("decoys look like real tools: name at least one")
    rounds = [divmod(i, len(tools)) for i in range(count)]
    return [{"use": "decoy", "of": tools[place], "number": number} for number, place in rounds]
