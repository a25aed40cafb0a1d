"""The record of an evaluation: one row per question and every setting that moves the number."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_origin, get_type_hints

import numpy as np

from ..errors import EvaluationError
from ..storage.files import read_json, write_whole
from ..storage.records import json_text
from . import display
from .comparable import check_comparable
from .intervals import RESAMPLES, Interval, paired_interval, sign_flip_p
from .metrics import Means, Row, by_family, column, infra_by_searches, own_metric

if TYPE_CHECKING:
    import pandas

    from ..charts.figure import Figure

SCHEMA_VERSION = 2
_MAY_LACK = {"evidence_recall", *(k for k, v in Row._field_defaults.items() if v != v)}
"""Columns in which null stands for NaN."""


@dataclass(frozen=True, repr=False)
class EvalResult:
    """Result of an agent on a set of questions. Equal inputs give equal results, timing apart."""

    agent: str
    set: str
    rows: tuple[Row, ...]
    settings: Mapping[str, Any]
    """See :func:`searchgym.evaluation.run.settings_of`."""
    seed: int
    complete: bool = True
    """False: interrupted; ``rows`` holds what was done."""
    duration_s: float = field(default=0.0, compare=False)
    usage: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Usage as the agent reports it (requests, tokens, cost in dollars, …), if it does: like
    ``duration_s``, in the last session of a run that was continued. Not compared: retries and
    caches change it."""
    closed_book: Mapping[str, Interval] = field(default_factory=dict)
    """Means of the same questions without tools, where they were asked so, too."""

    @cached_property
    def means(self) -> Mapping[str, Interval]:
        """Mean and 95 % bootstrap interval over questions of every metric."""
        return Means(self.rows, seed=self.seed)

    def __repr__(self) -> str:
        return f"<EvalResult of {display.line_of(self)}>"

    def _repr_html_(self) -> str:
        """Return the main means, overall and by family, for notebooks."""
        return display.html_of(self)

    def plot(self, *others: EvalResult, metric: str = "f1", by: str = "family") -> Figure:
        """Draw a metric with its intervals, beside those of ``others``.

        Args:
            others: Results of other agents on the same questions.
            metric: Name of one of ``means``.
            by: "family" for each family of question, "all" for all questions together.

        Raises:
            EvaluationError: an unknown metric or ``by``, or two results of one agent.
            MissingExtraError: the extra ``report`` is missing.
        """
        return display.plot_results([self, *others], metric, by)

    def to_frame(self) -> pandas.DataFrame:
        """Return a row for each question: its scores, what it took, the answer, agent and set.

        Raises:
            MissingExtraError: pandas is missing (extra ``frames``).
        """
        return display.frame(
            {"agent": self.agent, "set": self.set, **row._asdict()} for row in self.rows
        )

    def by_family(self, metric: str = "em") -> dict[str, float]:
        return by_family(self.rows, metric)

    def values(self, metric: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """A metric per question (n,), in the order of ``rows``."""
        return column(self.rows, metric)

    @property
    def scoring_version(self) -> int:
        """Version of the scoring (``searchgym.scoring.SCORING_VERSION``); 1 where the settings
        do not say."""
        return int(self.settings.get("scoring", {}).get("version", 1))

    @property
    def infra_errors(self) -> int:
        return sum(row.infra_error for row in self.rows)

    @property
    def metric(self) -> str:
        """The metric that ranks agents in this environment, see ``metrics.own_metric``."""
        return own_metric(self.settings.get("rules", {}))

    @property
    def ceiling(self) -> bool:
        """True if the agent is told the gold queries: a bound to measure by, no method."""
        made = str(self.settings.get("agent", {}).get("class", "")).rpartition(":")[2]
        return "Oracle" in made if made else self.agent.startswith("oracle")

    def to_json(self) -> dict[str, Any]:
        """JSON values; NaN becomes null. ``means`` is there for readers and not read back."""
        return {
            "schema_version": SCHEMA_VERSION,
            "agent": self.agent,
            "set": self.set,
            "seed": self.seed,
            "complete": self.complete,
            "duration_s": round(self.duration_s, 3),
            "usage": dict(self.usage),
            "settings": dict(self.settings),
            "means": {name: _clean(interval._asdict()) for name, interval in self.means.items()},
            "closed_book": {k: _clean(v._asdict()) for k, v in self.closed_book.items()},
            "infra_errors_by_searches": {
                str(k): list(v) for k, v in infra_by_searches(self.rows).items()
            },
            "columns": list(Row._fields),
            "rows": [[_null(value) for value in row] for row in self.rows],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EvalResult:
        """The inverse of :meth:`to_json`; ``EvaluationError`` for another version's."""
        if not isinstance(data, Mapping):
            raise EvaluationError(f"expected a table, got {type(data).__name__}")
        version = data.get("schema_version")
        if version != SCHEMA_VERSION:
            raise EvaluationError(f"result schema version {version!r}, expected {SCHEMA_VERSION}")
        for name, kind in _TYPES.items():
            _check_type(name, data.get(name, kind() if name in _LATER else None), kind)
        for name in _TABLES:
            _check_type(f"settings.{name}", data["settings"].get(name, {}), dict)
        columns = data["columns"]
        needed = [name for name in Row._fields if name not in Row._field_defaults]
        if not {*needed} <= {*columns} <= {*Row._fields}:
            raise EvaluationError(f"columns {columns}, expected {list(Row._fields)}")
        rows = []
        for number, values in enumerate(data["rows"], 1):
            if len(values) != len(columns):
                raise EvaluationError(f"row {number} has {len(values)} values")
            cells = {k: _number(k, v) for k, v in zip(columns, values, strict=True)}
            for name, value in cells.items():
                _check_type(f"row {number}: {name}", value, _CELLS[name])
            rows.append(Row(**cells))
        return cls(
            agent=data["agent"],
            set=data["set"],
            rows=tuple(rows),
            settings=data["settings"],
            seed=data["seed"],
            complete=data["complete"],
            duration_s=data["duration_s"],
            usage=data.get("usage", {}),
            closed_book={k: _interval(v) for k, v in data.get("closed_book", {}).items()},
        )

    def save(self, path: Path | str) -> Path:
        """Write as JSON; returns the path."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json_text(self.to_json(), indent=1))
        return path

    @classmethod
    def load(cls, path: Path | str) -> EvalResult:
        """Read what :meth:`save` wrote; ``EvaluationError`` names a broken file."""
        try:
            return cls.from_json(read_json(path))
        except FileNotFoundError:
            raise EvaluationError(f"{path} does not exist; make it with 'searchgym eval'") from None
        except (ValueError, KeyError, TypeError, EvaluationError) as error:
            raise EvaluationError(f"{path}: not an evaluation result: {error}") from error


class Comparison(NamedTuple):
    """Agent ``a`` minus agent ``b`` on the same questions."""

    a: str
    b: str
    metric: str
    mean_a: float
    mean_b: float
    difference: Interval
    p: float
    """Two-sided sign-flip p-value, not adjusted; see ``intervals.holm`` for families of tests."""
    lost: int = 0
    """Questions left out because the infrastructure ended an episode of either."""

    def __str__(self) -> str:
        return display.said_of(self)

    def _repr_html_(self) -> str:
        return display.html_of_comparisons([self])

    def plot(self, *others: Comparison) -> Figure:
        """Draw the difference with its interval, above those of ``others``."""
        return display.plot_comparisons([self, *others])


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
            ``comparable``), different questions, or a question that occurs twice.
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


def _interval(said: Mapping[str, Any]) -> Interval:
    mean, low, high = (math.nan if said[k] is None else said[k] for k in ("mean", "low", "high"))
    return Interval(mean, low, high, said["n"], said["method"])


def _number(name: str, value: Any) -> Any:
    return math.nan if value is None and name in _MAY_LACK else value


_TYPES: dict[str, Any] = {
    "agent": str, "set": str, "seed": int, "complete": bool, "duration_s": float,
    "settings": dict, "usage": dict, "closed_book": dict, "columns": list, "rows": list,
}  # fmt: skip
"""Type of each value in a file."""
_LATER = ("usage", "closed_book")
"""Values that files of older releases may lack."""
_TABLES = ("agent", "corpus", "environment", "questions", "rules", "scoring", "versions")
"""Settings that are tables."""
_CELLS = {name: get_origin(kind) or kind for name, kind in get_type_hints(Row).items()}
"""Column → type of its values."""


def _check_type(name: str, value: Any, kind: Any) -> None:
    """``EvaluationError`` for a value of another type; a whole number is a number, no switch is."""
    fits = isinstance(value, int | float if kind is float else kind)
    if not fits or isinstance(value, bool) != (kind is bool):
        raise EvaluationError(f"{name} is a {kind.__name__}, got {value!r:.80}")


def _null(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _null(v) for k, v in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def _clean(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _null(v) for k, v in values.items()}
