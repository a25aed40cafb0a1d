"""Hints: what the policy is told besides in some episodes, and what no training row holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from ...policies.causal_lm import CausalLMPolicy
from ...types import Task, TurnRequest

Source = Literal["queries", "answer"]


def checked_source(source: Source) -> Source:
    """``ValueError`` unless it is one."""
    if source not in get_args(Source):
        raise ValueError(f"hint is 'queries' or 'answer', got {source!r}")
    return source


def hint_of(task: Task, source: Source) -> str:
    """The text that a question is followed by; empty where the task has nothing to tell."""
    told = "; ".join(task.queries) if source == "queries" else task.answers[0]
    return f"Hint: {told}\n" if told else ""


class WithHints:
    """The policy, told a hint in some episodes, which its record of them does not hold.

    Args:
        hints: Episode → text after the question.
    """

    def __init__(self, policy: CausalLMPolicy, hints: Mapping[str, str]) -> None:
        self.policy, self.hints = policy, hints

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        policy = self.policy
        plain = []
        for request in requests:
            if request.episode_id in self.hints:
                history = policy.memory.at(request)
                prompt = policy.renderer.render(request, history.ids(request))
                plain.append((request.turn, history, prompt))
        texts = policy.act([self._told(r) for r in requests])
        for turn, history, prompt in plain:
            history.written[turn] = history.written[turn]._replace(prompt=prompt)
        return texts

    def _told(self, request: TurnRequest) -> TurnRequest:
        """The request with the hint at the end of the question."""
        if request.episode_id not in self.hints:
            return request
        told, segments = False, []
        for segment in request.segments:
            if segment.kind == "question" and not told:
                text = segment.text + self.hints[request.episode_id]
                segment, told = segment._replace(parts=(text,)), True
            segments.append(segment)
        return request._replace(segments=tuple(segments))
