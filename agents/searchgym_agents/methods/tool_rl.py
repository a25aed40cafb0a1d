"""ToolRL's match of calls with the gold calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from searchgym import Task
from searchgym.rewards import Outcome, well_formed


class NamedCall(NamedTuple):
    """A call: its tool and arguments."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class ToolRL:
    """Pay ``form`` for a well-formed episode, and -3 to 3 for how well its calls match the gold.

    6 S / S_max - 3 with S the multiset Jaccard of the tools' names, plus for every gold call the
    best unused call of its tool: Jaccard of the arguments' names + number of equal values; S_max =
    1 + Σ (1 + number of arguments) (Qian et al., ToolRL, arXiv 2504.13958; released ``rlla.py``).
    Gold calls are ``task.meta["calls"]``, a list of {"tool", "args"}; without, a search for each
    gold query. Texts are compared up to case and blanks. A task with neither pays for calling
    nothing.
    """

    registered = "reward:tool_rl"
    systems = ("ToolRL",)

    form: float = 1.0
    most: float = 3.0

    def final(self, outcome: Outcome) -> dict[str, float]:
        given = [NamedCall(call.tool, call.args) for turn in outcome.turns for call in turn.calls]
        match = call_match(given, gold_calls(outcome.task))
        return {
            "form": self.form if well_formed(outcome) else 0.0,
            "calls": self.most * (2.0 * match - 1.0),
        }


def gold_calls(task: Task) -> list[NamedCall]:
    """A task's gold calls: ``task.meta["calls"]``, or a search for each gold query."""
    if said := task.meta.get("calls"):
        return [NamedCall(call["tool"], call["args"]) for call in said]
    return [NamedCall("search", {"query": query}) for query in task.queries]


def call_match(given: Sequence[NamedCall], gold: Sequence[NamedCall]) -> float:
    """S / S_max in [0, 1]: how well calls match the gold ones."""
    left = list(given)
    score = _jaccard((call.tool for call in given), (call.tool for call in gold))
    for wanted in gold:
        same = [call for call in left if call.tool == wanted.tool]
        if same:
            best = max(same, key=lambda call: alike(call, wanted))
            left.remove(best)
            score += alike(best, wanted)
    return score / (1 + sum(1 + len(call.args) for call in gold))


def alike(call: NamedCall, wanted: NamedCall) -> float:
    """Jaccard index of the arguments' names plus the number of equal values."""
    equal = sum(
        name in call.args and _plain(call.args[name]) == _plain(value)
        for name, value in wanted.args.items()
    )
    return _jaccard(call.args, wanted.args) + equal


def _plain(value: Any) -> Any:
    return " ".join(value.lower().split()) if isinstance(value, str) else value


def _jaccard(one: Iterable[str], other: Iterable[str]) -> float:
    """Jaccard index of two multisets; 1 for two empty ones."""
    a, b = Counter(list(one)), Counter(list(other))  # a mapping would count by its values
    union = sum((a | b).values())
    return sum((a & b).values()) / union if union else 1.0
