"""The form of a declaration: arms, the figures that are compared, and what was published."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...errors import CardError

By = Literal["difference", "ratio"]


@dataclass(frozen=True)
class Arm:
    """One side of an ordering: a measurement, made once for each seed.

    Args:
        measure: A name in ``measures.MEASURES``.
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
class Compared:
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
    compared: tuple[Compared, ...]
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


def below(first: tuple[str, str], second: tuple[str, str]) -> Compared:
    """The first figure is smaller, as a ratio."""
    return Compared(first, second, "ratio", most=1.0)
