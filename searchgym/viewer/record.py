"""One episode as pages show it, whatever wrote it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..text import is_abstention


class ShownHit(NamedTuple):
    """A passage that was shown."""

    id: str
    title: str
    text: str
    url: str = ""
    score: float | None = None


class Observation(NamedTuple):
    """A text of the environment. ``kind``: results, page, stub, invalid, note, …"""

    kind: str
    text: str
    visible: bool = True
    """False: hidden from the policy later on."""


class Token(NamedTuple):
    """One token of a row that was trained on. Numbers are None where it was not sampled."""

    text: str
    turn: int | None
    trained: bool
    logp: float | None
    advantage: float | None


@dataclass(slots=True)
class ViewedTurn:
    """One action, what followed, what it earned."""

    number: int
    text: str
    action: str = ""
    """Search, Access, Answer, Invalid, …"""
    detail: str = ""
    """The queries, the address, the answer, what was wrong."""
    context: int = 0
    role: str = ""
    tools: tuple[str, ...] = ()
    observations: list[Observation] = field(default_factory=list)
    hits: list[ShownHit] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    reward: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    advantage: float | None = None
    """Mean over the turn's trained tokens."""


@dataclass(slots=True)
class Record:
    """An episode. Empty text, None and NaN: the file does not say."""

    id: str
    question: str
    task: str = ""
    answers: tuple[str, ...] = ()
    answer: str = ""
    end: str = ""
    reward: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    family: str = ""
    hops: int | None = None
    agent: str = ""
    step: int | None = None
    """Training step in which it was played."""
    parent: tuple[str, int] | None = None
    """Episode and turn that it branched off from."""
    evidence: tuple[str, ...] = ()
    """Gold passages."""
    recall: float | None = None
    closed: bool = False
    """True if it was played closed-book, without tools."""
    prompt: list[Observation] = field(default_factory=list)
    """Observations before the first turn."""
    turns: list[ViewedTurn] = field(default_factory=list)
    tokens: list[list[Token]] = field(default_factory=list)
    facts: Mapping[str, str] = field(default_factory=dict)
    """Further facts to show, one a line."""

    @property
    def searches(self) -> int:
        return sum("search" in t.tools for t in self.turns)

    @property
    def missing(self) -> tuple[str, ...]:
        """Gold passages that were never shown."""
        seen = {hit.id for turn in self.turns for hit in turn.hits}
        return tuple(e for e in self.evidence if e not in seen)

    @property
    def outcome(self) -> str:
        """Outcome of the episode, one of :data:`OUTCOMES`."""
        if any(t.failures for t in self.turns) and self.end == "infra_error":
            return "lost"
        if not self.answer.strip():
            return "none"
        if self.correct is None:
            return "unscored"
        if self.correct >= 1:
            return "right"
        if is_abstention(self.answer):
            return "refused"
        return "partly" if self.correct >= PARTLY else "wrong"

    @property
    def correct(self) -> float | None:
        """Return how right the answer is, from 0 to 1: exact match where there is one, else F1 if
        that is above it, else the reward."""
        em, f1 = self.parts.get("em"), self.parts.get("f1")
        if em is not None:
            return em if em >= 1 or f1 is None else min(f1, 0.999)
        known = f1 if f1 is not None else self.reward
        return None if known is None or math.isnan(known) else known

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the episode, of :data:`PROBLEMS`."""
        problems = []
        if any(t.action == "Invalid" for t in self.turns):
            problems.append("invalid")
        if any(t.failures for t in self.turns):
            problems.append("failure")
        if self.end and self.end not in ENDED:
            problems.append("cut")
        if self.evidence and self.missing:
            problems.append("evidence")
        return tuple(problems)


def checked(record: Record) -> Record:
    """The record, if its fields are of the types that pages and the index take.

    Raises:
        TypeError: one is not.
    """
    texts = [("id", record.id), ("question", record.question), ("task", record.task),
             ("end", record.end), ("answer", record.answer), ("family", record.family),
             ("agent", record.agent)]  # fmt: skip
    texts += [("answers", answer) for answer in record.answers]
    texts += [("evidence", passage) for passage in record.evidence]
    places: list[tuple[str, object]] = []
    whole = [("hops", record.hops), ("step", record.step)]
    numbers = [("reward", record.reward), ("recall", record.recall), *record.parts.items()]
    said = list(record.prompt)
    for turn in record.turns:
        texts += [("text", turn.text), ("action", turn.action), ("detail", turn.detail)]
        texts += [("role", turn.role), *(("tool", tool) for tool in turn.tools)]
        texts += [("passage", text) for h in turn.hits for text in (h.id, h.title, h.text, h.url)]
        places += [("turn's number", turn.number), ("context", turn.context)]
        numbers += [("score", hit.score) for hit in turn.hits]
        numbers += [("reward", turn.reward), ("advantage", turn.advantage), *turn.parts.items()]
        said += turn.observations
    texts += [("observation", text) for each in said for text in (each.kind, each.text)]
    for token in (token for row in record.tokens for token in row):
        texts.append(("token", token.text))
        whole.append(("token's turn", token.turn))
        numbers += [("token's number", token.logp), ("token's number", token.advantage)]
    for kind, told, values, may_lack in (
        (str, "text", texts, False), (int, "whole number", places, False),
        (int, "whole number", whole, True), ((int, float), "number", numbers, True),
    ):  # fmt: skip
        for name, value in values:
            if not isinstance(value, kind) and not (may_lack and value is None):
                raise TypeError(f"{name} is no {told}: {value!r:.80}")
    return record


ENDED = frozenset({"answered", "unanswered", "completed", "stop"})
PARTLY = 0.3
"""F1 from which on an answer is partly right: sharing an article with the gold answer is not."""
OUTCOMES = {
    "right": "right",
    "partly": "partly right",
    "wrong": "wrong",
    "refused": "refused",
    "none": "no answer",
    "lost": "lost to a failure",
    "unscored": "not scored",
}
PROBLEMS = {
    "invalid": "an invalid action",
    "failure": "a tool that failed",
    "cut": "cut off before the end",
    "evidence": "gold passages not shown",
}
