"""The record of an evaluation: one row per question and every setting that moves the number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

import numpy as np

from ..errors import EvaluationError, check_known
from ..scoring.metrics import MAIN, label
from ..storage.files import read_json, write_whole
from ..storage.records import json_text, no_nan
from .intervals import Interval, mean_interval
from .metrics import (
    METRICS,
    Means,
    Row,
    by_family,
    column,
    declared_shares,
    infra_by_searches,
    own_metric,
)
from .table import Column, ResultTable, frame, mark

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
        shares = declared_shares(self.settings.get("rules", {}))
        return Means(self.rows, seed=self.seed, shares=shares)

    def __repr__(self) -> str:
        means = ", ".join(f"{label(m)} {self.means[m]:.2f}" for m in MAIN if self.means[m].n)
        odd = "" if self.complete else ", interrupted"
        if (share := self.no_action) > 0.5:
            odd += f", {100 * share:.0f} % of the turns no legal action"
        return f"<EvalResult of {self.agent} on {self.set}: {self.counted}{odd}, {means}>"

    @property
    def table(self) -> ResultTable:
        """The main means, overall and by family."""
        shown = [m for m in MAIN if self.means[m].n]
        families = Counter(row.family for row in self.rows)
        rows: list[dict[str, Any]] = [{"questions": "all", "rows": self.rows}] if self.rows else []
        if len(families) > 1:
            rows += [{"questions": f, "rows": [r for r in self.rows if r.family == f]}
                     for f in sorted(families)]  # fmt: skip
        for row in rows:
            own = row.pop("rows")
            row["n"] = sum(not r.infra_error for r in own)
            for m in shown:
                row[m] = mean_interval(column(own, m), seed=self.seed, unit=METRICS[m])
        odd = "" if self.complete else ", interrupted"
        return ResultTable(
            "means", f"{self.agent} on {self.set}, {self.counted}{odd}: mean [95 % interval]",
            (Column("questions", "questions"), Column("n", "n"),
             *(Column(m, label(m), 2) for m in shown)), tuple(rows),
        )  # fmt: skip

    def _repr_html_(self) -> str:
        return self.table.html()

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
        from ..charts.figure import Figure
        from ..charts.forest import forest

        check_known("way to divide the questions", ("family", "all"), by, error=EvaluationError)
        results = [self, *others]
        agents = [r.agent for r in results]
        if len(set(agents)) < len(agents):
            raise EvaluationError(
                f"two results of one agent ({', '.join(agents)}): evaluate(…, name=…) names them"
            )
        column(self.rows, metric)  # an unknown metric is an error that names the known ones
        means = {r.agent: r.means[metric] for r in results}
        told = ", ".join(f"{a} {i.mean:z.2f}" for a, i in means.items() if i.n)
        if by == "family":
            marks = family_marks(results, metric)
        else:
            marks = [mark(i, metric, y=a, by=a) for a, i in means.items() if i.n]
        name = label(metric)
        return Figure(
            metric, f"{name} on {self.set}: {told}",
            "Mean and 95 % interval, bootstrap over questions (BCa); number of questions in "
            f"brackets.{caveats(results)}",
            f"{name}: " + "; ".join(f"{m['by']}, {m['y']}: {m['mean']:z.2f}" for m in marks),
            partial(forest, marks, by=agents, own_rows=by == "all",
                    rate=METRICS.get(metric, False), x_title=f"{name}, 95 % interval"),
            tuple(marks),
        )  # fmt: skip

    def to_frame(self) -> pandas.DataFrame:
        """Return a row for each question: its scores, what it took, the answer, agent and set.

        Raises:
            MissingExtraError: pandas is missing (extra ``frames``).
        """
        return frame({"agent": self.agent, "set": self.set, **row._asdict()} for row in self.rows)

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
    def counted(self) -> str:
        """The number of questions behind the means; of lost episodes, too, if any are."""
        n, lost = len(self.rows), self.infra_errors
        told = f"{n - lost:,} of {n:,} questions measured, {lost:,} lost"
        return told if lost else f"{n:,} questions"

    @property
    def no_action(self) -> float:
        """Share of the turns that were not a legal action."""
        rows = [row for row in self.rows if not row.infra_error]
        return sum(row.invalid for row in rows) / max(1, sum(row.turns for row in rows))

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
            "means": {name: no_nan(interval._asdict()) for name, interval in self.means.items()},
            "closed_book": {k: no_nan(v._asdict()) for k, v in self.closed_book.items()},
            "infra_errors_by_searches": {
                str(k): list(v) for k, v in infra_by_searches(self.rows).items()
            },
            "columns": list(Row._fields),
            "rows": no_nan(self.rows),
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
            closed_book={k: Interval.of(v) for k, v in data.get("closed_book", {}).items()},
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


def caveats(results: Iterable[EvalResult]) -> str:
    """Sentences, with a blank before each, on the episodes that are in no mean, and on agents most
    of whose turns were no legal action; "" if there are none."""
    results = list(results)
    lost = [f"{r.agent} {r.infra_errors:,} of {len(r.rows):,}" for r in results if r.infra_errors]
    odd = [f"{r.agent} {100 * r.no_action:.0f} % on {r.set}" for r in results if r.no_action > 0.5]
    note = f" Lost to the infrastructure and in no mean: {', '.join(lost)}." if lost else ""
    return note + (f" Most turns were no legal action: {', '.join(odd)}." if odd else "")


def family_marks(results: Sequence[EvalResult], metric: str) -> list[dict[str, Any]]:
    """A mark for each family and agent, families in alphabetical order."""
    counts = Counter(row.family for row in results[0].rows)
    marks = []
    for family in sorted(counts):
        for result in results:
            own = [row.family == family for row in result.rows]
            interval = mean_interval(
                result.values(metric)[np.array(own, dtype=bool)], seed=result.seed,
                unit=METRICS.get(metric, False),
            )  # fmt: skip
            if interval.n:
                place = f"{family} ({counts[family]})"
                marks.append(mark(interval, metric, y=place, by=result.agent, family=family))
    return marks


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
