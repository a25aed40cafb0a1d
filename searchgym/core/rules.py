"""Rules that episodes share, the config of one, and the truncation of tool results to the rules'
limits: all that is fixed before an episode begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..dialects.base import Dialect, get_dialect, reference_from_json, reference_to_json
from ..errors import CardError, EpisodeError, check_known
from ..objects import is_number
from ..rewards.reward import Reward
from ..types import Page, Task, ToolSpec

TOKEN_COUNTERS = {
    "words": lambda text: len(text.split()),
    "chars/4": lambda text: (len(text) + 3) // 4,
}
"""Named counters for ``max_tokens``: a token budget means nothing without its counter."""


def name_of(function: Callable[..., Any]) -> str:
    """Module and name of a function, for records and errors."""
    own = getattr(function, "__func__", function)
    return f"{getattr(own, '__module__', '?')}:{getattr(own, '__qualname__', repr(own))}"


LEAST: Mapping[str, int] = {
    "k": 1, "max_turns": 1, "max_queries": 0, "max_parallel": 1, "max_chars": 1, "max_tokens": 1,
    "max_action_chars": 1, "snippet_chars": 1, "page_chars": 1, "page_stub_chars": 1,
    "max_retries": 0, "max_tasks": 1, "context_tokens": 1,
}  # fmt: skip
"""Whole numbers among the rules and an environment's options, and the least each may be."""
NONE_ALLOWED = frozenset(
    {"max_queries", "max_tokens", "snippet_chars", "page_stub_chars", "max_tasks", "context_tokens"}
)
SWITCHES = ("judge", "may_abstain", "one_search")
EXECUTOR, PLANNER = "executor", "planner"
_ROLE = re.compile(r"[a-z][a-z0-9_-]{0,31}")
MOST_ROLES, MOST_PROMPT = 16, 4_000


def check_numbers(options: object) -> None:
    """``CardError`` for the first attribute of ``LEAST`` that is no whole number or too small (a
    truth value is none), or of ``SWITCHES`` that is neither true nor false."""
    for name, least in LEAST.items():
        value = getattr(options, name, least)
        if value is None and name in NONE_ALLOWED:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            otherwise = " or None" if name in NONE_ALLOWED else ""
            raise CardError(f"{name} must be a whole number{otherwise}, got {value!r}")
        if value < least:
            raise CardError(f"{name} must be at least {least}, got {value}")
    for name in SWITCHES:
        checked_switch(name, getattr(options, name, False))


def check_delegate(delegate: Any, tools: Sequence[str]) -> None:
    """``CardError`` for what is neither a switch nor a table of roles."""
    if not isinstance(delegate, Mapping):
        if not isinstance(delegate, bool | np.bool_):
            raise CardError(
                "delegate is true, false or a table of roles, as in {web = {tools = ['search']}}; "
                f"got {delegate!r:.80}"
            )
        return
    names = [name for name in delegate if name != PLANNER]
    if not 1 <= len(names) <= MOST_ROLES:
        raise CardError(f"delegate names 1 to {MOST_ROLES} roles, got {len(names)}")
    for name, own in delegate.items():
        if not isinstance(name, str) or not _ROLE.fullmatch(name) or name in ("agent", "policy"):
            raise CardError(f"a role's name is a word in small letters, got {name!r:.80}")
        if not isinstance(own, Mapping):
            raise CardError(f"delegate.{name} is a table of tools and prompt, got {own!r:.80}")
        check_known(f"option of delegate.{name}", ("tools", "prompt", "evidence"), *own)
        share = own.get("evidence", 0)
        if not is_number(share) or not 0 <= share <= 1:
            raise CardError(f"delegate.{name}.evidence is a share in [0, 1], got {share!r:.80}")
        given, prompt = own.get("tools", ()), own.get("prompt", "")
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise CardError(f"delegate.{name}.tools is a list of names, got {given!r:.80}")
        check_known(f"tool of delegate.{name}", tools, *given)
        if not isinstance(prompt, str) or len(prompt) > MOST_PROMPT:
            raise CardError(f"delegate.{name}.prompt is a text of at most {MOST_PROMPT} characters")


def checked_switch(name: str, value: Any) -> bool:
    """The value of an option that is true or false; ``CardError`` for any other."""
    if not isinstance(value, bool | np.bool_):
        raise CardError(f"{name} must be true or false, got {value!r}")
    return bool(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """The rules that are options of an environment by the same names. Budgets live here, not in
    ``TimeLimit``."""

    dialect: Any = "search_r1"
    """A name, options appended with ``+``; ``"package.module:Class"``; ``{"use": either,
    **options}``; a class or an object (``searchgym.dialects.base.get_dialect``)."""
    instructions: str | None = None
    """A prompt in place of the dialect's: a text with ``{question}`` and other placeholders, or a
    published prompt's name (``searchgym.dialects.prompts``)."""
    k: int = 3
    """Hits per query."""
    max_turns: int = 6
    """Turns in all, the answer's included. Tools do not run in the last one: it must answer
    (Search-R1's ``max_turns`` is this number minus one)."""
    max_queries: int | None = None
    """Searches and tool calls in all; parallel queries count one by one. Opening a page is free."""
    max_parallel: int = 1
    """Queries within one turn."""
    max_chars: int = 1_000_000
    """Characters of all segments together."""
    max_tokens: int | None = None
    token_counter: str = "words"
    max_action_chars: int = 20_000
    """A longer action is invalid and kept only up to here."""
    snippet_chars: int | None = 4_000
    """Characters of each hit that are shown; ``None``: all."""
    page_chars: int = 25_000
    """Characters of an accessed page, or of a tool's own text, that are shown."""
    page_stub_chars: int | None = None
    """Number of characters that replace a page after it was shown in full for one turn (ASearcher's
    two-level observation); ``None`` keeps pages in full."""
    context_tokens: int | None = None
    """Number of tokens, as ``token_counter`` counts them, beyond which a context's oldest turns are
    hidden; its instructions, its question and its newest turn stay. ``None``: nothing is."""
    judge: bool = False
    delegate: bool | Mapping[str, Mapping[str, Any]] = False
    """True: sub-tasks may be handed to an ``"executor"``. A table: to these roles, by name, each
    with its ``tools`` (names; default: all), a ``prompt`` that takes the place of the first
    sentence of its instructions, and ``evidence``, a share in [0, 1]: passages that its reports
    carry (``core.state.reported``); under ``"planner"`` those of whoever is asked the question."""
    may_abstain: bool = False
    """True if the instructions offer to refuse."""
    one_search: bool = False
    """True if the first turn decides: a search ends the episode, its queries being the answer, and
    so does a text that is no action (query rewriting)."""
    max_retries: int = 2
    """Number of retries of a failed call before the episode ends with ``infra_error``."""


@dataclass(frozen=True, slots=True)
class Rules(RuleOptions):
    """The rules of every episode of an environment."""

    tools: tuple[ToolSpec, ...]
    reward: Reward = field(default_factory=lambda: Reward.of("em"), kw_only=True)
    needs_task: tuple[str, ...] = field(default=(), kw_only=True)
    """Tools played by a language model that is told the task (simulated engines)."""

    def __post_init__(self) -> None:
        check_numbers(self)
        check_delegate(self.delegate, [tool.name for tool in self.tools])
        if (self.max_tokens or self.context_tokens) and self.token_counter not in TOKEN_COUNTERS:
            known = ", ".join(TOKEN_COUNTERS)
            raise CardError(f"unknown token_counter {self.token_counter!r}; known: {known}")
        if self.instructions is not None:
            from ..dialects import prompts

            tools = [tool.name for tool in self.tools]
            prompts.check(self.instructions, get_dialect(self.dialect), tools)

    @property
    def delegates(self) -> Mapping[str, Mapping[str, Any]]:
        """Role → its options, of those to which sub-tasks may be handed."""
        if isinstance(self.delegate, Mapping):
            return {name: own for name, own in self.delegate.items() if name != PLANNER}
        return {EXECUTOR: {}} if self.delegate else {}

    def of_role(self, role: str) -> Mapping[str, Any]:
        """Options of a role: ``tools`` and ``prompt``."""
        named = self.delegate
        return named.get(role, {}) if isinstance(named, Mapping) else {}

    def to_json(self) -> dict[str, Any]:
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        if isinstance(self.delegate, Mapping):
            out["delegate"] = {name: dict(own) for name, own in self.delegate.items()}
        out["tools"] = [list(t) for t in self.tools]
        out["dialect"] = reference_to_json(self.dialect)
        out["needs_task"] = list(self.needs_task)
        out["reward"] = self.reward.to_json()
        return out

    @classmethod
    def from_json(
        cls,
        data: Mapping[str, Any],
        dialect: Dialect | None = None,
        reward: Any = None,
        *,
        trust: bool = False,
        scored: bool = True,
    ) -> Rules:
        """The inverse of :meth:`to_json`; for the dialect see ``reference_from_json``, for the
        reward :meth:`Reward.from_json`."""
        values = dict(data)
        values["dialect"] = reference_from_json(values["dialect"], dialect)
        values["tools"] = tuple(ToolSpec(*t) for t in values["tools"])
        values["needs_task"] = tuple(values["needs_task"])
        values["reward"] = Reward.from_json(values["reward"], reward, trust=trust, scored=scored)
        return cls(**values)


@dataclass(frozen=True, slots=True)
class EpisodeConfig:
    """Settings that determine an episode, given the policy's texts and the tools' results."""

    task: Task
    rules: Rules
    seed: int
    episode_id: str
    search_enabled: bool = True
    """False: this episode has no tools (closed-book members of a group)."""
    params: Mapping[str, float] = field(default_factory=dict)
    """Difficulty parameters, handed to every call."""
    told: bool = False
    """True if the environment's curriculum is told how the episode ends."""
    branch: int = 0
    """Distinguishes forks that ask for fresh noise."""
    time_limit: int | None = None
    """Turns after which the episode is truncated unannounced, as by Gymnasium's ``TimeLimit``:
    instructions do not speak of it and tools still run in the last turn."""
    reward_transforms: tuple[Callable[[float], float], ...] = ()
    """Functions applied to each turn's reward, in order, as by Gymnasium's ``TransformReward``.
    They are functions: a snapshot names them, and cannot be restored."""

    def to_json(self) -> dict[str, Any]:
        from ..tasks.records import task_to_dict

        out = {f.name: getattr(self, f.name) for f in fields(self)}
        if not self.told:
            del out["told"]
        out.update(
            task=task_to_dict(self.task),
            rules=self.rules.to_json(),
            params=dict(self.params),
            reward_transforms=[name_of(f) for f in self.reward_transforms],
        )
        return out

    @classmethod
    def from_json(
        cls,
        data: Mapping[str, Any],
        *,
        scored: bool = True,
        reward_transforms: Sequence[Callable[[float], float]] = (),
        **own: Any,
    ) -> EpisodeConfig:
        """The inverse of :meth:`to_json`; ``own``: dialect, reward and trust, see
        :meth:`Rules.from_json`.

        Raises:
            EpisodeError: recorded transforms of the reward that are not those given.
        """
        from ..tasks.records import task_from_dict

        values = dict(data)
        values["task"] = task_from_dict(values["task"])
        values["rules"] = Rules.from_json(values["rules"], scored=scored, **own)
        names = values.pop("reward_transforms", [])
        given = [name_of(function) for function in reward_transforms]
        if scored and list(names) != given:
            raise EpisodeError(
                f"the rewards of this episode were changed by {', '.join(names) or 'no wrapper'}, "
                f"which a record cannot hold, and the environment has "
                f"{', '.join(given) or 'no such wrapper'}: restore it in an environment with the "
                "same wrappers"
            )
        values["reward_transforms"] = tuple(reward_transforms) if scored else ()
        return cls(**values)


def page_parts(page: Page, rules: Rules) -> int:
    """Number of parts in which a page is read; at least one."""
    return max(1, -(-len(page.text) // rules.page_chars))


def show_part(page: Page, part: int, rules: Rules, dialect: Dialect) -> tuple[str, str | None]:
    """A part of a page (from 0), and the shorter text that replaces it once it has been read."""
    size, parts = rules.page_chars, page_parts(page, rules)
    shown = page.text[part * size : (part + 1) * size]
    text = dialect.render_page(page, shown, part=part + 1, parts=parts)
    if rules.page_stub_chars is None or len(shown) <= rules.page_stub_chars:
        return text, None
    short = shown[: rules.page_stub_chars]
    return text, dialect.render_stub(page.title, page.url, short, part=part + 1)
