"""Causes of a collapse, found in the metrics of a training while it goes on or afterwards.

``collapse.toml`` says for each cause what it means, by which signs it is known and what mends it.
:class:`CollapseMonitor` looks for them update by update, in any trainer's metrics under our names.
"""

from __future__ import annotations

import math
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FIRST, WEIGHT, PATIENCE = 5, 0.3, 3
"""Updates whose mean is what a run began with; weight of the newest one in the moving average;
updates of which ``least`` and ``most`` are taken."""
PAGE = "collapse.md"
"""Page of the documentation with a section for each cause, named as the cause."""


class Sign(NamedTuple):
    """A condition on one metric."""

    metric: str
    what: str
    side: str
    bound: float


class Cause(NamedTuple):
    """A way in which trainings collapse."""

    meaning: str
    remedy: str
    signs: tuple[tuple[Sign, ...], ...]
    """Alternatives, of which all signs must hold."""
    unless: tuple[Sign, ...] = ()
    """Signs of which none may hold."""

    @property
    def metrics(self) -> frozenset[str]:
        """Every metric that is read."""
        return frozenset(sign.metric for one in (*self.signs, self.unless) for sign in one)


def _causes() -> dict[str, Cause]:
    page = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {
        name: Cause(
            entry["meaning"], entry["remedy"],
            tuple(tuple(Sign(*sign) for sign in one) for one in entry["signs"]),
            tuple(Sign(*sign) for sign in entry.get("unless", ())),
        )
        for name, entry in tomllib.loads(page).items()
    }  # fmt: skip


CAUSES: Mapping[str, Cause] = _causes()
"""Name → cause, in the order in which they are told."""


class CollapseWarning(UserWarning):
    """Training goes on, but what is named needs a look."""


class Finding(NamedTuple):
    """A cause that was recognised."""

    cause: str
    update: int
    metric: str
    value: float
    start: float | None
    """Mean of the first updates; None where there were too few."""

    @property
    def evidence(self) -> str:
        """The metric's value in words."""
        first = "" if self.start is None else f", {self.start:.3g} at first"
        return f"{self.metric} is {self.value:.3g}{first}"

    @property
    def text(self) -> str:
        """Cause, evidence and remedy, as a warning says them."""
        cause = CAUSES[self.cause]
        return f"{self.cause}: {cause.meaning} ({self.evidence}). {cause.remedy} ({self.page})"

    @property
    def page(self) -> str:
        """The place in the documentation."""
        return f"{PAGE}#{self.cause}"

    def row(self) -> dict[str, Any]:
        """The finding as JSON values, with meaning, page and remedy."""
        cause = CAUSES[self.cause]
        return {**self._asdict(), "meaning": cause.meaning, "evidence": self.evidence,
                "page": self.page, "remedy": cause.remedy}  # fmt: skip


class CollapseMonitor:
    """Watches the metrics of a training (:mod:`searchgym.rl.measures`) for known causes.

    Args:
        searchable: True if the environment has tools at all.
        compares_groups: True if the advantage is 0 for groups of equal rewards, so that a training
            in which no group differs learns nothing (``no_signal``).
        warn: Give each finding as a :class:`CollapseWarning`.
    """

    def __init__(
        self, *, searchable: bool = True, compares_groups: bool = False, warn: bool = True
    ) -> None:
        ignored = {"searches"} if not searchable else set()
        ignored |= {"frac_reward_zero_std"} if not compares_groups else set()
        self._read = frozenset().union(*(cause.metrics for cause in CAUSES.values())) - ignored
        self._warn = warn
        self.seen = 0
        """Updates with a sound episode."""
        self._counts: dict[str, int] = {}
        self._sums: dict[str, float] = {}
        self._average: dict[str, float] = {}
        self._recent: dict[str, list[float]] = {}
        self.findings: list[Finding] = []
        self.latest: list[str] = []
        """Names of the causes that the last update showed first."""

    @property
    def warned(self) -> list[str]:
        """Names of all causes found."""
        return [finding.cause for finding in self.findings]

    def update(self, metrics: Mapping[str, Any]) -> None:
        """Take in an update's metrics and tell what has collapsed."""
        self.latest = []
        reward = metrics.get("reward")
        if reward is None or math.isnan(reward):
            return  # no sound episode: nothing is known
        self.seen += 1
        for name in self._read & metrics.keys():
            if (value := metrics[name]) is not None and math.isfinite(value):
                self._add(name, float(value))
        self._find(int(metrics.get("step", self.seen - 1)), PATIENCE)

    def finish(self) -> list[str]:
        """Tell at the end what all updates of a training shorter than ``PATIENCE`` showed; the
        names of causes found now."""
        self.latest = []
        if self.seen:
            self._find(self.seen - 1, min(PATIENCE, self.seen))
        return self.latest

    def judged(self) -> list[str]:
        """Name the causes of which all metrics were there."""
        return [
            name for name, cause in CAUSES.items()
            if any(all(s.metric in self._counts for s in one) for one in cause.signs)
        ]  # fmt: skip

    def _add(self, name: str, value: float) -> None:
        count = self._counts[name] = self._counts.get(name, 0) + 1
        if count <= FIRST:
            self._sums[name] = self._sums.get(name, 0.0) + value
        before = self._average.get(name, value)
        self._average[name] = (1 - WEIGHT) * before + WEIGHT * value
        self._recent[name] = [*self._recent.get(name, ()), value][-PATIENCE:]

    def _find(self, update: int, patience: int) -> None:
        for name, cause in CAUSES.items():
            if name in self.warned or any(self._holds(sign, patience) for sign in cause.unless):
                continue
            for signs in cause.signs:
                if all(self._holds(sign, patience) for sign in signs):
                    self._tell(name, update, signs[0])
                    break

    def _tell(self, name: str, update: int, sign: Sign) -> None:
        raw = sign.what in ("least", "most")
        value = self._recent[sign.metric][-1] if raw else self._average[sign.metric]
        start = self._sums[sign.metric] / FIRST if self._counts[sign.metric] > FIRST else None
        finding = Finding(name, update, sign.metric, value, start)
        self.findings.append(finding)
        self.latest.append(name)
        if self._warn:
            warnings.warn(finding.text, CollapseWarning, stacklevel=5)

    def _holds(self, sign: Sign, patience: int) -> bool:
        value = self._value(sign, patience)
        if value is None:
            return False
        return value > sign.bound if sign.side == "above" else value < sign.bound

    def _value(self, sign: Sign, patience: int) -> float | None:
        """Value that a sign compares with its bound; None where too little is known."""
        count = self._counts.get(sign.metric, 0)
        if sign.what in ("least", "most"):
            recent = self._recent.get(sign.metric, [])
            of = min if sign.what == "least" else max
            return of(recent) if count >= patience else None
        if count <= FIRST:
            return None
        now, start = self._average[sign.metric], self._sums[sign.metric] / FIRST
        if sign.what == "ratio":
            return now / start if start > 0 else math.inf if now > 0 else 1.0
        return {"now": now, "start": start, "rise": now - start}[sign.what]

    def state_dict(self) -> dict[str, Any]:
        """State as JSON values."""
        return {
            "seen": self.seen, "counts": self._counts, "sums": self._sums,
            "average": self._average, "recent": self._recent,
            "findings": [list(finding) for finding in self.findings],
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; of an older version, begin anew."""
        if "counts" not in state:
            return
        self.seen = int(state["seen"])
        self._counts, self._sums = dict(state["counts"]), dict(state["sums"])
        self._average = dict(state["average"])
        self._recent = {name: list(values) for name, values in state["recent"].items()}
        self.findings = [Finding(*values) for values in state["findings"]]


def diagnose(rows: Sequence[Mapping[str, Any]], **options: Any) -> CollapseMonitor:
    """Look through all rows of a log.

    Args:
        options: Of :class:`CollapseMonitor`.
    """
    monitor = CollapseMonitor(warn=False, **options)
    for row in rows:
        monitor.update(row)
    monitor.finish()
    return monitor


def meaning(name: str) -> str:
    """Return what a warning's name means; "" for an unknown one."""
    return CAUSES[name].meaning if name in CAUSES else ""
