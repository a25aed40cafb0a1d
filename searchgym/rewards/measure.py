"""Calling what measures a part: the standard ones, and one's own with their values checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from numbers import Real
from typing import Any

from ..errors import RewardError
from ..objects import load_known
from .outcome import Outcome
from .part import Part
from .registry import FINAL, REWARDS, TURN
from .source import told

Values = dict[str, float]
Measure = Callable[[Outcome], float]
Writer = Callable[[Outcome, Values], None]
"""Measures an own part and writes its value, and what it says in detail, into values."""


@cache
def of_action(kind: type) -> tuple[tuple[str, Measure], ...]:
    """The standard parts of turns that a kind of action may earn."""
    parts = [(name, load_known(REWARDS[name])) for name in TURN]
    return tuple((name, measure) for name, measure in parts if kind in measure.per_turn)


@cache
def of_end() -> tuple[tuple[str, Measure], ...]:
    """The standard parts of the end."""
    return tuple((name, load_known(REWARDS[name])) for name in FINAL)


def writer(part: Part, function: Callable[[Outcome], Any]) -> Writer:
    """``function``, its value written down as a finite float; ``RewardError`` names the part."""
    name, where = part.name, part.use or told(part.measure)

    def write(outcome: Outcome, values: Values) -> None:
        try:
            value = function(outcome)
        except Exception as error:
            raise RewardError(
                f"the reward part {name!r} ({where}) failed on task {outcome.task.id!r}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if isinstance(value, Mapping):
            detail = {f"{name}.{key}": number(each) for key, each in value.items()}
            if None not in detail.values():
                values.update(detail)  # type: ignore[arg-type]
                values[name] = math.fsum(detail.values())  # type: ignore[arg-type]
                return
        elif (plain := number(value)) is not None:
            values[name] = plain
            return
        raise RewardError(
            f"the reward part {name!r} ({where}) must give a finite number, or several by name, "
            f"and gave {value!r:.80} on task {outcome.task.id!r}"
        )

    return write


def number(value: Any) -> float | None:
    """A finite float of a number, a truth value or a NumPy or PyTorch scalar; ``None`` of anything
    else."""
    if isinstance(value, Real) or getattr(value, "shape", None) == ():
        with suppress(TypeError, ValueError, OverflowError):
            plain = float(value)
            return plain if math.isfinite(plain) else None
    return None
