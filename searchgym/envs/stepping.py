"""Environments whose wrappers, or whose own class, act in ``step`` and ``reset``, played through
these two.

What plays episodes (evaluation, trainers) asks an episode for its requests and lets it act. An
episode of here shows what the wrappers show, and hands each text to ``step`` of a copy of the
environment with all its wrappers: an action that a wrapper rewrites acts as rewritten, and the
reward that a wrapper returns is the turn's. So nothing that plays episodes needs to know of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from numbers import Integral
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import wrappers

from ..core.episode import Episode
from ..core.replay import config_of_fork
from ..core.rules import EpisodeConfig, Rules
from ..dialects.base import get_dialect
from ..errors import CardError, EpisodeError, RewardError
from ..rewards.part import number
from ..types import End, Failure, Segment, ToolCall, TurnRequest
from .search import SearchEnv

QUEUES = ("return_queue", "length_queue", "time_queue")
"""Queues of ``RecordEpisodeStatistics``; all copies write to the same."""


class SteppedEnv(SearchEnv):
    """Begins episodes that are played on copies of ``outer``, an environment with its wrappers.

    Episodes that are played at the same time need a copy each, as in a vector environment: a
    wrapper's state lasts from episode to episode, but what it notes stays in its copy. Only
    ``RecordEpisodeStatistics`` sees all episodes.
    """

    outer: gym.Env[Any, Any]
    layers: tuple[Any, ...]
    """The wrappers, from the outermost, and the environment's class where it is a subclass."""
    _idle: list[EnvCopy]

    @classmethod
    def of(cls, outer: gym.Env[Any, Any], layers: Sequence[Any], inner: SearchEnv) -> SteppedEnv:
        """Return the environment that begins episodes of ``inner`` within ``layers``."""
        env = object.__new__(cls)
        env.__dict__.update(inner.copy().__dict__)
        own = () if type(inner) is SearchEnv else (type(inner),)
        env.outer, env.layers, env._idle = outer, (*layers, *own), []
        return env

    def start(self, key: int, **how: Any) -> Episode:
        return self._stage().open(key, how)

    def _rewarding(self, rules: Rules) -> Rules:
        inner: Any = self.outer.unwrapped
        own: Rules = inner._rewarding(rules)
        return own

    def _stage(self) -> EnvCopy:
        """An idle copy of the environment, or a new one, as this one stands."""
        try:
            stage = self._idle.pop()
        except IndexError:
            stage = EnvCopy(self)
        stage.env, inner = self, stage.inner
        inner.setup, inner.curriculum, inner.params = self.setup, self.curriculum, self.params
        inner.search_enabled, inner.time_limit = self.search_enabled, self.time_limit
        inner.reward_transforms = self.reward_transforms
        return stage

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_idle": []}


class EnvCopy:
    """A copy of an environment with its wrappers, and the episode that is played on it."""

    def __init__(self, env: SteppedEnv) -> None:
        self.env = env
        inner: Any = env.outer.unwrapped
        kind: Any = type(inner)
        inside: Any = inner.copy()
        inside.__class__ = _staged(kind)
        inside.stage = self
        self.inner: SearchEnv = inside
        self.inside = False
        """True while ``step`` or ``reset`` runs: what it does to the episode is the episode's."""
        self.key: Any = 0
        self.given: dict[str, Any] | SteppedEpisode | None = None
        """Arguments of the next episode, or itself; ``None`` once it has begun."""
        self.episode: SteppedEpisode | None = None
        shared = [inner.curriculum, *(getattr(layer, "_cached_spec", None) for layer in env.layers)]
        for layer in env.layers:
            if isinstance(layer, wrappers.RecordEpisodeStatistics):
                shared += [getattr(layer, name) for name in QUEUES]
        known = {id(inner): self.inner, **{id(one): one for one in shared}}
        try:
            self.outer: gym.Env[Any, Any] = copy.deepcopy(env.outer, known)
        except Exception as error:
            raise CardError(
                f"{type(env.outer).__name__} cannot be copied, and episodes that are played at a "
                f"time need a copy of the wrappers each: give it __deepcopy__ ({error!r:.200})"
            ) from error

    def open(self, key: Any, given: dict[str, Any] | SteppedEpisode) -> SteppedEpisode:
        """Begin an episode by ``reset``: that of a key and of what ``SearchEnv.start`` takes
        besides, or one that is given."""
        self.given, self.key, self.episode = given, key, None
        seed = int(key) % (1 << 31) if isinstance(key, Integral) else None
        self.inside = True
        try:
            shown, _ = self.outer.reset(seed=seed)
        finally:
            self.inside = False
        episode: SteppedEpisode | None = self.episode
        if episode is None:
            raise CardError(f"reset of {type(self.outer).__name__} begins no episode of SearchEnv")
        episode.origin, episode.stage, episode.shown_last = self.env, self, shown
        if episode.turns:  # a wrapper has acted before the policy does
            episode.amend(len(episode.turns), "", 0.0)
        return episode

    def begin(self, start: Callable[..., Episode], key: int, how: dict[str, Any]) -> Episode:
        """The episode that is due; further ones that wrappers ask for are their own business."""
        given, self.given = self.given, None
        if given is None:
            return start(key, **how)
        if isinstance(given, dict):
            params = {**(given.get("params") or {}), **(how.get("params") or {})}
            asked = {name: value for name, value in how.items() if value is not None}
            given = SteppedEpisode(start(self.key, **{**given, **asked, "params": params}).config)
        self.episode = given
        return given

    def step(self, episode: SteppedEpisode, text: str) -> None:
        """Let a text act, and the episode hold what the wrappers made of it."""
        turns, segments = len(episode.turns), len(episode.contexts.segments)
        self.inside = True
        try:
            shown, paid, terminated, truncated, _ = self.outer.step(text)
        finally:
            self.inside = False
        if (reward := number(paid)) is None:
            raise RewardError(
                f"step of {type(self.outer).__name__} must return a finite number as the reward, "
                f"and returned {paid!r:.80}"
            )
        if episode.phase != "done" and self.inner._episode is not episode:
            raise EpisodeError(
                f"step of {type(self.outer).__name__} began another episode before this one's end"
            )
        episode.said.append((turns, text))
        new = episode.turns[turns:]
        own = [s.text for s in episode.contexts.segments[segments:] if s.author == "policy"]
        if own and not (len(own) == 1 and text.startswith(own[0])):
            episode.rewritten = True
        end: End | None = None
        if episode.end is None:
            if terminated:
                end = "unanswered"
            elif truncated or (len(episode.said) >= episode.config.rules.max_turns and not new):
                end = "max_turns"
        if not new and end is None:
            episode.owed += reward
        else:
            reward, episode.owed = reward + episode.owed, 0.0
            as_it_was = len(new) == 1 and text.startswith(new[0].text) and reward == new[0].reward
            if end is not None or not as_it_was:
                episode.amend(len(new), text, reward, end)
        episode.shown_last = shown
        if episode.phase == "done":
            self.leave()

    def leave(self) -> None:
        """Be free for another episode."""
        if self.episode is not None:
            self.episode.stage, self.episode = None, None
            self.env._idle.append(self)


class _Staging(SearchEnv):
    """The environment inside a stage: its next episode is the stage's to choose."""

    stage: EnvCopy

    def start(self, key: int, **how: Any) -> Episode:
        return self.stage.begin(super().start, key, how)

    def ended(self, episode: Episode) -> None:
        """Leave it to what plays: it reports the end once the wrappers have said their word."""


@lru_cache
def _staged(kind: type[SearchEnv]) -> type[SearchEnv]:
    return type(kind.__name__, (_Staging, kind), {"__module__": kind.__module__})


class SteppedEpisode(Episode):
    """An episode whose policy reads what the wrappers show and acts by their ``step``."""

    __slots__ = ("_replies", "origin", "owed", "rewritten", "said", "shown_last", "stage")

    def __init__(self, config: EpisodeConfig, *, parent: tuple[str, int] | None = None) -> None:
        self.origin: SteppedEnv | None = None
        self.stage: EnvCopy | None = None
        """The copy of the environment it is played on, while it runs."""
        self.said: list[tuple[int, str]] = []
        """The texts that acted, each with the number of turns before it."""
        self.rewritten = False
        """True if an action in the context is not what the policy wrote."""
        self.owed = 0.0
        """Reward of texts that led to no turn."""
        self.shown_last: Any = None
        """The observation as the wrappers show it."""
        self._replies: list[tuple[str, list[Any]]] = []
        super().__init__(config, parent=parent)

    def requests(self) -> tuple[TurnRequest, ...]:
        asked = super().requests()
        if not asked or self.stage is None or self.stage.inside:
            return asked
        own = self.stage.inner.observe(self)
        return (as_shown(asked[0], own, self.shown_last, rewritten=self.rewritten),)

    def act(self, text: str, *, context: int | None = None) -> tuple[ToolCall, ...]:
        stage, due = self.stage, self.phase == "act" and context in (None, self.contexts.active)
        if stage is not None and not stage.inside and due:
            stage.step(self, text)
            return ()
        super().act(text, context=context)
        if self._replies and self._replies[0][0] == text:  # a fork: tools have answered before
            for results in self._replies.pop(0)[1]:
                self.receive(results)
        else:
            self._replies = []
        return self.pending

    def fail(self, failure: Failure) -> None:
        super().fail(failure)
        if self.stage is not None:
            self.stage.leave()

    def fork(self, *, at: int | None = None, branch: int | None = None) -> Episode:
        """Copy, as of :class:`Episode`: the texts act again on another copy of the environment, and
        tools answer as they did."""
        assert self.origin is not None
        at, config = config_of_fork(self, at, branch)
        made = SteppedEpisode(config, parent=(self.config.episode_id, at))
        for kind, *told in self.events:
            if kind == "act":
                made._replies.append((told[1], []))
            elif kind == "receive":
                made._replies[-1][1].append(told[0])
        stage = self.origin._stage()
        stage.open(config.seed, made)
        for turns, text in self.said:
            if turns >= at or made.phase == "done":
                break
            stage.step(made, text)
        made._replies = []
        return made


# --- what a policy reads ------------------------------------------------------------------------
def as_shown(request: TurnRequest, own: Any, shown: Any, *, rewritten: bool = False) -> TurnRequest:
    """Return a request as the wrappers show it.

    Args:
        request: The request of the episode inside.
        own: The observation of the environment inside.
        shown: The observation that the wrappers return: a text, a chat or several of them.
        rewritten: True if the policy's actions stand in the context otherwise than it wrote them.

    Raises:
        CardError: the observation is nothing that an agent could read.
    """
    if isinstance(shown, Mapping) and "messages" in shown:
        if shown != own:
            return _of_chat(request, shown)
        segments = request.segments
    else:
        text = _text(shown)
        segments = request.segments
        if text != own:
            segments = _aligned(segments, text)
            rewritten |= any(s.rewritten for s in segments)
    if rewritten:  # all or none: those that stay are told apart by their order
        segments = tuple(
            s._replace(rewritten=True) if s.author == "policy" else s for s in segments
        )
    return request._replace(segments=segments)


def _text(shown: Any) -> str:
    if isinstance(shown, str):
        return shown
    if isinstance(shown, Mapping) and "messages" in shown:
        return "\n\n".join(str(message.get("content", "")) for message in shown["messages"])
    if isinstance(shown, (tuple, list)) or (
        isinstance(shown, np.ndarray) and shown.dtype.kind in "OU"
    ):
        return "\n\n".join(text for one in shown if (text := _text(one)))
    raise CardError(
        f"the wrappers show {type(shown).__name__}, and agents read texts or chats: evaluate and "
        "train without the wrapper that makes numbers of them"
    )


def _aligned(segments: Sequence[Segment], text: str) -> tuple[Segment, ...]:
    """The segments of a context that reads ``text``: those that stand in it as they are at its
    beginning and end, and between them the others, as far as they can be told apart."""
    texts = [s.text for s in segments]
    first, begin, last, end = 0, 0, len(texts), len(text)
    while first < last and text.startswith(texts[first], begin):
        begin, first = begin + len(texts[first]), first + 1
    while last > first and len(texts[last - 1]) <= end - begin and text.endswith(
        texts[last - 1], begin, end
    ):  # fmt: skip
        end, last = end - len(texts[last - 1]), last - 1
    changed, body = segments[first:last], text[begin:end]
    between: list[Segment] = []
    if changed and len(body) == sum(map(len, texts[first:last])):  # such as other letters
        at = 0
        for segment, was in zip(changed, texts[first:last], strict=True):
            now, at = body[at : at + len(was)], at + len(was)
            between.append(segment if now == was else _with_text(segment, now))
    elif body or len(segments) == len(changed):
        kinds = [s.kind for s in changed]
        kind = "question" if "question" in kinds else "note"
        lost = any(s.author == "policy" for s in changed)
        where = segments[0].context
        between.append(Segment(f"w{first}", where, "env", kind, (body,), rewritten=lost))
    return (*segments[:first], *between, *segments[last:])


def _with_text(segment: Segment, text: str) -> Segment:
    own = segment.author == "policy"
    return segment._replace(parts=(text,), hits=(), asked="", rewritten=own)


_KINDS = {"system": "instructions", "assistant": "action", "tool": "results"}


def _of_chat(request: TurnRequest, chat: Mapping[str, Any]) -> TurnRequest:
    from ..core.messages import text_of

    dialect = get_dialect(request.dialect)
    segments: list[Segment] = []
    for place, message in enumerate(chat["messages"]):
        own = message["role"] == "assistant"
        asked = any(s.kind == "question" for s in segments)
        kind = _KINDS.get(message["role"], "results" if asked else "question")
        text = text_of(message, dialect) if own else str(message["content"])
        author: Any = "policy" if own else "env"
        segments.append(Segment(f"w{place}", request.context, author, kind, (text,), rewritten=own))
    listed = {one["function"]["name"]: one["function"] for one in chat.get("tools", ())}
    tools = tuple(
        tool._replace(
            description=listed[tool.name].get("description", tool.description),
            parameters=listed[tool.name].get("parameters", tool.parameters),
        )
        for tool in request.tools
        if tool.name in listed
    )
    return request._replace(segments=tuple(segments), tools=tools)
