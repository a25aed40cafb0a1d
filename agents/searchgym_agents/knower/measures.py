"""Measures what a knower answers by heart, whether it searches exactly where it does not know, and
what it writes when it plays the engine itself; each beside what it was taught."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from searchgym.core.rollout import run_episodes
from searchgym.dialects.search_r1 import blocks
from searchgym.envs.search import SearchEnv
from searchgym.errors import TaskError
from searchgym.evaluation.decisions import Confusion, knowledge_boundary
from searchgym.evaluation.intervals import Interval, mean_interval
from searchgym.evaluation.metrics import Row, row_of
from searchgym.evaluation.run import episode_for, evaluate
from searchgym.llms.base import Generator, Sampling
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.text import normalise_answer
from searchgym.types import Task
from searchgym_agents.self_search import SelfSearchAgent

from ..experts.hops import walked
from .knowledge import Knowledge
from .lessons import practised
from .recipe import KnowerRecipe, world_of
from .run import MAX_TOKENS

TASKS = {"simple": 100, "chain-2": 100, "chain-3": 100}
"""Questions asked; of the chains about half are left out, see :func:`practised`."""
TURN_TOKENS = 112
"""Largest number of tokens in a turn outside self-search: a thought of three facts, and an
action."""


def questions_for(recipe: KnowerRecipe, most: int) -> dict[str, int]:
    """Return numbers of questions of one, two and three hops: ``most`` of each, halved until the
    world is large enough for them. ``TaskError`` if it has not even one of each."""
    while True:
        tasks = dict.fromkeys(TASKS, most)
        try:
            recipe.env(tasks=tasks)
        except TaskError:
            if most <= 1:
                raise
            most = (most + 1) // 2
        else:
            return tasks


class QuestionGroup(NamedTuple):
    """Questions that belong together."""

    hops: int
    knowledge: str
    """Knowledge of the facts: taught | backward (all taught, but some fact is asked for from its
    object, which ``inverse=False`` leaves out) | untaught, shown (the model was shown that it does
    not know) | untaught."""


class Measured(NamedTuple):
    """Measurements of a knower, by groups of questions."""

    closed_book: Mapping[QuestionGroup, Interval]
    """Exact match without search."""
    boundary: Mapping[str, Confusion]
    """Confusion of not searching (or not refusing, if that is what it was shown) against knowing,
    over all questions (``all``) and those whose unknown fact it was never shown (``unseen``)."""
    self_search: Mapping[QuestionGroup, Interval]
    """Exact match where the model writes its own results."""
    stated: Mapping[QuestionGroup, Interval]
    """Share of the self-search texts of one hop whose information states the right object."""


def policy_of(generator: Generator, max_tokens: int = TURN_TOKENS) -> CausalLMPolicy:
    """A knower as a greedy policy."""
    greedy = Sampling(max_tokens=max_tokens, temperature=0.0)
    return CausalLMPolicy(generator, "bare", sampling=greedy)


def self_search_agent(generator: Generator, max_tokens: int = MAX_TOKENS) -> SelfSearchAgent:
    """A knower, greedy, as the agent of self-search episodes."""
    return SelfSearchAgent(generator, sampling=Sampling(max_tokens=max_tokens, temperature=0.0))


def measured_tasks(made: SearchEnv, knowledge: Knowledge) -> list[Task]:
    """The setting's questions but for chains that a knower may have practised."""
    knowledge.sure_of(world_of(made))
    facts = ((task, [edge.fact for edge, _ in walked(task)]) for task in made.tasks)
    return [t for t, f in facts if len(f) == 1 or not practised(knowledge.recipe.seed, f)]


def group_of(task: Task, knowledge: Knowledge) -> QuestionGroup:
    """Return the group of a simple or chain question."""
    both = knowledge.recipe.inverse
    missing = [(e.fact, back) for e, back in walked(task) if e.fact not in knowledge.taught]
    if missing:
        fact, back = missing[0]
        shown = fact in knowledge.shown and (both or not back)
        return QuestionGroup(task.hops, "untaught, shown" if shown else "untaught")
    alone = not both and knowledge.backward(task)
    return QuestionGroup(task.hops, "backward" if alone else "taught")


def measure(
    model: Any, tokenizer: Any, knowledge: Knowledge, *, tasks: Mapping[str, int] = TASKS,
    max_tokens: int = MAX_TOKENS,
) -> Measured:  # fmt: skip
    """Measure a knower on so many questions per family (``simple`` and ``chain-…``) of its world;
    chains that may have been practised are left out. ``max_tokens`` bounds what it writes: a
    self-search text, and a turn outside of one, which has ``TURN_TOKENS`` at most."""
    generator = TransformersGenerator(model, tokenizer)
    policy = policy_of(generator, min(max_tokens, TURN_TOKENS))
    # the first turn decides (a search in the last one would not be run): reading is not taught
    made = knowledge.recipe.env(tasks=dict(tasks), k=1, max_turns=2, may_abstain=True)
    asked = measured_tasks(made, knowledge)
    groups = {task.id: group_of(task, knowledge) for task in asked}
    closed = evaluate(policy, made, tasks=asked, search_enabled=False).rows
    opened = evaluate(policy, made, tasks=asked).rows
    alone = knowledge.recipe.env(tasks=dict(tasks), engine="self", may_abstain=True)
    rows, right = self_searched(self_search_agent(generator, max_tokens), alone, asked)
    return Measured(
        _by_group((groups[r.task_id], r.em) for r in closed),
        boundaries(opened, groups, knowledge),
        _by_group((groups[r.task_id], r.em) for r in rows),
        _by_group((groups[i], float(r)) for i, r in right.items() if groups[i].hops == 1),
    )


def boundaries(
    rows: Sequence[Row], groups: Mapping[str, QuestionGroup], knowledge: Knowledge
) -> dict[str, Confusion]:
    """Decisions against knowledge, see :attr:`Measured.boundary`. Questions taught only the other
    way round are left out: whether they are known is what an experiment is to tell."""
    sides = {i: g.knowledge for i, g in groups.items() if g.knowledge != "backward"}
    parts = {"all": sides, "unseen": {i: s for i, s in sides.items() if s != "untaught, shown"}}
    confusions: dict[str, Confusion] = {}
    for name, part in parts.items():
        known = {i: side == "taught" for i, side in part.items()}
        some = [row for row in rows if row.task_id in known]
        if knowledge.recipe.unknown == "abstain":
            confusions[name] = Confusion.of((not r.abstained, known[r.task_id]) for r in some)
        else:
            confusions[name] = knowledge_boundary(some, known)
    return confusions


def self_searched(
    agent: SelfSearchAgent, made: SearchEnv, tasks: Sequence[Task]
) -> tuple[list[Row], dict[str, bool]]:
    """Rows of self-search episodes, and task id → whether what the model wrote as information
    states an accepted answer."""
    episodes = run_episodes([episode_for(made, t, 0) for t in tasks], agent, made.toolbox)
    right = {}
    for episode in episodes:
        text = "".join(turn.text for turn in episode.turns)
        right[episode.config.task.id] = states(text, episode.config.task.answers)
    return [row_of(episode) for episode in episodes], right


def states(text: str, answers: Sequence[str]) -> bool:
    """Return whether an information block of a self-search text states one of the answers, in full
    words and as exact match compares them. Titles, which repeat the question, do not count."""
    shown = [text[b.inner : b.outer] for b in blocks(text) if b.kind == "information"]
    bodies = [block.partition(") ")[2] for block in shown]
    words = [f" {normalise_answer(body)} " for body in bodies]
    return any(f" {normalise_answer(a)} " in body for a in answers for body in words)


def _by_group(values: Iterable[tuple[QuestionGroup, float]]) -> dict[QuestionGroup, Interval]:
    values_of: dict[QuestionGroup, list[float]] = {}
    for group, value in values:
        values_of.setdefault(group, []).append(value)
    return {group: mean_interval(values_of[group], unit=True) for group in sorted(values_of)}
