"""``SearchEnv``: one episode at a time behind Gymnasium's ``Env``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from ..curricula import make_curriculum
from ..dialects.base import get_dialect
from ..drive import run_tools
from ..episode import Episode
from ..errors import CardError, EpisodeError
from ..oracle import oracle_texts
from ..spaces import FreeText
from ..types import TurnRequest
from .info import step_info
from .observe import MAX_TEXT, view_of
from .render import print_turn, transcript
from .setting import Setting, setting
from .start import start_episode, tell


class SearchEnv(gym.Env[Any, str]):
    """Ask, read, ask again, answer.

    Observation: the visible context as text (instructions, question, own actions, results), or
    with ``observation="messages"`` as a chat with tool schemas (``searchgym.messages``).
    Action: the policy's text in the environment's dialect; any string is legal input, and one that
    is no action earns a corrective observation and costs a turn.
    Reward: weighted named parts, see ``info["reward_parts"]``; default 1 for an exact match.
    ``terminated``: answered (or refused). ``truncated``: a budget ran out. Never both.

    Keywords are those of :class:`searchgym.envs.setting.Options`, and ``curriculum`` (a name,
    ``{"use": name or import path, …}`` or an object), ``search_enabled`` (False: closed-book
    episodes), ``params`` (difficulty: axes of ``searchgym.curricula.AXES`` and other parameters),
    ``render_mode``.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (as in Gymnasium)
        "render_modes": ["ansi", "human"],
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
            raise CardError(f"render_mode must be 'ansi' or 'human', got {render_mode!r}")
        self.render_mode = render_mode
        self.setting: Setting = setting(options)
        self.curriculum = make_curriculum(curriculum)
        self.search_enabled = search_enabled
        self.params = dict(params or {})
        self.action_space = FreeText(MAX_TEXT)
        self.observation_space, self._observe = view_of(observation)
        self._episode: Episode | None = None

    @property
    def episode(self) -> Episode:
        """The current episode; ``EpisodeError`` before the first ``reset``."""
        if self._episode is None:
            raise EpisodeError("no episode yet; call reset() first")
        return self._episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. ``seed`` (or ``options["task_id"]``) determines the task."""
        super().reset(seed=seed)
        key = int(self.np_random.integers(1 << 62))
        self._episode = start_episode(
            self.setting, self.curriculum, key, options, self.search_enabled, self.params
        )
        if self.render_mode == "human":
            self.render()
        return self._observe(self._episode), step_info(self._episode)

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Let the policy's text act; tools run at once."""
        if not isinstance(action, str):
            raise TypeError(f"an action is a string, got {type(action).__name__}: {action!r:.80}")
        episode = self.episode
        if episode.phase == "done":
            raise EpisodeError("the episode is over; call reset()")
        episode.act(action)
        run_tools((episode,), self.setting.toolbox)
        if episode.phase == "done":
            tell(self.curriculum, episode)
        if self.render_mode == "human":
            self.render()
        return (
            self._observe(episode),
            episode.turns[-1].reward,
            episode.terminated,
            episode.truncated,
            step_info(episode),
        )

    def render(self) -> str | None:
        """``ansi``: the transcript as text. ``human``: print what is new, with colours."""
        if self.render_mode == "ansi":
            return transcript(self.episode)
        if self.render_mode == "human":
            print_turn(self.episode)
        return None

    # --- beyond Gymnasium ---------------------------------------------------------------------
    def oracle(self) -> list[str]:
        """Action strings that solve the current episode from where it stands (privileged)."""
        return oracle_texts(self.episode, self.setting.corpus.passage)

    def requests(self) -> tuple[TurnRequest, ...]:
        """What the policy is asked now, as segments; for agents that read records."""
        return self.episode.requests()

    def fork(self, *, at: int | None = None, branch: int | None = None) -> SearchEnv:
        """An environment whose episode is a fork of this one's; setting and curriculum are shared,
        difficulty parameters are its own from here on."""
        copy = object.__new__(type(self))
        copy.__dict__.update({k: v for k, v in self.__dict__.items() if k != "_episode"})
        copy._np_random, copy._np_random_seed = None, None
        copy.params = dict(self.params)
        copy._episode = self.episode.fork(at=at, branch=branch)
        return copy

    def snapshot(self) -> dict[str, Any]:
        """The current episode as JSON values."""
        return self.episode.snapshot()

    def restore(self, snapshot: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Continue an episode from its snapshot, without any outside call."""
        own = get_dialect(self.setting.rules.dialect)
        self._episode = episode = Episode.restore(snapshot, dialect=own)
        return self._observe(episode), step_info(episode)

    def set_params(self, **params: float) -> None:
        """Difficulty parameters from the next reset on."""
        self.params.update(params)

    def __getstate__(self) -> dict[str, Any]:
        """Pickling goes by recipe: the copy shares or rebuilds the setting and replays."""
        state = dict(self.__dict__)
        state["setting"] = self.setting.keywords
        state["_episode"] = self._episode.snapshot() if self._episode else None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        snapshot = state["_episode"]
        self.__dict__.update(state)
        self.setting = setting(state["setting"])
        own = get_dialect(self.setting.rules.dialect)
        self._episode = Episode.restore(snapshot, dialect=own) if snapshot else None
