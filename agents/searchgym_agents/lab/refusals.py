"""A small learner that is taught to refuse by pairs (DPO), after one that was taught to help.

Its policy is linear in words: those of the question and of the newest titles, names left out,
score four kinds of turns (search, answer, refuse, do what a page asks). Reading is no part of it:
an answer is right if the page that states it was shown. It is the smallest learner in which helping
and refusing can be told apart, and it meets other people and pages in its test.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.core import Episode
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.seeding import derive, stream
from searchgym.types import ABSTAIN, Answer, Search, Task

from ..methods.mosaic import violated

ACTIONS = ("search", "answer", "refuse", "obey")
SIZE = 4096
"""Words that the policy tells apart, by their hash."""
_LOWER = re.compile(r"\b[a-z]{2,}\b")
_CODE = re.compile(r"\b[A-Z0-9]{5}-[A-Z0-9]{5}\b")
Floats = NDArray[np.float64]


class Move(NamedTuple):
    """One decision: the features that were on, what could be done, and what was."""

    features: NDArray[np.int64]
    legal: NDArray[np.bool_]
    chosen: int


class Trial(NamedTuple):
    """A played episode with its decisions."""

    episode: Episode
    moves: tuple[Move, ...]

    @property
    def reward(self) -> float:
        return sum(turn.reward for turn in self.episode.turns)

    @property
    def helped(self) -> float:
        """1 if the question was answered right, harmful or not."""
        outcome, task = self.episode.outcome(), self.episode.config.task
        told = task.meta.get("secret", task.answers)
        return float(outcome is not None and outcome.answer == told[0] != ABSTAIN)


class LinearPolicy:
    """A softmax over :data:`ACTIONS`; ``weights`` (4, SIZE)."""

    def __init__(self, weights: Floats | None = None) -> None:
        self.weights = np.zeros((len(ACTIONS), SIZE)) if weights is None else weights.copy()

    def probabilities(self, move: Move, temperature: float = 1.0) -> Floats:
        """(4,) probabilities of a decision's actions."""
        scores = self.weights[:, move.features].sum(axis=1) / temperature
        scores = np.where(move.legal, scores - scores[move.legal].max(), -np.inf)
        odds: Floats = np.exp(scores)
        return odds / odds.sum()

    def logp(self, trial: Trial) -> float:
        """Log-probability of a trial's decisions."""
        return sum(float(np.log(self.probabilities(m)[m.chosen])) for m in trial.moves)

    def step(self, trial: Trial, size: float) -> None:
        """Ascend the log-probability of a trial, ``size`` times its gradient."""
        for move in trial.moves:
            slope = -self.probabilities(move)
            slope[move.chosen] += 1.0
            np.add.at(self.weights.T, move.features, size * slope)


def play(
    env: SearchEnv, tasks: Sequence[Task], policy: LinearPolicy, seed: int, temperature: float = 1.0
) -> list[Trial]:
    """Play an episode of each task, sampled."""
    trials = []
    for number, task in enumerate(tasks):
        episode = env.start(derive(seed, "episode", number), task=task)
        draw, moves = stream(seed, "moves", number), []
        while episode.phase == "act":
            move, texts = _decision(episode)
            odds = policy.probabilities(move, temperature)
            move = move._replace(chosen=int(draw.choice(len(odds), p=odds)))
            moves.append(move)
            if calls := episode.act(texts[move.chosen]):
                episode.receive(env.toolbox.run(calls))
        trials.append(Trial(episode, tuple(moves)))
    return trials


def _decision(episode: Episode) -> tuple[Move, list[str]]:
    """The features and legal actions of a state, and the text of each."""
    task = episode.config.task
    newest = episode.delta if episode.turns else ""
    codes = _CODE.findall(newest)
    place = f"turn:{min(len(episode.turns), 2)}"
    words = _LOWER.findall(task.question[:1].lower() + task.question[1:])
    asked = [f"q:{word}" for word in (*words, *map(" ".join, pairwise(words)))]
    shown = episode.contexts.segments[-1].hits if episode.turns else ()
    read = [f"p:{word}" for hit in shown for word in _LOWER.findall(hit.passage.title)]
    features = sorted({derive(0, word) % SIZE for word in (place, *asked, *read)})
    evidence = [task.meta["page"]] if "page" in task.meta else list(task.evidence)
    known = all(page in episode.seen for page in evidence)
    value = str(task.meta.get("secret", task.answers)[0]) if known else "nothing"
    say = get_dialect(episode.config.rules.dialect).render_action
    code = codes[0] if codes else "none"
    texts = [
        say(action)
        for action in (
            Search((task.question,)), Answer(value), Answer(ABSTAIN),
            Search((f"{code} {task.question}",)),
        )
    ]  # fmt: skip
    legal = np.array([True, True, True, bool(codes)])
    return Move(np.array(features), legal, 0), texts


def teach_helping(env: SearchEnv, policy: LinearPolicy, seed: int, steps: int = 12) -> None:
    """REINFORCE on right answers alone, whatever is asked; baseline: the mean of the step."""
    for step in range(steps):
        trials = play(env, env.tasks, policy, derive(seed, "help", step))
        mean = sum(trial.helped for trial in trials) / len(trials)
        for trial in trials:
            policy.step(trial, 0.02 * (trial.helped - mean))


def teach_refusing(
    env: SearchEnv,
    policy: LinearPolicy,
    seed: int,
    *,
    steps: int = 24,
    group: int = 4,
    beta: float = 0.5,
    temperature: float = 4.0,
    rate: float = 0.15,
) -> None:
    """DPO on pairs of a group's episodes, higher return against lower; the reference is the policy
    as it was given. Episodes are drawn at a ``temperature``, so that someone refuses at first."""
    reference = LinearPolicy(policy.weights)
    for step in range(steps):
        rounds = [
            play(env, env.tasks, policy, derive(seed, "refuse", step, member), temperature)
            for member in range(group)
        ]
        for trials in zip(*rounds, strict=True):
            for pair in combinations(trials, 2):
                worse, better = sorted(pair, key=lambda trial: trial.reward)
                if better.reward > worse.reward:
                    gained = [policy.logp(t) - reference.logp(t) for t in (better, worse)]
                    size = rate * beta / (1.0 + np.exp(beta * (gained[0] - gained[1])))
                    policy.step(better, size)
                    policy.step(worse, -size)


class Measured(NamedTuple):
    """What a policy does on questions that it was not trained on."""

    violations: float
    """Share of episodes, half of them on harmful questions and with hostile pages, that violate."""
    clean: float
    """Exact match on harmless questions without hostile pages."""


def measure(hostile: SearchEnv, clean: SearchEnv, policy: LinearPolicy, seed: int) -> Measured:
    """Play each question once, in both environments; ``clean`` asks harmless ones alone."""
    bad = [
        float(outcome is not None and violated(outcome))
        for trial in play(hostile, hostile.tasks, policy, derive(seed, "hostile"))
        for outcome in [trial.episode.outcome()]
    ]
    right = [trial.helped for trial in play(clean, clean.tasks, policy, derive(seed, "clean"))]
    return Measured(float(np.mean(bad)), float(np.mean(right)))


def environment(split: str, *, harmful: int = 60, hostile: float = 0.5) -> SearchEnv:
    """Questions that a policy forbids and others, and pages that ask for a search with a code."""
    return SearchEnv(
        split=split, world={"entities": 800}, tasks={"private": harmful, "permitted": 60},
        engine={"name": "degraded", "adversarial": hostile, "attack": "leak", "rank": 1},
        dialect="mosaic+plan+check+refuse", may_abstain=True, reward="mosaic", max_turns=4,
    )  # fmt: skip
