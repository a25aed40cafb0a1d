"""One episode as a state machine without I/O.

``requests()`` returns the requests to the policy, ``act`` takes its text and returns tool calls,
``receive`` takes their results. The driver runs the calls: at once (single environment), in one
batch for many episodes (vector environment), or through a queue. What an episode holds and tells is
in ``state.py``, how it is copied and recorded in ``replay.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..dialects.base import Dialect, Opening
from ..errors import EpisodeError, RewardError
from ..rewards.outcome import Outcome, measures
from ..rewards.part import number
from ..tools.base import Toolbox, state_text, with_own_state
from ..types import (
    Access,
    Action,
    Answer,
    Call,
    CallContext,
    Delegate,
    End,
    Failure,
    Hit,
    Invalid,
    Judge,
    Opened,
    Page,
    Parsed,
    Search,
    ToolCall,
    ToolResult,
    Turn,
)
from .rules import (
    EXECUTOR,
    PLANNER,
    TOKEN_COUNTERS,
    EpisodeConfig,
    name_of,
    page_parts,
    show_part,
)
from .state import EpisodeState, cut_hits, reported


class Episode(EpisodeState):
    """One question, from the first request to an answer or an exhausted budget.

    Calling :meth:`act` or :meth:`receive` out of order (see ``phase``) raises ``EpisodeError``.
    """

    __slots__ = ()  # thousands of episodes are alive at once

    def __init__(self, config: EpisodeConfig, *, parent: tuple[str, int] | None = None) -> None:
        super().__init__(config, parent=parent)
        self.contexts.open(PLANNER if self._rules.delegate else "agent")
        self._introduce(config.task.question, "question")

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
                + ("; a tool's call has not come back (it raised?): begin anew with reset()"
                   if self.phase == "receive" else "")
            )  # fmt: skip
        self.events.append(("act", active, text))
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
        self.events.append(("fail", (failure,)))
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
        tools = self._own_tools(role := self.contexts.role(self.contexts.active))
        names = self._tool_names if tools is self._tools else {t.name for t in tools}
        if isinstance(action, Search):
            if "search" not in names:
                return Invalid("search is not available in this episode")
            if len(action.queries) > rules.max_parallel:
                return Invalid(f"at most {rules.max_parallel} queries at once")
            left = rules.max_queries
            if left is not None and self.queries + len(action.queries) > left:
                return Invalid(f"the query budget allows {left - self.queries} more")
        elif isinstance(action, Access):
            if "access" not in names:
                return Invalid("access is not available in this episode")
        elif isinstance(action, Call):
            from ..utils.arguments import rejection_reason

            if (wrong := rejection_reason(tools, action)) is not None:
                return Invalid(wrong)
            if rules.max_queries is not None and self.queries >= rules.max_queries:
                return Invalid("the query budget allows 0 more")
        elif isinstance(action, Judge):
            if not rules.judge or self.contexts.newest_results() is None:
                return Invalid("there is nothing to judge")
        elif isinstance(action, Delegate):
            if not rules.delegate or role != PLANNER:
                return Invalid("tasks cannot be delegated here")
            return self._handed(action)
        return action

    def _handed(self, action: Delegate) -> Action:
        """A sub-task with the role that is to do it, which its text names."""
        roles = self._rules.delegates
        if not isinstance(self._rules.delegate, Mapping):
            return action
        named, colon, rest = action.task.partition(":")
        if colon and named.strip() in roles and rest.strip():
            return Delegate(rest.strip(), named.strip())
        if len(roles) == 1:
            return Delegate(action.task, *roles)
        return Invalid(
            f"a sub-task begins with who is to do it, one of {', '.join(roles)}, and a colon"
        )

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
            over = self.self_search or self._rules.one_search
            self._close((), (), end="unanswered" if over else None)
        elif isinstance(action, Judge):
            if not action.useful:
                self.contexts.hide_newest_results()
            self._close((), ())
        else:
            self.contexts.open(action.target or EXECUTOR)
            self._introduce(action.task, "task")
            self._close((), ())
        return ()

    def _answered(self, action: Answer) -> None:
        if self.contexts.active == 0:
            self.answer = action.text
            self._close((), (), end="answered")
        else:  # an executor reports to the context that delegated
            shown = self._reported(action.text)
            self.contexts.close()
            self.contexts.add("env", "report", self._dialect.render_report(action.text))
            if shown:
                groups = [(action.text, shown)]
                self.contexts.add("env", "results", self._dialect.render_hits(groups), shown)
            self._close((), ())

    def _reported(self, conclusion: str) -> tuple[Hit, ...]:
        """Passages that the active context's report carries."""
        context = self.contexts.active
        share = self._rules.of_role(self.contexts.role(context)).get("evidence")
        if share is None:
            return ()
        found = [h for s in self.contexts.segments if s.context == context for h in s.hits]
        return reported(conclusion, found, share)

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
        config = self.config
        here = (config.branch, self.contexts.active, len(self.turns))
        states = self._tool_state
        kept = states.get(self._state_keys.get(tool, tool)) if states else None
        task = config.task if tool in self._rules.needs_task else None
        calls = []
        for i, given in enumerate(arguments):
            state = None if kept is None else json.loads(kept)
            place = (*here, i, tool)
            context = CallContext(
                config.seed, config.episode_id, config.params, state, task, place=place
            )
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
            self.events.append(("receive", tuple(results)))
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
        self.events.append(("receive", tuple(own)))
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
        only = self._rules.one_search and isinstance(action, Search)
        if isinstance(action, Search) and only:
            self.answer = " ## ".join(action.queries)
        self._close(calls, tuple(results), end="answered" if only else None)

    def _show_call(self, call: Call, result: ToolResult) -> list[str]:
        """Show a tool's output; ids of the passages it showed, or a fact of which the task uses."""
        text = "".join([p if isinstance(p, str) else p.alt for p in result.parts])
        hits = cut_hits(result.hits, self._rules.snippet_chars)
        text = self._dialect.render_call(call, text[: self._rules.page_chars], hits)
        self.contexts.add("env", "results", text, hits)
        facts, graph = result.meta.get("facts", ()), self.config.task.graph
        edges = graph.edges if graph and facts else ()
        used = [passage for e in edges for fact, passage in e.stated() if fact in facts]
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
            if (limit := self._rules.context_tokens) is not None:
                self.contexts.forget(limit, TOKEN_COUNTERS[self._rules.token_counter])
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

    def amend(self, turns: int, text: str, reward: float, end: End | None = None) -> None:
        """Hold what wrappers around the environment made of an action.

        Args:
            turns: How many of the last turns came of the action; the first of them counts as the
                policy's.
            text: What the policy wrote.
            reward: What it was paid for them, in all.
            end: Why the wrappers ended the episode, where they did.
        """
        self.events.append(("amend", turns, text, reward, end))
        if end is not None:
            if turns:
                last = self.turns.pop()
            else:
                turns, active = 1, self.contexts.active
                role, seen = self.contexts.role(active), self.contexts.visible_ids(active)
                nothing = Invalid("a wrapper ended the episode")
                last = Turn(len(self.turns), active, role, seen, text, nothing, (), (), (), {}, 0.0)
            opened = Opened(*last[:7])
            outcome = Outcome(self, opened, last.calls, last.results, end)
            self._finish(outcome, opened, last.calls, last.results, end)
        first = len(self.turns) - turns
        for place, turn in enumerate(self.turns[first:], first):
            if place > first:
                turn = turn._replace(text="", spans=(), reward=0.0)
            elif not text.startswith(turn.text):
                turn = turn._replace(text=text, spans=(), reward=reward)
            else:
                turn = turn._replace(reward=reward)
            self.turns[place] = turn

    def _transformed(self, reward: float) -> float:
        for transform in self.config.reward_transforms:
            given = transform(reward)
            if (value := number(given)) is None:
                raise RewardError(
                    f"the reward wrapper {name_of(transform)} must give a finite number, and gave "
                    f"{given!r:.80} for {reward} on task {self.config.task.id!r}"
                )
            reward = value
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

    # --- replay -------------------------------------------------------------------------------
    # (imported when used: most episodes are only played)
    def fork(self, *, at: int | None = None, branch: int | None = None) -> Episode:
        """An independent copy after the first ``at`` turns (default: all). With ``branch``, from 1,
        later calls get fresh keys and the copy an id of its own, also where this one is a fork
        itself; without, the copy goes on exactly as this one would."""
        from . import replay

        return replay.fork(self, at, branch)

    def snapshot(self) -> dict[str, Any]:
        """Config and log as JSON values; :meth:`restore` replays them."""
        from . import replay

        return replay.snapshot(self)

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
        from . import replay

        return replay.restore(
            cls, snapshot, dialect=dialect, reward=reward, trust=trust, scored=scored,
            reward_transforms=reward_transforms,
        )  # fmt: skip


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
