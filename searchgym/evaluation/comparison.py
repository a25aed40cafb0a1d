"""Compares results on the same questions; refuses those whose settings differ in more than the
agent: "EM 0.40" with k=3 and with k=5 are answers to different questions."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..dialects import get_dialect
from ..errors import EvaluationError, SearchGymError
from ..scoring.metrics import label
from ..types import Action, Answer, Search
from ..utils.trust import registered_only
from .differences import paired_interval, sign_flip_p
from .intervals import RESAMPLES, Interval
from .result import EvalResult
from .table import Column, ResultTable

if TYPE_CHECKING:
    from ..charts.figure import Figure

IGNORED = ("agent", "batch", "questions", "environment.data_dir", "instructions", "tokens", "judge")
"""Settings that may differ. The agent is what is compared, and who counts its tokens is its own;
the batch size and the folder of the data change no result; questions are paired one by one;
instructions follow from the rules. The judge matters only where its verdicts are compared."""
BEYOND = (
    "class", "params", "curriculum", "time_limit", "reward_transforms", "wrappers", "sources",
)  # fmt: skip
"""Settings that results name only where an environment is more than its keywords."""
BEHIND = {"judge": "judge", "tokens_in": "tokens", "tokens_out": "tokens"}
"""Metric → the ignored setting that matters to it after all."""
SHOWN = 6


class NotComparable(EvaluationError):
    """Raised for results whose settings differ; ``names`` is what ``despite`` has to hold besides
    for them to be compared, and ``advice`` all before it."""

    def __init__(self, advice: str, names: Sequence[str]) -> None:
        super().__init__(f"{advice}: despite={[*names]}")
        self.advice, self.names = advice, names


def differing(
    a: Mapping[str, Any], b: Mapping[str, Any], ignored: Collection[str] = IGNORED
) -> dict[str, tuple[Any, Any]]:
    """Dotted name → (value in a, value in b) of every setting that differs and matters; None
    stands for "not there"."""
    first, second = dict(_flat(a)), dict(_flat(b))
    return {
        name: (first.get(name), second.get(name))
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name) and not _under(name, ignored)
    }


def check_comparable(
    a: EvalResult, b: EvalResult, despite: Collection[str] = (), metric: str = ""
) -> None:
    """Raise ``NotComparable`` naming what differs, unless it is (in) one of ``despite``.

    ``despite``: dotted names, e.g. ``("rules.k", "versions")`` for results of two releases, or
    ``("search_enabled",)`` to compare with a closed book.
    """
    ignored = {name for name in IGNORED if name != BEHIND.get(metric)} | {*despite}
    differences = differing(a.settings, b.settings, ignored)
    versions = a.scoring_version, b.scoring_version
    if versions[0] != versions[1] and not _under("scoring.version", ignored):
        differences["scoring.version"] = versions
    if a.seed != b.seed and "seed" not in despite:
        differences["seed"] = (a.seed, b.seed)
    if not differences:
        return
    many = len(differences) > SHOWN
    raise NotComparable(
        f"not comparable: {a.agent} and {b.agent} were evaluated with different "
        f"{told(differences)}; evaluate both alike, or say that the difference is meant",
        sorted({name.split(".")[0] if many else name for name in differences}),
    )


def asked_differently(a: EvalResult, b: EvalResult) -> dict[str, tuple[Any, Any]]:
    """Dotted name → values of what differs in how two language models were asked: sampling, prompt
    format. It is part of the agent, so results may be compared, but not taken for like. Empty where
    one of them does not say."""
    agents = [result.settings.get("agent", {}) for result in (a, b)]
    both = [name for name in ("sampling", "prompt") if all(agent.get(name) for agent in agents)]
    first, second = ({name: agent[name] for name in both} for agent in agents)
    return differing(first, second, ())


def told(differences: Mapping[str, tuple[Any, Any]]) -> str:
    """Describe the differences in a message: "rules.k (3 and 5), …"."""
    each = [f"{name} ({_short(x)} and {_short(y)})" for name, (x, y) in differences.items()]
    more = f" and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
    return ", ".join(each[:SHOWN]) + more


def _under(name: str, names: Collection[str]) -> bool:
    return any(name == n or name.startswith(f"{n}.") for n in names)


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:  # as it is read back from a file: tuples and lists are one
        yield prefix, json.loads(json.dumps(value))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"


# --- pairs -------------------------------------------------------------------------------------
class Comparison(NamedTuple):
    """Agent ``a`` minus agent ``b`` on the same questions."""

    a: str
    b: str
    metric: str
    mean_a: float
    mean_b: float
    difference: Interval
    p: float
    """Two-sided sign-flip p-value, not adjusted; see ``differences.holm`` for families of tests."""
    lost: int = 0
    """Questions left out because the infrastructure ended an episode of either."""

    def __str__(self) -> str:
        lost = f", {self.lost:,} lost" if self.lost else ""
        return (
            f"{self.a} − {self.b}: {label(self.metric)} {self.difference:+.3f}, p = {self.p:.4f}, "
            f"{self.difference.n:,} questions{lost}"
        )

    def _repr_html_(self) -> str:
        row = {**self._asdict(), "agents": f"{self.a} − {self.b}", "n": self.difference.n}
        columns = (
            Column("agents", "agents"), Column("mean_a", "first"), Column("mean_b", "second"),
            Column("difference", "difference", signed=True), Column("p", "p", 4),
            Column("n", "questions"), Column("lost", "lost"),
        )  # fmt: skip
        title = f"{label(self.metric)}, paired on the same questions"
        return ResultTable("paired", title, columns, (row,)).html()

    def plot(self, *others: Comparison) -> Figure:
        """Draw the difference with its interval, above those of ``others``."""
        from ..charts.figure import Figure
        from ..charts.forest import forest

        compared = {f"{c.a} − {c.b}": c for c in (self, *others)}
        marks = [
            {"y": name, "by": name, "questions": c.difference.n,
             **{k: round(getattr(c.difference, k), 5) for k in ("mean", "low", "high")}}
            for name, c in compared.items()
        ]  # fmt: skip
        metric = label(self.metric)
        apart = [name for name, c in compared.items() if c.difference.excludes(0)]
        lost = [f"{name} {c.lost:,}" for name, c in compared.items() if c.lost]
        left_out = f" Left out, because an episode was lost: {', '.join(lost)}." if lost else ""
        return Figure(
            "differences",
            f"Apart from 0: {', '.join(apart)}" if apart else "No difference is apart from 0",
            f"Paired on the same questions, with 95 % intervals.{left_out}",
            f"Differences in {metric}: " + "; ".join(f"{m['y']} {m['mean']:+z.3f}" for m in marks),
            partial(forest, marks, by=list(compared), own_rows=True, rate=False, zero=0.0,
                    x_title=f"difference in {metric}, 95 % interval"), tuple(marks),
        )  # fmt: skip


def compare(
    a: EvalResult,
    b: EvalResult,
    metric: str = "f1",
    *,
    despite: Collection[str] = (),
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Paired comparison of two results over exactly the same questions.

    Pairs go by task id, whatever the order. Questions that the infrastructure failed for either
    agent are left out of both means.

    Raises:
        EvaluationError: settings that differ and are not in ``despite`` (dotted names, see
            :func:`check_comparable`), different questions, or a question that occurs twice.
    """
    first, second = pair(a, b, metric, despite)
    kept = ~(np.isnan(first) | np.isnan(second))
    first, second = first[kept], second[kept]
    difference = paired_interval(first, second, seed=seed, resamples=resamples)
    return Comparison(
        a.agent,
        b.agent,
        metric,
        float(first.mean()) if len(first) else math.nan,
        float(second.mean()) if len(second) else math.nan,
        difference,
        sign_flip_p(first - second, seed=seed, resamples=resamples),
        len({row.task_id for result in (a, b) for row in result.rows if row.infra_error}),
    )


def pair(
    a: EvalResult, b: EvalResult, metric: str, despite: Collection[str] = ()
) -> tuple[Any, Any]:
    """A metric of both results (n,), aligned by task id in the order of ``a``."""
    for result in (a, b):
        ids = [row.task_id for row in result.rows]
        if len(set(ids)) != len(ids):
            twice = next(i for i in ids if ids.count(i) > 1)
            raise EvaluationError(f"{result.agent} on {result.set}: question {twice!r} twice")
    check_comparable(a, b, despite, metric)
    where = {row.task_id: i for i, row in enumerate(b.rows)}
    ours = [row.task_id for row in a.rows]
    missing = [i for i in ours if i not in where]
    if missing or len(ours) != len(where):
        odd = missing[0] if missing else next(i for i in where if i not in set(ours))
        raise EvaluationError(
            f"not paired: {a.agent} has {len(ours)} questions, {b.agent} {len(where)}, and "
            f"{odd!r} is in one only; evaluate both on the same tasks"
        )
    return a.values(metric), b.values(metric)[[where[i] for i in ours]]


# --- turns that are no legal action ------------------------------------------------------------
def unreadable(results: Sequence[EvalResult]) -> dict[str, Any] | None:
    """The share of an agent's turns that were no legal action, one of them with the reason,
    and what could be read; None unless most were none.

    Args:
        results: Results of one agent: samples, or rungs.
    """
    wrong = [r for r in results if r.no_action > 0.5]
    if not wrong:
        return None
    example = next((row.no_action for r in wrong for row in r.rows if row.no_action), "")
    share = max(r.no_action for r in wrong)
    return {"share": share, "example": example, "expected": _readable(wrong[0].settings)}


def unreadable_note(agent: str, found: Mapping[str, Any]) -> str:
    """State in a sentence what :func:`unreadable` found."""
    shown = f" One of them: {found['example']}." if found["example"] else ""
    form = f" What it could write: {found['expected']}" if found["expected"] else ""
    return f"{agent}: {100 * found['share']:.0f} % of its turns were no legal action.{shown}{form}"


_CHATS = {
    "ReActAgent": "Action: search[a query]   or   Action: finish[a name]",
    "ToolCallingAgent": "a call of the function search or answer "
    "(does the model's server read calls from its text?)",
}
"""Name of an agent's class that has a form of its own → that form."""


def _readable(settings: Mapping[str, Any]) -> str:
    form = _CHATS.get(str(settings.get("agent", {}).get("class", "")).rpartition(":")[2])
    if form is not None:
        return form
    try:
        with registered_only("the result"):
            dialect = get_dialect(settings["rules"]["dialect"])
            asks = settings.get("search_enabled", True) and Search in dialect.renders
            actions: list[Action] = [Answer("a name")]
            if asks:
                actions.insert(0, Search(("a query",)))
            return "   or   ".join(dialect.render_action(action).strip() for action in actions)
    except SearchGymError:  # a dialect of somebody else's
        return ""
