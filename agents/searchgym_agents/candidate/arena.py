"""Training ground of the candidate agent: real episodes, each visited state built once.

A *node* is a decision point of one task: an ``Episode`` as it stands, its candidates, their
features, and what each answer would score. Rollouts of a group, and later updates, that take the
same actions meet in the same node, so that engine calls, encoding and features are paid for once.
Nothing of the episode's rules is repeated here: nodes are made by ``Episode.fork``, ``act`` and
``receive``; only answers are scored without playing them (``score_answer``, as the episode does).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from searchgym.agents.simple import State, read_state
from searchgym.core.episode import Episode, run_tools
from searchgym.dialects.base import get_dialect
from searchgym.envs.search import SearchEnv
from searchgym.errors import TaskError
from searchgym.scoring import score_answer
from searchgym.text import answer_words, normalised_answers
from searchgym.types import CallContext, Failure, ToolCall
from searchgym.utils.english import tokens
from searchgym.utils.hardware import one_thread

from .actions import Candidate
from .encoder import Progress
from .features import FeatureBuilder
from .scorer import CandidateScorer, stack


@dataclass(slots=True)
class Node:
    """One decision point. ``n`` candidates."""

    arena: Arena
    episode: Episode
    candidates: tuple[Candidate, ...]
    features: NDArray[np.float16]
    """(n, F); coarser than an agent sees them, for a run keeps tens of thousands of states."""
    f1: NDArray[np.float32]
    """(n,) F1 of answering so; 0 for searches."""
    em: NDArray[np.float32]
    evidence: float
    """Share of the task's gold passages seen so far; 0 if it has none."""
    searches: int
    is_search: NDArray[np.bool_]
    """(n,) mask of the candidates that are searches."""
    gains: NDArray[np.float32]
    """(n,) share of the gold passages that a search would show for the first time; 0 for answers.
    Found out by asking the engine, which costs far less than building the state it leads to."""
    children: dict[int, Node] = field(default_factory=dict)


class Arena:
    """The tasks of one world (or real set) and the tools they are solved with.

    Args:
        env: its tasks are played in order, an episode's id being its task's, with the search tool
            alone. Results must not depend on call keys (no noise), because rollouts share them; its
            reward is ignored.
        builder: features; share one between arenas to share its caches.
        most: at most so many of the tasks, spread evenly over all.
    """

    def __init__(
        self,
        name: str,
        env: SearchEnv,
        builder: FeatureBuilder,
        most: int | None = None,
    ) -> None:
        if tuple(env.toolbox.tools) != ("search",):
            env = env.under(tools=("search",))
        self.name, self.env, self.tasks, self.builder = name, env, list(env.tasks), builder
        if most is not None and most < len(self.tasks):
            kept = np.linspace(0, len(self.tasks) - 1, most).astype(int)
            self.tasks = [self.tasks[i] for i in kept.tolist()]
        self.toolbox, self.dialect = env.toolbox, get_dialect(env.rules.dialect)
        self.first: dict[int, Node] = {}
        """First decision points that were visited, by task."""
        self._measured: dict[str, dict[str, tuple[float, float]]] = {}

    def __len__(self) -> int:
        return len(self.tasks)

    def _state(self, episode: Episode) -> State:
        requests = episode.requests()
        if not requests:
            raise TaskError(
                f"{self.name}: task {episode.config.task.id!r} ended unanswered "
                f"({episode.outcome()}); give the rules larger budgets"
            )
        return read_state(requests[0])

    def _measure_gains(self, nodes: Sequence[Node]) -> None:
        """Fill in ``gains``: one batch of engine calls for all searches of all new states."""
        where: list[tuple[Node, int]] = []
        calls: list[ToolCall] = []
        for node in nodes:
            if node.evidence >= 1 or not node.episode.config.task.evidence:
                continue
            for i in np.flatnonzero(node.is_search).tolist():
                where.append((node, i))
                context = CallContext(0, node.episode.config.episode_id, {})
                calls.append(ToolCall("search", {"query": node.candidates[i].text}, 0, context))
        for (node, i), result in zip(where, self.toolbox.run(calls), strict=True):
            if isinstance(result, Failure):
                raise TaskError(f"{self.name}: a search failed ({result.message})")
            gold, seen = node.episode.config.task.evidence, node.episode.seen
            new = {h.passage.id for h in result.hits}.difference(seen).intersection(gold)
            node.gains[i] = len(new) / len(gold)

    def _node(self, episode: Episode, state: State) -> Node:
        scored = self.builder(state)
        task = episode.config.task
        known = self._measured.setdefault(task.id, {})
        words = _words(task.answers) if not (task.items or task.should_abstain) else None
        f1 = np.zeros(len(scored.candidates), dtype=np.float32)
        em = np.zeros_like(f1)
        for i, c in enumerate(scored.candidates):
            norm = c.norm
            if c.is_search or (
                words and norm and norm.isascii() and words.isdisjoint(tokens(norm))
            ):
                continue  # it shares no word with an answer
            if (got := known.get(c.text)) is None:
                measured = score_answer(task, c.text)
                got = known[c.text] = (measured["f1"], measured["em"])
            f1[i], em[i] = got
        gold = set(task.evidence)
        seen = len(gold.intersection(episode.seen)) / len(gold) if gold else 0.0
        is_search = np.asarray([c.is_search for c in scored.candidates], dtype=np.bool_)
        return Node(
            self, episode, scored.candidates, scored.features.astype(np.float16), f1, em, seen,
            episode.queries, is_search, np.zeros_like(f1),
        )  # fmt: skip


@lru_cache(maxsize=4096)
def _words(answers: tuple[str, ...]) -> frozenset[str]:
    return frozenset(w for answer in normalised_answers(answers) for w in answer_words(answer))


def roots(wanted: Sequence[tuple[Arena, int]], progress: Progress | None = None) -> list[Node]:
    """The first decision points of some arenas' tasks."""
    new = [(arena, i) for arena, i in dict.fromkeys(wanted) if i not in arena.first]
    episodes = []
    for arena, i in new:
        task = arena.tasks[i]
        episodes.append((arena, arena.env.start(0, task=task, episode_id=task.id)))
    for (arena, i), node in zip(new, _nodes(episodes, progress), strict=True):
        arena.first[i] = node
    return [arena.first[i] for arena, i in wanted]


def follow(steps: Sequence[tuple[Node, int]], progress: Progress | None = None) -> list[Node]:
    """The nodes that searches lead to: one batch of tool calls for all that are new of an arena."""
    new: dict[tuple[int, int], tuple[Node, int]] = {}
    for node, pick in steps:
        if pick not in node.children:
            new.setdefault((id(node), pick), (node, pick))
    episodes = []
    for node, pick in new.values():
        episode = node.episode.fork()
        episode.act(node.arena.dialect.render_action(node.candidates[pick].action))
        episodes.append((node.arena, episode))
    for arena in dict.fromkeys(arena for arena, _ in episodes):
        run_tools([episode for its, episode in episodes if its is arena], arena.toolbox)
    for (node, pick), child in zip(new.values(), _nodes(episodes, progress), strict=True):
        node.children[pick] = child
    return [node.children[pick] for node, pick in steps]


def _nodes(episodes: Sequence[tuple[Arena, Episode]], progress: Progress | None) -> list[Node]:
    """Nodes of episodes as they stand; what those of all arenas show is encoded together."""
    states = [(arena, arena._state(episode)) for arena, episode in episodes]
    for builder in dict.fromkeys(arena.builder for arena, _ in states):
        builder.prepare([state for arena, state in states if arena.builder is builder], progress)
    nodes = [
        arena._node(episode, state)
        for (arena, episode), (_, state) in zip(episodes, states, strict=True)
    ]
    for arena in dict.fromkeys(arena for arena, _ in episodes):
        arena._measure_gains([node for node in nodes if node.arena is arena])
    return nodes


@dataclass(frozen=True, slots=True)
class GreedyPoint:
    """One evaluation on the development arena; ``METRICS.md`` explains the names."""

    episodes: int
    train_s: float
    em: float
    f1: float
    searches: float
    evidence_recall: float


def play_greedily(
    model: CandidateScorer,
    arenas: Sequence[Arena],
    progress: Progress | None = None,
    every: int = 1,
) -> NDArray[np.float64]:
    """(tasks, 4): EM, F1, searches and evidence recall of the best-scored actions, in every task,
    or every fifth, …"""
    now = roots([(arena, i) for arena in arenas for i in range(0, len(arena), every)], progress)
    out = np.zeros((len(now), 4))
    active = list(range(len(now)))
    while active:
        steps = []
        for start in range(0, len(active), 64):
            part = active[start : start + 64]
            rows, state, starts = stack([now[i].features for i in part])
            with torch.inference_mode(), one_thread():
                logits = model(rows, state, len(part)).numpy()
            for i, first in zip(part, starts, strict=True):
                node = now[i]
                steps.append((i, int(logits[first : first + len(node.candidates)].argmax())))
        going = []
        for i, pick in steps:
            node = now[i]
            if node.candidates[pick].is_search:
                going.append((i, pick))
            else:
                out[i] = node.em[pick], node.f1[pick], node.searches, node.evidence
        nodes = follow([(now[i], pick) for i, pick in going], progress)
        for (i, _), node in zip(going, nodes, strict=True):
            now[i] = node
        active = [i for i, _ in going]
    return out
