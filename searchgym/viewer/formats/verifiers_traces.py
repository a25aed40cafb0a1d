"""verifiers' newer layout (v1): ``traces.jsonl``, an episode a line, with a trace for each agent.

A trace keeps every message once, as a node that names the one before it (``parent``); a context
that was rewritten, or another agent's within it, is another path through the nodes. Every trace is
a record of its own; its paths are told apart by the turns' contexts. Token ids come without their
texts, so there is no view of tokens; their advantages are shown by turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from ..record import Observation, Record, ViewedTurn
from .messages import question_of, said, text_of
from .search_r1 import answer_of, hits_of

NAME = "verifiers_traces"
_CUT = frozenset(
    {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "context_length"}
)
"""Conditions by which the library itself says that a trace was stopped early."""
_BETWEEN = re.compile(r"[\s,:]*")


def fits(value: Mapping[str, Any]) -> bool:
    """Return whether a first record is of this kind."""
    return {"env", "task", "traces"} <= set(value)


def pieces(line: bytes) -> list[tuple[int, int]]:
    """Return where the traces of an episode's line begin and end, in bytes; the whole line where
    there is none, or where it is broken."""
    text = line.decode("utf-8", "surrogateescape")
    try:
        spans = list(_traces(text))
    except (ValueError, IndexError):  # whoever reads the line says what is wrong
        spans = []
    ends = [place for span in spans for place in span]
    sizes = [len(text[a:b].encode("utf-8", "surrogateescape")) for a, b in pairwise([0, *ends])]
    at = [*accumulate(sizes)]
    return [*zip(at[::2], at[1::2], strict=True)] or [(0, len(line))]


def _traces(text: str) -> Iterator[tuple[int, int]]:
    """First and last character of every element of the outermost ``traces``."""
    value = json.JSONDecoder().raw_decode

    def after(at: int) -> int:
        match = _BETWEEN.match(text, at)
        return match.end() if match else at

    at = after(text.index("{") + 1)
    while text[at] != "}":
        key, at = value(text, at)
        at = after(at)
        if key != "traces" or text[at] != "[":
            _, at = value(text, at)
        else:
            at = after(at + 1)
            while text[at] != "]":
                start = at
                _, at = value(text, at)
                yield start, at
                at = after(at)
            at += 1
        at = after(at)


def read(value: Mapping[str, Any]) -> Record:
    """A trace; or an episode that failed before there was one."""
    task, errors = value["task"], [_error(e) for e in value.get("errors", ())]
    data = task.get("data", {})
    if "traces" in value:
        return Record(
            id=str(value["id"]), task=_task(task), question=_asked(data), answers=_gold(data),
            end="infra_error", family=str(task.get("type", "")),
            facts={"error": "; ".join(errors)} if errors else {},
        )  # fmt: skip
    prompt, turns = _turns(value["nodes"])
    calls = value.get("calls", ())
    _blame(turns, calls, () if value.get("ok") else errors)
    rewards = {name: r for name, r in value.get("rewards", {}).items() if r is not None}
    scores = {name: float(r["score"]) for name, r in rewards.items()}
    metrics = {n: float(m) for n, m in value.get("metrics", {}).items() if m is not None}
    reward = sum(scores[n] * float(r.get("weight", 1.0)) for n, r in rewards.items())
    if turns and rewards:
        turns[-1].reward = reward
    return Record(
        id=str(value["id"]),
        task=_task(task),
        question=question_of(prompt) or _asked(data),
        answers=_gold(data),
        answer=str(value.get("root_reply") or answer_of(turns)),
        end=_end(value, errors),
        reward=reward if rewards else None,
        parts={**metrics, **scores},
        family=str(task.get("type", "")),
        agent=_agent(value.get("agent", {}), calls),
        prompt=prompt,
        turns=turns,
        facts=_facts(value, calls),
    )


def _turns(nodes: Sequence[Mapping[str, Any]]) -> tuple[list[Observation], list[ViewedTurn]]:
    """Return the observations before the first message that the model wrote, and its turns, in the
    order in which they were written."""
    prompt: list[Observation] = []
    turns: list[ViewedTurn] = []
    after: list[int | None] = []
    """Index, for each node, of the turn on its path that is nearest to it, itself included."""
    contexts = 0
    continued: set[int] = set()
    for node in nodes:
        parent, message = node.get("parent"), node["message"]
        before = None if parent is None else after[parent]
        if node.get("sampled"):
            turn = said(len(turns), message)
            if before is not None and before not in continued:
                continued.add(before)
                turn.context = turns[before].context
            else:  # a path of its own
                turn.context, contexts = contexts, contexts + 1
            credit = node.get("advantages")
            turn.advantage = sum(credit) / len(credit) if credit else None
            before = len(turns)
            turns.append(turn)
        else:
            text = text_of(message.get("content"))
            shown = Observation(str(message["role"]), text)
            if not turns:
                prompt.append(shown)
            else:
                followed = turns[-1 if before is None else before]
                followed.observations.append(shown)
                followed.hits += hits_of(text)
        after.append(before)
    return prompt, turns


def _blame(
    turns: Sequence[ViewedTurn], calls: Sequence[Mapping[str, Any]], errors: Sequence[str]
) -> None:
    """Note failed calls of the model at the turn before them, what ended a trace at the last."""
    done = 0
    for call in calls:
        if call.get("error") and turns:
            turns[max(0, done - 1)].failures.append(_error(call["error"]))
        elif not call.get("error"):
            done = min(done + 1, len(turns))
    if turns:
        known = turns[-1].failures
        known += [error for error in errors if error not in known]


def _end(value: Mapping[str, Any], errors: Sequence[str]) -> str:
    stopped = str(value.get("stop_condition") or "")
    if errors and not value.get("ok"):
        return "infra_error"
    if stopped in _CUT or value.get("is_timeout"):
        return stopped or "timeout"
    done = [call for call in value.get("calls", ()) if not call.get("error")]
    if done and done[-1].get("finish_reason") == "length":
        return "max_tokens"
    return "completed" if value.get("is_completed") else "unfinished"


def _error(error: Mapping[str, Any]) -> str:
    return f"{error.get('type', 'error')}: {error.get('message', '')}"


def _task(task: Mapping[str, Any]) -> str:
    """A name that is the same in every run."""
    data = task.get("data", {})
    if data.get("name"):
        return str(data["name"])
    number = data.get("idx", str(task.get("key") or task.get("hash") or "")[:12])
    return f"{task.get('type', 'task')}-{number}"


def _asked(data: Mapping[str, Any]) -> str:
    asked = data.get("question", data.get("prompt"))
    if isinstance(asked, list):
        return "\n\n".join(text_of(message.get("content")) for message in asked)
    return str(asked or "")


def _gold(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Tasks have fields of their own; these two names are common."""
    gold = data.get("answers", data.get("answer", ()))
    return tuple(map(str, gold)) if isinstance(gold, (list, tuple)) else (str(gold),)


def _agent(agent: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> str:
    """The model, and the agent's part where the environment has several."""
    asked = (str(call["model"]) for call in calls if call.get("model"))
    model = str(agent.get("config", {}).get("model") or next(asked, ""))
    part = str(agent.get("name", "agent"))
    return model if part == "agent" else f"{part} ({model})" if model else part


def _facts(value: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    used = [call["usage"] for call in calls if call.get("usage")]
    span = value.get("timing", {}).get("agent", {})
    took = float(span.get("end", 0.0)) - float(span.get("start", 0.0))
    cost = [float(u["cost"]) for u in used if u.get("cost") is not None]
    told = {
        "stopped by": str(value.get("stop_condition") or ""),
        "seconds": f"{took:.1f}" if took > 0 else "",
        "tokens written": str(sum(u["completion_tokens"] for u in used)) if used else "",
        "dollars": f"{sum(cost):.4f}" if cost else "",
        "verifiers": str(value.get("verifiers", {}).get("version", "")),
    }
    return {name: text for name, text in told.items() if text}
