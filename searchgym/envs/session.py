"""``Session``: one episode driven from outside, such as by another framework's rollout loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..core.episode import Episode, run_tools
from ..core.state import cut_hits
from ..core.trajectory import evidence_recall
from ..dialects.base import get_dialect
from ..errors import DialectError, EpisodeError, unknown
from ..types import (
    Access,
    Action,
    Answer,
    Call,
    Failure,
    Invalid,
    Page,
    Search,
    ToolResult,
    ToolSpec,
)
from .search import SearchEnv
from .unwrap import search_env

METRICS = (
    "em", "f1", "cover_em", "format", "evidence_recall", "searches", "turns", "answered",
    "truncated", "infra_error",
)  # fmt: skip
"""Keys of ``Session.metrics``, the same however an episode ends. Those of the answer are 0 where
none was given; ``evidence_recall`` is 0 where the task names no evidence."""

_ROLES = {"instructions": "system", "question": "user"}
"""Roles in a chat of the parts of an episode's beginning."""

_TAKES = {"search": "query", "access": "url"}
"""The argument of each of ``OWN_ACTIONS``."""


class Step(NamedTuple):
    """Result of a step: the environment's new text, the turn's reward, whether the episode is
    over."""

    text: str
    reward: float
    done: bool


class Session:
    """One episode of an environment, for loops that act on it from outside.

    A loop that writes texts calls :meth:`step`; one whose model calls tools natively calls
    :meth:`call` and, at the end, :meth:`answer`. Once the episode is over, all three change
    nothing. A session pickles by its environment's keywords and the episode's log, so it may be
    sent to another process in the middle of an episode.

    Args:
        env: An environment, wrapped or not, its id, or a Gymnasium spec.
        task_id: Which task; by default the curriculum chooses.
        key: Seed of everything random in the episode.
        params: Difficulty, over the environment's.
        search_enabled: False plays closed-book; by default as the environment says.
        episode_id: The episode's name; by default made from ``key``.

    Raises:
        CardError: an unknown task, ``params`` that cannot act, a ``key`` or ``search_enabled`` of
            another kind, or a wrapper without effect here.
    """

    def __init__(
        self,
        env: Any,
        task_id: str | None = None,
        *,
        key: int = 0,
        params: Mapping[str, float] | None = None,
        search_enabled: bool | None = None,
        episode_id: str | None = None,
    ) -> None:
        self.env: SearchEnv = search_env(env)
        self.episode: Episode = self.env.start(
            key,
            task=None if task_id is None else self.env.task(task_id),
            params=params,
            search_enabled=search_enabled,
            episode_id=episode_id,
        )

    # --- what the policy is asked -------------------------------------------------------------
    @property
    def prompt(self) -> str:
        """Prompt that the policy sees now, as one text."""
        return self.episode.observation(self.episode.contexts.active)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The beginning as chat messages: the instructions as ``system``, the question as
        ``user``. A whole prompt (``instructions`` with ``{question}``, or a published one) is the
        user's alone."""
        start = self.episode.contexts.segments[:2]
        return [
            {"role": _ROLES[segment.kind], "content": segment.text.strip()}
            for segment in start
            if segment.kind in _ROLES
        ]

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that :meth:`call` may name, with JSON schemas of their arguments."""
        config = self.episode.config
        return config.rules.tools if config.search_enabled else ()

    @property
    def done(self) -> bool:
        """True if the episode is over."""
        return self.episode.phase == "done"

    # --- acting -------------------------------------------------------------------------------
    def step(self, text: str) -> Step:
        """Let a text of the policy act, in the environment's dialect."""
        if not isinstance(text, str):
            raise TypeError(f"an action is a string, got {type(text).__name__}: {text!r:.80}")
        if self.done:
            return Step("", 0.0, True)
        self.episode.act(text)
        run_tools((self.episode,), self.env.toolbox)
        if self.done:
            self.env.ended(self.episode)
        return Step(self.episode.delta, self.episode.turns[-1].reward, self.done)

    def call(self, tool: str, args: Mapping[str, Any]) -> str:
        """Call a tool and return its result as plain text, without the dialect's wrapper: for
        frameworks that wrap results themselves. A call that the rules forbid, or one without the
        arguments that the tool needs, takes a turn and returns why.

        Raises:
            EpisodeError: the dialect has no way to say the call; ``dialect="json_tools"`` has.
            TypeError: ``args`` is no mapping.
        """
        if not isinstance(args, Mapping):
            raise TypeError(
                "the arguments of a call are a mapping, e.g. {'query': 'river'}, got "
                f"{type(args).__name__}: {args!r:.80}"
            )
        if self.done:
            return ""
        schemas = {spec.name: spec.parameters for spec in self.tools}
        if tool not in schemas:
            return self._refused(tool, args, unknown("tool", tool, schemas))
        name = _TAKES.get(tool)
        if name is None or not isinstance(args.get(name), str):
            from ..utils.arguments import argument_error

            why = argument_error(schemas[tool], args)
            if name is not None:
                why = why or f"the argument {name!r} is missing"
            if why is not None:
                return self._refused(tool, args, f"{tool}: {why}")
        action: Action = Call(tool, dict(args))
        if name is not None:
            action = Search((args[name],)) if tool == "search" else Access(args[name])
        turns = len(self.episode.turns)
        try:
            said = self._said(action)
        except DialectError as error:  # an empty query, a number too large, …
            return self._refused(tool, args, str(error))
        self.step(said)
        turn = self.episode.turns[turns]
        if isinstance(turn.action, Invalid):
            return turn.action.reason
        shown = [self._plain(result) for result in turn.results]
        return "\n\n".join(shown) if shown else self.episode.delta.strip()

    def _refused(self, tool: str, args: Mapping[str, Any], why: str) -> str:
        """Take a turn like any other that is no action; returns ``why``."""
        called = json.dumps({"name": tool, "arguments": dict(args)}, default=str)
        self.step(called.replace("<", "\\u003c"))  # no tag within it acts
        return why

    def answer(self, text: str) -> Step:
        """End the episode with an answer.

        Raises:
            TypeError: it is no text.
            DialectError: it is empty.
        """
        if not isinstance(text, str):
            raise TypeError(f"an answer is a string, got {type(text).__name__}: {text!r:.80}")
        return Step("", 0.0, True) if self.done else self.step(self._said(Answer(text)))

    def _said(self, action: Action) -> str:
        dialect = get_dialect(self.episode.config.rules.dialect)
        if type(action) not in dialect.renders:
            raise EpisodeError(
                f"the dialect {dialect.name!r} cannot say {type(action).__name__}; make "
                "the environment with dialect='json_tools'"
            )
        return dialect.render_action(action)

    def _plain(self, result: ToolResult | Failure) -> str:
        if isinstance(result, Failure):
            return f"The tool failed: {result.message}"
        rules = self.episode.config.rules
        page: Page | None = result.meta.get("page")
        texts = [part if isinstance(part, str) else part.alt for part in result.parts]
        if page is not None:
            texts.append(f"{page.title}\n{page.text}"[: rules.page_chars])
        texts += [
            f"[{place}] {hit.passage.title}\n{hit.passage.text}"
            for place, hit in enumerate(cut_hits(result.hits, rules.snippet_chars), 1)
        ]
        return "\n\n".join(texts) or "Nothing was found."

    # --- how it went --------------------------------------------------------------------------
    @property
    def reward(self) -> float | None:
        """The return so far; ``None`` where the infrastructure, not the policy, failed."""
        outcome = self.episode.outcome()
        if outcome is not None and outcome.end == "infra_error":
            return None
        return float(sum(turn.reward for turn in self.episode.turns))

    @property
    def metrics(self) -> dict[str, float]:
        """Measures of the episode as it stands; the keys are always :data:`METRICS`."""
        outcome, recall = self.episode.outcome(), evidence_recall(self.episode)
        parts = outcome.parts if outcome is not None else {}
        end = outcome.end if outcome is not None else ""
        measures = {
            "evidence_recall": 0.0 if recall != recall else recall,
            "searches": float(self.episode.queries),
            "turns": float(len(self.episode.turns)),
            "answered": float(end == "answered"),
            "truncated": float(self.episode.truncated),
            "infra_error": float(end == "infra_error"),
        }
        return {name: measures.get(name, float(parts.get(name, 0.0))) for name in METRICS}

    def snapshot(self) -> dict[str, Any]:
        """The episode as JSON values, with its split; :meth:`restore` continues it."""
        return self.env.recorded(self.episode)

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue the episode of a snapshot, in the split that it was taken in, without any
        outside call.

        Raises:
            EpisodeError: the snapshot's task is none of the environment's.
        """
        self.env, self.episode = self.env.continued(snapshot)

    def __getstate__(self) -> dict[str, Any]:
        return {"env": self.env, "episode": self.snapshot()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.env = state["env"]
        self.episode = self.env.restored(state["episode"])
