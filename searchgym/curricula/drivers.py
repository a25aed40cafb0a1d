"""Curricula that drive axes: by the clock (ZeroSearch, ScalingInter-RL, schedules), by what a task
is, and by windows of episodes (a band of levels, a bandit)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..errors import CardError
from ..seeding import derive, stream
from ..types import Task
from .axes import MEASURES, difficulty_of
from .base import Driver
from .schedules import Exponential, Schedule, Steps, make_schedule


class Scheduled(Driver):
    """Curriculum in which each parameter follows its own schedule; another one chooses the tasks.

    ``params``: name → ``searchgym.curricula.schedules`` schedule, number or ``{"kind": "linear" |
    "exponential" | "steps", …}``. A step is ``episodes_per_step`` finished episodes (a training
    step's batch), unless the trainer counts itself and says so by ``set_step``. ``tasks``: a
    curriculum or its table; its own parameters stand where no schedule names them.
    """

    remembers: ClassVar[tuple[str, ...]] = ("episodes", "_set")

    def __init__(
        self, params: Mapping[str, Any], *, episodes_per_step: int = 1, tasks: Any = None
    ) -> None:
        if episodes_per_step < 1:
            raise CardError(f"episodes_per_step must be at least 1, got {episodes_per_step}")
        super().__init__(tasks)
        self.schedules: dict[str, Schedule] = {n: make_schedule(s) for n, s in params.items()}
        self.episodes_per_step = episodes_per_step
        self.episodes = 0
        self._set: float | None = None

    @property
    def step(self) -> float:
        """Step of the schedules."""
        return self.clock

    @property
    def clock(self) -> float:
        """Steps since training began."""
        return self.episodes // self.episodes_per_step if self._set is None else self._set

    def set_step(self, step: float) -> None:
        """Set the step of episodes that begin from now on; the trainer counts."""
        self._set = step
        super().set_step(step)

    def own(self, task: Task | None = None) -> Mapping[str, float]:
        step = self.step
        return {name: schedule(step) for name, schedule in self.schedules.items()}

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        self.episodes += 1
        super().observe(task_id, reward, params)


class ZeroSearchNoise(Scheduled):
    """``noise`` from ``start`` to ``end`` over ``total`` steps (ZeroSearch, arXiv 2505.04588).

    The defaults are the paper's runs: 0 to 0.5 over 203 steps, base 4.
    """

    def __init__(
        self,
        start: float = 0.0,
        end: float = 0.5,
        total: float = 203,
        base: float = 4.0,
        *,
        episodes_per_step: int = 1,
        tasks: Any = None,
    ) -> None:
        if not (0 <= start <= 1 and 0 <= end <= 1):
            raise CardError(f"noise rates lie in [0, 1], got start={start}, end={end}")
        super().__init__(
            {"noise": Exponential(start, end, total, base)},
            episodes_per_step=episodes_per_step,
            tasks=tasks,
        )


class ScalingInter(Scheduled):
    """``turns`` is ``rounds[i]`` from step ``i * every`` on (ScalingInter-RL of AgentGym-RL, arXiv
    2509.08755, ``StepRoundsScheduler``). Few rounds first make a policy use what it has; more of
    them later let it explore.

    The defaults are the paper's runs: 5, 8, 10 rounds, 100 training steps each. A round is one
    action, the answer included. ``searchgym`` counts finished episodes (``episodes_per_step``)
    where the trainer does not say the step.
    """

    def __init__(
        self,
        rounds: Sequence[int] = (5, 8, 10),
        every: int = 100,
        *,
        episodes_per_step: int = 1,
        tasks: Any = None,
    ) -> None:
        if not rounds or list(rounds) != sorted(rounds) or rounds[0] < 1 or every < 1:
            raise CardError(
                "rounds must grow from at least 1 and not be empty, every must be at least 1; got "
                f"rounds={list(rounds)}, every={every}"
            )
        steps = Steps(tuple(rounds), tuple(every * i for i in range(1, len(rounds))))
        super().__init__({"turns": steps}, episodes_per_step=episodes_per_step, tasks=tasks)


_MEAN_RATE = 0.1
"""Weight of the newest return in the running mean."""


class AfterSuccess(Scheduled):
    """:class:`Scheduled`, but step 0 lasts until the running mean return has reached
    ``threshold`` (ours, for costs of searching: an agent that is charged before it can answer
    learns not to search).

    The running mean begins at the first return, then moves by a tenth of each difference;
    ``min_episodes`` keep a lucky start from counting. The clock never stops again. While it is
    closed, ``set_step`` is remembered and counts from the step at which it opened.
    """

    remembers = ("mean", "seen", "opened")
    learns = True

    def __init__(
        self,
        params: Mapping[str, Any],
        *,
        threshold: float = 0.5,
        min_episodes: int = 50,
        episodes_per_step: int = 1,
        tasks: Any = None,
    ) -> None:
        super().__init__(params, episodes_per_step=episodes_per_step, tasks=tasks)
        if min_episodes < 1:
            raise CardError(f"min_episodes must be at least 1, got {min_episodes}")
        self.threshold, self.min_episodes = threshold, min_episodes
        self.mean, self.seen = 0.0, 0
        self.opened: float | None = None
        """The step at which the clock started."""

    @property
    def step(self) -> float:
        """Steps since the clock started; 0 before."""
        return 0.0 if self.opened is None else self.clock - self.opened

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        super().observe(task_id, reward, params)
        if self.opened is None:
            self.mean = (
                reward if self.seen == 0 else (1 - _MEAN_RATE) * self.mean + _MEAN_RATE * reward
            )
            self.seen += 1
            if self.seen >= self.min_episodes and self.mean >= self.threshold:
                self.opened = self.clock


class PerTask(Driver):
    """Curriculum in which each task is played at the difficulty of its level, e.g. easy ones
    without tools (as in UR², arXiv 2508.06165, which gives tools to hard questions only).

    Args:
        levels: Level → parameters. Levels are compared as texts, so that TOML's keys will do.
        by: Axis of the level: "hops", "branches", "blur" (see ``AXES``), "family", "split", or a
            key of ``task.meta``.
        default: Parameters of tasks whose level is not listed.
        tasks: Which curriculum chooses tasks.

    Raises:
        CardError: a level names an axis that chooses tasks; by :meth:`params`, the task does not
            say its level.
    """

    def __init__(
        self,
        levels: Mapping[Any, Mapping[str, float]],
        *,
        by: str = "hops",
        default: Mapping[str, float] | None = None,
        tasks: Any = None,
    ) -> None:
        super().__init__(tasks)
        self.levels = {str(level): dict(params) for level, params in levels.items()}
        self.by, self.default = by, dict(default or {})
        for params in (*self.levels.values(), self.default):
            if chosen := sorted(set(params) & set(MEASURES)):
                raise CardError(
                    f"the axis {chosen[0]!r} chooses tasks, so it cannot depend on the task; give "
                    "it to the curriculum in 'tasks'"
                )

    def own(self, task: Task | None = None) -> Mapping[str, float]:
        return {} if task is None else self.levels.get(self.level(task), self.default)

    def level(self, task: Task) -> str:
        """The level of a task, as a text."""
        if self.by in ("family", "split"):
            return str(getattr(task, self.by))
        value = MEASURES[self.by](task) if self.by in MEASURES else task.meta.get(self.by)
        if value is None:
            raise CardError(f"the task {task.id!r} does not say its {self.by!r}; set another 'by'")
        return str(value)


class ByWindow(Driver):
    """A curriculum that moves by windows of episodes.

    Whenever ``window`` episodes of the present place have ended, :meth:`look` is told their mean
    return.

    Episodes that began at another place are not counted, so it may drive many slots at once.
    """

    remembers: ClassVar[tuple[str, ...]] = ("seen", "total")
    learns = True

    def __init__(self, window: int, tasks: Any = None) -> None:
        super().__init__(tasks)
        self.window = window
        self.seen, self.total = 0, 0.0

    def places(self) -> Sequence[Mapping[str, float]]:
        """Return all places at which :meth:`own` may be."""
        raise NotImplementedError

    def look(self, mean: float) -> None:
        """A window has ended: decide where to go."""
        raise NotImplementedError

    def observe(
        self, task_id: str, reward: float, params: Mapping[str, float] | None = None
    ) -> None:
        super().observe(task_id, reward, params)
        if params is not None and not self._here(params):
            return
        self.seen, self.total = self.seen + 1, self.total + reward
        if self.seen >= self.window:
            self.look(self.total / self.seen)
            self.seen, self.total = 0, 0.0

    def _here(self, played: Mapping[str, float]) -> bool:
        """True if an episode was played at the present place: of those that fit, the one that says
        most, since an empty place fits every episode."""
        own = self.own()
        most = max((len(place) for place in self.places() if _same(place, played)), default=0)
        return _same(own, played) and len(own) >= most


def _same(own: Mapping[str, float], played: Mapping[str, float]) -> bool:
    """True if an episode was played with these parameters, whatever else it had. Axes that are
    whole were played as whole numbers."""
    return all(played.get(k) == v for k, v in {**own, **difficulty_of(own)}.items())


class LevelBand(ByWindow):
    """Keeps the success rate between ``low`` and ``high`` by moving up and down ``levels``.

    After each ``episodes`` episodes of the present level, whose mean return was at least ``high``:
    one level up; at most ``low``: one down (reasoning-gym's adaptive levels, there per attribute;
    the numbers are ours). A level is a mapping of parameters, axes or others.
    """

    remembers = ("level",)

    def __init__(
        self,
        levels: Sequence[Mapping[str, float]],
        *,
        low: float = 0.3,
        high: float = 0.8,
        episodes: int = 50,
        tasks: Any = None,
    ) -> None:
        super().__init__(episodes, tasks)
        if not levels or not low < high or episodes < 1:
            raise CardError(
                "a band needs levels, low < high and episodes ≥ 1; got "
                f"{len(levels)} levels, low={low}, high={high}, episodes={episodes}"
            )
        self.levels = tuple(dict(level) for level in levels)
        self.low, self.high = low, high
        self.level = 0

    def own(self, task: Task | None = None) -> Mapping[str, float]:
        return self.levels[self.level]

    def places(self) -> Sequence[Mapping[str, float]]:
        return self.levels

    def look(self, mean: float) -> None:
        if mean >= self.high:
            self.level = min(self.level + 1, len(self.levels) - 1)
        elif mean <= self.low:
            self.level = max(self.level - 1, 0)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        level = int(state["level"])
        if not 0 <= level < len(self.levels):
            raise CardError(f"the state is of level {level}, this band has {len(self.levels)}")
        super().load_state_dict(state)


class AxisBandit(ByWindow):
    """Chooses among ``arms``, each a mapping of parameters: a place on one axis or several.

    Teacher-Student Curriculum Learning (arXiv 1707.00183), Online algorithm, ε-greedy: an arm is
    held for ``hold`` finished episodes; its reward is the change of their mean return since its
    last turn; its value Q moves by ``rate`` of the difference to that. The arm with the largest |Q|
    is next (falling returns ask for practice, too), and with probability ``explore`` any arm.
    Arms that were not played twice come first, in order: nothing is known of them (ours).

    Which arm comes next depends on ``seed`` and what was observed, nothing else.
    """

    remembers = ("value", "last", "pulls", "arm")

    def __init__(
        self,
        arms: Sequence[Mapping[str, float]],
        *,
        hold: int = 32,
        rate: float = 0.3,
        explore: float = 0.2,
        seed: int = 0,
        tasks: Any = None,
    ) -> None:
        super().__init__(hold, tasks)
        if len(arms) < 2 or hold < 1 or not 0 < rate <= 1 or not 0 <= explore <= 1:
            raise CardError(
                "a bandit needs two arms, hold ≥ 1, 0 < rate ≤ 1 and 0 ≤ explore ≤ 1; got "
                f"{len(arms)} arms, hold={hold}, rate={rate}, explore={explore}"
            )
        self.arms = tuple(dict(arm) for arm in arms)
        if any(a == b for i, a in enumerate(self.arms) for b in self.arms[:i]):
            raise CardError(f"two arms are the same: {list(self.arms)}")
        self.rate, self.explore, self.seed = rate, explore, seed
        self.value = [0.0] * len(self.arms)
        self.last: list[float | None] = [None] * len(self.arms)
        self.pulls = [0] * len(self.arms)
        self.arm = 0

    def own(self, task: Task | None = None) -> Mapping[str, float]:
        return self.arms[self.arm]

    def places(self) -> Sequence[Mapping[str, float]]:
        return self.arms

    def look(self, mean: float) -> None:
        arm = self.arm
        if (before := self.last[arm]) is not None:
            self.value[arm] += self.rate * (mean - before - self.value[arm])
        self.last[arm] = mean
        self.pulls[arm] += 1
        self.arm = self._next()

    def _next(self) -> int:
        fewest = min(self.pulls)
        if fewest < 2:
            return self.pulls.index(fewest)
        rng = stream(derive(self.seed, "bandit"), sum(self.pulls))
        if rng.random() < self.explore:
            return int(rng.integers(len(self.arms)))
        return max(range(len(self.arms)), key=lambda i: abs(self.value[i]))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if len(state["value"]) != len(self.arms):
            raise CardError(f"the state is of {len(state['value'])} arms, not {len(self.arms)}")
        super().load_state_dict(state)
