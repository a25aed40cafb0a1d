"""``SearchVectorEnv``: many episodes, one call per tool and step for all of them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from ..core.episode import Episode, run_tools
from ..core.oracle import oracle_texts
from ..curricula import Curriculum
from ..errors import CardError, EpisodeError
from ..objects import check_whole, load_object
from ..types import Failure, ToolCall, ToolResult, TurnRequest
from .info import stack_infos, step_info
from .search import SearchEnv
from .spaces import MAX_TEXT, FreeText
from .unwrap import search_env

Arrays = tuple[
    tuple[Any, ...], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]


class SearchVectorEnv(VectorEnv[tuple[Any, ...], Sequence[str], NDArray[Any]]):
    """``num_envs`` independent episodes with the same results as as many ``SearchEnv``s.

    It plays the episodes of ``env``, whose hooks it calls; without one, of a ``SearchEnv`` made
    from ``options``. ``step`` takes a sequence of strings. All tool calls of a step run as one
    batch. Slot i is seeded with ``seed + i``. All of Gymnasium's autoreset modes work; in
    ``DISABLED`` mode reset finished slots with ``reset(options={"reset_mask": mask})``.

    ``max_episode_steps`` truncates episodes after so many turns, as ``TimeLimit`` does; -1 and None
    do not.

    ``gc_freeze`` (default) moves what exists once the environment is built out of the garbage
    collector's sight (``gc.freeze``): a thousand slots make so many records that Python would
    otherwise walk the whole corpus and every loaded module every few steps, 0.1 s each time.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (as in Gymnasium)

    def __init__(
        self,
        num_envs: int = 1,
        *,
        env: Any = None,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        gc_freeze: bool = True,
        max_episode_steps: int | None = None,
        **options: Any,
    ) -> None:
        check_whole("num_envs", num_envs, 1)
        if render_mode not in (None, "ansi"):
            raise CardError(f"a vector environment renders 'ansi' only, got {render_mode!r}")
        if env is not None and options:
            raise CardError(
                f"give an environment or options of one, not both; got {', '.join(sorted(options))}"
            )
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.autoreset_mode = _autoreset_mode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.env = SearchEnv(**options) if env is None else search_env(env)
        self.env.time_limit = _limited(self.env.time_limit, max_episode_steps)
        self.single_action_space = FreeText(MAX_TEXT)
        self.single_observation_space = self.env.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._episodes: list[Episode | None] = [None] * num_envs
        self._streams: list[np.random.Generator | None] = [None] * num_envs
        self._playing: list[SearchEnv] = [self.env] * num_envs
        """Environment whose tools each slot's episode calls: ``env``, or that of another split."""
        self._elsewhere: set[int] = set()
        """Slots whose episode calls other tools than ``env``'s."""
        self._finished = [False] * num_envs
        if gc_freeze:
            gc.collect()
            gc.freeze()

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """The slots' current episodes; ``EpisodeError`` before the first ``reset``."""
        episodes = tuple(e for e in self._episodes if e is not None)
        if len(episodes) != self.num_envs:
            raise EpisodeError("no episodes yet; call reset() first")
        return episodes

    # --- reset --------------------------------------------------------------------------------
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Begin new episodes in all slots, or where ``options["reset_mask"]`` is true.

        Other options are those of ``SearchEnv.reset``. A list, tuple or array of ``num_envs``
        values gives each slot its own: ``{"task_id": ["a", "b"]}``, or ``{"task_id":
        infos["task_id"]}``; ``None`` leaves a slot as without it.
        """
        if not isinstance(options := {} if options is None else options, Mapping):
            raise CardError(
                f"the options of reset are a table such as {{'task_id': …}}, got {options!r:.80}"
            )
        options = dict(options)
        mask = self._mask(options.pop("reset_mask", None))
        seeds = self._seeds(seed)
        each = self._options(options)
        infos: list[dict[str, Any] | None] = [None] * self.num_envs
        for i in range(self.num_envs):
            if mask[i]:
                infos[i] = self._begin(i, seeds[i], each[i])
        return self._observations(), stack_infos(infos)

    def _options(self, options: Mapping[str, Any]) -> list[dict[str, Any]]:
        each: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for name, value in options.items():
            value = value.tolist() if isinstance(value, np.ndarray) else value
            values = value if isinstance(value, (list, tuple)) else [value] * self.num_envs
            if len(values) != self.num_envs:
                raise CardError(
                    f"reset option {name!r} has {len(values)} values for {self.num_envs} "
                    "environments; give one for each, or a single one for all"
                )
            for of_slot, one in zip(each, values, strict=True):
                if one is not None:
                    of_slot[name] = one
        return each

    def _mask(self, mask: Any) -> Sequence[bool]:
        if mask is None:
            return [True] * self.num_envs
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise TypeError("options['reset_mask'] must be a NumPy array of bool")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"options['reset_mask'] must have shape ({self.num_envs},) and a True, got {mask!r}"
            )
        return [bool(m) for m in mask]

    def _seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)):
            return [int(seed) + i for i in range(self.num_envs)]
        if isinstance(seed, str) or not isinstance(seed, (Sequence, np.ndarray)):
            raise TypeError(f"seed is a whole number, or one for each slot, got {seed!r:.80}")
        if len(seed) != self.num_envs:
            raise ValueError(f"got {len(seed)} seeds for {self.num_envs} environments")
        return [int(one) if isinstance(one, np.integer) else one for one in seed]

    def _begin(
        self, i: int, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        stream = self._streams[i]
        if seed is not None or stream is None:
            stream = self._streams[i] = seeding.np_random(seed)[0]
        key = int(stream.integers(1 << 62))
        self._playing[i], episode = self.env.begin(key, options)
        self._episodes[i] = episode
        if self._playing[i] is self.env:
            self._elsewhere.discard(i)
        else:
            self._elsewhere.add(i)
        self._finished[i] = False
        return step_info(episode)

    def _observations(self) -> tuple[Any, ...]:
        return tuple([self.env.observe(e) for e in self.episodes])

    # --- step ---------------------------------------------------------------------------------
    def step(self, actions: Sequence[str]) -> Arrays:
        """Let every slot's text act; one batch per tool for all slots.

        A slot that ended in the step before is reset instead (``NEXT_STEP``), or an error
        (``DISABLED``); its action is ignored and no tool runs for it.
        """
        if isinstance(actions, str) or len(actions) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} strings, got {actions!r:.80}")
        collecting = gc.isenabled()
        gc.disable()  # a step makes no cycles; collect between steps, never in the middle of one
        try:
            return self._step(actions)
        finally:
            if collecting:
                gc.enable()

    def _step(self, actions: Sequence[str]) -> Arrays:
        episodes, n = self.episodes, self.num_envs
        if self.autoreset_mode == AutoresetMode.DISABLED and any(self._finished):
            raise EpisodeError("a slot is over; reset it with options={'reset_mask': mask}")
        fresh = list(self._finished)  # NEXT_STEP: these slots are reset now
        for i, (action, over) in enumerate(zip(actions, fresh, strict=True)):
            if not over and not isinstance(action, str):  # before any slot has moved
                raise TypeError(f"an action is a string, got {type(action).__name__} for slot {i}")
        calls: list[ToolCall] = []
        for episode, action, over in zip(episodes, actions, fresh, strict=True):
            if not over:
                calls += episode.act(action)
        results = self._run(calls, episodes)
        out = _Columns(n)
        retry: list[int] = []
        at = 0
        for i, episode in enumerate(episodes):  # one pass: each record is touched while in cache
            if episode.phase == "receive":
                size = len(episode.pending)
                episode.receive(results[at : at + size])
                at += size
            if episode.phase == "receive":
                retry.append(i)
            else:
                self._settle(i, episode, fresh[i], out)
        if retry:
            for env in dict.fromkeys(self._playing[i] for i in retry):
                own = [episodes[i] for i in retry if self._playing[i] is env]
                run_tools(own, env.toolbox)
            for i in retry:
                self._settle(i, episodes[i], False, out)
        observations = tuple(out.observations)
        return observations, out.rewards, out.terminated, out.truncated, stack_infos(out.infos)

    def _run(
        self, calls: list[ToolCall], episodes: Sequence[Episode]
    ) -> Sequence[ToolResult | Failure]:
        """The results of ``calls``, those of ``episodes`` in order."""
        if not self._elsewhere:
            return self.env.toolbox.run(calls)
        owners = [i for i, e in enumerate(episodes) for _ in range(len(e.pending))]
        results: list[Any] = [None] * len(calls)
        for env in dict.fromkeys(self._playing):
            where = [at for at, i in enumerate(owners) if self._playing[i] is env]
            env_results = env.toolbox.run([calls[at] for at in where])
            for at, result in zip(where, env_results, strict=True):
                results[at] = result
        return results

    def _settle(self, i: int, episode: Episode, fresh: bool, out: _Columns) -> None:
        """Fill in slot i's results; reset it where the autoreset mode says so."""
        if fresh:
            out.infos[i] = self._begin(i)
        else:
            out.rewards[i] = episode.turns[-1].reward
            if episode.phase == "done":
                limit, turns = episode.config.time_limit, len(episode.turns)
                out.terminated[i] = episode.terminated
                # as TimeLimit, which marks an answer in its last step, too
                out.truncated[i] = episode.truncated or turns == limit
                out.infos[i] = self._ended(i, episode)
            else:
                out.infos[i] = step_info(episode)
        current = self._episodes[i]
        assert current is not None
        out.observations[i] = self.env.observe(current)

    def _ended(self, i: int, episode: Episode) -> dict[str, Any]:
        self.env.ended(episode)
        info = step_info(episode)
        if self.autoreset_mode != AutoresetMode.SAME_STEP:
            self._finished[i] = True
            return info
        last = self.env.observe(episode)
        return {**self._begin(i), "final_obs": last, "final_info": info}

    # --- beyond Gymnasium ---------------------------------------------------------------------
    def requests(self) -> list[TurnRequest]:
        """Requests to each slot's policy; slots that are over are left out."""
        return [request for e in self.episodes for request in e.requests()]

    def oracle(self) -> list[list[str]]:
        """Return, for each slot, the actions that solve its episode from where it stands
        (privileged)."""
        pairs = zip(self.episodes, self._playing, strict=True)
        return [oracle_texts(episode, env.corpus.passage) for episode, env in pairs]

    def set_params(self, **params: float) -> None:
        """Difficulty parameters, from each slot's next reset on."""
        self.env.set_params(**params)

    @property
    def curriculum(self) -> Curriculum:
        """The curriculum of all slots."""
        return self.env.curriculum

    @curriculum.setter
    def curriculum(self, curriculum: Curriculum) -> None:
        self.env.curriculum = curriculum

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of the environment that all slots share, or get an attribute, as
        ``SyncVectorEnv.call``: one result per slot."""
        value = getattr(self.env, name)
        result = value(*args, **kwargs) if callable(value) else value
        return (result,) * self.num_envs

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of the environment that all slots share, once per slot."""
        return (getattr(self.env, name),) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of the environment that all slots share.

        Raises:
            CardError: values that differ by slot, since the slots are one environment, or another
                number of them.
        """
        given = values if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(given) != self.num_envs:
            raise CardError(
                f"{name!r} takes one value or a list of {self.num_envs}, got {len(given)}"
            )
        if any(value != given[0] for value in given):
            raise CardError(
                f"all slots share one environment, so {name!r} has one value; got {given!r:.80}"
            )
        setattr(self.env, name, given[0])

    def __getstate__(self) -> dict[str, Any]:
        """Pickling replays each slot's episode from its snapshot."""
        state = dict(self.__dict__)
        state["_episodes"] = [e and e.snapshot() for e in self._episodes]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._episodes = [e and self.env.restored(e) for e in state["_episodes"]]

    def render(self) -> tuple[str, ...] | None:
        """All transcripts, for ``render_mode="ansi"``."""
        from .render import transcript

        if self.render_mode is None:
            return None
        return tuple(transcript(e) for e in self.episodes)

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The slots' generators."""
        for i, stream in enumerate(self._streams):
            if stream is None:
                self._streams[i] = seeding.np_random(None)[0]
        return tuple(s for s in self._streams if s is not None)


class _Columns:
    def __init__(self, n: int) -> None:
        self.observations: list[Any] = [None] * n
        self.rewards = np.zeros(n)
        self.terminated = np.zeros(n, dtype=np.bool_)
        self.truncated = np.zeros(n, dtype=np.bool_)
        self.infos: list[dict[str, Any] | None] = [None] * n


def _autoreset_mode(mode: str | AutoresetMode) -> AutoresetMode:
    if isinstance(mode, AutoresetMode):
        return mode
    for known in AutoresetMode:
        if mode in (known.name, known.value, known.name.lower()):
            return known
    raise CardError(
        f"autoreset_mode must be one of {[m.name for m in AutoresetMode]}, got {mode!r}"
    )


def __getattr__(name: str) -> Any:
    """The vector form of a ``SearchEnv`` subclass as an attribute of this module: entry points of
    Gymnasium are strings, and ``"searchgym.envs.vector:my_pkg.MyEnv"`` is that of
    ``my_pkg:MyEnv``."""
    module, dot, attribute = name.rpartition(".")
    if not dot:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = load_object(f"{module}:{attribute}")
    return partial(_vectorised, made)


def _vectorised(
    make: Callable[..., gym.Env[Any, Any]],
    num_envs: int = 1,
    *,
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    gc_freeze: bool = True,
    render_mode: str | None = None,
    max_episode_steps: int | None = None,
    **options: Any,
) -> VectorEnv[Any, Any, Any]:
    """A vector environment of what ``make`` makes: ours where its episodes come from the hooks of
    ``SearchEnv``, else Gymnasium's, one environment after the other."""
    first = make(**options, render_mode=render_mode)
    if isinstance(first.unwrapped, SearchEnv):
        try:
            env = search_env(first)
        except CardError:  # it overrides step or reset, which only single environments call
            pass
        else:
            return SearchVectorEnv(
                num_envs, env=env, autoreset_mode=autoreset_mode, gc_freeze=gc_freeze,
                render_mode=render_mode, max_episode_steps=max_episode_steps,
            )  # fmt: skip
    limit = _limited(None, max_episode_steps)
    rest = [partial(make, **options, render_mode=render_mode) for _ in range(num_envs - 1)]
    makers: list[Callable[[], gym.Env[Any, Any]]] = [lambda: first, *rest]
    return SyncVectorEnv(
        [partial(_within, limit, one) for one in makers],
        autoreset_mode=_autoreset_mode(autoreset_mode),
    )


def _within(limit: int | None, make: Callable[[], gym.Env[Any, Any]]) -> gym.Env[Any, Any]:
    return make() if limit is None else TimeLimit(make(), limit)


def _limited(limit: int | None, steps: int | None) -> int | None:
    """The shorter of an environment's own limit and the ``max_episode_steps`` that Gymnasium hands
    to vector environments; -1, as in ``gym.make``, asks for none."""
    if steps is None or steps == -1:
        return limit
    check_whole("max_episode_steps", steps, 1)
    return steps if limit is None else min(limit, steps)
