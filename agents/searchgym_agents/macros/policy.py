"""A linear softmax over macro-actions, trained by REINFORCE with a leave-one-out baseline."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.core import run_episodes
from searchgym.dialects.base import get_dialect
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError, check_known
from searchgym.evaluation import episode_for
from searchgym.seeding import derive, stream
from searchgym.storage.files import read_json, write_whole
from searchgym.types import Action, TurnRequest

Floats = NDArray[np.float64]
SIZE = 1 << 13
"""Weights of each kind of macro-action: features and pairs of features are hashed into them."""


class Macro(NamedTuple):
    """A macro-action: its kind, for which there are weights, and the action that it stands for."""

    kind: str
    action: Action


class Reading(NamedTuple):
    """A decision as a reader sees it."""

    features: Sequence[str]
    macros: Sequence[Macro]
    """What can be done; never empty."""


Reader = Callable[[TurnRequest], Reading]


def readers() -> dict[str, Reader]:
    """The readers by the family of tasks that they read."""
    from .desk import read_desk
    from .trips import read_trip

    return {"service": read_desk, "travel": read_trip}


class _Choice(NamedTuple):
    kinds: Sequence[str]
    places: NDArray[np.int64]
    taken: int
    shares: Floats


def places_of(features: Sequence[str]) -> NDArray[np.int64]:
    """Hashed places of the features and of their pairs."""
    pairs = [f"{a}&{b}" for a, b in combinations(sorted(features), 2)]
    return np.array([zlib.crc32(f.encode()) % SIZE for f in (*features, *pairs)], np.int64)


class MacroAgent:
    """Plays by linear weights: the best macro-action, or with ``seed`` one drawn by its share.

    Args:
        family: Whose reader is used: "service" or "travel".
        weights: A file that :meth:`save` wrote, or weights by kind; by default all are 0.
        seed: Draws actions, keyed by episode and turn.

    Raises:
        CardError: an unknown family.
    """

    fingerprint = None

    def __init__(
        self,
        family: str = "service",
        weights: str | Mapping[str, Floats] | None = None,
        seed: int | None = None,
    ) -> None:
        if isinstance(weights, str):
            saved = read_json(Path(weights))
            family, told = saved["family"], saved["weights"]
            weights = {kind: _dense(of) for kind, of in told.items()}
        check_known("family", readers(), family, error=CardError)
        self.family, self.reader, self.seed = family, readers()[family], seed
        self.weights: dict[str, Floats] = dict(weights or {})
        self.choices: dict[str, list[_Choice]] | None = None
        """Episode's id → its choices, while they are wanted."""

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """One action per request."""
        return [self._act(request) for request in requests]

    def _act(self, request: TurnRequest) -> str:
        reading = self.reader(request)
        macros = sorted(reading.macros, key=lambda m: m.kind)  # whose order tells nothing
        kinds, places = [m.kind for m in macros], places_of(reading.features)
        shares = self.shares(kinds, places)
        if self.seed is None:
            taken = int(shares.argmax())
        else:
            rng = stream(derive(self.seed, request.episode_id, request.turn), "macro")
            taken = int(rng.choice(len(shares), p=shares))
        if self.choices is not None:
            chosen = _Choice(kinds, places, taken, shares)
            self.choices.setdefault(request.episode_id, []).append(chosen)
        return get_dialect(request.dialect).render_action(macros[taken].action)

    def shares(self, kinds: Sequence[str], places: NDArray[np.int64]) -> Floats:
        """Softmax of the sums of weights."""
        scores = np.array([self._of(kind)[places].sum() for kind in kinds])
        shares = np.exp(scores - scores.max())
        return np.asarray(shares / shares.sum())

    def _of(self, kind: str) -> Floats:
        return self.weights.setdefault(kind, np.zeros(SIZE))

    def learn(self, episodes: Mapping[str, float], rate: float, entropy: float) -> None:
        """Move the weights along advantage · ∇ log share, and along the entropy's gradient."""
        assert self.choices is not None
        steps: dict[str, Floats] = {}
        for episode, advantage in episodes.items():
            for kinds, places, taken, shares in self.choices.get(episode, ()):
                logs = np.log(np.maximum(shares, 1e-12))
                push = -advantage * shares - entropy * shares * (logs - shares @ logs)
                push[taken] += advantage
                for kind, by in zip(kinds, push, strict=True):
                    np.add.at(steps.setdefault(kind, np.zeros(SIZE)), places, by)
        for kind, step in steps.items():
            self._of(kind)[:] += rate * step / max(1, len(episodes))

    def save(self, path: Path) -> None:
        """Write family and weights as JSON; those that are 0 are left out."""
        kept = {
            kind: {str(i): float(of[i]) for i in np.flatnonzero(of)}
            for kind, of in sorted(self.weights.items())
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"family": self.family, "weights": kept}))


def _dense(of: Mapping[str, float]) -> Floats:
    dense = np.zeros(SIZE)
    dense[[int(i) for i in of]] = [*of.values()]
    return dense


def train(
    env: SearchEnv, seed: int, *, updates: int = 40, tasks: int = 16, group: int = 8,
    rate: float = 0.5, entropy: float = 0.002,
) -> Iterator[tuple[MacroAgent, dict[str, Any]]]:  # fmt: skip
    """Train an agent on an environment's tasks; yields it, and the figures of each update.

    Args:
        env: Environment whose tasks are of one family that has a reader.
        seed: Of tasks and actions.
        updates: Updates in all, each of ``tasks`` tasks played ``group`` times.
        rate: Rate of learning, falling linearly to 0.
        entropy: Weight of the entropy of choices.
    """
    agent = MacroAgent(env.tasks[0].family, seed=seed)
    rng = stream(seed, "macros")
    for update in range(updates):
        drawn = [env.tasks[int(i)] for i in rng.choice(len(env.tasks), tasks, replace=False)]
        episodes = [
            episode_for(env, task, derive(seed, update, i)) for task in drawn for i in range(group)
        ]
        agent.choices = {}
        run_episodes(episodes, agent, env.toolbox)
        paid = np.array([sum(t.reward for t in e.turns) for e in episodes]).reshape(-1, group)
        advantage = (paid - paid.mean(1, keepdims=True)) * group / (group - 1)
        ids = [e.config.episode_id for e in episodes]
        agent.learn(
            dict(zip(ids, advantage.ravel().tolist(), strict=True)),
            rate * (1 - update / updates), entropy,
        )  # fmt: skip
        agent.choices = None
        yield agent, {"update": update + 1, "episodes": (update + 1) * tasks * group,
                      "reward": float(paid.mean())}  # fmt: skip
