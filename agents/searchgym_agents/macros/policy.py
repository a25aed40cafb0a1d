"""A linear softmax over macro-actions, trained by REINFORCE with a leave-one-out baseline.

A macro-action may have slots: what fills each is chosen next, by a softmax of its own over the
slot's options, linear in their numbers and marks. All choices of an episode learn by its reward.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from searchgym.core import Episode, run_episodes
from searchgym.dialects.base import get_dialect
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError, DataError, check_known
from searchgym.evaluation import episode_for
from searchgym.objects import check_whole
from searchgym.seeding import derive, stream
from searchgym.storage.files import read_json, write_whole
from searchgym.types import Action, Answer, TurnRequest

Floats = NDArray[np.float64]
SIZE = 1 << 13
"""Weights of each kind of macro-action: features and pairs of features are hashed into them."""


PLACES = 1 << 17
"""Weights of each slot's marks, which are hashed."""
MOST = 1 << 23
"""Weights that a file may name."""
NUMBERS, MARKS = "numbers of ", "marks of "
DRAFTS = 16
"""Answers drawn where one with slots is given; each is tried in a fork of the episode."""
WHOLE = 4
"""Those of them in which all of several slots are filled; each other fills one, and leaves the
others empty, so that what it earns is that slot's alone."""
_NONE = np.zeros(0, np.int64)


class Slot(NamedTuple):
    """A hole of a macro-action, and what can fill it: N options, at least one."""

    name: str
    """Slots of one name have the same weights."""
    options: Sequence[Any]
    """The first one leaves it empty, where an answer has several slots."""
    numbers: Floats
    """(N, F) features of the options, about in [-1, 1]."""
    marks: NDArray[np.int64] = np.zeros((1, 0), np.int64)
    """(N, M) features that an option has, as places below :data:`PLACES`; (1, 0): none has any."""


class Macro(NamedTuple):
    """A macro-action: its kind, for which there are weights, and the action that it stands for, or
    a function that makes it of what was chosen for its slots."""

    kind: str
    action: Action | Callable[..., Action]
    slots: Callable[[], Sequence[Slot]] = tuple
    """Makes the slots, if the macro-action is chosen."""


class Reading(NamedTuple):
    """A decision as a reader sees it."""

    features: Sequence[str]
    macros: Sequence[Macro]
    """What can be done; never empty."""


Reader = Callable[[TurnRequest], Reading]


SHAPED: Mapping[str, Any] = {
    "ambiguous": {"em": 1.0, "shapley_gain": 0.5},
}
"""Family → the reward that training pays where the environment's own is too rare at first."""


def readers() -> dict[str, Reader]:
    """The readers by the family of tasks that they read."""
    from .desk import read_desk
    from .dossiers import read_dossier
    from .person import read_person
    from .sums import read_sums
    from .trips import read_trip

    return {
        "service": read_desk, "travel": read_trip, "ambiguous": read_person,
        "computed": read_sums, "report": read_dossier,
    }  # fmt: skip


class _Choice(NamedTuple):
    """A choice among macro-actions: their kinds and the decision's places; or among the options of
    a slot."""

    kinds: Sequence[str]
    places: NDArray[np.int64]
    taken: int
    shares: Floats
    slot: Slot | None = None


class _Draft(NamedTuple):
    """A way to fill an answer's slots: the text, the choices, and the slot filled alone."""

    text: str
    made: Sequence[_Choice] = ()
    alone: int | None = None


_NO_DRAFT = _Draft("")


def places_of(features: Sequence[str]) -> NDArray[np.int64]:
    """Hashed places of the features and of their pairs."""
    pairs = [f"{a}&{b}" for a, b in combinations(sorted(features), 2)]
    return np.array([zlib.crc32(f.encode()) % SIZE for f in (*features, *pairs)], np.int64)


class MacroAgent:
    """Plays by linear weights: the best macro-action, or with ``seed`` one drawn by its share.

    Args:
        family: Whose reader is used (:func:`readers`).
        weights: A file that :meth:`save` wrote, or weights by kind; by default all are 0.
        seed: Draws actions, keyed by episode and turn.

    Raises:
        CardError: an unknown family.
        DataError: the file is not such a file.
    """

    fingerprint = None

    def __init__(
        self,
        family: str = "service",
        weights: str | Mapping[str, Floats] | None = None,
        seed: int | None = None,
    ) -> None:
        if isinstance(weights, str):
            family, weights = _loaded(Path(weights))
        check_known("family", readers(), family, error=CardError)
        self.family, self.reader, self.seed = family, readers()[family], seed
        self.weights: dict[str, Floats] = dict(weights or {})
        self.squares: dict[str, Floats] = {}
        """Sums of the squares of slots' gradients so far."""
        self.choices: dict[str, list[_Choice]] | None = None
        """Episode's id → its choices, while they are wanted."""
        self.drafts: dict[str, list[_Draft]] = {}
        """Episode's id → ways to fill the slots of its answer."""

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """One action per request."""
        return [self._act(request) for request in requests]

    def _act(self, request: TurnRequest) -> str:
        reading = self.reader(request)
        macros = sorted(reading.macros, key=lambda m: m.kind)  # whose order tells nothing
        kinds, places = [m.kind for m in macros], places_of(reading.features)
        rng = None
        if self.seed is not None:
            rng = stream(derive(self.seed, request.episode_id, request.turn), "macro")
        shares = self.shares(kinds, places)
        first = _Choice(kinds, places, _draw(shares, rng), shares)
        macro, say = macros[first.taken], get_dialect(request.dialect).render_action
        slots = macro.slots()
        filled = partial(_filled, macro, slots, [self.shares_of(slot) for slot in slots], rng)
        action, chosen = filled()
        if self.choices is not None:
            kept = self.choices.setdefault(request.episode_id, [])
            kept.append(first)
            if slots and isinstance(action, Answer):
                drafts = [_Draft(say(action), chosen)]
                for number in range(1, DRAFTS):
                    alone = number % len(slots) if number >= WHOLE and len(slots) > 1 else None
                    each, by = filled(alone)
                    drafts.append(_Draft(say(each), by, alone))
                self.drafts[request.episode_id] = drafts
            else:
                kept += chosen
        return say(action)

    def shares(self, kinds: Sequence[str], places: NDArray[np.int64]) -> Floats:
        """Softmax of the sums of weights."""
        return _softmax(np.array([self._of(kind)[places].sum() for kind in kinds]))

    def shares_of(self, slot: Slot) -> Floats:
        """(N,) softmax over the options of a slot."""
        numbers = self._of(NUMBERS + slot.name, slot.numbers.shape[1])
        scores = slot.numbers @ numbers
        if slot.marks.shape[1]:
            scores = scores + self._of(MARKS + slot.name, PLACES)[slot.marks].sum(1)
        return _softmax(scores)

    def _of(self, kind: str, size: int = SIZE) -> Floats:
        return self.weights.setdefault(kind, np.zeros(size))

    def learn(
        self, choices: Iterable[tuple[Sequence[_Choice], float]], count: int, rate: float,
        entropy: float,
    ) -> None:  # fmt: skip
        """Move the weights along advantage · ∇ log share, and along the entropy's gradient.

        Weights of kinds move by ``rate`` · gradient, those of slots as Adagrad's (Duchi et al.,
        2011) do at a rate divided by √(features of an option), so that rare marks learn as fast as
        common ones.

        Args:
            choices: Choices, and the advantage of what they led to.
            count: Episodes that they are of.
            rate: Rate of learning.
            entropy: Weight of the entropy.
        """
        steps: dict[str, Floats] = {}
        widths: dict[str, int] = {}
        for made, advantage in choices:
            for kinds, places, taken, shares, slot in made:
                logs = np.log(np.maximum(shares, 1e-12))
                push = -advantage * shares - entropy * shares * (logs - shares @ logs)
                push[taken] += advantage
                if slot is None:
                    for kind, by in zip(kinds, push, strict=True):
                        np.add.at(steps.setdefault(kind, np.zeros(SIZE)), places, by)
                    continue
                numbers = steps.setdefault(NUMBERS + slot.name, np.zeros(slot.numbers.shape[1]))
                numbers += push @ slot.numbers
                widths[NUMBERS + slot.name] = len(numbers)
                if width := slot.marks.shape[1]:
                    marks = steps.setdefault(MARKS + slot.name, np.zeros(PLACES))
                    marks += np.bincount(slot.marks.ravel(), np.repeat(push, width), PLACES)
                    widths[MARKS + slot.name] = width
        for kind, step in steps.items():
            step /= max(1, count)
            if kind in widths:
                squares = self.squares.setdefault(kind, np.zeros(len(step)))
                squares += step**2
                step = step / np.sqrt(widths[kind]) / (np.sqrt(squares) + 1e-8)
            self._of(kind, len(step))[:] += rate * step

    def save(self, path: Path) -> None:
        """Write family and weights as JSON; those that are 0 are left out."""
        kept = {
            kind: [len(of), {str(i): float(of[i]) for i in np.flatnonzero(of)}]
            for kind, of in sorted(self.weights.items())
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"family": self.family, "weights": kept}))


def _filled(
    macro: Macro, slots: Sequence[Slot], of: Sequence[Floats], rng: np.random.Generator | None,
    alone: int | None = None,
) -> tuple[Action, list[_Choice]]:  # fmt: skip
    """The action of a macro-action, its slots, or the one of a number alone, filled by their
    shares; and the choices made."""
    some = [i for i in range(len(slots)) if alone in (None, i)]
    drawn = [_draw(shares, rng) if i in some else 0 for i, shares in enumerate(of)]
    chosen = [_Choice((), _NONE, drawn[i], of[i], slots[i]) for i in some]
    if not callable(macro.action):
        return macro.action, chosen
    return macro.action(*(slot.options[i] for slot, i in zip(slots, drawn, strict=True))), chosen


def _softmax(scores: Floats) -> Floats:
    shares = np.exp(scores - scores.max())
    return np.asarray(shares / shares.sum())


def _draw(shares: Floats, rng: np.random.Generator | None) -> int:
    return int(shares.argmax()) if rng is None else int(rng.choice(len(shares), p=shares))


def _loaded(path: Path) -> tuple[str, dict[str, Floats]]:
    """Family and weights of a file that :meth:`MacroAgent.save` wrote, of a stranger as well."""
    try:
        saved = read_json(path)
        family, told = str(saved["family"]), dict(saved["weights"])
        for size, _ in told.values():
            check_whole(f"{path}: a number of weights", size, 0, error=DataError)
        if (total := sum(size for size, _ in told.values())) > MOST:
            raise ValueError(f"it names {total:,} weights, at most {MOST:,} are read")
        return family, {kind: _dense(size, dict(of)) for kind, (size, of) in told.items()}
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise DataError(f"{path} holds no weights of macro-actions: {error!r}") from error


def _dense(size: int, of: Mapping[str, float]) -> Floats:
    dense = np.zeros(size)
    places, values = np.array([*of], np.uint32), np.array([*of.values()], np.float64)
    if not np.isfinite(values).all():
        raise ValueError("a weight is not finite")
    dense[places] = values
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
        agent.choices, agent.drafts = {}, {}
        run_episodes(episodes, agent, env.toolbox)
        tried = {e.config.episode_id: _tried(e, agent.drafts) for e in episodes}
        ids = [e.config.episode_id for e in episodes]
        whole = [[d.alone is None for d in agent.drafts.get(i, (_NO_DRAFT,))] for i in ids]
        paid = np.array([tried[i][of].mean() for i, of in zip(ids, whole, strict=True)])
        paid = paid.reshape(-1, group)
        advantage = (paid - paid.mean(1, keepdims=True)) * group / (group - 1)
        learnt: list[tuple[Sequence[_Choice], float]] = [
            (agent.choices[i], a) for i, a in zip(ids, advantage.ravel().tolist(), strict=True)
        ]
        for i, drafts in agent.drafts.items():
            alike = np.array([-1 if d.alone is None else d.alone for d in drafts])
            for kind in np.unique(alike):
                (here,) = np.nonzero(alike == kind)
                apart = (tried[i][here] - tried[i][here].mean()) / max(1, len(here) - 1)
                learnt += [(drafts[n].made, a) for n, a in zip(here, apart.tolist(), strict=True)]
        agent.learn(learnt, len(episodes), rate * (1 - update / updates), entropy)
        agent.choices = None
        right = [outcome.em for e in episodes if (outcome := e.outcome())]
        yield agent, {"update": update + 1, "episodes": (update + 1) * tasks * group,
                      "reward": float(paid.mean()), "em": float(np.mean(right))}  # fmt: skip


def _tried(episode: Episode, drafts: Mapping[str, Sequence[_Draft]]) -> Floats:
    """(DRAFTS,) what an episode earns by each draft of its answer; (1,) where it had none."""
    rewards = [sum(turn.reward for turn in episode.turns)]
    for draft in drafts.get(episode.config.episode_id, ())[1:]:
        other = episode.fork(at=len(episode.turns) - 1)
        other.act(draft.text)
        rewards.append(sum(turn.reward for turn in other.turns))
    return np.array(rewards)
