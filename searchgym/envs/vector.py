"""``SearchVectorEnv``: many episodes, one call per tool and step for all of them."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ..curricula import make_curriculum
from ..drive import run_tools
from ..episode import Episode
from ..errors import CardError, EpisodeError
from ..oracle import oracle_texts
from ..spaces import FreeText
from ..types import ToolCall, TurnRequest
from .info import step_info
from .observe import MAX_TEXT, view_of
from .setting import Setting, setting
from .stack import stack_infos
from .start import start_episode, tell

Arrays = tuple[
    tuple[Any, ...], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]


class SearchVectorEnv(VectorEnv[tuple[Any, ...], Sequence[str], NDArray[Any]]):
    """``num_envs`` independent episodes with the same results as as many ``SearchEnv``s.

    ``step`` takes a sequence of strings. All tool calls of a step run as one batch. Slot i is
    seeded with ``seed + i``. All of Gymnasium's autoreset modes work; in ``DISABLED`` mode reset
    finished slots with ``reset(options={"reset_mask": mask})``.

    ``gc_freeze`` (default) moves what exists once the environment is built out of the garbage
    collector's sight (``gc.freeze``): a thousand slots make so many records that Python would
    otherwise walk the whole corpus and every loaded module every few steps, 0.1 s each time.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (as in Gymnasium)

    def __init__(
        self,
        num_envs: int = 1,
        *,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        curriculum: Any = None,
        search_enabled: bool = True,
        params: Mapping[str, float] | None = None,
        gc_freeze: bool = True,
        observation: str = "text",
        **options: Any,
    ) -> None:
        if num_envs < 1:
            raise CardError(f"num_envs must be at least 1, got {num_envs}")
        if render_mode not in (None, "ansi"):
            raise CardError(f"a vector environment renders 'ansi' only, got {render_mode!r}")
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.autoreset_mode = _autoreset_mode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self.setting: Setting = setting(options)
        self.curriculum = make_curriculum(curriculum)
        self.search_enabled = search_enabled
        self.params = dict(params or {})
        self.single_action_space = FreeText(MAX_TEXT)
        self.single_observation_space, self._observe = view_of(observation)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._episodes: list[Episode | None] = [None] * num_envs
        self._streams: list[np.random.Generator | None] = [None] * num_envs
        self._finished = [False] * num_envs
        if gc_freeze:
            gc.collect()
            gc.freeze()

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """The slots' current episodes; ``EpisodeError`` before the first ``reset``."""
        found = tuple(e for e in self._episodes if e is not None)
        if len(found) != self.num_envs:
            raise EpisodeError("no episodes yet; call reset() first")
        return found

    # --- reset --------------------------------------------------------------------------------
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Begin new episodes in all slots, or where ``options["reset_mask"]`` is true."""
        options = dict(options or {})
        mask = self._mask(options.pop("reset_mask", None))
        seeds = self._seeds(seed)
        infos: list[dict[str, Any] | None] = [None] * self.num_envs
        for i in range(self.num_envs):
            if mask[i]:
                infos[i] = self._begin(i, seeds[i], options)
        return self._observations(), stack_infos(infos)

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
        if len(seed) != self.num_envs:
            raise ValueError(f"got {len(seed)} seeds for {self.num_envs} environments")
        return seed

    def _begin(
        self, i: int, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        stream = self._streams[i]
        if seed is not None or stream is None:
            stream = self._streams[i] = seeding.np_random(seed)[0]
        key = int(stream.integers(1 << 62))
        episode = self._episodes[i] = start_episode(
            self.setting, self.curriculum, key, options, self.search_enabled, self.params
        )
        self._finished[i] = False
        return step_info(episode)

    def _observations(self) -> tuple[Any, ...]:
        return tuple([self._observe(e) for e in self.episodes])

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
        results = self.setting.toolbox.run(calls)
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
            run_tools([episodes[i] for i in retry], self.setting.toolbox)
            for i in retry:
                self._settle(i, episodes[i], False, out)
        observations = tuple(out.observations)
        return observations, out.rewards, out.terminated, out.truncated, stack_infos(out.infos)

    def _settle(self, i: int, episode: Episode, fresh: bool, out: _Columns) -> None:
        """Fill in slot i's results; reset it where the autoreset mode says so."""
        if fresh:
            out.infos[i] = self._begin(i)
        else:
            out.rewards[i] = episode.turns[-1].reward
            if episode.phase == "done":
                out.terminated[i], out.truncated[i] = episode.terminated, episode.truncated
                out.infos[i] = self._ended(i, episode)
            else:
                out.infos[i] = step_info(episode)
        current = self._episodes[i]
        assert current is not None
        out.observations[i] = self._observe(current)

    def _ended(self, i: int, episode: Episode) -> dict[str, Any]:
        tell(self.curriculum, episode)
        info = step_info(episode)
        if self.autoreset_mode != AutoresetMode.SAME_STEP:
            self._finished[i] = True
            return info
        last = self._observe(episode)
        return {**self._begin(i), "final_obs": last, "final_info": info}

    # --- beyond Gymnasium ---------------------------------------------------------------------
    def requests(self) -> list[TurnRequest]:
        """What each slot's policy is asked; slots that are over are left out."""
        return [request for e in self.episodes for request in e.requests()]

    def oracle(self) -> list[list[str]]:
        """Per slot, the actions that solve its episode from where it stands (privileged)."""
        return [oracle_texts(e, self.setting.corpus.passage) for e in self.episodes]

    def set_params(self, **params: float) -> None:
        """Difficulty parameters, from each slot's next reset on."""
        self.params.update(params)

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
    """The results of one step, a place per slot."""

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
