"""Episodes as one HTML file that needs no other: those of a list, or those that stand for many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from . import query
from .app import viewer_pages
from .highlight import SearchTerms
from .index import Index
from .query import Filter
from .record import Record

MOST_EPISODES = 200
MOST_BYTES = 40 << 20
"""Largest number of bytes of records; browsers open a file of this size at once."""


class Exported(NamedTuple):
    shown: int
    total: int


def export(
    index: Index, path: Path, chosen: Filter | None = None, most: int = MOST_EPISODES
) -> Exported:
    """Write the first ``most`` episodes of a list; the page says how many there are.

    ``DataError`` if none fits the filter.
    """
    chosen = chosen or Filter()
    listing = query.listing(index, chosen, size=most)
    if not listing.rows:
        raise DataError(f"no episode of {index.run} fits the filter; nothing was written")
    return write(index, path, [row["key"] for row in listing.rows], listing.total)


def write(index: Index, path: Path, keys: Sequence[str], total: int) -> Exported:
    """Write the episodes of these keys, as far as there is room; ``total``: how many there are."""
    entries: list[tuple[str, Record]] = []
    room, told = MOST_BYTES, ""
    for key in keys:
        record = index.record(key)
        assert record is not None  # it was listed a moment ago, and the index was not refreshed
        room -= index.size(key)
        if room < 0 and entries:
            told = f"as they take {MOST_BYTES >> 20} MiB"
            break
        entries.append((key, record))
    text = viewer_pages().standalone(
        "export.html", run=index.run.name, exported=True, several=False, live=False,
        entries=entries, total=total, told=told, search=SearchTerms(),
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return Exported(len(entries), total)


class Examples(NamedTuple):
    """Keys of three episodes; the same one more than once where there are few."""

    episodes: int
    best: str
    typical: str
    worst: str


def examples_of(index: Index, chosen: Filter) -> Examples | None:
    """Order the episodes by reward, of equal ones the shorter first; None if none fits."""
    where, values = chosen.where()
    rows = index.rows(
        f"SELECT key FROM episodes WHERE {where} "
        "ORDER BY coalesce(reward, correct, 0) DESC, turns, id", values,
    )  # fmt: skip
    if not rows:
        return None
    keys = [str(row["key"]) for row in rows]
    return Examples(len(keys), keys[0], keys[len(keys) // 2], keys[-1])


def export_examples(
    index: Index, path: Path, filters: Sequence[Filter]
) -> list[Examples | None]:  # fmt: skip
    """Write the episodes that stand for each filter into one page, at ``#e-KEY``. Filters whose
    episodes it has no room for get None."""
    examples = [examples_of(index, chosen) for chosen in filters]
    keys: dict[str, None] = {}
    for i, one in enumerate(examples):
        new = dict.fromkeys(one[1:]) if one else {}
        if len(keys | new) > MOST_EPISODES:
            examples[i] = None
        else:
            keys |= new
    if not keys:
        return examples
    (row,) = index.rows("SELECT count(*) AS n FROM episodes")
    kept = {*list(keys)[: write(index, path, list(keys), row["n"]).shown]}
    return [one if one and kept.issuperset(one[1:]) else None for one in examples]
