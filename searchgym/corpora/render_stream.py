"""Rendering to disk: pages as JSON lines, spans as columns, a bounded amount in memory.

Measured in ``tests/benchmarks/test_world_scale.py``: a million entities in well under a minute.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..types import Passage
from ..worlds.storage import world_digest
from ..worlds.world import World
from .render import CHUNK, PassageIds, page_url
from .render_forms import Phrasing
from .render_pages import PageRenderer

Progress = Callable[[int, int], None]
"""Function called with (pages done, pages in all) after every chunk."""
_quote = json.encoder.encode_basestring


def render_to_disk(
    world: World,
    folder: str | Path,
    *,
    wording_seed: int = 0,
    phrasing: Phrasing = "train",
    distractors: int = 0,
    progress: Progress | None = None,
) -> Path:
    """Write what ``render`` returns into ``folder``; returns the folder.

    ``passages.jsonl``: one object per line with ``id, title, text, url``, in the entities' order.
    ``start.npy, end.npy`` (F,) int32: where each fact is stated in its subject's text.
    ``offsets.npy`` (N + 1,) int64: byte at which each line begins. ``corpus.json``: names and
    counts, written last, so that a folder without it is a rendering that was interrupted.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "corpus.json"
    done.unlink(missing_ok=True)
    renderer = PageRenderer(
        world, wording_seed=wording_seed, phrasing=phrasing, distractors=distractors
    )
    n, f = world.n_entities, world.n_facts
    starts, ends = np.empty(f, np.int32), np.empty(f, np.int32)
    offsets = np.zeros(n + 1, np.int64)
    ids = PassageIds(world)
    with (folder / "passages.jsonl").open("wb") as file:
        at = 0
        for lo in range(0, n, CHUNK):
            hi = min(n, lo + CHUNK)
            chunk = renderer.chunk(lo, hi)
            rows = slice(chunk.first_fact, chunk.first_fact + len(chunk.start))
            starts[rows], ends[rows] = chunk.start, chunk.end
            lines = [
                f'{{"id": "{ids(e)}", "title": {_quote(title)}, "text": {_quote(text)}, '
                f'"url": "{page_url(title)}"}}\n'.encode()
                for e, title, text in zip(
                    range(lo, hi), world.titles[lo:hi], chunk.texts, strict=True
                )
            ]
            offsets[lo + 1 : hi + 1] = at + np.cumsum([len(line) for line in lines])
            at = int(offsets[hi])
            file.write(b"".join(lines))
            if progress is not None:
                progress(hi, n)
    for name, column in (("start", starts), ("end", ends), ("offsets", offsets)):
        np.save(folder / f"{name}.npy", column, allow_pickle=False)
    head = {
        "name": f"{world.schema.name}-{world.seed}",
        "world": world_digest(world),
        "wording_seed": wording_seed,
        "phrasing": phrasing,
        "distractors": distractors,
        "pages": n,
        "facts": f,
    }
    done.write_text(json.dumps(head), encoding="utf-8")
    return folder


def iter_rendered(folder: str | Path) -> Iterator[Passage]:
    """The passages of a rendered folder, one at a time; ``DataError`` names a bad line."""
    path = Path(folder) / "passages.jsonl"
    _head(path.parent)
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                yield Passage(row["id"], row["title"], row["text"], row["url"])
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise DataError(f"{path}:{number}: not a passage: {error}") from None


def _head(folder: Path) -> dict[str, Any]:
    try:
        head: dict[str, Any] = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder}: no corpus.json; the rendering is missing or was cut") from None
    return head
