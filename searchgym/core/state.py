"""State of an episode: its contexts and all else that can be read of it. ``episode.py`` moves it.

Contexts are segments with texts, authors and visibility. They are mostly append-only, but methods
edit them: a judged observation is hidden, a page shrinks to a stub, an executor works in a context
of its own. Nothing is ever removed from the record.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..dialects.base import Dialect, View, get_dialect
from ..rewards.outcome import Outcome
from ..text import answer_words, normalise_answer
from ..tools.base import states_of
from ..types import TERMINAL, End, Hit, Opened, Segment, ToolCall, ToolSpec, Turn, TurnRequest
from .rules import PLANNER, EpisodeConfig


class Contexts:
    """A stack of contexts (0 at the bottom) and all segments in the order they were written."""

    __slots__ = ("_ids", "_roles", "_stack", "_stubs", "_text", "_where", "chars", "segments")

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.chars = 0
        """Characters of all segments ever written."""
        self._where: list[list[int]] = []  # context -> positions in segments
        self._roles: list[str] = []
        self._stack: list[int] = []
        self._text: list[list[str] | None] = []  # visible texts, joined when asked; None: unknown
        self._ids: list[list[str] | None] = []
        self._stubs: dict[int, str] = {}  # position of a page -> the stub that will replace it

    @property
    def active(self) -> int:
        """The context whose turn it is."""
        return self._stack[-1]

    def role(self, context: int) -> str:
        return self._roles[context]

    def open(self, role: str) -> None:
        """Begin a new context and make it the active one."""
        self._stack.append(len(self._roles))
        self._roles.append(role)
        self._where.append([])
        self._text.append([])
        self._ids.append([])

    def close(self) -> None:
        """Return to the context below."""
        self._stack.pop()

    def add(
        self,
        author: Literal["env", "policy"],
        kind: str,
        text: str,
        hits: tuple[Hit, ...] = (),
        stub: str | None = None,
        asked: str = "",
    ) -> None:
        """Append a segment to the active context. ``stub`` replaces it once it has been read."""
        context, position = self._stack[-1], len(self.segments)
        segment_id = f"s{position}"
        self.segments.append(Segment(segment_id, context, author, kind, (text,), True, hits, asked))
        self._where[context].append(position)
        self.chars += len(text)
        texts, ids = self._text[context], self._ids[context]
        if texts is not None and ids is not None:
            texts.append(text)
            ids.append(segment_id)
        if stub is not None:
            self._stubs[position] = stub

    def visible(self, context: int) -> tuple[Segment, ...]:
        segments = self.segments
        return tuple(s for i in self._where[context] if (s := segments[i]).visible)

    def visible_ids(self, context: int) -> tuple[str, ...]:
        if (ids := self._ids[context]) is None:
            ids = self._ids[context] = [s.id for s in self.visible(context)]
        return tuple(ids)

    def render(self, context: int) -> str:
        if (texts := self._text[context]) is None:
            texts = self._text[context] = [s.text for s in self.visible(context)]
        if len(texts) > 1:
            texts[:] = ["".join(texts)]
        return texts[0] if texts else ""

    def _hide(self, position: int) -> None:
        segment = self.segments[position]
        self.segments[position] = segment._replace(visible=False)
        self._text[segment.context] = self._ids[segment.context] = None

    def newest_results(self) -> int | None:
        """Position of the active context's newest visible observation of a tool, if any."""
        for position in reversed(self._where[self._stack[-1]]):
            segment = self.segments[position]
            if segment.visible and segment.kind in ("results", "page"):
                return position
        return None

    def hide_newest_results(self) -> None:
        """Hide what :meth:`newest_results` names; it stays in the record."""
        if (position := self.newest_results()) is not None:
            self._hide(position)

    def retire_pages(self) -> None:
        """Replace pages that the policy has read for one turn by their stubs, in place."""
        if not self._stubs:
            return
        for position, stub in list(self._stubs.items()):
            segment = self.segments[position]
            if not segment.visible:
                del self._stubs[position]
            elif self._answered_since(position):
                del self._stubs[position]
                self._hide(position)
                self._insert_stub(position, segment, stub)

    def forget(self, limit: int, count: Callable[[str], int]) -> None:
        """Hide the active context's oldest turns until at most ``limit`` tokens are visible; what
        stands before the first turn, and the newest turn, stay."""
        turns: list[list[int]] = []
        left = limit
        for position in self._where[self._stack[-1]]:
            segment = self.segments[position]
            if segment.visible:
                left -= count(segment.text)
                if segment.author == "policy":
                    turns.append([])
                if turns:
                    turns[-1].append(position)
        for turn in turns[:-1]:
            if left >= 0:
                return
            for position in turn:
                left += count(self.segments[position].text)
                self._hide(position)

    def _answered_since(self, position: int) -> bool:
        context = self.segments[position].context
        return any(
            self.segments[i].author == "policy" for i in self._where[context] if i > position
        )

    def _insert_stub(self, position: int, page: Segment, stub: str) -> None:
        new = len(self.segments)
        self.segments.append(Segment(f"s{new}", page.context, "env", "stub", (stub,), True, ()))
        self.chars += len(stub)
        order = self._where[page.context]
        order.insert(order.index(position) + 1, new)
        self._text[page.context] = self._ids[page.context] = None


Phase = Literal["act", "receive", "done"]


class EpisodeState:
    """State of one question's episode as it can be read: what was done, is shown, is left.

    ``phase`` is ``"act"`` (text is awaited), ``"receive"`` (results of ``pending`` are awaited) or
    ``"done"``.
    """

    __slots__ = (  # thousands of episodes are alive at once
        "_asks", "_attempts", "_calls", "_dialect", "_gold", "_held", "_hidden", "_holds", "_left",
        "_news", "_open", "_pages_read", "_results", "_rules", "_state_keys", "_tool_names",
        "_tool_state", "_tools", "_weights", "answer", "config", "contexts", "end", "events",
        "new_evidence", "parent", "parts", "pending", "phase", "queries", "retries", "seen",
        "turns",
    )  # fmt: skip

    def __init__(self, config: EpisodeConfig, *, parent: tuple[str, int] | None = None) -> None:
        self.config = config
        self.parent = parent
        self.phase: Phase = "act"
        self.turns: list[Turn] = []
        self.queries = 0
        self.retries = 0
        self.pending: tuple[ToolCall, ...] = ()
        self.seen: dict[str, None] = {}
        """Ids of all passages shown so far, in order."""
        self._rules = config.rules
        self._dialect: Dialect = get_dialect(self._rules.dialect)
        self._weights = self._rules.reward.effective(config.params)
        self._hidden = self._rules.reward.hidden(self._weights)
        self._holds = self._rules.reward.holds
        self._held = 0.0  # reward of turns that a final gate keeps until the end
        self._gold = frozenset(config.task.evidence)
        self._left = set(self._gold)
        self.events: list[tuple[Any, ...]] = []
        """Log of all inputs."""
        self._open: Opened | None = None
        self._calls: tuple[ToolCall, ...] = ()
        self._results: list[Any] = []
        self._attempts = 0
        self._tool_state: dict[str, str] = {}  # JSON texts
        self._pages_read: dict[str, int] = {}
        self._news = 0
        self.end: End | None = None
        """Reason it ended; ``None`` while it runs."""
        self.answer = ""
        """The answer; empty until it is given."""
        self.parts: dict[str, float] | None = None
        """The measures of the finished episode (:attr:`Outcome.parts`); ``None`` while it runs."""
        self.new_evidence = 0
        """Gold passages that the turn which is being measured showed for the first time."""
        self._tools = self._rules.tools if config.search_enabled else ()
        self._tool_names = frozenset(t.name for t in self._tools)
        self._state_keys = {t.name: t.shares for t in self._tools if t.shares}
        self._asks = not self._tool_names <= {"access"}
        self.contexts = Contexts()

    # --- asking -------------------------------------------------------------------------------
    @property
    def turns_left(self) -> int:
        return self._rules.max_turns - len(self.turns)

    @property
    def queries_left(self) -> int | None:
        """Searches and tool calls still allowed; ``None``: unlimited; 0 also when there is nothing
        to ask or time is up."""
        rules = self._rules
        if not self._asks or rules.max_turns - len(self.turns) <= 1:
            return 0
        limit = rules.max_queries
        return None if limit is None else limit - self.queries

    def requests(self) -> tuple[TurnRequest, ...]:
        """Requests to the policy now: one request while ``phase == "act"``, else none."""
        if self.phase != "act":
            return ()
        top, rules = self.contexts.active, self._rules
        return (
            TurnRequest(
                self.config.episode_id,
                len(self.turns),
                top,
                self.contexts.role(top),
                self.contexts.visible(top),
                "",
                self._dialect.stop,
                self._own_tools(self.contexts.role(top)),
                None,
                rules.dialect if isinstance(rules.dialect, str) else self._dialect,
                self.turns_left,
                self.queries_left,
                rules.max_parallel,
                rules.may_abstain,
                rules.max_queries if self._asks else 0,
            ),
        )

    def observation(self, context: int = 0) -> str:
        """The visible part of a context as one text."""
        return self.contexts.render(context)

    def shown(self) -> str:
        """The visible part of the context whose turn it is."""
        return self.contexts.render(self.contexts.active)

    @property
    def delta(self) -> str:
        """Text the environment wrote since the policy's last action (stubs are old news)."""
        new = self.contexts.segments[self._news :]
        if len(new) == 1:
            parts = new[0].parts
            only = parts[0] if len(parts) == 1 else None
            return only if isinstance(only, str) else new[0].text
        return "".join([s.text for s in new if s.kind != "stub"])

    def _view(self) -> View:
        rules, role = self._rules, self.contexts.role(self.contexts.active)
        handed = rules.delegates if rules.delegate and role == PLANNER else {}
        return View(
            tools=self._own_tools(role),
            max_parallel=rules.max_parallel,
            k=rules.k,
            turns_left=self.turns_left,
            queries_left=self.queries_left,
            judge=rules.judge,
            delegate=bool(handed),
            role=role,
            may_abstain=rules.may_abstain,
            targets=tuple(handed) if not isinstance(rules.delegate, bool) else (),
            prompt=rules.of_role(role).get("prompt", ""),
        )

    def _own_tools(self, role: str) -> tuple[ToolSpec, ...]:
        """The tools of a role, of those that the episode has."""
        if isinstance(self._rules.delegate, bool):
            return self._tools
        names = self._rules.of_role(role).get("tools")
        return self._tools if names is None else tuple(t for t in self._tools if t.name in names)

    # --- the end ------------------------------------------------------------------------------
    def outcome(self) -> Outcome | None:
        """``None`` while the episode runs."""
        if self.end is None:
            return None
        last = self.turns[-1]
        return Outcome(self, last, last.calls, last.results, self.end)

    @property
    def public_parts(self) -> dict[str, float]:
        """The latest turn's reward parts, as far as they may be shown while the episode runs; all
        once it is over."""
        parts = dict(self.turns[-1].reward_parts)
        if self.end is None and not self._hidden.isdisjoint(parts):
            for name in self._hidden:
                if name in parts:
                    del parts[name]
                    if name != "evidence":  # an own part may say in detail what it is made of
                        for detail in [n for n in parts if n.startswith(f"{name}.")]:
                            del parts[detail]
        return parts

    @property
    def self_search(self) -> bool:
        """True if the policy writes its own search results, all in one text (``engine="self"``)."""
        return bool(getattr(self._dialect, "self_search", False))

    @property
    def terminated(self) -> bool:
        """Answered or refused; or, in self-search, over without an answer."""
        return self.end in TERMINAL

    @property
    def truncated(self) -> bool:
        """A budget ran out, or the infrastructure did. Never together with ``terminated``."""
        return self.end is not None and self.end not in TERMINAL

    @property
    def evidence_total(self) -> int:
        """Number of gold passages the task has."""
        return len(self._gold)

    @property
    def evidence_found(self) -> int:
        """Number of them that were shown."""
        return len(self._gold) - len(self._left)

    @property
    def missing_evidence(self) -> tuple[str, ...]:
        """Gold passages not shown yet, in hop order. Privileged: for oracles and signals."""
        return tuple(e for e in self.config.task.evidence if e in self._left)

    @property
    def tool_states(self) -> dict[str, Any]:
        """State of the tools in this episode: name (or ``ToolSpec.shares``) → JSON values. A
        copy; for rewards and tests that look at the final state of a tool."""
        return states_of(self._tool_state)


def cut_hits(hits: tuple[Hit, ...], limit: int | None) -> tuple[Hit, ...]:
    """Hits with texts of at most ``limit`` characters; the same tuple if none is longer."""
    if limit is None:
        return hits
    for hit in hits:
        if len(hit.passage.text) > limit:
            return tuple(
                Hit(h.passage._replace(text=h.passage.text[:limit]), h.score) for h in hits
            )
    return hits


def reported(conclusion: str, found: Sequence[Hit], share: float) -> tuple[Hit, ...]:
    """The passages that a sub-task's report carries beside its conclusion: those whose titles the
    conclusion names, and of the rest the ``share`` (at least one, rounded up) whose words are
    nearest to it by cosine; of equal ones those found first (the knowledge refiner of HierSearch,
    arXiv 2508.08088, which compares embeddings).
    """
    passages = {hit.passage.id: hit for hit in reversed(found)}
    hits = [passages[i] for i in dict.fromkeys(hit.passage.id for hit in found)]
    words = normalise_answer(conclusion)
    kept = [
        h for h in hits if (t := normalise_answer(h.passage.title)) and f" {t} " in f" {words} "
    ]
    rest = [h for h in hits if h not in kept]
    nearest = sorted(rest, key=lambda h: -_cosine(words, h.passage.text))
    count = max(1, math.ceil(round(share * len(rest), 9)))
    return tuple(h for h in hits if h in kept or h in nearest[:count])


def _cosine(words: str, text: str) -> float:
    """Cosine of two texts' word counts, rounded, so that order does not hang on the last bit."""
    a, b = Counter(answer_words(words)), Counter(answer_words(normalise_answer(text)))
    lengths = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return round(sum(n * b[w] for w, n in a.items()) / lengths, 9) if lengths else 0.0
