"""A world to learn in seconds: boxes, each holding a colour that only the right one of four queries
shows, and a language model of 23,000 parameters that asks any of the four and tells what it was
shown. It reads no instructions, which are two thirds of each text. Success is measured on boxes
that were never trained on, so that nothing helps but asking for the colour and copying it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from searchgym.core import Episode, EpisodeConfig, run_tools
from searchgym.corpora import Corpus
from searchgym.engines import is_noisy
from searchgym.envs import SearchEnv
from searchgym.llms import Sampling, SftConfig, train_tokenizer
from searchgym.policies import CausalLMPolicy, TrainableLM
from searchgym.rl.recipe import Recipe
from searchgym.rl.roles import roles_asked
from searchgym.rl.rollouts.chains import Chains
from searchgym.rl.slots.records import TaskPlan, Workers
from searchgym.seeding import stream
from searchgym.types import Agent, Difficulty, Hit, Passage, Query, Ranking, Task
from tests.rl.tiny import llama, taught

COLOURS = ("red", "blue", "green", "pink")
TOPICS = ("colour", "size", "price", "weight")
BOXES = 60
TRAINED = 40
"""The first of the boxes are trained on, the others are asked about in the end."""
SAMPLING = Sampling(max_tokens=6, stop=("\n",))


def _passages() -> list[list[Passage]]:
    """For each box what a query of each topic shows; about the others it says a wrong colour."""
    draw = stream(7, "boxes")
    made: list[list[Passage]] = []
    for box in range(BOXES):
        first = int(draw.integers(len(COLOURS)))
        colours = [COLOURS[(first + i) % len(COLOURS)] for i in range(len(TOPICS))]
        made.append(
            [
                Passage(f"b{box}.{topic}", f"box {box}", f"It is {colour}.", f"u{box}.{i}")
                for i, (topic, colour) in enumerate(zip(TOPICS, colours, strict=True))
            ]
        )
    return made


PASSAGES = _passages()
CORPUS = Corpus("boxes", [p for box in PASSAGES for p in box])


class BoxEngine:
    """Looks into the box that the question is about. A noisy answer is of the next topic."""

    needs_task = True
    axes = frozenset({"noise"})
    fingerprint = "boxes"

    def cache_key(self, request: Query, /) -> bytes | None:
        return None

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        return [self._answer(query) for query in batch]

    def _answer(self, query: Query) -> Ranking:
        if query.ctx.task is None or query.text not in TOPICS:
            return ()
        noisy = is_noisy(0.0, query.ctx)
        topic = (TOPICS.index(query.text) + noisy) % len(TOPICS)
        return (Hit(PASSAGES[int(query.ctx.task.id)][topic], 1.0),)


def _task(box: int) -> Task:
    passage = PASSAGES[box][0]
    answer = passage.text.removeprefix("It is ").removesuffix(".")
    return Task(
        str(box), f"box {box}?", (answer,), (passage.id,), (TOPICS[0],), "simple", 1,
        difficulty=Difficulty(1, 1, 1, 1),
    )  # fmt: skip


@cache
def setting(trained: bool = True) -> SearchEnv:
    """One search, then an answer is due."""
    boxes = range(TRAINED) if trained else range(TRAINED, BOXES)
    return SearchEnv(
        **{
            "corpus": CORPUS, "tasks": [_task(box) for box in boxes], "engine": BoxEngine(),
            "dialect": "plain", "k": 1, "max_turns": 2,
        }
    )  # fmt: skip


class Shelf:
    """Shows all four colours of the box, whatever is asked; the right one in some place."""

    needs_task = True

    def __init__(self, place: int) -> None:
        self.place, self.fingerprint = place, f"shelf {place}"

    def cache_key(self, request: Query, /) -> bytes | None:
        return None

    def run(self, batch: Sequence[Query], /) -> list[Ranking]:
        return [self._found(query) for query in batch]

    def _found(self, query: Query) -> Ranking:
        assert query.ctx.task is not None
        box = PASSAGES[int(query.ctx.task.id)]
        order = [*box[1 : self.place], box[0], *box[self.place :]]
        return tuple(Hit(p, 1.0 - i / 4) for i, p in enumerate(order))[: query.k]


@cache
def shelf(place: int = 4) -> SearchEnv:
    return SearchEnv(
        corpus=CORPUS, tasks=[_task(box) for box in range(8)], engine=Shelf(place),
        dialect="plain", k=4, max_turns=2,
    )  # fmt: skip


def pairs() -> Iterator[tuple[str, str]]:
    """(what was read, what is written next): any of the queries, then what it showed."""
    here = setting()
    for task in here.tasks:
        for i, topic in enumerate(TOPICS):
            episode = Episode(EpisodeConfig(task, here.rules, 0, "pairs"))
            yield bare(episode), f"search: {topic}"
            episode.act(f"search: {topic}")
            run_tools([episode], here.toolbox)
            shown = PASSAGES[int(task.id)][i].text.removeprefix("It is ").removesuffix(".")
            yield bare(episode), f"answer: {shown}"


def bare(episode: Episode) -> str:
    """What the renderer of this name lets the model read."""
    (request,) = episode.requests()
    return "".join(s.text for s in request.segments if s.kind != "instructions")


@cache
def tokenizer() -> Any:
    return train_tokenizer((p + c + "\n" for p, c in pairs()), 420)


@cache
def _blank() -> Any:
    return llama(tokenizer(), heads=4)


def blank() -> Any:
    """The model untrained; a copy, for making one takes many times as long."""
    return copy.deepcopy(_blank())


@cache
def _warm() -> dict[str, torch.Tensor]:
    config = SftConfig(steps=170, batch=16, lr=1e-2, prompt_weight=0.0)
    return taught(blank(), tokenizer(), list(pairs()), config)


def player(seed: int = 0, **options: Any) -> tuple[TrainableLM, CausalLMPolicy]:
    """The warm model, ready to be trained, and the policy over it."""
    model = blank()
    model.load_state_dict(_warm())
    lm = TrainableLM(model, tokenizer(), **options)
    return lm, lm.policy("bare", sampling=SAMPLING, seed=seed)


def roles_of(recipe: Recipe, seed: int = 9) -> dict[str, Agent | str]:
    """Who plays what a recipe asks for: frozen roles the warm model, all others the policy."""
    frozen = recipe.rollout.frozen
    return {r: player(seed)[1] if r in frozen else "shared" for r in roles_asked(recipe)}


def success(lm: TrainableLM, policy: CausalLMPolicy) -> float:
    """Share of right answers about 20 boxes that were never trained on, each asked four times."""
    there = setting(False)
    plans = [TaskPlan(task, f"test{i}", i) for i, task in enumerate(there.tasks)]
    groups = Chains(4).collect(plans, Workers(policy, there, lm))
    return float(
        np.mean([sum(t.reward for t in m.episode.turns) for g in groups for m in g.members])
    )
