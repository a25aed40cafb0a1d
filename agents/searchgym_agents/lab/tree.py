"""Every trajectory of a few questions: real episodes, forked at each decision.

A *decision* is a point at which the policy is asked; its *candidates* are the at most eight texts
that the laboratory's policy can write there: the search that is due, one that looks like it, a dead
end, and answers: the right one, and plausible wrong ones. The episode itself says what each text
leads to; nothing of its rules is repeated here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from searchgym.core.episode import Episode, run_tools
from searchgym.envs.search import SearchEnv
from searchgym.llms.base import Completion, Ids
from searchgym.policies.causal_lm import ExternalPolicy
from searchgym.policies.renderer import Spelt
from searchgym.rl.slots.records import Group, Played, TaskPlan
from searchgym.seeding import stream
from searchgym.types import Segment, Task, TurnRequest

from .world import FactGraph, chain_task, fact_graph, lab_env, query


class TreeShape(NamedTuple):
    """Size of a question's tree."""

    hops: int
    """Searches that its answer takes."""
    searches: int
    """Candidate searches at each decision, the one that is due among them."""
    answers: int
    """Candidate answers, the right one among them."""
    decisions: int
    """Decisions at most; at the last one there are answers only."""


SHAPES = (TreeShape(1, 3, 3, 2), TreeShape(2, 2, 3, 3), TreeShape(2, 2, 2, 4))
"""A single fact; a chain of two; the same with room for a search too many. Twelve, 21 and 30
trajectories."""
MOST = 8
"""Largest number of candidates."""


class CandidateText(NamedTuple):
    """A text that may be written at a decision."""

    text: str
    ids: Ids
    """Number of its words and of the end of the turn."""
    kind: str
    """``due`` (the search that brings the chain on, or the right answer once it was shown),
    ``lucky`` (the right answer before it was shown), ``wrong`` (a wrong answer), ``other`` (a
    search that does not bring the chain on)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One point at which the policy is asked."""

    question: int
    prompt: Ids
    candidates: tuple[CandidateText, ...]


@dataclass(slots=True)
class TaskTree:
    """All trajectories of the laboratory's questions."""

    env: SearchEnv
    renderer: WordRenderer
    decisions: list[Decision] = field(default_factory=list)
    leaves: list[list[Played]] = field(default_factory=list)
    """Finished episodes by question."""
    paths: list[list[list[tuple[int, int]]]] = field(default_factory=list)
    """(Decision, candidate) pairs of each leaf."""

    @property
    def questions(self) -> int:
        return len(self.leaves)

    def group(self, question: int, places: Sequence[int] | None = None) -> Group:
        """A group of some leaves of a question, by default all of them once."""
        leaves = self.leaves[question]
        members = leaves if places is None else [leaves[i] for i in places]
        return Group(self.plan(question), tuple(members))

    def plan(self, question: int) -> TaskPlan:
        """The plan by which a question is played."""
        task = self.env.tasks[question]
        return TaskPlan(task, task.id, question)


def grow(shapes: Sequence[TreeShape] = SHAPES, seed: int = 0, **env: Any) -> TaskTree:
    """Play every trajectory of one question per shape.

    Args:
        seed: Seed of the graph and of which chains are asked for.
        env: Keywords of the environment, e.g. another ``reward``.
    """
    graph = fact_graph(seed)
    tasks = [_task(graph, shape, number, seed) for number, shape in enumerate(shapes)]
    turns = max(shape.decisions for shape in shapes)
    tree = TaskTree(lab_env(graph, tasks, max_turns=turns, **env), WordRenderer())
    for number, shape in enumerate(shapes):
        tree.leaves.append([])
        tree.paths.append([])
        policy = ExternalPolicy(None, tree.renderer)
        root = tree.env.start(number, task=tasks[number], episode_id=tasks[number].id)
        _expand(tree, graph, policy, shape, number, root, [])
    return tree


def _task(graph: FactGraph, shape: TreeShape, number: int, seed: int) -> Task:
    """A chain of which every wrong turn that the tree offers is there to be taken."""
    draw = stream(seed, "lab", "question", number)
    relations = list(dict.fromkeys(relation for relation, _ in graph.facts))
    while True:
        chosen = [relations[int(i)] for i in draw.permutation(len(relations))[: shape.hops]]
        start = graph.things[int(draw.integers(len(graph.things)))]
        task = chain_task(graph, chosen, start, f"q{number}")
        if task is not None and _misleading(graph, task, start) and _dead_end(graph, start):
            return task


def _misleading(graph: FactGraph, task: Task, thing: str) -> list[str]:
    """Relations of a thing that are not asked for next, and that a page tells of."""
    asked = task.meta["relations"]
    due = asked[task.meta["things"].index(thing)] if thing in task.meta["things"][:-1] else ""
    known = list(dict.fromkeys(relation for relation, _ in graph.facts))
    ranked = [*(r for r in reversed(asked) if r != due), *(r for r in known if r not in asked)]
    return [r for r in dict.fromkeys(ranked) if (r, thing) in graph.facts and r != due]


def _dead_end(graph: FactGraph, thing: str) -> list[str]:
    """Relations of a thing of which no page tells."""
    known = list(dict.fromkeys(relation for relation, _ in graph.facts))
    return [r for r in known if (r, thing) not in graph.facts]


def _expand(
    tree: TaskTree, graph: FactGraph, policy: ExternalPolicy, shape: TreeShape, number: int,
    episode: Episode, path: list[tuple[int, int]],
) -> None:  # fmt: skip
    if episode.phase == "done":
        tree.leaves[number].append(Played(episode, tuple(policy.rows(episode))))
        tree.paths[number].append(path)
        return
    (request,) = episode.requests()
    asked = policy.ask(request)
    assert not isinstance(asked, Completion)  # nothing limits the context here
    assert isinstance(asked.prompt, tuple)
    prompt = tuple(int(i) for i in asked.prompt)  # type: ignore[arg-type]
    candidates = tuple(
        CandidateText(text, (*tree.renderer.encode(text), END), kind)
        for text, kind in _candidates(graph, shape, episode)
    )
    here = len(tree.decisions)
    tree.decisions.append(Decision(number, prompt, candidates))
    for place, candidate in enumerate(candidates):
        child = episode.fork(branch=place + 1)
        (own,) = child.requests()
        policy.ask(own)
        policy.remember(own, written(tree.renderer, candidate.text, candidate.ids))
        child.act(candidate.text)
        run_tools([child], tree.env.toolbox)
        _expand(tree, graph, policy, shape, number, child, [*path, (here, place)])


def written(renderer: WordRenderer, text: str, ids: Ids, logp: Any = None) -> Completion:
    """A turn's text as tokens, the end of the turn among them."""
    ends = (*renderer.spell((), text).ends, len(text))
    values = np.zeros(len(ids), np.float32) if logp is None else np.asarray(logp, np.float32)
    return Completion(text, ids, values, ends)


def _candidates(graph: FactGraph, shape: TreeShape, episode: Episode) -> list[tuple[str, str]]:
    """(text, kind) of what may be written next."""
    task = episode.config.task
    relations, things = task.meta["relations"], task.meta["things"]
    shown = [graph.facts[tuple(reversed(pid.split(".")))] for pid in episode.seen]  # type: ignore[index]
    done = 0
    while done < shape.hops and task.evidence[done] in episode.seen:
        done += 1
    searches: dict[str, str] = {}
    if len(episode.turns) + 1 < shape.decisions:
        if done < shape.hops:
            searches[query(relations[done], things[done])] = "due"
        else:
            searches[task.queries[-1]] = "other"  # a look at what is known already
        newest = shown[-1] if shown else things[0]
        others = [(r, newest) for r in _misleading(graph, task, newest)]
        others += [(r, things[0]) for r in _misleading(graph, task, things[0])]
        if shape.searches > 2:
            others.insert(0, (_dead_end(graph, things[0])[0], things[0]))
        for relation, thing in others:
            if len(searches) < shape.searches:
                searches.setdefault(query(relation, thing), "other")
    made = [(f"search: {text}", kind) for text, kind in searches.items()]
    right = task.answers[0]
    answers = {right: "due" if done == shape.hops else "lucky"}
    plausible = [*reversed(shown), *things[:-1], *graph.things]
    for thing in plausible:
        if len(answers) < shape.answers:
            answers.setdefault(thing, "wrong")
    made += [(f"answer: {text}", kind) for text, kind in answers.items()]
    assert len(made) <= MOST
    return made


def counts(tree: TaskTree) -> Mapping[str, list[np.ndarray[Any, Any]]]:
    """Count each leaf's ``return``, ``em``, ``calls`` of the engine and ``tokens``, by question."""
    episodes = [[m.episode for m in leaves] for leaves in tree.leaves]
    return {
        "return": [np.array([sum(t.reward for t in e.turns) for e in q]) for q in episodes],
        "em": [np.array([float((e.parts or {}).get("em", 0.0)) for e in q]) for q in episodes],
        "calls": [np.array([float(e.queries) for e in q]) for q in episodes],
        "tokens": [np.array([float(m.tokens) for m in q]) for q in tree.leaves],
    }


END = 0
"""The id that ends a turn."""
_WORD = re.compile(r"\s*\S+|\s+")


class WordRenderer:
    """Every word with the blanks before it is a token; new words get the next number."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {"": END}
        self._words: list[str] = [""]

    fingerprint = "lab words"

    def encode(self, text: str) -> Ids:
        return tuple(self._id(word) for word in _WORD.findall(text))

    def render(self, request: TurnRequest, written: Mapping[str, Ids]) -> tuple[Ids, ...]:
        return tuple(
            written[s.id] if s.author == "policy" else self.encode(s.text) for s in request.segments
        )

    def spell(self, segments: Sequence[Segment], text: str) -> Spelt:
        return Spelt(self.encode(text), tuple(accumulate(map(len, _WORD.findall(text)))))

    def heard(self, segments: Sequence[Segment], completion: Completion) -> Completion:
        return completion

    def text(self, ids: Sequence[int]) -> str:
        """The words of some ids."""
        return "".join(self._words[i] for i in ids)

    def _id(self, word: str) -> int:
        if word not in self._ids:
            self._ids[word] = len(self._words)
            self._words.append(word)
        return self._ids[word]
