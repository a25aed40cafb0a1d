"""Measurements by training: the learning bench under another course, reward or rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Self

import numpy as np

from searchgym.core.episode import Episode
from searchgym.corpora.corpus import Corpus
from searchgym.engines.degraded.engine import DegradedEngine
from searchgym.envs.search import SearchEnv
from searchgym.policies.rows import TrainingRow
from searchgym.rl.recipe_files import read
from searchgym.rl.rollouts.chains import Chains
from searchgym.rl.slots.records import Group, TaskPlan, Workers
from searchgym.seeding import derive

from ..learning_bench import BEFORE, Course, play, policy_of, setting, train, trained, warm
from ..world import FactEngine, FactGraph

PHASE = 4
"""Steps at the beginning, before the middle and at the end whose searches are averaged."""


@dataclass(frozen=True, slots=True)
class Variant(Course):
    """A shorter course than the bench's, on chains of two, or with another environment."""

    warm_steps: int = 160
    episodes: int = 2048
    hops: tuple[int, ...] = (2,)
    families: int = 0
    """Names of two words, the second one of so many: an answer may then be half right. 0: one."""
    noisy: bool = False
    """True if the engine reads the rate ``noise`` of an episode's parameters."""

    @classmethod
    def of(cls, course: Mapping[str, Any]) -> Self:
        """A course of these fields, of JSON values."""
        return cls(**{name: fixed(value) for name, value in course.items()})

    @property
    def start(self) -> Course:
        return replace(self, noisy=False, **BEFORE)

    def graph(self) -> FactGraph:
        graph = Course.graph(self)
        return two_words(graph, self.families) if self.families else graph

    def env(self, graph: FactGraph, **keywords: Any) -> SearchEnv:
        if self.noisy:
            corpus = Corpus("lab", graph.passages())
            engine = DegradedEngine(FactEngine(corpus), corpus)
            keywords = {"corpus": corpus, "engine": engine, **keywords}
        return Course.env(self, graph, **keywords)


def two_words(graph: FactGraph, families: int) -> FactGraph:
    """A graph whose things are called by a name and one of ``families`` family names."""
    second = graph.things[:families]
    names = {
        thing: f"{graph.things[-1 - i // families]} {second[i % families]}"
        for i, thing in enumerate(graph.things)
    }
    facts = {(r, names[thing]): names[value] for (r, thing), value in graph.facts.items()}
    return FactGraph(tuple(names.values()), facts, graph.seed)


def learn(
    seed: int, *, method: str, changes: Mapping[str, Any] | None = None, **course: Any
) -> dict[str, Any]:
    """Train a small language model by a recipe.

    Args:
        method: A shipped recipe.
        changes: Slots of it that are another here.
        course: Fields of :class:`Variant`.

    Returns:
        ``area``, mean exact match by episode; ``episodes``, as many as it took until five steps'
        mean exact match was .5, or all (then ``capped``); ``em`` and ``searches`` of the last
        steps; ``begin`` and ``middle``, searches of the first steps and before the middle one.
    """
    table = {**read(method), **(changes or {})}
    run = train(table, seed, Variant.of(course))
    curve: Sequence[Sequence[float]] = run["curve"]
    searches = [point[2] for point in curve]
    half = len(searches) // 2
    reached = run["to_goal"]
    return {
        "area": run["area"], "em": run["end"], "searches": fmean(searches[-PHASE:]),
        "begin": fmean(searches[:PHASE]), "middle": fmean(searches[max(half - PHASE, 0) : half]),
        "episodes": curve[-1][0] if reached is None else reached,
        "capped": ["episodes"] if reached is None else [], "seconds": run["seconds"],
    }  # fmt: skip


def played_after(
    seed: int, method: str | None, changes: Mapping[str, Any] | None, course: Variant, each: int
) -> tuple[SearchEnv, list[Episode]]:
    """Train by a recipe, with other slots if ``changes`` says so, and play every question.

    Args:
        method: A shipped recipe; None: the model stays as it began.
        each: Episodes of a question.

    Returns:
        The environment and the finished episodes.
    """
    from searchgym.policies.trainable import TrainableLM

    if method is None:
        tokenizer, model = warm(course.start)
        lm = TrainableLM(model, tokenizer)
    else:
        lm, *_ = trained({**read(method), **(changes or {})}, seed, course)
    _, env = setting(course)
    agent = policy_of(lm, derive(seed, "after"), course)
    return env, play(env, agent, seed, each, "after")


def fixed(value: Any) -> Any:
    """A value that can be a key: tables and lists as tuples."""
    if isinstance(value, Mapping):
        return tuple((k, fixed(v)) for k, v in value.items())
    return tuple(map(fixed, value)) if isinstance(value, list) else value


class Unmasked(Chains):
    """Independent episodes, all of whose tokens from the first sampled one on are trained on, the
    results of searches among them. Nobody sampled these, so no loss may read how likely they were
    when sampled."""

    unsampled = True

    def collect(self, plans: Sequence[TaskPlan], workers: Workers) -> list[Group]:
        return [
            replace(group, members=tuple(
                replace(m, rows=tuple(map(unmasked, m.rows))) for m in group.members
            ))
            for group in super().collect(plans, workers)
        ]  # fmt: skip


def unmasked(row: TrainingRow) -> TrainingRow:
    """A row whose tokens after the first sampled one are all trained on. What was read between two
    turns counts to the turn before it."""
    first = int(row.sampled.argmax())
    after = np.arange(len(row)) >= first
    turn = np.maximum.accumulate(row.turn_of_token)
    return replace(row, sampled=after, loss_mask=after, turn_of_token=np.where(after, turn, -1))
