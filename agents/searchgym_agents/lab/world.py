"""The laboratory's world: a graph of facts, a page for each, and an engine that looks them up.

Every thing has one value for each of a few relations, except that some facts are missing. "What is
the boss of the ally of miro?" takes two searches, the second of which depends on what the first one
showed. Another relation of the same thing is a page like any other, and leads to a wrong answer;
a missing fact is a dead end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from searchgym.corpora.corpus import Corpus
from searchgym.dialects.plain import Plain
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError
from searchgym.seeding import derive, stream
from searchgym.types import Answer, Difficulty, Hit, Passage, Query, Ranking, Task

RELATIONS = ("boss", "ally", "home", "key", "rival", "tool")
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
REWARD: Mapping[str, float] = {"em": 1.0, "search": -0.05}
"""An exact match, less a twentieth for each search: a second look pays only where it is needed."""


@dataclass(frozen=True, slots=True)
class FactGraph:
    """Things, and what each relation of each one is."""

    things: tuple[str, ...]
    facts: Mapping[tuple[str, str], str]
    """(relation, thing) → thing; pairs that are missing are dead ends."""
    seed: int

    def passages(self) -> list[Passage]:
        """One page per fact."""
        return [
            Passage(f"{thing}.{relation}", thing, f"The {relation} of {thing} is {value}.",
                    f"{thing}/{relation}")
            for (relation, thing), value in self.facts.items()
        ]  # fmt: skip

    def follow(self, start: str, relations: Sequence[str]) -> list[str] | None:
        """The things that a chain of relations leads to, ``start`` first; None at a dead end or
        where it comes back to a thing."""
        things = [start]
        for relation in relations:
            value = self.facts.get((relation, things[-1]))
            if value is None or value in things:
                return None
            things.append(value)
        return things


def fact_graph(seed: int, things: int = 40, relations: int = 4, missing: float = 0.1) -> FactGraph:
    """Draw a graph: each relation maps things to random others, a share of facts ``missing``."""
    if not 1 < relations <= len(RELATIONS):
        raise CardError(f"relations is 2 to {len(RELATIONS)}, got {relations}")
    draw = stream(seed, "lab", "graph")
    names = _names(draw, things)
    facts: dict[tuple[str, str], str] = {}
    for relation in RELATIONS[:relations]:
        for i, thing in enumerate(names):
            other = int(draw.integers(things - 1))
            if draw.random() >= missing:
                facts[relation, thing] = names[other + (other >= i)]
    return FactGraph(names, facts, seed)


def _names(draw: np.random.Generator, count: int) -> tuple[str, ...]:
    names: dict[str, None] = {}
    while len(names) < count:
        letters = [str(draw.choice(list(kind))) for kind in (CONSONANTS, VOWELS) * 2]
        names["".join(letters)] = None
    return tuple(names)


def question(relations: Sequence[str], start: str) -> str:
    """The words of a question; the first relation stands last, as it is asked first."""
    return "What is the " + " of the ".join([*reversed(relations)]) + f" of {start}?"


def query(relation: str, thing: str) -> str:
    """The words by which a fact is looked up."""
    return f"{relation} of {thing}"


def chain_task(graph: FactGraph, relations: Sequence[str], start: str, name: str) -> Task | None:
    """The question that asks for the end of a chain; None where the chain has none."""
    things = graph.follow(start, relations)
    if things is None:
        return None
    steps = list(zip(relations, things, strict=False))
    hops = len(relations)
    return Task(
        name, question(relations, start), (things[-1],),
        tuple(f"{thing}.{relation}" for relation, thing in steps),
        tuple(query(relation, thing) for relation, thing in steps),
        f"chain-{hops}" if hops > 1 else "simple", hops,
        difficulty=Difficulty(hops, 1, 1, hops),
        meta={"relations": list(relations), "things": things},
    )  # fmt: skip


def chain_tasks(graph: FactGraph, hops: Mapping[int, int]) -> list[Task]:
    """``hops``: number of questions by length of the chain, all different."""
    relations = list(dict.fromkeys(relation for relation, _ in graph.facts))
    made: dict[str, Task] = {}
    for length, count in hops.items():
        draw = stream(graph.seed, "lab", "tasks", length)
        wanted, tries = len(made) + count, 0
        while len(made) < wanted:
            tries += 1
            if tries > 1000 * count:
                raise CardError(f"this graph has fewer than {count} chains of {length}")
            chosen = [relations[int(draw.integers(len(relations)))] for _ in range(length)]
            if any(a == b for a, b in pairwise(chosen)):
                continue  # "the boss of the boss": nothing to choose between
            start = graph.things[int(draw.integers(len(graph.things)))]
            task = chain_task(graph, chosen, start, f"{length}.{len(made)}")
            if task is not None:
                made.setdefault(task.question, task)
    return list(made.values())


class FactEngine:
    """Look-up of a fact by its exact words, in any case; what is no fact finds nothing."""

    needs_task = False

    def __init__(self, corpus: Corpus) -> None:
        self._hits: dict[str, Ranking] = {}
        for passage in corpus:
            thing, _, relation = passage.id.rpartition(".")
            self._hits[query(relation, thing)] = (Hit(passage, 1.0),)
        self.fingerprint = f"lab facts {derive(0, *sorted(p.text for p in corpus))}"

    def cache_key(self, request: Query, /) -> bytes | None:
        return " ".join(request.text.lower().split()).encode()

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        return [self._hits.get(" ".join(q.text.lower().split()), ()) for q in batch]


class Terse(Plain):
    """Plain lines, in which a forced answer stands as the model itself writes one, without words
    before it that it has never read: how likely it is (``gold_logp``) is then its own belief."""

    def force_answer(self, answer: str) -> tuple[str, str]:
        bridge = "answer: "
        return bridge, self.render_action(Answer(answer)).removeprefix(bridge)


def lab_env(graph: FactGraph, tasks: Sequence[Task], **keywords: Any) -> SearchEnv:
    """The environment of a graph's questions: terse lines, one page a search, four turns."""
    corpus = Corpus("lab", graph.passages())
    return SearchEnv(
        **{
            "corpus": corpus, "tasks": list(tasks), "engine": FactEngine(corpus),
            "dialect": Terse(), "k": 1, "max_turns": 4, "reward": dict(REWARD), **keywords,
        }
    )  # fmt: skip
