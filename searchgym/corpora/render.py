"""A world as a corpus: one page per entity, every fact stated on its subject's page."""

from __future__ import annotations

import re

import numpy as np

from ..seeding import derive
from ..types import Passage
from ..worlds.world import World
from .corpus import GeneratedCorpus
from .render_forms import Phrasing
from .render_pages import PageRenderer

SITE = "https://world.example/wiki/"
CHUNK = 2_000
"""Entities rendered at once: small enough for the processor's cache."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.,()~-]")


def render(
    world: World,
    *,
    wording_seed: int = 0,
    phrasing: Phrasing = "train",
    distractors: int = 0,
    name: str | None = None,
) -> GeneratedCorpus:
    """Render one page per entity, in the entities' order; ``corpus.page_of[e] == e``.

    A page is a first sentence and one sentence per property, in a hashed order, with
    ``distractors`` further sentences that state no property. Each fact is stated exactly once: its
    statement's ``text[start:end]`` is the object's name or written value. ``phrasing`` says whether
    the train phrasings, the held-out ones or all are used. Same arguments, same bytes.

    Look-alike pages are made by ``generate(..., lookalikes=...)``: a twin is an entity of the
    world, so that a proof of uniqueness over the world holds for the corpus.
    """
    renderer = PageRenderer(
        world, wording_seed=wording_seed, phrasing=phrasing, distractors=distractors
    )
    n = world.n_entities
    ids = PassageIds(world)
    passages: list[Passage] = []
    starts, ends = [], []
    for lo in range(0, n, CHUNK):
        hi = min(n, lo + CHUNK)
        chunk = renderer.chunk(lo, hi)
        for e, text in enumerate(chunk.texts, lo):
            title = world.titles[e]
            passages.append(Passage(ids(e), title, text, page_url(title)))
        starts.append(chunk.start)
        ends.append(chunk.end)
    return GeneratedCorpus(
        name or f"{world.schema.name}-{world.seed}",
        passages,
        fact=np.arange(world.n_facts),
        passage=world.subject_of.astype(np.int64),
        start=np.concatenate(starts),
        end=np.concatenate(ends),
        page_of=np.arange(n),
    )


class PassageIds:
    """Entity number -> passage id such as "w0-000123"; ids sort as numbers do."""

    def __init__(self, world: World) -> None:
        width = max(6, len(str(max(0, world.n_entities - 1))))
        # Long seeds are shortened: an id is for reading, the digest tells worlds apart.
        seed = (
            str(world.seed) if 0 <= world.seed < 100_000 else f"{derive(world.seed, 'id'):016x}"[:6]
        )
        self._form = f"w{seed}-%0{width}d"

    def __call__(self, entity: int) -> str:
        return self._form % entity


def page_url(title: str) -> str:
    """The address of a page; different titles have different addresses."""
    path = title.replace(" ", "_")
    if _UNSAFE.search(path):
        path = _UNSAFE.sub(lambda m: "".join(f"%{b:02X}" for b in m[0].encode()), path)
    return SITE + path
