"""The episodes that stand for many: best, typical and worst of those that fit a filter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .export import MOST_EPISODES, write
from .index import Index
from .query import Filter


class Standing(NamedTuple):
    """Keys of three episodes; the same one more than once where there are few."""

    episodes: int
    best: str
    typical: str
    worst: str


def standing(index: Index, chosen: Filter) -> Standing | None:
    """Order the episodes by reward, of equal ones the shorter first; None if none fits."""
    where, values = chosen.where()
    rows = index.rows(
        f"SELECT key FROM episodes WHERE {where} "
        "ORDER BY coalesce(reward, correct, 0) DESC, turns, id", values,
    )  # fmt: skip
    if not rows:
        return None
    keys = [str(row["key"]) for row in rows]
    return Standing(len(keys), keys[0], keys[len(keys) // 2], keys[-1])


def export_standing(
    index: Index, path: Path, filters: Sequence[Filter]
) -> list[Standing | None]:  # fmt: skip
    """Write the episodes that stand for each filter into one page, at ``#e-KEY``. Filters whose
    episodes it has no room for get None."""
    standings = [standing(index, chosen) for chosen in filters]
    keys: dict[str, None] = {}
    for i, one in enumerate(standings):
        new = dict.fromkeys(one[1:]) if one else {}
        if len(keys | new) > MOST_EPISODES:
            standings[i] = None
        else:
            keys |= new
    if not keys:
        return standings
    (row,) = index.rows("SELECT count(*) AS n FROM episodes")
    kept = {*list(keys)[: write(index, path, list(keys), row["n"]).shown]}
    return [one if one and kept.issuperset(one[1:]) else None for one in standings]
