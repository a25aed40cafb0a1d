"""The records and protocols every part of SearchGym shares. Standard library and NumPy only.

Records that exist once per call or turn are ``NamedTuple``s: immutable like a frozen dataclass and
three times cheaper to make, which the vector environment's throughput needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from .seeding import derive

Split = Literal["train", "dev", "test"]
ABSTAIN = "unanswerable"
"""The canonical text of a refusal; ``searchgym.text.is_abstention`` accepts its variants."""


# --- what is searched -------------------------------------------------------------------------
class Passage(NamedTuple):
    """One retrieval unit."""

    id: str
    title: str
    text: str
    url: str


class Hit(NamedTuple):
    """One search result: a passage and its engine's score (higher is better)."""

    passage: Passage
    score: float


Ranking = tuple[Hit, ...]
"""Best first; scores never increase; ties are ordered by passage id."""


class Charged(tuple[Hit, ...]):
    """A ranking that also says what it cost and how it came about; equal to the plain tuple.

    The search tool hands both on as ``ToolResult.cost`` and ``meta`` (JSON values, never shown to
    the agent).
    """

    cost: float
    meta: Mapping[str, Any]

    def __new__(
        cls, hits: Iterable[Hit] = (), cost: float = 0.0, meta: Mapping[str, Any] | None = None
    ) -> Self:
        made = super().__new__(cls, hits)
        made.cost, made.meta = cost, meta or {}
        return made


class Page(NamedTuple):
    """The content of a URL: full text of a document (one or more passages)."""

    url: str
    title: str
    text: str
    passage_ids: tuple[str, ...]


class ChargedPage(Page):
    """A page that also says what it cost and how it came about; see :class:`Charged`."""

    cost: float = 0.0
    meta: Mapping[str, Any] = {}

    @classmethod
    def of(cls, page: Page, cost: float = 0.0, meta: Mapping[str, Any] | None = None) -> Self:
        made = cls(*page)
        made.cost, made.meta = cost, meta or {}
        return made


# --- tasks ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Difficulty:
    """Difficulty of a task, each axis on its own scale (REDSearcher, arXiv 2602.14234)."""

    hops: int
    """Length of the longest chain of facts that must be followed."""
    branches: int
    """Number of independent chains that are joined (1 for a single chain)."""
    treewidth: int
    """Treewidth of the constraint graph (1 for chains and trees)."""
    dispersion: int
    """Least number of passages that jointly state every used fact."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One node of a reasoning graph. ``given``: named in the question; ``value``: its solution."""

    id: str
    type: str
    value: str
    given: bool = False


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """One used fact: ``subject --property--> object`` between node ids, stated by ``passage``, or
    implied by a rule of the schema."""

    subject: str
    property: str
    object: str
    fact: int
    """Row of the fact in the world; -1 for one that is stated nowhere."""
    passage: str
    parts: tuple[tuple[int, str], ...] = ()
    """Stated facts that a fact implied by a rule follows from, each with its passage."""

    def stated(self) -> tuple[tuple[int, str], ...]:
        """The stated facts behind the edge, each with its passage."""
        return self.parts or ((self.fact, self.passage),)


@dataclass(frozen=True, slots=True)
class ReasoningGraph:
    """The facts behind a question and how they are combined into its answer."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    answer: str
    """Node id of the answer, or "" when ``operation`` computes it (count, comparison)."""
    operation: str = "lookup"


@dataclass(frozen=True, slots=True)
class Task:
    """A question, what counts as its answer, and (never shown to the agent) how to get there."""

    id: str
    question: str
    answers: tuple[str, ...]
    """Accepted answers, the canonical one first. For tasks to be refused: ``(ABSTAIN,)``."""
    evidence: tuple[str, ...] = ()
    """Gold passage ids in hop order."""
    queries: tuple[str, ...] = ()
    """Gold queries: ``queries[i]`` retrieves ``evidence[i]``."""
    family: str = "real"
    hops: int = 1
    split: str = "train"
    graph: ReasoningGraph | None = None
    difficulty: Difficulty | None = None
    should_abstain: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict)
    items: tuple[tuple[str, ...], ...] = ()
    """Members of the set or list that is asked for, each by its accepted forms; else empty."""
    ordered: bool = False
    """True if the question asks for its items in their order."""


# --- calls to the outside ---------------------------------------------------------------------
class CallContext(NamedTuple):
    """Context that travels with each outside call."""

    seed: int
    """Seed of :attr:`key`: the episode's, or one that stands for the call alone."""
    episode_id: str
    params: Mapping[str, float]
    """Difficulty parameters such as ``noise``; a curriculum drives them."""
    state: Any = None
    """A copy of the state that the tool, or one that shares it, returned last in this episode."""
    task: Task | None = None
    """Set only for services that declare ``needs_task`` (engines played by a language model)."""
    attempt: int = 0
    """Number of times that this call has failed before: a simulated outage may be over by the next
    try."""
    place: tuple[int | str, ...] = ()
    """Place in the episode: branch, context, turn, position of the call, tool."""

    @property
    def key(self) -> int:
        """Random key, fixed by ``seed`` and ``place``; derived when it is read, which engines that
        draw nothing never do."""
        return derive(self.seed, *self.place) if self.place else self.seed

    def keyed(self) -> CallContext:
        """The context with :attr:`key` derived once, for who reads it many times."""
        return CallContext(self.key, *self[1:-1]) if self.place else self


class Query(NamedTuple):
    """A query to an engine: its text, how many hits are wanted, and who asks."""

    text: str
    k: int
    ctx: CallContext


class PageRequest(NamedTuple):
    url: str
    ctx: CallContext


class ToolCall(NamedTuple):
    """A call of a tool by the policy, as tools receive it."""

    tool: str
    args: Mapping[str, Any]
    position: int
    """Place within its turn (parallel calls)."""
    ctx: CallContext


class ImageRef(NamedTuple):
    """A picture by reference; text-only policies never receive one."""

    uri: str
    alt: str


Content = str | ImageRef


class ToolResult(NamedTuple):
    """The result of a tool: parts to show, search results, and what the call cost."""

    parts: tuple[Content, ...] = ()
    """Free-form output (a page, a number). Search results live in ``hits``."""
    hits: tuple[Hit, ...] = ()
    cost: float = 0.0
    meta: Mapping[str, Any] = {}
    state: Any = None
    """JSON values that the episode keeps for the next call; None leaves what it has."""


class Failure(NamedTuple):
    """The infrastructure's fault (not the policy's): this item failed, its neighbours did not."""

    kind: Literal["timeout", "unavailable", "rejected", "bad_response", "cache_miss"]
    message: str
    retryable: bool = True


Req = TypeVar("Req", contravariant=True)
Res = TypeVar("Res", covariant=True)


@runtime_checkable
class Service(Protocol[Req, Res]):
    """The one batch verb for everything outside an episode: engines, pages, tools, generators."""

    needs_task: bool
    fingerprint: str
    """Changes whenever answers may change; part of every cache key and result row."""

    def cache_key(self, request: Req, /) -> bytes | None:
        """Return a key: equal ones mean equal answers, ``None`` means never share an answer."""
        ...

    def run(self, batch: Sequence[Req], /) -> Sequence[Res | Failure]:
        """Answer every item, in order; a failed item is a ``Failure`` in its place."""
        ...


SearchEngine = Service[Query, Ranking]
PageSource = Service[PageRequest, Page | None]
"""Source of pages; ``None``: no such page (the policy's mistake), as opposed to ``Failure``."""


class ToolSpec(NamedTuple):
    """A tool as policies are told of it: its name, what it does, and its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments."""
    shares: str = ""
    """Name of the state that the tool keeps in an episode. Tools that name the same one read and
    write one state; "": a state of its own, under the tool's name."""


# --- actions ----------------------------------------------------------------------------------
class Search(NamedTuple):
    """Ask the engine; several queries run in parallel within one turn."""

    queries: tuple[str, ...]


class Access(NamedTuple):
    """Open a page by URL."""

    url: str


class Answer(NamedTuple):
    """End the episode (or, in a delegated context, report back)."""

    text: str


class Call(NamedTuple):
    """Use any other tool, by name. ``args``: JSON values by argument name; whether they fit the
    tool is the episode's to say (:func:`searchgym.utils.arguments.argument_error`)."""

    tool: str
    args: Mapping[str, Any]


class Judge(NamedTuple):
    """Keep or hide the newest observation (ReSeek, arXiv 2510.00568)."""

    useful: bool


class Delegate(NamedTuple):
    """Hand a sub-task to a fresh context (planner/executor methods)."""

    task: str
    target: str = ""
    """Role that is to do it; "": the only one. In a text it stands before the task: ``web: …``."""


class Invalid(NamedTuple):
    """A text that is no action of the dialect: answered with a corrective observation, costs a
    turn."""

    reason: str


Action = Search | Access | Call | Answer | Judge | Delegate | Invalid


class Span(NamedTuple):
    """A parsed piece of an action's text, in characters: ``text[start:end]``."""

    kind: str
    start: int
    end: int


class Parsed(NamedTuple):
    action: Action
    spans: tuple[Span, ...] = ()
    cut: int = 0
    """Characters kept: whatever the policy wrote after ``text[:cut]`` does not count."""


# --- what the policy is asked -----------------------------------------------------------------
class Segment(NamedTuple):
    """A piece of a context: who wrote it, of what kind, and whether the policy still sees it."""

    id: str
    context: int
    author: Literal["env", "policy"]
    kind: str
    """instructions | question | action | results | page | stub | invalid | note | task | report"""
    parts: tuple[Content, ...]
    visible: bool = True
    hits: tuple[Hit, ...] = ()
    """The passages this segment shows, for agents that read records rather than text."""
    asked: str = ""
    """The question alone, where the text is a whole prompt around it."""
    rewritten: bool = False
    """True if a text of the policy's stands here as wrappers rewrote it."""

    @property
    def text(self) -> str:
        if len(self.parts) == 1 and isinstance(self.parts[0], str):
            return self.parts[0]
        return "".join(p if isinstance(p, str) else p.alt for p in self.parts)


class TurnRequest(NamedTuple):
    """The input of a policy: everything it may see, and how its text will be cut and read."""

    episode_id: str
    turn: int
    context: int
    role: str
    segments: tuple[Segment, ...]
    """The visible segments of this context, in order."""
    prefill: str
    stop: tuple[str, ...]
    tools: tuple[ToolSpec, ...]
    max_tokens: int | None
    dialect: Any
    """The dialect, as ``searchgym.dialects.base.get_dialect`` takes it: a name, import path or
    object."""
    turns_left: int
    queries_left: int | None
    """Searches and tool calls. None: unlimited. 0: asking is not (or no longer) possible."""
    max_parallel: int = 1
    """Queries that one turn may hold."""
    may_abstain: bool = False
    """True if refusing is offered (:data:`ABSTAIN`)."""
    max_queries: int | None = None
    """Searches and tool calls of the whole episode. None: unlimited. 0: there is nothing to ask."""


class Metered(str):
    """An agent's text that also says what it took; equal to the plain text.

    ``usage``: ``tokens_in`` and ``tokens_out``, as the agent's tokenizer or its server counts,
    ``cost`` in US dollars, ``overflowed`` (1 where the prompt left no room to write) and
    ``length_cut`` (1 where ``max_tokens`` ended the text). What is not known is absent.
    """

    usage: Mapping[str, float]

    def __new__(cls, text: str = "", usage: Mapping[str, float] | None = None) -> Self:
        made = super().__new__(cls, text)
        made.usage = usage or {}
        return made


@runtime_checkable
class Agent(Protocol):
    """Answers turn requests with text. Identity is ``episode_id``; prefer stateless agents.

    A ``Failure`` in a text's place says that its author could not be reached:
    the episode ends as lost to the infrastructure and is never scored.
    """

    def act(self, requests: Sequence[TurnRequest], /) -> Sequence[str | Failure]: ...


OWN_ACTIONS = frozenset({"search", "access"})
"""Tools that are actions of their own; the others are used by a ``Call``."""


# --- what an episode records of its turns and its end ---------------------------------------------
End = Literal["answered", "unanswered", "max_turns", "max_chars", "max_tokens", "infra_error"]
"""``answered`` terminates (a refusal is an answer too), and so does ``unanswered``: the one text of
a self-search episode held no answer, and nothing would have followed it. All others truncate."""
TERMINAL: frozenset[End] = frozenset({"answered", "unanswered"})


class Opened(NamedTuple):
    """A turn whose action is known and whose results are not."""

    number: int
    context: int
    role: str
    prompt: tuple[str, ...]
    text: str
    action: Action
    spans: tuple[Span, ...]


class Turn(NamedTuple):
    """One action and what it earned."""

    number: int
    context: int
    role: str
    prompt: tuple[str, ...]
    """Ids of the segments the policy saw, in order."""
    text: str
    """Text that the policy wrote, cut after the action."""
    action: Action
    spans: tuple[Span, ...]
    """Parsed pieces of ``text``, in characters."""
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult | Failure, ...]
    reward_parts: Mapping[str, float]
    """Rewards of the turn by part, unweighted; zeros are left out. In the last turn also the parts
    of the end, zeros included, unless the infrastructure failed."""
    reward: float
