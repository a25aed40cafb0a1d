"""A published ordering: its declaration, and its verdict by the figures of several seeds.

The declarations stand in ``papers.toml``, of which a table is an :class:`Ordering`.

The seeds of an ordering's arms are paired: equal seeds have equal questions and equal beginnings.
An interval is Student's t over these pairs (of the logarithm, for ratios), which with three seeds
is wide, as it should be.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple, get_args

from searchgym.errors import CardError

from ..learning_results import NOTHING, interval

By = Literal["difference", "ratio"]


@dataclass(frozen=True)
class Arm:
    """One side of an ordering: a measurement, made once for each seed.

    Args:
        measure: A name in ``results.MEASURES``.
        options: Its keywords, of JSON values. Arms with equal measurements share their pieces.
    """

    measure: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def piece(self, seed: int) -> str:
        """Name of the measurement of one seed, by which a result holds it: it says all of it."""
        options = ", ".join(f"{k}={_told(v)}" for k, v in sorted(self.options.items()))
        return f"{self.measure}({options}) seed {seed}"


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_told(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_told, value)) + "]"
    return str(value)


@dataclass(frozen=True)
class Comparison:
    """Two figures, and the range in which what was published lies.

    Args:
        first, second: (arm, figure) each; seed by seed, first minus second or first over second.
        least, most: Ends of the range. An interval inside agrees, one outside disagrees.
    """

    first: tuple[str, str]
    second: tuple[str, str]
    by: By = "difference"
    least: float = -math.inf
    most: float = math.inf
    what: str = ""
    """Words for the table; by default the figure and the arms."""

    @property
    def told(self) -> str:
        """Short text of the comparison."""
        (a, figure), (b, other) = self.first, self.second
        if self.what:
            return self.what
        sign = "/" if self.by == "ratio" else "-"
        if figure == other:
            return f"{figure}: {a} {sign} {b}"
        return f"{figure} {sign} {other}" if a == b else f"{a}'s {figure} {sign} {b}'s {other}"

    @property
    def range(self) -> str:
        """The published range: "< 1", "> 0"."""
        ends = [f"> {self.least:.3g}"] * (self.least > -math.inf)
        ends += [f"< {self.most:.3g}"] * (self.most < math.inf)
        return " and ".join(ends)


@dataclass(frozen=True)
class Ordering:
    """A published ordering and how it is measured here.

    Raises:
        CardError: a comparison names an arm that is not there, or has no range.
    """

    name: str
    source: str
    """Authors or method, and arXiv id."""
    claim: str
    """Statement that was published."""
    how: str
    """Measurement that stands for it here, and how it differs."""
    arms: Mapping[str, Arm]
    compared: tuple[Comparison, ...]
    """Comparisons: all must agree for the ordering to agree; one that disagrees is enough to
    disagree."""
    seeds: int = 3

    def __post_init__(self) -> None:
        if not self.compared:
            raise CardError(f"{self.name}: an ordering compares two figures at least once")
        for pair in self.compared:
            if pair.least == -math.inf and pair.most == math.inf:
                raise CardError(f"{self.name}: {pair.told} has no range: give least or most")
            for arm, _ in (pair.first, pair.second):
                if arm not in self.arms:
                    raise CardError(f"{self.name}: no arm {arm!r}; there are {sorted(self.arms)}")

    def pieces(self) -> dict[str, tuple[Arm, int]]:
        """Piece → arm and seed, seed by seed, so that a run that stops has whole seeds."""
        return {
            arm.piece(seed): (arm, seed) for seed in range(self.seeds) for arm in self.arms.values()
        }


def _published() -> dict[str, Ordering]:
    tables = tomllib.loads(Path(__file__).with_name("papers.toml").read_text("utf-8"))
    for table in tables.values():
        table["arms"] = {name: Arm(**arm) for name, arm in table["arms"].items()}
        table["compared"] = tuple(Comparison(**pair) for pair in table["compared"])
    return {name: Ordering(name, **table) for name, table in tables.items()}


ORDERINGS: Mapping[str, Ordering] = _published()
"""Orderings by name, those that take seconds first."""


Verdict = Literal["agree", "disagree", "undecided", "not measurable", "not measured"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
LEAST_SEEDS = 3
Figures = Mapping[str, Any]
"""Figures of one piece: name → number or None; ``capped`` names those that are lower bounds, where
a training ended before it got there."""


class Judgement(NamedTuple):
    """Measurement of a comparison: its interval and verdict."""

    what: str
    range: str
    mean: float
    low: float
    high: float
    seeds: int
    verdict: Verdict
    collapsed: tuple[int, int] = (0, 0)
    """Seeds of either side whose training ended with nothing learnt (:data:`NOTHING`)."""


def judge(pair: Comparison, arms: Mapping[str, Sequence[Figures]]) -> Judgement:
    """Compare two figures seed by seed.

    A figure that is a lower bound leaves its side of the interval open: if a training has not
    reached the goal, the number of episodes it takes is anything above those it had. Where neither
    side's trainings have learnt anything, the rest of their figures say nothing of the methods:
    "not measurable".

    Args:
        arms: Figures of each arm, seed by seed, as many as were measured.
    """
    (a, figure), (b, other) = pair.first, pair.second
    both = [(x, y) for x, y in zip(arms[a], arms[b], strict=False)
            if x.get(figure) is not None and y.get(other) is not None]  # fmt: skip
    mean, low, high = paired([(x[figure], y[other]) for x, y in both], pair.by)
    if any(figure in x.get("capped", ()) for x, _ in both):
        high = math.inf
    if any(other in y.get("capped", ()) for _, y in both):
        low = 0.0 if pair.by == "ratio" else -math.inf
    verdict = of_interval(low, high, pair.least, pair.most, len(both))
    sides = [[f["em"] for f in side if "em" in f] for side in zip(*both, strict=True)]
    at_0 = [sum(em <= NOTHING for em in side) for side in sides] or [0, 0]
    if verdict != "not measured" and all(side and fmean(side) <= NOTHING for side in sides):
        verdict = "not measurable"
    return Judgement(pair.told, pair.range, mean, low, high, len(both), verdict, (at_0[0], at_0[1]))


def paired(values: Sequence[tuple[float, float]], by: By) -> tuple[float, float, float]:
    """Mean difference, or geometric mean of the ratios, with its 95 % interval; one that says
    nothing where there are fewer than three seeds, or a ratio of something that is not above 0."""
    if len(values) < LEAST_SEEDS:
        return math.nan, -math.inf, math.inf
    if by == "difference":
        return interval([x - y for x, y in values])
    if min(min(pair) for pair in values) <= 0:
        first, second = (sum(side) for side in zip(*values, strict=True))
        return (first / second if second > 0 else math.nan), 0.0, math.inf
    mean, low, high = (math.exp(v) for v in interval([math.log(x / y) for x, y in values]))
    return mean, low, high


def of_interval(low: float, high: float, least: float, most: float, seeds: int) -> Verdict:
    """``agree`` if the interval lies inside the published range, ``disagree`` if outside, else
    ``undecided``; an end on the edge decides nothing."""
    if seeds < LEAST_SEEDS:
        return "not measured"
    if (low > least or least == -math.inf) and (high < most or most == math.inf):
        return "agree"
    return "disagree" if high < least or low > most else "undecided"


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """Verdict of an ordering: of all its comparisons together."""
    if not verdicts or "not measured" in verdicts:
        return "not measured"
    if "disagree" in verdicts:
        return "disagree"
    if "not measurable" in verdicts:
        return "not measurable"
    return "agree" if set(verdicts) == {"agree"} else "undecided"


def verdict_of(
    ordering: Ordering, pieces: Mapping[str, Figures]
) -> tuple[Verdict, tuple[Judgement, ...]]:
    """An ordering's verdict and its comparisons, from the pieces that were measured. A comparison
    leaves out the seeds of which one of its arms lacks a piece."""
    comparisons = []
    for pair in ordering.compared:
        names = {name for name, _ in (pair.first, pair.second)}
        there = [
            {name: pieces[ordering.arms[name].piece(seed)] for name in names}
            for seed in range(ordering.seeds)
            if all(ordering.arms[name].piece(seed) in pieces for name in names)
        ]
        comparisons.append(judge(pair, {name: [seed[name] for seed in there] for name in names}))
    return overall([one.verdict for one in comparisons]), tuple(comparisons)
