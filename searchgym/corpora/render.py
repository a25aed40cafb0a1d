"""A world as a corpus: one page per entity, every fact stated on its subject's page.

Every choice is hashed from (wording seed, entity, property), so a page is the same bytes whatever
chunk it is rendered in, and a world's facts never depend on its wording.
"""

from __future__ import annotations

import re
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import WorldError
from ..seeding import derive
from ..text import listed
from ..types import Passage
from ..worlds.values import formatter
from ..worlds.world import World
from .corpus import GeneratedCorpus
from .render_forms import (
    NAME,
    SHORT,
    Chunk,
    Forms,
    Lead,
    Phrasing,
    compile_forms,
    compile_leads,
    compile_plain,
    indefinite,
    own_bits,
    side,
)

U64 = NDArray[np.uint64]
# How often a sentence names its subject by name, short reference, pronoun (in eighths).
_MODES = np.array([0, 0, 1, 1, 2, 2, 2, 2])
MOST_DISTRACTORS = 100
"""Maximum distractor sentences of a page: more would bury its facts, and take minutes to write."""


class PageRenderer:
    """Renders pages of one world with one wording. Compiling it takes a few milliseconds."""

    def __init__(
        self,
        world: World,
        *,
        wording_seed: int = 0,
        phrasing: Phrasing = "train",
        distractors: int = 0,
    ) -> None:
        _check_distractors(distractors)
        schema = world.schema
        self._world = world
        self._key = np.uint64(derive(wording_seed, "wording", "pages"))
        self._distractors = distractors
        self._forms: list[list[Forms]] = []  # [property][facet][template][mode]
        for p in schema.properties:
            t = schema.types[schema.type_index(p.source)]
            facets = range(max(1, len(t.facets)))
            self._forms.append([compile_forms(t, p, phrasing, f) for f in facets])
        self._templates = np.array([len(f[0]) for f in self._forms], np.uint64)
        self._leads: list[list[Lead]] = [compile_leads(t, schema, phrasing) for t in schema.types]
        self._fitting: dict[tuple[int, int], list[Lead]] = {}
        self._bits = own_bits(schema)
        self._formats = [None if p.is_relation else formatter(p) for p in schema.properties]
        plain = side(schema.distractors, phrasing) if distractors else ()
        if distractors and not plain:
            raise WorldError(f"schema {schema.name!r} has no {phrasing} distractor sentences")
        self._plain = [
            [[compile_plain(t, d, f) for d in plain] for f in range(max(1, len(t.facets)))]
            for t in schema.types
        ]
        self._members = [world.entities_of(i) for i in range(len(schema.types))]

    def chunk(self, lo: int, hi: int) -> Chunk:
        """Render entities ``lo <= e < hi``."""
        world = self._world
        first, last = int(world.indptr[lo]), int(world.indptr[hi])
        subject = world.subject_of[first:last].astype(np.int64)
        prop = world.property_of[first:last].astype(np.int64)
        surfaces = self._surfaces(subject, prop, world.object_of[first:last])
        fresh = np.ones(last - first, bool)
        fresh[1:] = (np.diff(subject) != 0) | (np.diff(prop) != 0)
        begin = np.flatnonzero(fresh)
        finish = np.append(begin[1:], last - first)
        g_subject, g_prop = subject[begin], prop[begin]
        h = mix(
            self._key
            ^ mix(g_subject.astype(np.uint64) * np.uint64(4096) + g_prop.astype(np.uint64))
        )
        order = np.lexsort((h, g_subject))
        g_subject, g_prop, h = g_subject[order], g_prop[order], h[order]
        template = ((h >> np.uint64(8)) % self._templates[g_prop]).tolist()
        mode = _MODES[((h >> np.uint64(40)) & np.uint64(7)).astype(np.int64)].tolist()
        props = g_prop.tolist()
        begins, ends = begin[order].tolist(), finish[order].tolist()
        bound = np.searchsorted(g_subject, np.arange(lo, hi + 1)).tolist()
        types = world.type_of[lo:hi].tolist()
        facets = world.facet_of[lo:hi].tolist()
        picks = mix(
            self._key ^ mix(np.arange(lo, hi).astype(np.uint64) + np.uint64(1 << 62))
        ).tolist()
        start, end = [0] * (last - first), [0] * (last - first)
        names, aliases = world.names[lo:hi], world.alias_of[lo:hi]
        texts: list[str] = []
        bits, all_forms = self._bits, self._forms
        for i, name in enumerate(names):
            ga, gb = bound[i], bound[i + 1]
            facet = facets[i]
            mask = 0
            where: dict[int, int] = {}
            for g in range(ga, gb):
                mask |= bits[props[g]]
                where[props[g]] = g
            lead = self._lead(types[i], mask, picks[i])
            out, at = self._open(lead, types[i], name, aliases[i])
            for part in lead.parts:
                out.append(part.text)
                at += len(part.text)
                if part.prop < 0:
                    continue
                g = where[part.prop]
                a, b = begins[g], ends[g]
                if part.alias:
                    words = world.alias_of[int(world.object_of[first + a])] or surfaces[a]
                    if part.article:
                        out.append(indefinite(words))
                        at += len(out[-1])
                    out.append(words)
                    at += len(words)
                    continue
                if part.article:
                    out.append(indefinite(surfaces[a]))
                    at += len(out[-1])
                at = _state(out, at, surfaces, start, end, a, b)
            states = lead.states
            extra = self._extra(lo + i, types[i], facet, gb - ga) if self._distractors else {}
            for g in range(ga, gb):
                if g - ga in extra:
                    at = _plain(out, at, extra[g - ga], name)
                p = props[g]
                if p in states:
                    continue
                form = all_forms[p][facet][template[g]][mode[g]]
                before, after = form.before, form.after
                if not form.fixed:
                    short = name.rpartition(" ")[2]
                    before = before.replace(NAME, name).replace(SHORT, short)
                    after = after.replace(NAME, name).replace(SHORT, short)
                a = begins[g]
                if form.article:
                    before += indefinite(surfaces[a])
                out.append(" ")
                out.append(before)
                at = _state(out, at + 1 + len(before), surfaces, start, end, a, ends[g])
                out.append(after)
                at += len(after)
            if gb - ga in extra:
                _plain(out, at, extra[gb - ga], name)
            texts.append("".join(out))
        return Chunk(texts, first, np.array(start, np.int32), np.array(end, np.int32))

    def _surfaces(
        self, subject: NDArray[np.int64], prop: NDArray[np.int64], obj: NDArray[np.int64]
    ) -> list[str]:
        """Return how each fact's object is written. A page writes its dates and numbers in one
        style."""
        names, formats = self._world.names, self._formats
        styles = (
            mix(self._key ^ mix(subject.astype(np.uint64) + np.uint64(1 << 61))) & np.uint64(1)
        ).tolist()
        surfaces = []
        for p, o, style in zip(prop.tolist(), obj.tolist(), styles, strict=True):
            write = formats[p]
            surfaces.append(names[o] if write is None else write(o, style))
        return surfaces

    def _lead(self, type_index: int, mask: int, pick: int) -> Lead:
        fitting = self._fitting.get((type_index, mask))
        if fitting is None:
            leads = self._leads[type_index]
            fitting = [lead for lead in leads[:-1] if not lead.needs & ~mask] or leads[-1:]
            self._fitting[type_index, mask] = fitting
        return fitting[pick % len(fitting)]

    def _open(self, lead: Lead, type_index: int, name: str, alias: str) -> tuple[list[str], int]:
        if alias:
            form = self._world.schema.types[type_index].alias
            text = alias if form == "full" else name
            if form and form != "full":
                text += " (" + form.replace("{a}", alias) + ")"
        else:
            text = name
        return [text], len(text)

    def _extra(self, entity: int, type_index: int, facet: int, groups: int) -> dict[int, list[str]]:
        draws = mix(self._key ^ mix(np.arange(4 * self._distractors, dtype=np.uint64)
                                    + np.uint64((1 << 60) + entity * 4096))).tolist()  # fmt: skip
        members = self._members[type_index]
        plain = self._plain[type_index][facet]
        distractors: dict[int, list[str]] = {}
        used: set[int] = set()
        for k in range(self._distractors):
            which, other, place, mode = draws[4 * k : 4 * k + 4]
            choice = which % len(plain)
            if choice in used and len(used) < len(plain):
                choice = next(c % len(plain) for c in range(choice, choice + len(plain))
                              if c % len(plain) not in used)  # fmt: skip
            used.add(choice)
            at = other % len(members)
            if int(members[at]) == entity:
                at = (at + 1) % len(members)
            text = plain[choice][mode % 3].replace("{x}", self._world.names[int(members[at])])
            distractors.setdefault(place % (groups + 1), []).append(text)
        return distractors


def _check_distractors(distractors: int) -> None:
    whole = isinstance(distractors, Integral) and not isinstance(distractors, bool)
    if not whole or not 0 <= distractors <= MOST_DISTRACTORS:
        raise WorldError(
            f"distractors must be a whole number of sentences a page from 0 to "
            f"{MOST_DISTRACTORS}, got {distractors!r:.40}"
        )


def mix(x: U64) -> U64:
    """SplitMix64's finaliser: a bijection that scatters neighbouring keys (Steele et al., 2014)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _state(
    out: list[str],
    at: int,
    surfaces: list[str],
    start: list[int],
    end: list[int],
    a: int,
    b: int,
) -> int:
    """Write the objects ``a..b-1`` as a list, note where each stands; the new length."""
    if b - a == 1:
        text = surfaces[a]
        out.append(text)
        start[a] = at
        end[a] = at = at + len(text)
        return at
    out.append(listed(surfaces[a:b]))
    for k in range(a, b):
        if k > a:
            at += 5 if k == b - 1 else 2
        start[k] = at
        end[k] = at = at + len(surfaces[k])
    return at


def _plain(out: list[str], at: int, sentences: list[str], name: str) -> int:
    for text in sentences:
        text = " " + text.replace(NAME, name).replace(SHORT, name.rpartition(" ")[2])
        out.append(text)
        at += len(text)
    return at


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
    _check_distractors(distractors)
    make: Any = PageRenderer
    if world.schema.prose:
        from .prose import ProseRenderer as make
    renderer = make(world, wording_seed=wording_seed, phrasing=phrasing, distractors=distractors)
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
