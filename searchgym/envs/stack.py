"""Stacking of many infos into one, laid out as by Gymnasium's ``VectorEnv._add_info``, but column
by column: at a thousand slots the per-item version costs as much as the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def stack_infos(infos: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """Columns of ``infos`` by key, each beside a ``_key`` mask of who has it.

    Integers, floats and booleans become numeric arrays (of floats where any is one); nested dicts
    nest; the rest are object arrays with ``None`` where absent.
    """
    n = len(infos)
    keys: dict[str, None] = {}
    shapes: set[tuple[str, ...]] = set()
    for info in infos:
        if info is not None and (shape := tuple(info)) not in shapes:
            shapes.add(shape)
            keys.update(dict.fromkeys(shape))
    complete = len(shapes) == 1 and all(info is not None for info in infos)
    out: dict[str, Any] = {}
    for key in keys:
        if complete:
            values: list[Any] = [info[key] for info in infos]  # type: ignore[index]
            mask = np.ones(n, dtype=np.bool_)
        else:
            values = [None if info is None else info.get(key, _ABSENT) for info in infos]
            mask = np.array(
                [v is not _ABSENT and i is not None for v, i in zip(values, infos, strict=True)]
            )
            values = [None if v is _ABSENT else v for v in values]
        out[key], out[f"_{key}"] = _column(key, values, mask), mask
    return out


_ABSENT = object()


def _column(key: str, values: list[Any], mask: Any) -> Any:
    first = next(v for v, there in zip(values, mask, strict=True) if there)
    if isinstance(first, dict) and key != "final_obs":
        return stack_infos([v if isinstance(v, dict) else None for v in values])
    if type(first) in (int, float, bool) or isinstance(first, np.number):
        absent = type(first)()
        # no dtype of the first's: beside 0, a share of 0.25 must not become 0
        return np.array([absent if v is None else v for v in values])
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
