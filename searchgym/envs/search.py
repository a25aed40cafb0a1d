"""``SearchEnv``: one episode at a time behind Gymnasium's ``Env``, and the unit everything takes.

Whatever plays episodes (``reset``, the vector environment, trainers, evaluation, transfer,
``Session``) begins them by :meth:`SearchEnv.start` and runs their tools by ``env.toolbox``, so what
a keyword or a subclass changes is changed everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import TimeLimit

from ..core.episode import Episode, run_tools
from ..core.rules import EpisodeConfig, Rules, checked_switch
from ..corpora.corpus import Corpus
from ..curricula import (
    Lent,
    checked_difficulty,
    is_told,
    make_curriculum,
    next_task,
    number_table,
)
from ..dialects.base import get_dialect
from ..errors import CardError, EpisodeError, MissingExtraError, unknown
from ..rewards import Outcome, Reward
from ..seeding import derive
from ..tools import Toolbox
from ..types import SearchEngine, Task, TurnRequest
from ..worlds.world import World
from .info import step_info
from .setup import SearchSetup, load_setup
from .spaces import MAX_TEXT, FreeText, view_of

RESET_OPTIONS = ("task_id", "split", "search_enabled", "params", "difficulty")


class SearchEnv(gym.Env[Any, str]):
    """Ask, read, ask again, answer.

    Observation: the visible context as text (instructions, question, own actions, results), or
    with ``observation="messages"`` as a chat with tool schemas (``searchgym.core.messages``).
    Action: the policy's text in the environment's dialect; any string is legal input, and one that
    is no action earns a corrective observation and costs a turn.
    Reward: weighted named parts, built-in or one's own (:mod:`searchgym.rewards`), see
    ``info["reward_parts"]``; default 1 for an exact match.
    ``terminated``: answered (or refused). ``truncated``: a budget ran out. Never both, but for an
    answer in the last step that Gymnasium's ``TimeLimit`` allows.

    Keywords are those of :class:`searchgym.envs.options.Options`, and ``curriculum`` (a name,
    ``{"use": name or import path, …}`` or an object), ``search_enabled`` (False: closed-book
    episodes), ``params`` (difficulty: axes of ``searchgym.curricula.AXES`` and other parameters),
    ``render_mode``.

    Subclasses change how episodes begin by overriding :meth:`start`, and what they are paid by
    overriding :meth:`reward`: hooks that whatever plays episodes calls. Where a subclass overrides
    ``step`` or ``reset``, evaluation and trainers play it through these, which is slower.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (as in Gymnasium)
        "render_modes": ["ansi", "human", "html", "rgb_array"],
        "render_fps": 2,
    }

    def __init__(
        self,
        *,
        render_mode: str | None = None,
        curriculum: Any = None,
        search_enabled: bool = True,
        params: Mapping[str, float] | None = None,
        observation: str = "text",
        **options: Any,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise CardError(unknown("render_mode", render_mode, self.metadata["render_modes"]))
        self.render_mode = render_mode
        self.setup: SearchSetup = load_setup(options)
        self.curriculum = make_curriculum(curriculum)
        self.search_enabled = checked_switch("search_enabled", search_enabled)
        self.params = dict(number_table("params", params))
        self.time_limit: int | None = None
        """Turns after which an episode is truncated unannounced; set by ``TimeLimit``."""
        self.on_end: tuple[Callable[[Episode], object], ...] = ()
        """Functions called with every episode that ends; set for ``RecordEpisodeStatistics``."""
        self.reward_transforms: tuple[Callable[[float], float], ...] = ()
        """Functions applied to each turn's reward, in order; set for ``TransformReward``."""
        self.action_space = FreeText(MAX_TEXT)
        self.observation = observation
        """Kind of observation: "text" or "messages"."""
        self.observation_space, self.observe = view_of(observation)
        self._episode: Episode | None = None
        self._playing: SearchEnv = self
        self._printed: tuple[int, str] | None = None
        """Position up to which the current episode has been printed: its turns and its phase."""

    # --- what it is made of -------------------------------------------------------------------
    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords that make an equal environment, those of subclasses left out."""
        more: dict[str, Any] = {"curriculum": self.curriculum, "params": dict(self.params)}
        more |= {"search_enabled": self.search_enabled, "observation": self.observation}
        return {**self.setup.keywords, **more}

    @property
    def tasks(self) -> Sequence[Task]:
        """The questions, in a fixed order."""
        return self.setup.tasks

    @property
    def corpus(self) -> Corpus:
        """The passages."""
        return self.setup.corpus

    @property
    def world(self) -> World | None:
        """The generated world behind the corpus, if there is one."""
        return self.setup.world

    @property
    def engine(self) -> SearchEngine:
        """Engine that answers searches."""
        return self.setup.engine

    @property
    def toolbox(self) -> Toolbox:
        """The tools that episodes call."""
        return self.setup.toolbox

    @property
    def rules(self) -> Rules:
        """The rules of every episode, before ``params`` act on them."""
        return self._rewarding(self.setup.rules)

    def task(self, task_id: str) -> Task:
        """The task of an id; ``CardError`` suggests near ones for an unknown id."""
        return self.tasks[self.setup.position(task_id)]

    def under(self, **rules: Any) -> SearchEnv:
        """Return a copy that shares world, tasks and engine under other rules, e.g. ``k=1``.

        Raises:
            CardError: an option that world, tasks or engine are made of: make another environment.
        """
        return self._with(self.setup.under(**rules))

    def of_split(self, split: str) -> SearchEnv:
        """Return a copy over another split's world or questions; itself for its own split."""
        if split == self.setup.options.split:
            return self
        other = self._with(load_setup({**self.setup.keywords, "split": split}))
        other.curriculum = Lent.of(self.curriculum)
        return other

    def _with(self, setup: SearchSetup) -> SearchEnv:
        other = self.copy()
        other.setup = setup
        return other

    def copy(self) -> SearchEnv:
        """Return an environment without an episode that shares everything but ``params``."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.params = dict(self.params)
        other.__dict__.pop("_own_reward", None)  # it is bound to this one
        other._np_random, other._np_random_seed = None, None
        other._episode, other._playing = None, other
        return other

    # --- hooks --------------------------------------------------------------------------------
    def start(
        self,
        key: int,
        *,
        task: Task | None = None,
        params: Mapping[str, float] | None = None,
        search_enabled: bool | None = None,
        episode_id: str | None = None,
    ) -> Episode:
        """Begin the episode that ``key`` determines. The one place where episodes come from.

        Args:
            key: Seed of everything random in the episode.
            task: Which task; by default the curriculum chooses.
            params: Difficulty, over the environment's ``params`` and the curriculum's.
            search_enabled: False plays closed-book; by default as the environment says.
            episode_id: Its name; by default made from ``key``.

        Raises:
            CardError: a difficulty axis out of range, or one that cannot act here; a ``key`` that
                is no whole number, ``params`` that are no table, a ``search_enabled`` that is
                neither true nor false.
        """
        if not isinstance(key, Integral) or isinstance(key, bool):
            raise CardError(f"key must be a whole number, got {key!r:.80}")
        if search_enabled is not None:
            search_enabled = checked_switch("search_enabled", search_enabled)
        enabled = self.search_enabled if search_enabled is None else search_enabled
        over = number_table("params", params)
        named = task is not None
        task, merged = next_task(
            self.curriculum,
            self.setup.pool,
            derive(key, "task"),
            over={**self.params, **over},
            task=task,
        )
        # what is played otherwise in this episode alone says nothing of the environment
        told = enabled == self.search_enabled
        told = told and all(self.params.get(name) == over[name] for name in over)
        told = told and is_told(self.curriculum, task, merged, named=named)
        rules = self.setup.rules
        if merged:
            from .difficulty import apply_difficulty

            rules, merged = apply_difficulty(self.setup, merged)
        rules = self._rewarding(rules)
        return Episode(
            EpisodeConfig(
                task=task,
                rules=rules,
                seed=key,
                episode_id=f"{key:016x}" if episode_id is None else episode_id,
                search_enabled=enabled,
                params=merged,
                told=told,
                time_limit=self.time_limit,
                reward_transforms=self.reward_transforms,
            )
        )

    def reward(self, outcome: Outcome) -> float | Mapping[str, float]:
        """Say what a finished episode is paid: a number, or several by name, which are added.

        Subclasses override it in place of the keyword ``reward``; it is then a part of the name
        "reward", paid at the end. Here, the keyword's parts are paid, turn by turn.
        """
        raise NotImplementedError("the keyword 'reward' pays episodes of this environment")

    def _rewarding(self, rules: Rules) -> Rules:
        """The rules with this class's own reward, where it has one."""
        if type(self).reward is SearchEnv.reward:
            return rules
        return replace(rules, reward=self._own_reward)

    @cached_property
    def _own_reward(self) -> Reward:
        return Reward.of({"reward": self.reward})

    def ended(self, episode: Episode) -> None:
        """Record an episode's end: the listeners (``on_end``) are told, and so is the curriculum
        where the episode is its business (``EpisodeConfig.told``) and the infrastructure did not
        break it."""
        outcome, config = episode.outcome(), episode.config
        if config.told and outcome is not None and outcome.end != "infra_error":
            reward = sum([turn.reward for turn in episode.turns])
            self.curriculum.observe(config.task.id, reward, config.params)
        for listener in self.on_end:
            listener(episode)

    # --- Gymnasium ----------------------------------------------------------------------------
    @property
    def episode(self) -> Episode:
        """The current episode; ``EpisodeError`` before the first ``reset``."""
        if self._episode is None:
            raise EpisodeError("no episode yet; call reset() first")
        return self._episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. ``seed`` determines the task and everything random in it.

        ``options``, for this episode alone: ``task_id`` names the task; ``split`` takes it from
        another split; ``search_enabled=False`` plays closed-book; ``params`` are difficulty
        parameters over the environment's; ``difficulty`` the same for axes alone, above all others.

        Raises:
            CardError: an unknown option, task or axis, or a value out of range.
        """
        super().reset(seed=seed)
        key = int(self.np_random.integers(1 << 62))
        self.time_limit = _time_limit(self)
        self._playing, self._episode = self.begin(key, options)
        self._printed = None
        if self.render_mode == "human":
            self.render()
        return self.observe(self._episode), step_info(self._episode)

    def begin(
        self, key: int, options: Mapping[str, Any] | None = None
    ) -> tuple[SearchEnv, Episode]:
        """The episode of a ``reset`` with these options, and the environment whose tools it calls:
        this one, or that of the split asked for."""
        if not isinstance(options := {} if options is None else options, Mapping):
            raise CardError(
                f"the options of reset are a table such as {{'task_id': …}}, got {options!r:.80}"
            )
        for name in options:
            if name not in RESET_OPTIONS:
                raise CardError(unknown("reset option", name, RESET_OPTIONS))
        where = self if options.get("split") is None else self.of_split(options["split"])
        axes = checked_difficulty(number_table("difficulty", options.get("difficulty")))
        params = {**number_table("params", options.get("params")), **axes}
        task_id, enabled = options.get("task_id"), options.get("search_enabled")
        task = None if task_id is None else where.task(task_id)
        if enabled is not None:
            enabled = checked_switch("search_enabled", enabled)
        return where, where.start(key, task=task, params=params, search_enabled=enabled)

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Let the policy's text act; tools run at once."""
        if not isinstance(action, str):
            raise TypeError(f"an action is a string, got {type(action).__name__}: {action!r:.80}")
        episode = self._episode or self.episode
        if episode.phase == "done":
            raise EpisodeError("the episode is over; call reset()")
        episode.act(action)
        run_tools((episode,), self._playing.toolbox)
        over = episode.phase == "done"
        if over:
            self.ended(episode)
        if self.render_mode == "human":
            self.render()
        return (
            self.observe(episode),
            episode.turns[-1].reward,
            over and episode.terminated,
            over and episode.truncated,
            step_info(episode),
        )

    def render(self) -> Any:
        """Return the episode as text (``ansi``), as an HTML page (``html``) or as a picture
        (``rgb_array``: (720, 960, 3) of 8 bits), or print what is new, with colours (``human``).

        In ``human`` mode ``reset`` and ``step`` print by themselves, and another call prints
        nothing twice.

        Raises:
            MissingExtraError: ``html`` without jinja2, ``rgb_array`` without Pillow.
        """
        if self.render_mode is None:
            return None
        if self.render_mode == "html":
            from .render import page

            return page(self.episode)
        if self.render_mode == "rgb_array":
            from .render import frame

            return frame(self.episode)
        from .render import print_turn, transcript

        if self.render_mode == "ansi":
            return transcript(self.episode)
        if self.render_mode == "human":
            reached = (len(self.episode.turns), self.episode.phase)
            if reached != self._printed:
                print_turn(self.episode)
                self._printed = reached
        return None

    def _repr_html_(self) -> str | None:
        """Show the environment and its current episode in a notebook; as text without jinja2."""
        from .render import card

        try:
            return card(self)
        except MissingExtraError:
            return None

    # --- beyond Gymnasium ---------------------------------------------------------------------
    def oracle(self) -> list[str]:
        """Action strings that solve the current episode from where it stands (privileged)."""
        from ..core.oracle import oracle_texts

        return oracle_texts(self.episode, self._playing.corpus.passage)

    def requests(self) -> tuple[TurnRequest, ...]:
        """Requests to the policy now, as segments; for agents that read records."""
        return self.episode.requests()

    def fork(self, *, at: int | None = None, branch: int | None = None) -> SearchEnv:
        """An environment whose episode is a fork of this one's; world and curriculum are shared,
        difficulty parameters are its own from here on."""
        other = self.copy()
        other._episode = self.episode.fork(at=at, branch=branch)
        other._playing = other if self._playing is self else self._playing
        return other

    def snapshot(self) -> dict[str, Any]:
        """The current episode as JSON values, and where it is played: its split."""
        return self._playing.recorded(self.episode)

    def restore(self, snapshot: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Continue an episode from its snapshot, in the split that it was taken in, without any
        outside call. Reward parts and a dialect of one's own are this environment's.

        Raises:
            EpisodeError: the snapshot's task is none of this environment's.
        """
        self._playing, self._episode = self.continued(snapshot)
        self._printed = None
        return self.observe(self._episode), step_info(self._episode)

    def set_params(self, **params: float) -> None:
        """Difficulty parameters from the next reset on."""
        self.params.update(params)

    def __getstate__(self) -> dict[str, Any]:
        """Pickling goes by keywords: the copy shares or rebuilds the setup and replays."""
        state = dict(self.__dict__)
        state["_episode"] = self._episode.snapshot() if self._episode else None
        split = self._playing.setup.options.split
        state["_playing"] = split if self._playing is not self else None
        state.pop("_own_reward", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._episode = self.restored(state["_episode"]) if state["_episode"] else None
        self._playing = self if state["_playing"] is None else self.of_split(state["_playing"])

    def restored(self, snapshot: Mapping[str, Any]) -> Episode:
        """The episode of a snapshot, with this environment's reward and dialect."""
        return Episode.restore(
            snapshot, dialect=get_dialect(self.rules.dialect), reward=self.rules.reward,
            reward_transforms=self.reward_transforms,
        )  # fmt: skip

    def recorded(self, episode: Episode) -> dict[str, Any]:
        """Return the snapshot of an episode that calls this environment's tools: it tells the
        split, and whether the task is none of the environment's but was given by ``start``."""
        listed = self._lists(episode.config.task)
        return {
            **episode.snapshot(), "split": self.setup.options.split, "own_task": not listed,
        }  # fmt: skip

    def continued(self, snapshot: Mapping[str, Any]) -> tuple[SearchEnv, Episode]:
        """The environment whose tools a snapshot's episode calls, as :meth:`begin` says it, and the
        episode. A snapshot of ``Episode.snapshot`` tells no split: it is this environment's.

        Raises:
            EpisodeError: the task is none of the environment's, so that its tools would search
                passages that do not answer it.
        """
        episode, split = self.restored(snapshot), snapshot.get("split")
        try:
            where = self if split is None else self.of_split(split)
        except CardError as error:
            raise EpisodeError(
                f"the snapshot was taken in the split {split!r:.80}, which cannot be had here: "
                f"{error}"
            ) from error
        task = episode.config.task
        if not where._lists(task) and not snapshot.get("own_task"):
            raise EpisodeError(
                f"the snapshot's task {task.id!r}, {task.question!r:.80}, is none of this "
                f"environment's {len(where.tasks):,}; restore it in an environment made with the "
                "same world, corpus, tasks and split, or read it with Episode.restore(snapshot)"
            )
        return where, episode

    def _lists(self, task: Task) -> bool:
        """Check whether a task is one of the environment's: id, question and answers."""
        place = self.setup.components.places.get(task.id)
        if place is None:
            return False
        known = self.tasks[place]
        return (known.question, [*known.answers]) == (task.question, [*task.answers])


def _time_limit(env: SearchEnv) -> int | None:
    """The environment's limit, or that of a ``TimeLimit`` around it if that is shorter.

    Gymnasium does not tell an environment of its wrappers, so the callers of ``reset`` are looked
    through. An episode must know its end: only so it has an outcome, and the curriculum hears of
    it, as in vector environments.
    """
    limits = [] if env.time_limit is None else [env.time_limit]
    frame = sys._getframe(1)
    while (caller := frame.f_back) is not None:
        frame = caller
        if frame.f_code.co_varnames[:1] == ("self",):
            layer = frame.f_locals["self"]
            if isinstance(layer, TimeLimit) and layer.unwrapped is env:
                limits.append(layer._max_episode_steps)
    return min(limits, default=None)
