"""AgentGL (arXiv 2604.05846): classes of nodes and links of graphs, found by graph tools.

The families ``node_class`` and ``link`` ask of a knowledge graph what has been taken out of it; the
reward ``agentgl`` is the table of the released code's two stages; the curriculum ``agentgl`` orders
tasks by how much a node's neighbours tell of its class (Wilson's lower bound, in terciles).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from searchgym.corpora.corpus import Corpus
from searchgym.curricula.base import Driver
from searchgym.errors import CardError, TaskError
from searchgym.kgs.corpus import KGCorpus, kg_corpus
from searchgym.kgs.graph import KnowledgeGraph
from searchgym.rewards import Outcome
from searchgym.seeding import derive, stream, unit
from searchgym.tasks.draft import Asked
from searchgym.types import Task

FIRST, OVER = 2, 10
"""Hits in which a node is found by its title; candidates looked at for each task."""
LEVELS = ("easy", "medium", "hard")
_ENDS = {"train": 0.8, "dev": 0.9, "test": 1.0}
_TAG = re.compile(r"</?\w+>|<\|\w+\|>")
_CALL = re.compile(r"<\|begin_of_query\|>[^|]*<\|end_of_query\|>|<(answer|search)>[^<]*</\1>")


def wilson_bound(same: int, number: int, z: float = 1.96) -> float:
    """Wilson's lower bound of a share; 0 of none."""
    if not number:
        return 0.0
    share, square = same / number, z * z / number
    spread = z * math.sqrt((share * (1 - share) + square / 4) / number)
    return max(0.0, (share + square / 2 - spread) / (1 + square))


def class_score(same: int, degree: int, most: int) -> float:
    """Share of a node's neighbours that tell its class: :func:`wilson_bound` of those of the same
    class, and a little for many neighbours."""
    return wilson_bound(same, degree) + 0.05 * math.log1p(degree) / math.log1p(most)


def terciles(scores: Sequence[float], names: Sequence[str]) -> list[str]:
    """The level of each: the third with the highest scores is easy. Sizes differ by one at most;
    equal scores are told apart by name."""
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], names[i]))
    levels = {i: level for level, part in zip(LEVELS, np.array_split(order, 3), strict=True)
              for i in part.tolist()}  # fmt: skip
    return [levels[i] for i in range(len(scores))]


def without(graph: KnowledgeGraph, facts: Sequence[int]) -> KnowledgeGraph:
    """The graph without some of its facts, given by their rows."""
    kept = np.setdiff1d(np.arange(graph.n_facts), np.asarray(facts, np.int64))
    columns = {name: getattr(graph, name)[kept] for name in ("head", "relation", "tail", "source")}
    starts = np.searchsorted(columns["head"], np.arange(graph.n_entities + 1))
    return replace(graph, **columns, indptr=starts)


def neighbours(graph: KnowledgeGraph, entity: int, relation: int = -1) -> set[int]:
    """Neighbours of an entity by other relations than one."""
    indptr, other, fact = graph.adjacency
    at = slice(int(indptr[entity]), int(indptr[entity + 1]))
    return set(other[at][graph.relation[fact[at]] != relation].tolist())


def _own(graph: KnowledgeGraph, entity: int, split: str) -> bool:
    drawn = unit(derive(0, "kg-split", graph.ids[entity]))
    return next(name for name, end in _ENDS.items() if drawn < end) == split


class _Asking:
    """Base of both families."""

    def propose(self, *_: Any) -> None:
        """Refuse: pages of generated worlds state what would be asked."""
        raise TaskError("nodes and links are asked of knowledge graphs, such as corpus='kg_2wiki'")

    def _graph(self, corpus: Corpus) -> KnowledgeGraph:
        if not isinstance(corpus, KGCorpus):
            self.propose()
        return corpus.graph  # type: ignore[attr-defined]

    def _found(self, graph: KnowledgeGraph, entities: Iterable[int], search: Any) -> list[int]:
        """Those of the entities whose page a search for their title finds."""
        asked = list(dict.fromkeys(entities))
        rankings = search([graph.titles[e] for e in asked], FIRST) if asked else ()
        found = [{hit.passage.id for hit in ranking} for ranking in rankings]
        return [e for e, ids in zip(asked, found, strict=True) if graph.ids[e] in ids]


@dataclass(frozen=True)
class NodeClass(_Asking):
    """Asks for the class of a node: its one value of a relation, which is taken out of the graph
    for every node asked about. Other nodes keep theirs."""

    registered = "task family:node_class"

    relation: str = ""
    """The relation that is the class, as the graph has it or in words; by default the one that
    gives most nodes a class."""
    classes: int = 7
    """Most classes: the commonest values."""

    def ask(self, corpus: Corpus, number: int, *, split: str, search: Any) -> Asked:
        """Nodes of a split that have neighbours, and the graph without their classes."""
        graph = self._graph(corpus)
        relation, facts = self._facts(graph)
        label = {e: int(graph.tail[row]) for e, row in facts.items()}
        order = stream(0, "node_class", split).permutation(sorted(label)).tolist()
        near = {e: neighbours(graph, e, relation) for e in order if _own(graph, e, split)}
        some = islice((e for e, around in near.items() if around), OVER * number)
        asked = self._found(graph, some, search)[:number]
        most = max((len(near[e]) for e in asked), default=1)
        same = [sum(label.get(other) == label[e] for other in near[e]) for e in asked]
        scores = [class_score(n, len(near[e]), most) for e, n in zip(asked, same, strict=True)]
        levels = terciles(scores, [graph.ids[e] for e in asked])
        titles, words = graph.titles, graph.relation_words[relation]
        options = "; ".join(sorted({titles[c] for c in label.values()}))
        tasks = []
        for e, score, level in zip(asked, scores, levels, strict=True):
            question = f"What is the {words} of {titles[e]}? It is one of: {options}."
            names = (titles[label[e]], graph.labels[label[e]], *graph.aliases[label[e]])
            meta = {"difficulty": level, "score": score}
            tasks.append(Task(f"{graph.name}-node_class-{graph.ids[e]}", question,
                              tuple(dict.fromkeys(n for n in names if n.strip())),
                              (graph.ids[e],), (titles[e],), meta=meta))  # fmt: skip
        return Asked(tasks, kg_corpus(without(graph, [facts[e] for e in asked])))

    def _facts(self, graph: KnowledgeGraph) -> tuple[int, dict[int, int]]:
        """The relation, and entity → row of the fact that states its class."""
        best: tuple[int, dict[int, int]] = 0, {}
        for relation, names in enumerate(zip(graph.relations, graph.relation_words, strict=True)):
            rows = np.flatnonzero((graph.relation == relation) & (graph.tail >= 0))
            _, first, counts = np.unique(graph.head[rows], return_index=True, return_counts=True)
            rows = rows[first[counts == 1]]
            common = Counter(graph.tail[rows].tolist()).most_common(self.classes)
            rows = rows[np.isin(graph.tail[rows], [value for value, _ in common])]
            asked_for = self.relation in ("", *names) and len(common) > 2 - bool(self.relation)
            if asked_for and len(rows) > len(best[1]):
                best = relation, dict(zip(graph.head[rows].tolist(), rows.tolist(), strict=True))
        if not best[1]:
            known = ", ".join(graph.relation_words[:20])
            raise TaskError(f"{graph.name}: {self.relation!r} gives nodes no class; it has {known}")
        return best


@dataclass(frozen=True)
class Link(_Asking):
    """Asks whether two nodes are linked. Half are: those links are taken out of the graph.

    Pairs with common neighbours come first, and those that are not linked have some. By similarity
    yes is easy and no is hard: Jaccard's of the neighbours (ours; the paper's is of embeddings).
    """

    registered = "task family:link"

    def ask(self, corpus: Corpus, number: int, *, split: str, search: Any) -> Asked:
        """Pairs of which the first node is of the split, linked and not by turns."""
        graph, rng = self._graph(corpus), stream(0, "link", split)
        rows = np.flatnonzero((graph.tail >= 0) & (graph.head != graph.tail))
        ends = np.sort(np.stack((graph.head[rows], graph.tail[rows]), 1), 1)
        own = {e for e in range(graph.n_entities) if _own(graph, e, split)}
        joined = [(a, b) for a, b in np.unique(ends, axis=0).tolist() if a in own]
        near = {e: neighbours(graph, e) for e in range(graph.n_entities)}
        shuffled = [joined[i] for i in rng.permutation(len(joined)).tolist()]
        shuffled = [(a, b) for a, b in shuffled if min(len(near[a]), len(near[b])) > 1]
        shuffled.sort(key=lambda pair: near[pair[0]].isdisjoint(near[pair[1]]))
        some = shuffled[: OVER * number]
        known = set(self._found(graph, [e for pair in some for e in pair], search))
        yes = [pair for pair in some if known.issuperset(pair)][: (number + 1) // 2]
        pairs = zip(rows.tolist(), map(tuple, ends.tolist()), strict=True)
        asked = set(yes)
        left = without(graph, [row for row, pair in pairs if pair in asked])
        apart: list[tuple[int, int]] = []
        for e in [e for pair in yes for e in pair if e in own]:
            two = sorted({c for b in near[e] for c in near[b]} - near[e] - {e})
            apart += [(e, other) for other in rng.permutation(two)[:OVER].tolist()]
        apart = [apart[i] for i in rng.permutation(len(apart)).tolist()]
        known |= set(self._found(graph, [pair[1] for pair in apart], search))
        lone = {frozenset(pair): pair for pair in apart if pair[1] in known}
        no = [*lone.values()][: number // 2]
        near = {e: neighbours(left, e) for pair in (*yes, *no) for e in pair}
        tasks = [*self._tasks(left, yes, "yes", near), *self._tasks(left, no, "no", near)]
        order = rng.permutation(len(tasks)).tolist()
        return Asked([tasks[i] for i in order], kg_corpus(left))

    def _tasks(
        self, graph: KnowledgeGraph, pairs: Sequence[tuple[int, int]], truth: str,
        near: Mapping[int, set[int]],
    ) -> list[Task]:  # fmt: skip
        ids, titles, sign = graph.ids, graph.titles, 1 if truth == "yes" else -1
        alike = [len(near[a] & near[b]) / max(1, len(near[a] | near[b])) for a, b in pairs]
        names = [f"{ids[a]}-{ids[b]}" for a, b in pairs]
        levels = terciles([sign * score for score in alike], names)
        return [
            Task(f"{graph.name}-link-{name}",
                 f"Are {titles[a]} and {titles[b]} linked? Answer yes or no.", (truth,),
                 (ids[a], ids[b]), (titles[a], titles[b]), hops=2,
                 meta={"difficulty": level, "score": score, "length": 6})
            for (a, b), name, level, score in zip(pairs, names, levels, alike, strict=True)
        ]  # fmt: skip


@dataclass(frozen=True)
class AgentGLReward:
    """The released code's table. Stage 1 pays for using different tools, stage 2 for long thoughts
    and short answers; its term of efficiency is dead code there and left out here.

    Right 1.5, wrong 0, no answer -1; one answer, and a thought, .5, else -.5; tags that pair .1,
    else -.3; tags in the answer -.5; an answer of more than 12 words (``length`` in a task's meta:
    6 for links) -.2; every thought as long as the stage asks .5, else -.2 each, at most -.6; stage
    1: .5 a different tool, at most 2; more words than the stage allows -.5. Words stand for tokens.
    """

    registered = "reward:agentgl"
    systems: ClassVar[tuple[str, ...]] = ("AgentGL",)

    stage: int = 1

    def __post_init__(self) -> None:
        if self.stage not in (1, 2):
            raise CardError(f"agentgl has the stages 1 and 2, got {self.stage!r}")

    def final(self, outcome: Outcome) -> float:
        """The reward of a whole episode."""
        texts = [turn.text for turn in outcome.turns]
        whole, answer = " ".join(texts), outcome.answer
        least, most = (30, 2_200) if self.stage == 1 else (80, 2_000)
        thoughts = [len(_TAG.sub(" ", _CALL.sub(" ", text)).split()) for text in texts]
        short = sum(words < least for words in thoughts)
        names = ("<{}>", "</{}>"), ("<|begin_of_{}|>", "<|end_of_{}|>")
        marks = [[form.format(tag) for form in names[tag == "query"]]
                 for tag in ("think", "answer", "query")]  # fmt: skip
        paired = all(whole.count(opens) == whole.count(closes) for opens, closes in marks)
        formed = outcome.answered and "<think>" in whole and whole.count("<answer>") == 1
        total = (1.5 if outcome.em else 0.0) if outcome.answered else -1.0
        total += (0.5 if formed else -0.5) + (0.1 if paired else -0.3)
        total -= 0.5 * bool(_TAG.search(answer))
        total -= 0.2 * (len(answer.split()) > outcome.meta.get("length", 12))
        total += max(-0.2 * short, -0.6) if short else 0.5
        total -= 0.5 * (len(whole.split()) > most)
        tools = {
            (call.tool, call.args.get("hops"), call.args.get("method"))
            for turn in outcome.turns for call in turn.calls
        }  # fmt: skip
        return total + (min(2.0, 0.5 * len(tools)) if self.stage == 1 else 0.0)


class AgentGLStages(Driver):
    """Two stages, each from easy to hard, until their tasks are used up: the levels' numbers of
    episodes in ``first``, then in ``second`` (the paper's). No task is in both.

    Args:
        first: Episodes of easy, medium and hard tasks of stage 1.
        second: Those of stage 2, which goes on with the last of its levels.
        rewards: Names of the reward's parts of stage 1 and 2, of which the other weighs nothing.
    """

    registered = "curriculum:agentgl"
    systems: ClassVar[tuple[str, ...]] = ("AgentGL",)

    def __init__(
        self,
        first: Sequence[int] = (1000, 500, 500),
        second: Sequence[int] = (0, 500, 500),
        *,
        rewards: Sequence[str] = (),
    ) -> None:
        super().__init__()
        if len(first) != 3 or len(second) != 3 or not sum(second) or len(rewards) not in (0, 2):
            raise CardError(f"agentgl needs three numbers a stage, got {first} and {second}")
        self.first, self.second, self.rewards = tuple(first), tuple(second), tuple(rewards)
        self.seen = 0

    @property
    def stage(self) -> int:
        """The present stage, 1 or 2."""
        return 1 + (self.seen >= sum(self.first))

    def own(self, task: Task | None = None) -> Mapping[str, float]:
        return {f"w_{name}": float(i == self.stage) for i, name in enumerate(self.rewards, 1)}

    def choose(self, tasks: Sequence[Task], key: int) -> int:
        numbers, left = ((self.first, self.seen), (self.second, self.seen - sum(self.first)))[
            self.stage - 1
        ]
        ends = np.cumsum(numbers)
        place = int(np.searchsorted(ends, min(left, int(ends[-1]) - 1), "right"))
        fitting = [
            i for i, task in enumerate(tasks) if task.meta.get("difficulty") == LEVELS[place]
        ]
        fitting.sort(key=lambda i: derive(0, "agentgl", tasks[i].id))
        cut = len(fitting) * self.first[place] // (self.first[place] + self.second[place])
        own = fitting[:cut] if self.stage == 1 else fitting[cut:]
        if not own:
            raise CardError(f"no {LEVELS[place]} task is left for stage {self.stage} of agentgl; "
                            "ask more of the families node_class and link")  # fmt: skip
        return own[key % len(own)]

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        self.seen += 1

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "seen": self.seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.seen = int(state["seen"])
