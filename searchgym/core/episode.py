"""One episode as a state machine without I/O.

``requests()`` returns the requests to the policy, ``act`` takes its text and returns tool calls,
``receive`` takes their results. The driver runs the calls: at once (single environment), in one
batch for many episodes (vector environment), or through a queue. An episode is its config plus the
log of its inputs, so fork, snapshot, resume and golden replay are one mechanism: replay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ..dialects.base import Dialect, Opening, View, get_dialect
from ..errors import EpisodeError
from ..rewards.outcome import Outcome, measures
from ..seeding import derive
from ..tools.base import Toolbox, state_text, states_of, with_own_state
from ..types import (
    TERMINAL,
    Access,
    Action,
    Answer,
    Call,
    CallContext,
    Delegate,
    End,
    Failure,
    Invalid,
    Judge,
    Opened,
    Page,
    Parsed,
    Search,
    ToolCall,
    ToolResult,
    Turn,
    TurnRequest,
)
from ..utils.trust import registered_only
from .contexts import Contexts, cut_hits
from .rules import TOKEN_COUNTERS, EpisodeConfig, page_parts, show_part

Phase = Literal["act", "receive", "done"]
SNAPSHOT_VERSION = 1


class Episode:
    """One question, from the first request to an answer or an exhausted budget.

    ``phase`` is ``"act"`` (text is awaited), ``"receive"`` (results of ``pending`` are awaited) or
    ``"done"``. Calling out of order raises ``EpisodeError``.
    """

    __slots__ = (  # thousands of episodes are alive at once
        "_asks", "_attempts", "_calls", "_dialect", "_events", "_gold", "_held", "_hidden",
        "_holds", "_left", "_news", "_open", "_pages_read", "_results", "_rules", "_state_keys",
        "_tool_names", "_tool_state", "_tools", "_weights", "answer", "config", "contexts", "end",
        "new_evidence",
        "parent", "parts", "pending", "phase", "queries", "retries", "seen", "turns",
    )  # fmt: skip

    def __init__(self, config: EpisodeConfig, *, parent: tuple[str, int] | None = None) -> None:
        self.config = config
        self.parent = parent
        self.phase: Phase = "act"
        self.turns: list[Turn] = []
        self.queries = 0
        self.retries = 0
        self.pending: tuple[ToolCall, ...] = ()
        self.seen: dict[str, None] = {}
        """Ids of all passages shown so far, in order."""
        self._rules = config.rules
        self._dialect: Dialect = get_dialect(self._rules.dialect)
        self._weights = self._rules.reward.effective(config.params)
        self._hidden = self._rules.reward.hidden(self._weights)
        self._holds = self._rules.reward.holds
        self._held = 0.0  # reward of turns that a final gate keeps until the end
        self._gold = frozenset(config.task.evidence)
        self._left = set(self._gold)
        self._events: list[tuple[Any, ...]] = []
        self._open: Opened | None = None
        self._calls: tuple[ToolCall, ...] = ()
        self._results: list[Any] = []
        self._attempts = 0
        self._tool_state: dict[str, str] = {}  # JSON texts
        self._pages_read: dict[str, int] = {}
        self._news = 0
        self.end: End | None = None
        """Reason it ended; ``None`` while it runs."""
        self.answer = ""
        """The answer; empty until it is given."""
        self.parts: dict[str, float] | None = None
        """The measures of the finished episode (:attr:`Outcome.parts`); ``None`` while it runs."""
        self.new_evidence = 0
        """Gold passages that the turn which is being measured showed for the first time."""
        self._tools = self._rules.tools if config.search_enabled else ()
        self._tool_names = frozenset(t.name for t in self._tools)
        self._state_keys = {t.name: t.shares for t in self._tools if t.shares}
        self._asks = not self._tool_names <= {"access"}
        self.contexts = Contexts()
        role = "planner" if self._rules.delegate else "agent"
        self.contexts.open(role)
        self._introduce(config.task.question, "question")

    # --- asking -------------------------------------------------------------------------------
    @property
    def turns_left(self) -> int:
        return self._rules.max_turns - len(self.turns)

    @property
    def queries_left(self) -> int | None:
        """Searches and tool calls still allowed; ``None``: unlimited; 0 also when there is nothing
        to ask or time is up."""
        rules = self._rules
        if not self._asks or rules.max_turns - len(self.turns) <= 1:
            return 0
        limit = rules.max_queries
        return None if limit is None else limit - self.queries

    def requests(self) -> tuple[TurnRequest, ...]:
        """Requests to the policy now: one request while ``phase == "act"``, else none."""
        if self.phase != "act":
            return ()
        top, rules = self.contexts.active, self._rules
        return (
            TurnRequest(
                self.config.episode_id,
                len(self.turns),
                top,
                self.contexts.role(top),
                self.contexts.visible(top),
                "",
                self._dialect.stop,
                self._tools,
                None,
                rules.dialect if isinstance(rules.dialect, str) else self._dialect,
                self.turns_left,
                self.queries_left,
                rules.max_parallel,
                rules.may_abstain,
                rules.max_queries if self._asks else 0,
            ),
        )

    def observation(self, context: int = 0) -> str:
        """The visible part of a context as one text."""
        return self.contexts.render(context)

    def shown(self) -> str:
        """The visible part of the context whose turn it is."""
        return self.contexts.render(self.contexts.active)

    @property
    def delta(self) -> str:
        """Text the environment wrote since the policy's last action (stubs are old news)."""
        new = self.contexts.segments[self._news :]
        if len(new) == 1:
            parts = new[0].parts
            only = parts[0] if len(parts) == 1 else None
            return only if isinstance(only, str) else new[0].text
        return "".join([s.text for s in new if s.kind != "stub"])

    def _view(self) -> View:
        rules, role = self._rules, self.contexts.role(self.contexts.active)
        return View(
            tools=self._tools,
            max_parallel=rules.max_parallel,
            k=rules.k,
            turns_left=self.turns_left,
            queries_left=self.queries_left,
            judge=rules.judge,
            delegate=rules.delegate and role == "planner",
            role=role,
            may_abstain=rules.may_abstain,
        )

    def _introduce(self, text: str, kind: str) -> None:
        # an executor's part is the dialect's to explain: a prompt speaks of the whole question
        prompt = self._rules.instructions if kind == "question" else None
        dialect, view = self._dialect, self._view()
        if prompt is None:
            opening = Opening(dialect.instructions(view), dialect.question(text), False)
        else:
            from ..dialects.prompts import opening_of

            opening = opening_of(prompt, dialect, view, text)
        if opening.instructions or not opening.whole:
            self.contexts.add("env", "instructions", opening.instructions)
        asked = text if opening.whole else ""
        self.contexts.add("env", kind, opening.question, asked=asked)

    # --- acting -------------------------------------------------------------------------------
    def act(self, text: str, *, context: int | None = None) -> tuple[ToolCall, ...]:
        """Take the policy's text; return the calls to run. ``()`` means: nothing to run."""
        active = self.contexts.active
        if self.phase != "act" or (context is not None and context != active):
            raise EpisodeError(
                f"act(context={context}) while phase is {self.phase!r} and context {active} is "
                f"asked; look at requests() first"
            )
        self._events.append(("act", active, text))
        limit = self._rules.max_action_chars
        if len(text) > limit:
            text = text[:limit]
            parsed = Parsed(Invalid(f"the action is longer than {limit} characters"), (), limit)
        else:
            parsed = self._dialect.parse(text)
        action = self._legal(parsed.action)
        cut = parsed.cut if parsed.cut else len(text)
        kept = text if cut >= len(text) else text[:cut]
        ids = self.contexts.visible_ids(active)
        role = self.contexts.role(active)
        self._open = Opened(len(self.turns), active, role, ids, kept, action, parsed.spans)
        self.contexts.add("policy", "action", kept)
        self._news = len(self.contexts.segments)
        return self._dispatch(action)

    def fail(self, failure: Failure) -> None:
        """End the episode with ``infra_error`` because the agent cannot be reached."""
        if self.phase != "act":
            raise EpisodeError(f"fail() while phase is {self.phase!r}; it stands in for act()")
        self._events.append(("fail", (failure,)))
        active = self.contexts.active
        self._open = Opened(
            len(self.turns), active, self.contexts.role(active), self.contexts.visible_ids(active),
            "", Invalid(f"nobody acted: {failure.kind}"), (),
        )  # fmt: skip
        self._news = len(self.contexts.segments)
        self._close((), (failure,), end="infra_error")

    def _legal(self, action: Action) -> Action:
        """The action, or why the rules forbid it."""
        rules = self._rules
        if isinstance(action, Search):
            if "search" not in self._tool_names:
                return Invalid("search is not available in this episode")
            if len(action.queries) > rules.max_parallel:
                return Invalid(f"at most {rules.max_parallel} queries at once")
            left = rules.max_queries
            if left is not None and self.queries + len(action.queries) > left:
                return Invalid(f"the query budget allows {left - self.queries} more")
        elif isinstance(action, Access):
            if "access" not in self._tool_names:
                return Invalid("access is not available in this episode")
        elif isinstance(action, Call):
            from ..utils.arguments import rejection_reason

            if (wrong := rejection_reason(self._tools, action)) is not None:
                return Invalid(wrong)
            if rules.max_queries is not None and self.queries >= rules.max_queries:
                return Invalid("the query budget allows 0 more")
        elif isinstance(action, Judge):
            if not rules.judge or self.contexts.newest_results() is None:
                return Invalid("there is nothing to judge")
        elif isinstance(action, Delegate) and not (
            rules.delegate and self.contexts.role(self.contexts.active) == "planner"
        ):
            return Invalid("tasks cannot be delegated here")
        return action

    def _dispatch(self, action: Action) -> tuple[ToolCall, ...]:
        if isinstance(action, (Search, Access, Call)):
            if self._rules.max_turns - len(self.turns) <= 1:  # results could never be used
                self._close((), (), end="max_turns")
                return ()
            return self._call(action)
        if isinstance(action, Answer):
            self._answered(action)
        elif isinstance(action, Invalid):
            self.contexts.add("env", "invalid", self._dialect.render_invalid(action.reason))
            self._close((), (), end="unanswered" if self.self_search else None)
        elif isinstance(action, Judge):
            if not action.useful:
                self.contexts.hide_newest_results()
            self._close((), ())
        else:
            self.contexts.open("executor")
            self._introduce(action.task, "task")
            self._close((), ())
        return ()

    def _answered(self, action: Answer) -> None:
        if self.contexts.active == 0:
            self.answer = action.text
            self._close((), (), end="answered")
        else:  # an executor reports to the context that delegated
            self.contexts.close()
            self.contexts.add("env", "report", self._dialect.render_report(action.text))
            self._close((), ())

    def _call(self, action: Search | Access | Call) -> tuple[ToolCall, ...]:
        arguments: list[Mapping[str, Any]]
        if isinstance(action, Search):
            tool, arguments = "search", [{"query": query} for query in action.queries]
            self.queries += len(arguments)
        elif isinstance(action, Access):
            tool, arguments = "access", [{"url": action.url}]
        else:  # asks a service as a search does, so it counts as a query
            tool, arguments = action.tool, [action.args]
            self.queries += 1
        config, turn, active = self.config, len(self.turns), self.contexts.active
        states = self._tool_state
        kept = states.get(self._state_keys.get(tool, tool)) if states else None
        task = config.task if tool in self._rules.needs_task else None
        calls = []
        for i, given in enumerate(arguments):
            key = derive(config.seed, config.branch, active, turn, i, tool)
            state = None if kept is None else json.loads(kept)
            context = CallContext(key, config.episode_id, config.params, state, task)
            calls.append(ToolCall(tool, given, i, context))
        self.pending = self._calls = tuple(calls)
        self._results = [None] * len(calls)
        self._attempts = 0
        self.phase = "receive"
        return self.pending

    # --- receiving ----------------------------------------------------------------------------
    def receive(self, results: Sequence[ToolResult | Failure]) -> None:
        """Take the results of ``pending``, in order.

        Retryable failures leave the episode in ``"receive"`` with only the failed calls pending,
        at most ``max_retries`` times; then it ends with ``infra_error`` and reward 0. A retried
        call is the same call, key included, but for ``ctx.attempt``.
        """
        if self.phase != "receive":
            raise EpisodeError(f"receive() while phase is {self.phase!r}; call act() first")
        if len(results) != len(self.pending):
            raise EpisodeError(f"got {len(results)} results for {len(self.pending)} calls")
        for result in results:
            if type(result) is not ToolResult or result.state is not None:
                break
        else:  # the usual case: no failure, no state
            self._events.append(("receive", tuple(results)))
            for call, result in zip(self.pending, results, strict=True):
                self._results[call.position] = result
            self._observe(self._calls, self._results)
            return
        own: list[ToolResult | Failure] = []
        failed = []
        for call, result in zip(self.pending, results, strict=True):
            if isinstance(result, Failure):
                failed.append((call, result))
                own.append(result)
            else:  # a state is copied, so that nobody else can change it
                kept = result if result.state is None else with_own_state(call.tool, result)
                own.append(kept)
        self._events.append(("receive", tuple(own)))
        for call, result in zip(self.pending, own, strict=True):
            self._results[call.position] = result
        if not failed:
            self._observe(self._calls, self._results)
            return
        self._attempts += 1
        hopeless = any(not failure.retryable for _, failure in failed)
        if hopeless or self._attempts > self._rules.max_retries:
            self._close(self._calls, tuple(self._results), end="infra_error")
        else:
            self.retries += len(failed)
            self.pending = tuple(
                call._replace(ctx=call.ctx._replace(attempt=self._attempts)) for call, _ in failed
            )

    def _observe(self, calls: tuple[ToolCall, ...], results: list[ToolResult]) -> None:
        """Show the results of a turn and close it."""
        assert self._open is not None
        action = self._open.action
        for call, result in zip(calls, results, strict=True):
            if result.state is not None:
                key = self._state_keys.get(call.tool, call.tool)
                self._tool_state[key] = state_text(call.tool, result.state)
        if isinstance(action, Search):
            limit = self._rules.snippet_chars
            if len(results) == 1:
                hits = cut_hits(results[0].hits, limit)
                groups = [(action.queries[0], hits)]
            else:
                groups = [
                    (query, cut_hits(result.hits, limit))
                    for query, result in zip(action.queries, results, strict=True)
                ]
                hits = tuple(h for _, group in groups for h in group)
            self.contexts.add("env", "results", self._dialect.render_hits(groups), hits)
            shown_ids = [hit[0][0] for hit in hits]  # passage ids
            # documents written for the query name the gold passages that they stand for
            for result in results:
                if result.meta and result.hits:
                    shown_ids += result.meta.get("evidence", ())
        elif isinstance(action, Call):
            shown_ids = self._show_call(action, results[0])
        else:
            assert isinstance(action, Access)
            shown_ids = self._show_page(action.url.strip(), results[0].meta.get("page"))
        self.seen.update(dict.fromkeys(shown_ids))
        if self._left and (fresh := self._left.intersection(shown_ids)):
            self._left -= fresh
            self.new_evidence = len(fresh)
        self._close(calls, tuple(results))

    def _show_call(self, call: Call, result: ToolResult) -> list[str]:
        """Show a tool's output; ids of the passages it showed, or a fact of which the task uses."""
        text = "".join([p if isinstance(p, str) else p.alt for p in result.parts])
        hits = cut_hits(result.hits, self._rules.snippet_chars)
        text = self._dialect.render_call(call, text[: self._rules.page_chars], hits)
        self.contexts.add("env", "results", text, hits)
        facts, graph = result.meta.get("facts", ()), self.config.task.graph
        used = [e.passage for e in graph.edges if e.fact in facts] if graph and facts else []
        return [*(hit.passage.id for hit in hits), *used]

    def _show_page(self, url: str, page: Page | None) -> list[str]:
        """Show the next unread part of a page; ids of the passages that are now fully shown."""
        if page is None:
            self.contexts.add("env", "missing", self._dialect.render_missing(url))
            return []
        parts = page_parts(page, self._rules)
        part = self._pages_read.get(url, 0) % parts
        self._pages_read[url] = part + 1
        text, stub = show_part(page, part, self._rules, self._dialect)
        self.contexts.add("env", "page", text, (), stub)
        return list(page.passage_ids) if part + 1 == parts else []

    # --- ending -------------------------------------------------------------------------------
    def _close(
        self,
        calls: tuple[ToolCall, ...],
        results: tuple[ToolResult | Failure, ...],
        end: End | None = None,
    ) -> None:
        """Finish the open turn; decide whether the episode goes on."""
        opened = self._open
        assert opened is not None
        self.pending = ()
        if end is None:
            end = self._budget(len(self.turns) + 1)
        if end is None:
            paying = self._rules.reward
            if paying.plain_turns:  # the usual case needs no outcome
                new, gold = self.new_evidence, len(self._gold)
                parts, reward = paying.of_plain_turn(opened, calls, new, gold, self._weights)
            else:
                outcome = Outcome(self, opened, calls, results, end)
                parts, reward = paying.of_turn(outcome, self._weights)
            if self._holds:
                self._held, reward = self._held + reward, 0.0
            if self.config.reward_transforms:
                reward = self._transformed(reward)
            self.turns.append(Turn(*opened, calls, results, parts, reward))
            self.phase = "act"
            self.contexts.retire_pages()
        else:
            outcome = Outcome(self, opened, calls, results, end)
            self._finish(outcome, opened, calls, results, end)
        self.new_evidence = 0

    def _finish(
        self,
        outcome: Outcome,
        opened: Opened,
        calls: tuple[ToolCall, ...],
        results: tuple[ToolResult | Failure, ...],
        end: End,
    ) -> None:
        """Close the last turn and measure the episode."""
        paying = self._rules.reward
        parts: dict[str, float] = {}
        final: dict[str, float] = {}
        reward = 0.0
        if end != "infra_error":  # such an episode says nothing; Gymnasium wants a number
            parts, of_turn = paying.of_turn(outcome, self._weights)
            final, of_end = paying.of_end(outcome, self._weights)
            reward = paying.gated(self._held + of_turn + of_end, final)
            reward = self._transformed(reward)
        both = {**parts, **final}
        for name in parts.keys() & final.keys():  # of an own part that measures both
            both[name] = parts[name] + final[name]
        self.turns.append(Turn(*opened, calls, results, both, reward))
        self.phase, self.end = "done", end
        self.parts = measures(outcome, self, final)
        if paying.own:
            of_turns = [*(turn.reward_parts for turn in self.turns[:-1]), parts]
            self.parts |= paying.totals(of_turns, final)

    def _transformed(self, reward: float) -> float:
        for transform in self.config.reward_transforms:
            reward = float(transform(reward))
        return reward

    def _budget(self, turns: int) -> End | None:
        rules = self._rules
        limit = self.config.time_limit
        if turns >= rules.max_turns or (limit is not None and turns >= limit):
            return "max_turns"
        if self.contexts.chars > rules.max_chars:
            return "max_chars"
        if rules.max_tokens is not None:
            count = TOKEN_COUNTERS[rules.token_counter]
            if sum(count(s.text) for s in self.contexts.segments) > rules.max_tokens:
                return "max_tokens"
        return None

    def outcome(self) -> Outcome | None:
        """``None`` while the episode runs."""
        if self.end is None:
            return None
        last = self.turns[-1]
        return Outcome(self, last, last.calls, last.results, self.end)

    @property
    def public_parts(self) -> dict[str, float]:
        """The latest turn's reward parts, as far as they may be shown while the episode runs; all
        once it is over."""
        parts = dict(self.turns[-1].reward_parts)
        if self.end is None and not self._hidden.isdisjoint(parts):
            for name in self._hidden:
                if name in parts:
                    del parts[name]
                    if name != "evidence":  # an own part may say in detail what it is made of
                        for detail in [n for n in parts if n.startswith(f"{name}.")]:
                            del parts[detail]
        return parts

    @property
    def self_search(self) -> bool:
        """True if the policy writes its own search results, all in one text (``engine="self"``)."""
        return bool(getattr(self._dialect, "self_search", False))

    @property
    def terminated(self) -> bool:
        """Answered or refused; or, in self-search, over without an answer."""
        return self.end in TERMINAL

    @property
    def truncated(self) -> bool:
        """A budget ran out, or the infrastructure did. Never together with ``terminated``."""
        return self.end is not None and self.end not in TERMINAL

    @property
    def evidence_total(self) -> int:
        """Number of gold passages the task has."""
        return len(self._gold)

    @property
    def evidence_found(self) -> int:
        """Number of them that were shown."""
        return len(self._gold) - len(self._left)

    @property
    def missing_evidence(self) -> tuple[str, ...]:
        """Gold passages not shown yet, in hop order. Privileged: for oracles and signals."""
        return tuple(e for e in self.config.task.evidence if e in self._left)

    @property
    def tool_states(self) -> dict[str, Any]:
        """State of the tools in this episode: name (or ``ToolSpec.shares``) → JSON values. A
        copy; for rewards and tests that look at the final state of a tool."""
        return states_of(self._tool_state)

    # --- replay -------------------------------------------------------------------------------
    def fork(self, *, at: int | None = None, branch: int | None = None) -> Episode:
        """An independent copy after the first ``at`` turns (default: all). With ``branch``, from 1,
        later calls get fresh keys and the copy an id of its own, also where this one is a fork
        itself; without, the copy goes on exactly as this one would."""
        at = len(self.turns) if at is None else at
        if not 0 <= at <= len(self.turns):
            raise EpisodeError(f"cannot fork at turn {at} of an episode with {len(self.turns)}")
        config = self.config
        if branch is not None:
            if branch < 1:
                raise EpisodeError(f"a branch is numbered from 1, got {branch}")
            number = derive(config.branch, "fork", branch) if config.branch else branch
            config = replace(config, branch=number, episode_id=f"{config.episode_id}~{branch}")
        copy = Episode(config, parent=(self.config.episode_id, at))
        copy._replay(self._events, turns=at)
        return copy

    def _replay(self, events: Sequence[tuple[Any, ...]], turns: int | None = None) -> None:
        for event in events:
            if turns is not None and len(self.turns) >= turns and event[0] != "receive":
                return
            if event[0] == "act":
                self.act(event[2], context=event[1])
            elif event[0] == "fail":
                self.fail(*event[1])
            else:
                self.receive(event[1])

    def snapshot(self) -> dict[str, Any]:
        """Config and log as JSON values; :meth:`restore` replays them."""
        from ..utils.records import events_to_json

        return {
            "version": SNAPSHOT_VERSION,
            "config": self.config.to_json(),
            "events": events_to_json(self._events),
            "parent": list(self.parent) if self.parent else None,
        }

    @classmethod
    def restore(
        cls,
        snapshot: Mapping[str, Any],
        *,
        dialect: Dialect | None = None,
        reward: Any = None,
        trust: bool = False,
        scored: bool = True,
        reward_transforms: Sequence[Callable[[float], float]] = (),
    ) -> Episode:
        """The episode a snapshot was taken of, replayed.

        A snapshot may come from an untrusted file, so it may name registered items only. Parts of
        a reward of one's own are passed by ``reward``, or need ``trust``.

        Args:
            snapshot: Snapshot that :meth:`snapshot` returned.
            dialect: The object it was played under, if that has no name or import path by which a
                snapshot could record it.
            reward: Reward of the episode, needed where it holds parts of one's own, as
                ``Reward.of`` takes it, or one with more parts. Names and weights are the record's.
            trust: Import and run what the snapshot names, instead.
            scored: False gives parts of one's own the value 0, for who needs no rewards.
            reward_transforms: Functions that wrappers applied to the rewards, again.

        Raises:
            EpisodeError: another version's snapshot, or other ``reward_transforms``.
            CardError: a part of the reward that is neither registered, given nor trusted, or whose
                source has changed.
        """
        from ..utils.records import events_from_json

        if snapshot.get("version") != SNAPSHOT_VERSION:
            raise EpisodeError(
                f"snapshot version {snapshot.get('version')!r}, expected {SNAPSHOT_VERSION}"
            )
        parent = snapshot.get("parent")
        with registered_only("this snapshot", trust=trust):
            episode = cls(
                EpisodeConfig.from_json(
                    snapshot["config"],
                    dialect,
                    reward,
                    trust=trust,
                    scored=scored,
                    reward_transforms=reward_transforms,
                ),
                parent=tuple(parent) if parent else None,
            )
            episode._replay(events_from_json(snapshot["events"]))
        return episode


def run_tools(episodes: Sequence[Episode], toolbox: Toolbox) -> None:
    """Run all pending calls of all episodes and hand the results back.

    Repeats for retries, which the episodes' rules bound. Episodes without pending calls are left
    alone and never reach a tool.
    """
    waiting = [e for e in episodes if e.phase == "receive"]
    while waiting:
        results = toolbox.run([call for e in waiting for call in e.pending])
        at = 0
        for episode in waiting:
            size = len(episode.pending)
            episode.receive(results[at : at + size])
            at += size
        waiting = [e for e in waiting if e.phase == "receive"]
