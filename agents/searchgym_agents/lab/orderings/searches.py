"""Searches of a model after a training that charges for them.

One model asks for two facts, one by one or at once. The other knows half of the answers by heart:
it imitates an agent that answers every other question from memory or after a search, as chance will
have it, and the others after a search only. So it is exact which answers it knows; but what a
training asks often is known in the end, too: questions must be many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError
from searchgym.seeding import stream
from searchgym.types import Difficulty, Task, TurnRequest

from ..learning_bench import Asker, em_of
from ..world import FactGraph, lab_env, query
from .training import Variant, played_after

PAIR_EPISODES = 16
"""Episodes of each question after the training."""


@dataclass(frozen=True, slots=True)
class Pairs(Variant):
    """Questions that ask for two facts, neither of which leads to the other."""

    @property
    def expert(self) -> str:
        return "searchgym_agents.lab.orderings.searches:Hesitant"

    @property
    def max_tokens(self) -> int:
        return 24

    def env(self, graph: FactGraph, **keywords: Any) -> SearchEnv:
        return lab_env(
            graph, pair_tasks(graph, self.questions), reward=dict(self.reward), max_turns=6,
            max_parallel=2, **keywords,
        )  # fmt: skip


def pair_tasks(graph: FactGraph, count: int) -> list[Task]:
    """Draw different questions for two facts of different relations and things.

    Raises:
        CardError: the graph has fewer.
    """
    draw = stream(graph.seed, "lab", "pairs")
    facts = list(graph.facts)
    made: dict[str, Task] = {}
    for _ in range(1000 * count):
        if len(made) == count:
            return list(made.values())
        (r1, a), (r2, b) = (facts[int(i)] for i in draw.choice(len(facts), 2, replace=False))
        text = f"What is the {r1} of {a}, and the {r2} of {b}?"
        if r1 == r2 or a == b or text in made:
            continue
        answers = [graph.facts[r1, a], graph.facts[r2, b]]
        made[text] = Task(
            f"pair.{len(made)}", text, (" and ".join(answers),),
            (f"{a}.{r1}", f"{b}.{r2}"), (query(r1, a), query(r2, b)), "parallel", 2,
            difficulty=Difficulty(2, 1, 1, 1),
            meta={"relations": [r1, r2], "things": [a, b, *answers]},
        )  # fmt: skip
    raise CardError(f"this graph has fewer than {count} pairs of facts")


class Hesitant(Asker):
    """An agent that asks for both facts at once or one after the other, and often for what it was
    shown already, before it answers.

    Args:
        env: An environment of :class:`Pairs`.
    """

    AT_ONCE = 0.35
    """Probability of asking for both facts at once, when it has been shown neither."""
    AGAIN = 0.5
    """Probability of another look, each time that it could answer."""

    def _act(self, request: TurnRequest) -> str:
        draw = stream(self.seed, "hesitates", request.episode_id, request.turn)
        task = self.by_question[self._asked(request)]
        shown = {h.passage.id for s in request.segments for h in s.hits}
        asked = dict(zip(task.queries, task.evidence, strict=True))
        missing = [q for q, page in asked.items() if page not in shown]
        if not missing:
            if request.turns_left > 1 and draw.random() < self.AGAIN:
                return f"search: {list(asked)[int(draw.integers(2))]}"
            return f"answer: {task.answers[0]}"
        if len(missing) == 2 and draw.random() < self.AT_ONCE:
            return f"search: {' ## '.join(missing)}"
        return f"search: {missing[0]}"


def turns(
    seed: int, *, method: str | None = None, changes: Mapping[str, Any] | None = None,
    each: int = PAIR_EPISODES, **course: Any,
) -> dict[str, Any]:  # fmt: skip
    """Train the hesitant model by a recipe, and let it answer every question.

    Args:
        method: A shipped recipe; default: the model stays as it is.
        changes: Slots of it that are another here.
        each: Episodes of a question after the training.
        course: Fields of :class:`Pairs`.

    Returns:
        ``em``, searching ``turns`` and ``queries`` of an episode.
    """
    _, episodes = played_after(seed, method, changes, Pairs.of(course), each)
    return {
        "em": em_of(episodes),
        "turns": fmean(sum(bool(t.calls) for t in e.turns) for e in episodes),
        "queries": fmean(e.queries for e in episodes),
    }


KNOWER_EPISODES = 32
"""Episodes of each question after the training."""


@dataclass(frozen=True, slots=True)
class Half(Variant):
    """A course that begins with the knower."""

    @property
    def expert(self) -> str:
        return "searchgym_agents.lab.orderings.searches:HalfKnower"


class HalfKnower(Asker):
    """An agent that knows every other question's answer, and says it at once or searches first;
    questions are of one fact.

    Args:
        env: An environment of :func:`~searchgym_agents.lab.world.lab_env`.
    """

    RECALLS = 0.5
    """Probability of answering a known question without a search."""

    def __init__(self, env: SearchEnv, seed: int = 0) -> None:
        super().__init__(env, seed)
        self.knows = known(env)

    def _act(self, request: TurnRequest) -> str:
        task = self.by_question[self._asked(request)]
        shown = [hit.passage for s in request.segments for hit in s.hits]
        if shown:
            return "answer: " + shown[-1].text.rpartition(" is ")[2].rstrip(".")
        recalls = stream(self.seed, "recall", request.episode_id).random() < self.RECALLS
        if task.id in self.knows and (recalls or request.turn):
            return f"answer: {task.answers[0]}"
        return f"search: {query(str(task.meta['relations'][0]), task.meta['things'][0])}"


def known(env: SearchEnv) -> frozenset[str]:
    """Ids of the questions whose answers the knower knows."""
    return frozenset(task.id for task in list(env.tasks)[::2])


def boundary(
    seed: int, *, method: str, changes: Mapping[str, Any] | None = None,
    each: int = KNOWER_EPISODES, **course: Any,
) -> dict[str, Any]:  # fmt: skip
    """Train the knower by a recipe, and let it answer every question.

    Args:
        method: A shipped recipe.
        changes: Slots of it that are another here.
        each: Episodes of a question after the training.
        course: Fields of :class:`Half`.

    Returns:
        ``em``; ``known`` and ``unknown``, mean searches on these questions; ``half``, half of the
        known ones', and ``most``, nine tenths of the unknown ones'; ``em_known``, ``em_unknown``.
    """
    env, episodes = played_after(seed, method, changes, Half.of(course), each)
    knows = known(env)
    means: dict[str, float] = {}
    for name, which in (("known", True), ("unknown", False)):
        of = [e for e in episodes if (e.config.task.id in knows) == which]
        means[name] = fmean(e.queries for e in of)
        means[f"em_{name}"] = em_of(of)
    em = (means["em_known"] + means["em_unknown"]) / 2
    return {"em": em, **means, "half": means["known"] / 2, "most": 0.9 * means["unknown"]}
