"""The learning bench: a small language model learns, by each method, to follow chains of facts.

The model starts from imitating an asker: it can write queries, and copy what it was shown, but
asks for the question's relations in any order and stops at any time, so that few of its episodes
are right. Which search is due, and when none is, can only be learnt from rewards. Who shuffles them
learns nothing.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from searchgym.core.episode import Episode
from searchgym.envs.search import SearchEnv
from searchgym.llms.base import Sampling
from searchgym.seeding import derive, stream
from searchgym.types import Failure, TurnRequest

from .gradients import with_size
from .learning_results import summary
from .methods import learners, shaped, table_of
from .results import resumed
from .world import FactGraph, chain_tasks, fact_graph, lab_env, query

if TYPE_CHECKING:
    from searchgym.policies.causal_lm import CausalLMPolicy
    from searchgym.policies.trainable import TrainableLM
from statistics import fmean

from searchgym.core.rollout import run_episodes
from searchgym.rl.recipe import Recipe
from searchgym.rl.roles import roles_asked
from searchgym.rl.slots.records import SHARED
from searchgym.types import Agent

PAID = (("em", 1.0),)
"""The bench's reward. It has no price of searches: that is saved at once where none is made, which
policies learn before they learn which one is due."""
BEFORE: Mapping[str, Any] = {"reward": PAID, "episodes": 0, "tasks": 0, "size": 0, "lr": 0.0}
"""Fields of a course that do not matter before the training, alike for all."""


@dataclass(frozen=True, slots=True)
class Course:
    """World, model and training of the bench, the same for all methods.

    Learning rate, group size, environment and sampling are the bench's, whatever a recipe says of
    them; its other settings are its own.
    """

    things: int = 12
    relations: int = 3
    questions: int = 12
    hops: tuple[int, ...] = (1, 2)
    """Lengths of the chains that are asked for, equally often."""
    reward: tuple[tuple[str, float], ...] = PAID
    """Pairs of a reward's parts and weights."""
    width: int = 32
    """Width of the model (:func:`searchgym.llms.small.small_model`)."""
    warm_steps: int = 240
    warm_tasks: int = 32
    warm_lr: float = 5e-3
    tasks: int = 8
    size: int = 8
    """Episodes of a group."""
    episodes: int = 3072
    """Episodes after which a training ends."""
    lr: float = 2e-3
    seed: int = 0
    """Seed of the world and of the model's start. Trainings have seeds of their own."""

    @property
    def expert(self) -> str:
        """Import path of the agent that the model imitates first."""
        return "searchgym_agents.lab.learning_bench:Asker"

    @property
    def max_tokens(self) -> int:
        """Tokens that the agent may write in a turn."""
        return 12

    @property
    def start(self) -> Course:
        """The same world, whatever is paid and however it is trained: that of the warmed model."""
        return replace(self, **BEFORE)

    def graph(self) -> FactGraph:
        """The graph of facts."""
        return fact_graph(self.seed, self.things, self.relations, missing=0.0)

    def make(self) -> tuple[FactGraph, SearchEnv]:
        """The graph, and the environment of its questions."""
        graph = self.graph()
        return graph, self.env(graph)

    def env(self, graph: FactGraph, **keywords: Any) -> SearchEnv:
        """The environment of a graph's questions, with further keywords of its own."""
        each = dict.fromkeys(self.hops, self.questions // len(self.hops))
        return lab_env(graph, chain_tasks(graph, each), reward=dict(self.reward), **keywords)


class Wanderer:
    """An agent that asks for any relation of what it was shown last, and then says it.

    Args:
        env: An environment of :func:`~searchgym_agents.lab.world.lab_env`.
    """

    STOPS = (0.08, 0.4, 0.6, 1.0)
    """Probability of answering after 0, 1, 2, 3 searches."""
    ASKED = 0.7
    """Probability of asking for a relation that the question names."""

    def __init__(self, env: SearchEnv, seed: int = 0) -> None:
        self.tasks = {task.id: task for task in env.tasks}
        self.by_question = {task.question: task for task in env.tasks}
        self.known = sorted({p.id.rpartition(".")[2] for p in env.corpus})
        self.seed = seed

    def act(self, requests: Sequence[TurnRequest], /) -> list[str | Failure]:
        return [self._act(request) for request in requests]

    def _act(self, request: TurnRequest) -> str:
        draw = stream(self.seed, "wander", request.episode_id, request.turn)
        task = self.by_question[self._asked(request)]
        shown = [hit.passage for s in request.segments for hit in s.hits]
        newest = task.meta["things"][0]
        if shown:
            newest = shown[-1].text.rpartition(" is ")[2].rstrip(".")
        if request.turns_left == 1 or draw.random() < self.STOPS[min(request.turn, 3)]:
            return f"answer: {newest}"
        of_question = draw.random() < self.ASKED
        among = task.meta["relations"] if of_question else self.known
        return f"search: {query(str(among[int(draw.integers(len(among)))]), newest)}"

    def _asked(self, request: TurnRequest) -> str:
        text = next(s.text for s in request.segments if s.kind == "question")
        return next(q for q in self.by_question if q in text)


class Asker(Wanderer):
    """An agent that asks for the question's relations only, in any order, and then stops more often
    than not where an answer may stand: a beginning from which some ten hundred episodes suffice."""

    STOPS = (0.05, 0.15, 0.7, 1.0)
    ASKED = 1.0


@cache
def setting(course: Course) -> tuple[FactGraph, SearchEnv]:
    """The bench's graph and environment."""
    return course.make()


@cache
def warm(course: Course, *, taught: bool = False) -> tuple[Any, Any]:
    """The tokenizer, and the model that has imitated the course's expert, or, if ``taught``, the
    oracle. ``MissingExtraError`` without the extra ``llm``."""
    from searchgym.llms.small import small_model, train_tokenizer
    from searchgym.policies.trainable import TrainableLM
    from searchgym.rl.trainer import TrainConfig, Trainer

    graph, env = setting(course)
    texts = [passage.text for passage in env.corpus]
    texts += [task.question for task in env.tasks]
    texts += [f"search: {query(r, t)}\n" for r, t in graph.facts]
    texts += [f"answer: {t}\n" for t in graph.things]
    texts += [s.text for s in _shown(env) if s.kind != "instructions"]
    tokenizer = train_tokenizer(texts, 600)
    model = small_model(tokenizer, width=course.width, context=512, seed=course.seed)
    lm = TrainableLM(model, tokenizer)
    recipe = {
        "rollout": {"use": "demonstrations", "expert": None if taught else course.expert},
        "advantage": "ones", "loss": "sft",
    }  # fmt: skip
    config = TrainConfig.of(
        _recipe(recipe), steps=course.warm_steps, tasks=course.warm_tasks, lr=course.warm_lr,
        seed=course.seed,
    )  # fmt: skip
    trainer = Trainer(env, lm, recipe, config, policy=policy_of(lm, course.seed, course))
    for _ in trainer.train():
        pass
    return tokenizer, model


def _shown(env: SearchEnv) -> Any:
    """Texts that an episode shows when any relation is asked for, for the tokenizer."""
    from searchgym.core.rollout import run_episode

    episode: Episode = env.start(0, task=env.tasks[0], episode_id="shown")
    return run_episode(episode, Wanderer(env), env.toolbox).contexts.segments


def _recipe(spec: Any) -> Any:
    from searchgym.rl.recipe import Recipe

    return Recipe.of(spec)


def policy_of(lm: TrainableLM, seed: int, course: Course) -> CausalLMPolicy:
    """The bench's agent: it samples as the model says."""
    return lm.policy("bare", sampling=Sampling(max_tokens=course.max_tokens), seed=seed)


def train(
    method: str | Mapping[str, Any], seed: int, course: Course | None = None
) -> dict[str, Any]:
    """Train by one method and seed.

    A teacher is a model that has imitated the oracle; roles are played by the policy, or by the
    model at its start where the method does not train them; experts are the oracle.

    Args:
        method: Of :func:`~searchgym_agents.lab.methods.learners`, or a recipe's table.

    Returns:
        ``curve``: [episodes so far, exact match, searches] by step, of the episodes learnt from,
        or, if these are not the policy's own (``methods.SHAPED``), of some that it plays alone
        after the step; and the numbers of :func:`~.learning_results.summary` with ``seconds``.
    """
    _, curve, seconds = trained(method, seed, course or Course())
    return {"curve": curve, **summary(curve), "seconds": seconds}


def trained(
    method: str | Mapping[str, Any], seed: int, course: Course
) -> tuple[TrainableLM, list[list[float]], float]:
    """Train as :func:`train` does; returns the model, the curve and the seconds, without those of
    the start that all methods share."""
    from searchgym.policies.trainable import TrainableLM
    from searchgym.rl.critics import make_critic
    from searchgym.rl.trainer import TrainConfig, Trainer

    if isinstance(method, Mapping):
        table = with_size(method, course.size)
    else:
        table = table_of(method, course.size, learners())
    recipe = _recipe(with_rate(table, course.lr))
    graph, env = setting(course)
    tokenizer, model = warm(course.start)
    lm = TrainableLM(copy.deepcopy(model), tokenizer, reference=recipe.needs("ref_logp"))
    teacher = None
    if recipe.needs("teacher_logp"):
        teacher = TrainableLM(*reversed(warm(course.start, taught=True)))
    start = policy_of(TrainableLM(model, tokenizer), seed, course)
    began = time.perf_counter()
    critic = None
    if recipe.needs("value"):
        critic = make_critic({**recipe.critic, "lr": course.lr}, lm)
    config = TrainConfig.of(
        recipe, steps=course.episodes, tasks=course.tasks, lr=course.lr, seed=seed
    )
    changed = {"engine": dict(NOISY_ENGINE)} if recipe.needs("noise") else {}
    trainer = Trainer(
        course.env(graph, **changed) if changed else env, lm, recipe, config,
        policy=policy_of(lm, seed, course), teacher=teacher, critic=critic,
        roles=roles_of(recipe, start),
    )  # fmt: skip
    curve: list[list[float]] = []
    played = 0.0
    for step, metrics in enumerate(trainer.train()):
        played += metrics["episodes"]
        point = metrics["em"], metrics["searches"]
        if shaped(table):
            then = derive(seed, "alone", step)
            point = alone(env, policy_of(lm, then, course), then)
        curve.append([played, *point])
        if played >= course.episodes:
            break
    return lm, curve, time.perf_counter() - began


def bench(
    names: Sequence[str], path: Path | None = None, *, seeds: int = 5, workers: int = 2,
    course: Course | None = None, progress: Callable[[str], object] = str,
) -> dict[str, Any]:  # fmt: skip
    """Train by each method, ``seeds`` times; resumes from ``path``, method by method.

    Args:
        names: Of :func:`~searchgym_agents.lab.methods.learners`.
        workers: Trainings at a time, each in a process with one thread.
        progress: Called with a method's name before it is trained.
    """
    for name in names:
        table_of(name, 4, learners())  # a wrong name is wrong before the first training
    course = course or Course()
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_one_thread) as pool:

        def one(name: str, result: dict[str, Any]) -> Any:
            progress(name)
            waiting = [pool.submit(train, name, seed, course) for seed in range(seeds)]
            return {"runs": [job.result() for job in waiting]}

        return resumed(path, {"course": asdict(course), "seeds": seeds}, names, one)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


NOISY_ENGINE: Mapping[str, Any] = {"name": "degraded", "engine": "bm25"}
"""Engine of methods whose members play under noise, of which the bench's own has none."""
EACH = 4
"""Episodes of a question by which a policy is measured alone."""


def with_rate(table: Mapping[str, Any], lr: float) -> dict[str, Any]:
    """A recipe's table whose signals' own models learn at ``lr``, where it says a rate for them."""
    signals = table.get("signal", ())
    entries = [signals] if isinstance(signals, str | Mapping) else list(signals)
    made = [{**e, "lr": lr} if isinstance(e, Mapping) and "lr" in e else e for e in entries]
    return {**table, "signal": made} if made != entries else dict(table)


def roles_of(recipe: Recipe, start: Agent) -> dict[str, Agent | str]:
    """Players of a recipe's roles: the agent at its ``start`` of those that it does not train, the
    policy itself of all others."""
    frozen: frozenset[str] = recipe.rollout.frozen
    return {role: start if role in frozen else SHARED for role in roles_asked(recipe)}


def play(env: SearchEnv, agent: Agent, seed: int, each: int, name: str) -> list[Episode]:
    """Let an agent play every question of an environment ``each`` times; ``name`` begins the
    episodes' ids."""
    episodes = [
        env.start(derive(seed, task.id, i), task=task, episode_id=f"{name}.{task.id}.{i}")
        for task in env.tasks for i in range(each)
    ]  # fmt: skip
    return run_episodes(episodes, agent, env.toolbox)


def em_of(episodes: Sequence[Episode]) -> float:
    """Mean exact match of finished episodes."""
    return fmean(e.parts["em"] if e.parts else 0.0 for e in episodes)


def alone(env: SearchEnv, agent: Agent, seed: int) -> tuple[float, float]:
    """Exact match and searches of an agent that plays every question ``EACH`` times."""
    episodes = play(env, agent, seed, EACH, f"alone{seed}")
    return em_of(episodes), fmean(float(e.queries) for e in episodes)
