"""``Outcome``: an episode as a reward sees it, and the parts of the end that it measures."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from ..errors import EpisodeError
from ..scoring import score_answer
from ..types import TERMINAL, Action, End, Hit, Invalid, Opened, Task, ToolCall, ToolResult, Turn

MEASURES = (
    "em", "f1", "cover_em", "format", "evidence_recall", "searches", "accesses", "calls", "invalid",
    "turns", "answered", "truncated", "infra_error",
)  # fmt: skip
"""Keys that :attr:`Outcome.parts` always holds; the reward's own parts follow under their names."""
CUT: frozenset[End] = frozenset({"max_turns", "max_chars", "max_tokens"})
"""Ends forced by a budget."""


class EpisodeView(Protocol):
    """Protocol of an episode that an outcome reads."""

    config: Any
    turns: list[Turn]
    answer: str
    queries: int
    seen: dict[str, None]
    parts: dict[str, float] | None
    new_evidence: int

    @property
    def delta(self) -> str: ...
    @property
    def evidence_total(self) -> int: ...
    @property
    def evidence_found(self) -> int: ...
    @property
    def tool_states(self) -> Mapping[str, Any]: ...
    @property
    def self_search(self) -> bool: ...


class Outcome:
    """An episode after its latest turn, read-only: all that a reward may look at.

    Rewards of turns get one after every turn (``end`` is then ``None``, but for the last turn),
    final rewards one at the end. ``episode.outcome()`` gives the finished episode's, whose
    :attr:`parts` are measured. It stays true only until the episode's next turn.
    """

    __slots__ = ("_calls", "_end", "_episode", "_opened", "_results", "_scores")

    def __init__(
        self,
        episode: EpisodeView,
        opened: Opened | Turn,  # the open turn, or the last one of a finished episode
        calls: tuple[ToolCall, ...],
        results: tuple[Any, ...],
        end: End | None,
    ) -> None:
        self._episode = episode
        self._opened = opened
        self._calls = calls
        self._results = results
        self._end = end
        self._scores: dict[str, float] | None = None

    # --- the task -----------------------------------------------------------------------------
    @property
    def task(self) -> Task:
        """The whole task: id, difficulty, reasoning graph, gold queries, …"""
        return self._episode.config.task

    @property
    def question(self) -> str:
        return self._episode.config.task.question

    @property
    def answers(self) -> tuple[str, ...]:
        """Accepted answers, the canonical one first."""
        return self._episode.config.task.answers

    @property
    def family(self) -> str:
        """The task's family."""
        return self._episode.config.task.family

    @property
    def meta(self) -> Mapping[str, Any]:
        """Further entries noted by the task's maker."""
        return self._episode.config.task.meta

    @property
    def params(self) -> Mapping[str, float]:
        """Difficulty parameters that the episode was begun with."""
        return MappingProxyType(self._episode.config.params)

    # --- the end ------------------------------------------------------------------------------
    @property
    def end(self) -> End | None:
        """Reason the episode ended: ``answered``, ``unanswered`` (self-search without an answer),
        ``max_turns``, ``max_chars``, ``max_tokens``, ``infra_error``; ``None`` while it runs."""
        return self._end

    @property
    def answer(self) -> str:
        """The answer; ``""`` where none was given."""
        return self._episode.answer

    @property
    def answered(self) -> bool:
        """True if an answer (or a refusal, which is one) was given."""
        return self._end == "answered"

    @property
    def truncated(self) -> bool:
        """True if a budget ended the episode."""
        return self._end in CUT

    @property
    def em(self) -> float:
        """Exact match of the answer; 0 without one."""
        return self._score()["em"]

    @property
    def f1(self) -> float:
        """Token F1 of the answer; 0 without one."""
        return self._score()["f1"]

    @property
    def cover_em(self) -> float:
        """1 if the answer holds an accepted one as whole words; 0 without an answer."""
        return self._score()["cover_em"]

    @property
    def set_f1(self) -> float:
        """F1 over the parts of an answer to a question for several things; of any other, its exact
        match."""
        scores = self._score()
        return scores.get("set_f1", scores["em"])

    def _score(self) -> dict[str, float]:
        if self._scores is None:
            if self._end in TERMINAL:
                self._scores = score_answer(self.task, self._episode.answer)
            else:
                self._scores = {"em": 0.0, "f1": 0.0, "cover_em": 0.0}
        return self._scores

    # --- the latest turn ----------------------------------------------------------------------
    @property
    def action(self) -> Action:
        """The latest action."""
        return self._opened.action

    @property
    def text(self) -> str:
        """Text the policy wrote for it."""
        return self._opened.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Calls that it made; none for an answer, or in a last turn, where tools do not run."""
        return self._calls

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Results of the turn's calls, in the same order."""
        return self._results

    @property
    def shown(self) -> str:
        """Text the environment wrote in reply."""
        return self._episode.delta

    @property
    def new_evidence(self) -> int:
        """Gold passages that it showed for the first time."""
        return self._episode.new_evidence

    # --- the whole episode --------------------------------------------------------------------
    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, the latest included: action, text, calls, results. Rewards are those of
        earlier turns; the latest one's is being measured."""
        turns, opened = self._episode.turns, self._opened
        if isinstance(opened, Turn) or len(turns) > opened.number:
            return tuple(turns[: opened.number + 1])
        return (*turns, Turn(*opened, self._calls, self._results, {}, 0.0))

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions of all turns."""
        before = self._episode.turns[: self._opened.number]
        return (*[turn.action for turn in before], self._opened.action)

    @property
    def hits(self) -> tuple[Hit, ...]:
        """All search results, in the order of the calls."""
        return tuple(h for t in self.turns for r in t.results for h in getattr(r, "hits", ()))

    @property
    def seen(self) -> tuple[str, ...]:
        """Ids of all passages that were shown, each once, in the order of showing."""
        return tuple(self._episode.seen)

    @property
    def evidence(self) -> tuple[str, ...]:
        """Ids of the task's gold passages, in hop order."""
        return self._episode.config.task.evidence

    @property
    def evidence_total(self) -> int:
        """Number of gold passages."""
        return self._episode.evidence_total

    @property
    def evidence_found(self) -> int:
        """Number of gold passages that were shown."""
        return self._episode.evidence_found

    @property
    def searches(self) -> int:
        """Queries and tool calls so far, as ``max_queries`` counts them."""
        return self._episode.queries

    @property
    def cost(self) -> float:
        """Cost of engine and tools so far, in US dollars."""
        return sum([getattr(r, "cost", 0.0) for t in self.turns for r in t.results], 0.0)

    @property
    def costs(self) -> Mapping[str, float]:
        """Cost so far by tool; tools that were not called are left out."""
        costs: dict[str, float] = {}
        for turn in self.turns:
            for call, result in zip(turn.calls, turn.results, strict=True):
                costs[call.tool] = costs.get(call.tool, 0.0) + getattr(result, "cost", 0.0)
        return costs

    @property
    def tool_states(self) -> Mapping[str, Any]:
        """State of the episode's tools: name (or ``ToolSpec.shares``) → JSON values; a copy. At the
        end it is the final state."""
        return copy.deepcopy(self._episode.tool_states)

    @property
    def self_search(self) -> bool:
        """True if the policy wrote its own results (``engine="self"``)."""
        return self._episode.self_search

    @property
    def parts(self) -> Mapping[str, float]:
        """Measures of a finished episode: :data:`MEASURES` and the reward's own parts, summed over
        turns, unweighted. The keys are the same however the episode ended; after an infrastructure
        failure all but the counts are 0. ``evidence_recall`` is NaN where there is no gold passage.

        Raises:
            EpisodeError: the episode is not over, or its last reward is just being measured.
        """
        if (parts := self._episode.parts) is None:
            raise EpisodeError(
                "parts are measured when the episode is over; a reward may use em, f1, cover_em, "
                "evidence_found, searches and turns"
            )
        return MappingProxyType(parts)

    def __eq__(self, other: object) -> bool:
        """Return True for outcomes with the same end, answer and parts."""
        if not isinstance(other, Outcome):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared()[:2])

    def _compared(self) -> tuple[Any, ...]:
        return self._end, self.answer, self._episode.parts

    def __repr__(self) -> str:
        return f"Outcome(end={self._end!r}, answer={self.answer!r}, parts={self._episode.parts!r})"


def measures(
    outcome: Outcome, episode: EpisodeView, final: Mapping[str, float]
) -> dict[str, float]:
    """The values of :data:`MEASURES` for a finished episode; ``final``: the end's parts."""
    gold = 0 if episode.self_search else episode.evidence_total  # who writes results shows none
    accesses = calls = invalid = 0.0
    for turn in episode.turns:
        parts = turn.reward_parts
        if "access" in parts:
            accesses += 1
        elif "call" in parts:
            calls += 1
        elif "invalid" in parts:
            invalid += 1
    end = outcome.end
    return {
        "em": final.get("em", 0.0),
        "f1": final.get("f1", 0.0),
        "cover_em": final.get("cover_em", 0.0),
        "format": final.get("format", 0.0),
        "evidence_recall": outcome.evidence_found / gold if gold else math.nan,
        "searches": float(episode.queries),
        "accesses": accesses,
        "calls": calls,
        "invalid": invalid,
        "turns": float(len(episode.turns)),
        "answered": 1.0 if end == "answered" else 0.0,
        "truncated": 1.0 if end in CUT else 0.0,
        "infra_error": 1.0 if end == "infra_error" else 0.0,
    }


def em(outcome: Outcome) -> float:
    """Exact match after SQuAD normalisation, best over the accepted answers."""
    return outcome.em


def f1(outcome: Outcome) -> float:
    """Token F1 after SQuAD normalisation, best over the accepted answers."""
    return outcome.f1


def cover_em(outcome: Outcome) -> float:
    """1 if an accepted answer stands in the answer as whole words. A measure, or a gate: it is not
    paid, since a list of guesses earns it."""
    return outcome.cover_em


def set_f1(outcome: Outcome) -> float:
    """F1 over the parts of an answer, members of a set or of a list (``searchgym.scoring.sets``);
    of a question for one thing, its exact match."""
    return outcome.set_f1


def format(outcome: Outcome) -> float:
    """Share of turns that were valid actions; in self-search, SSRL's format score of the text."""
    if outcome.end not in TERMINAL:
        return 0.0
    if outcome.self_search:
        from ..scoring.ssrl_format import ssrl_format

        return ssrl_format(outcome.text)
    actions = outcome.actions
    return 1.0 - sum([type(action) is Invalid for action in actions]) / len(actions)
