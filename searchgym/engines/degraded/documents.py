"""The documents a degraded web holds beside the true ones, by address, pages with wrong facts, and
how pages are opened there.

A fact's object is replaced, where the page states it, by the object of another fact of the same
property, so the wrong value always has the right type, facet and range.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ...batching import run_batch
from ...corpora.corpus import Corpus, GeneratedCorpus
from ...corpora.render_forms import indefinite
from ...errors import EngineError
from ...seeding import derive
from ...text import normalise_answer
from ...types import (
    CallContext,
    ChargedPage,
    Failure,
    Page,
    PageRequest,
    PageSource,
    Passage,
)
from ...worlds.values import STYLES, format_value
from ...worlds.world import World
from .fakes import ATTACKS, Attack, FakeDocument, attack, invent, junk, recognise
from .rates import Rates, Weather, episode_key, strikes

_TRIES = 12
_ARTICLE = re.compile(r"(?<![A-Za-z])([Aa])n? $")
OLDEST = 25
"""Years; old pages are 2 to this old. Ages, not dates: a date could not fit every page's facts."""


class Change(NamedTuple):
    """One fact as it is, and as a page states it."""

    fact: int
    true: str
    stated: str


class FactRewriter:
    """Writes false versions of the pages of one world. Pure in (position, key).

    ``EngineError`` unless corpus and world belong together.
    """

    def __init__(self, world: World | None, corpus: Corpus) -> None:
        if world is None or not isinstance(corpus, GeneratedCorpus):
            raise EngineError(
                "stale and contradicting pages need a generated world, whose facts are known; use "
                "noise, seo, duplicate or adversarial over this corpus"
            )
        self.world, self.corpus = world, corpus
        order = np.argsort(world.property_of, kind="stable")
        counts = np.bincount(world.property_of, minlength=len(world.schema.properties))
        self._facts_of = np.split(order, np.cumsum(counts)[:-1])
        """Fact numbers by property."""

    def rewrite(self, position: int, key: int) -> tuple[str, tuple[Change, ...]]:
        """The text of ``corpus[position]`` with about half of its facts wrong, at least one.

        Where no other value exists for any fact (a property with a single value in the whole
        world), the text comes back unchanged, with no changes.
        """
        text = self.corpus[position].text
        statements = self.corpus.stated_in(position)
        chosen = [s for s in statements if derive(key, "fact", s.fact) & 1]
        rest = [s for s in statements if s not in chosen]
        out: list[tuple[int, int, str]] = []
        changes: list[Change] = []
        for s in chosen + sorted(rest, key=lambda s: derive(key, "order", s.fact)):
            if s not in chosen and changes:
                break
            true = text[s.start : s.end]
            if (other := self._other(s.fact, true, key)) is not None:
                out.append((s.start, s.end, other))
                changes.append(Change(s.fact, true, other))
        for start, end, other in sorted(out, reverse=True):
            before = _ARTICLE.sub(lambda m: m[1] + indefinite(other), text[:start])  # noqa: B023
            text = before + other + text[end:]
        return text, tuple(changes)

    def _other(self, fact: int, written: str, key: int) -> str | None:
        """Another value of the fact's property, as the page would write it."""
        world = self.world
        known = world.fact(fact)
        prop = world.prop(known)
        rows = self._facts_of[known.property]
        lo, hi = int(world.indptr[known.subject]), int(world.indptr[known.subject + 1])
        same = world.property_of[lo:hi] == known.property
        true = set(world.object_of[lo:hi][same].tolist())
        names = {world.names[o] for o in true} if prop.is_relation else set()
        for attempt in range(_TRIES):
            row = int(rows[derive(key, "value", fact, attempt) % len(rows)])
            value = int(world.object_of[row])
            if value in true:
                continue
            if prop.is_relation:
                if value != known.subject and world.names[value] not in names:
                    return world.names[value]
                continue
            style = next(
                (s for s in range(STYLES) if format_value(prop, known.object, s) == written), 0
            )
            return format_value(prop, value, style)
        return None


def dated(text: str, age: int) -> str:
    """A page that says how many years old it is."""
    return f"{text} This version of the page is {age} years old."


_MASK = 0xFFFFFFFF
_TRIES = 24


class Falsified(NamedTuple):
    """A passage with wrong facts."""

    passage: Passage
    changes: tuple[Change, ...]


class Documents:
    """Writes invented documents; search results and opened pages agree because both ask here.

    ``dates``: old versions and contradicting pages say how old they are; with "all" true pages do,
    too, and are younger than the false ones about the same thing.
    """

    def __init__(
        self, corpus: Corpus, world: World | None, *, dates: bool | Literal["all"] = True
    ) -> None:
        self.corpus, self.world, self.dates = corpus, world, dates
        self._rewriter: FactRewriter | None = None

    def facts(self) -> FactRewriter:
        """``EngineError`` where there is no generated world."""
        if self._rewriter is None:
            self._rewriter = FactRewriter(self.world, self.corpus)
        return self._rewriter

    def position(self, passage: Passage) -> int | None:
        """Position of a hit in the corpus; ``None`` for passages from elsewhere."""
        if passage.id not in self.corpus:
            return None
        at = self.corpus.position(passage.id)
        return at if self.corpus[at] == passage else None

    # --- search results -----------------------------------------------------------------------
    def old_version(self, passage: Passage, ctx: CallContext) -> Falsified | None:
        """The page as it was: same address, another id, for it is not the evidence any more."""
        at = self.position(passage)
        if at is None:
            return None
        text, changes = self._falsify(at, ctx, "stale")
        if not changes:
            return None
        return Falsified(passage._replace(id=f"{passage.id}~old", text=text), changes)

    def contradiction(self, passage: Passage, ctx: CallContext) -> Falsified | None:
        """Another site's page about the same entity, some facts of which are wrong."""
        at = self.position(passage)
        if at is None:
            return None
        made = invent("contradiction", passage.title, at)
        text, changes = self._falsify(at, ctx, "contradiction")
        if not changes:
            return None
        return Falsified(Passage(made.id, passage.title, text, made.url), changes)

    def junk(self, text: str, draw: int) -> Passage:
        """A spam page about a text."""
        fake = invent("junk", text, draw & _MASK)
        return Passage(fake.id, *junk(fake), fake.url)

    def attack(
        self, text: str, key: int, shown: Sequence[Passage], only: str | None = None
    ) -> tuple[Passage, Attack]:
        """A document against an agent that searched for ``text``; it claims nothing that stands
        in the passages beside it, for that may be true. ``only``: of this kind."""
        beside = normalise_answer(" ".join(f"{p.title} {p.text}" for p in shown))
        kind = only or ATTACKS[derive(key, "kind") % len(ATTACKS)]
        best: tuple[FakeDocument, Attack] | None = None
        for attempt in range(_TRIES):
            fake = invent("attack", text, derive(key, "attack", attempt) & _MASK)
            about = self._attack(fake)
            if about.kind == kind or best is None:
                best = fake, about
            if about.kind != kind:
                continue
            if kind != "falsehood" or normalise_answer(about.claim) not in beside:
                break
        assert best is not None
        fake, about = best
        return Passage(fake.id, about.title, about.text, fake.url), about

    # --- pages --------------------------------------------------------------------------------
    def page(self, url: str, ctx: CallContext) -> Page | None:
        """The invented page at an address; ``None`` where none was invented."""
        fake = recognise(url)
        if fake is None:
            return None
        if fake.kind == "junk":
            title, text = junk(fake)
        elif fake.kind == "attack":
            about = self._attack(fake)
            title, text = about.title, about.text
        elif fake.payload >= len(self.corpus):
            return None
        elif fake.kind == "mirror":
            original = self.corpus[fake.payload]
            title, text = original.title, original.text
        else:
            title = self.corpus[fake.payload].title
            text = self._falsify(fake.payload, ctx, "contradiction")[0]
        return Page(fake.url, title, text, (fake.id,))

    def attack_at(self, url: str) -> Attack | None:
        """The record of the attack at an address, if there is one."""
        fake = recognise(url)
        return self._attack(fake) if fake is not None and fake.kind == "attack" else None

    def old_page(self, page: Page, ctx: CallContext) -> Page | None:
        """A page whose passages are old versions; ``None`` where nothing could be changed."""
        parts, ids, changed = [], [], False
        for name in page.passage_ids:
            if name not in self.corpus:
                return None
            passage = self.corpus.passage(name)
            old = self.old_version(passage, ctx)
            parts.append((old.passage if old else passage).text)
            ids.append((old.passage if old else passage).id)
            changed = changed or old is not None
        if not changed:
            return None
        return Page(page.url, page.title, "\n\n".join(parts), tuple(ids))

    def _falsify(self, at: int, ctx: CallContext, why: str) -> tuple[str, tuple[Change, ...]]:
        key = derive(episode_key(ctx), why, at)
        text, changes = self.facts().rewrite(at, key)
        if not self.dates or not changes:
            return text, changes
        if self.dates == "all":
            age = self._age(at, ctx) + 1 + derive(key, "age") % (OLDEST // 2)
        else:
            age = 2 + derive(key, "age") % (OLDEST - 1)
        return dated(text, age), changes

    def true_version(self, passage: Passage, ctx: CallContext) -> Passage:
        """The true page, with its age where all pages tell it; other passages as they are."""
        at = self.position(passage) if self.dates == "all" else None
        if at is None:
            return passage
        return passage._replace(text=dated(passage.text, self._age(at, ctx)))

    def true_page(self, page: Page, ctx: CallContext) -> Page:
        """An opened page as its search result is: with its age where all pages tell it."""
        known = [self.corpus.passage(i) for i in page.passage_ids if i in self.corpus]
        if self.dates != "all" or not known:
            return page
        return page._replace(
            text=dated(page.text, self._age(self.corpus.position(known[0].id), ctx))
        )

    def _age(self, at: int, ctx: CallContext) -> int:
        return 2 + derive(derive(episode_key(ctx), "true", at), "age") % (OLDEST // 2)

    def _attack(self, made: FakeDocument) -> Attack:
        """A falsehood claims the name of a passage that the question did not mention."""
        topic = normalise_answer(made.topic)
        n, start = len(self.corpus), derive(made.key, "claim")
        for i in range(min(n, 8)):
            title = self.corpus[(start + i) % n].title
            if title and normalise_answer(title) not in topic:
                return attack(made, title)
        return attack(made, f"number {start % 1000}")


class DegradedPages:
    """A page source under the rates, weather and documents of an engine; with all rates 0 it is the
    inner source."""

    degrades = True

    def __init__(
        self,
        inner: PageSource,
        rates: Rates,
        weather: Weather,
        documents: Documents,
        settings_digest: str,
    ) -> None:
        self.inner, self.rates = inner, rates
        self.weather, self.documents = weather, documents
        self.needs_task = inner.needs_task
        self.fingerprint = f"degraded:{settings_digest}:{inner.fingerprint}"

    def cache_key(self, request: PageRequest, /) -> bytes | None:
        """The inner key where nothing is degraded; else no answer is shared."""
        rates = self.rates.under(request.ctx.params)
        return None if any(rates) else self.inner.cache_key(request)

    def run(self, batch: Sequence[PageRequest], /) -> list[Page | Failure | None]:
        """One page, ``None`` or failure per request, in order."""
        rates = [self.rates.under(request.ctx.params) for request in batch]
        if not any(map(any, rates)):
            return list(run_batch(self.inner, batch))
        answers: list[Any] = [None] * len(batch)
        seconds = [0.0] * len(batch)
        asked: list[int] = []
        for i, (request, rate) in enumerate(zip(batch, rates, strict=True)):
            seconds[i], answers[i] = self.weather.strike(rate, request.ctx)
            if answers[i] is not None or strikes(
                rate.dead, episode_key(request.ctx), "dead", request.url.strip()
            ):
                continue
            if any(rate) and (page := self.documents.page(request.url, request.ctx)):
                answers[i] = page
            else:
                asked.append(i)
        for i, page in zip(asked, run_batch(self.inner, [batch[i] for i in asked]), strict=True):
            answers[i] = page
        return [
            self._told(request, rate, answer, spent)
            for request, rate, answer, spent in zip(batch, rates, answers, seconds, strict=True)
        ]

    def _told(
        self, request: PageRequest, rates: Rates, page: Page | Failure | None, seconds: float
    ) -> Page | Failure | None:
        """The page as this episode's web has it, with a record of what was done to it."""
        if page is None or isinstance(page, Failure) or not any(rates):
            return page
        notes: dict[str, Any] = {}
        if strikes(rates.stale, episode_key(request.ctx), "stale", page.url):
            old = self.documents.old_page(page, request.ctx)
            if old is not None:
                page, notes["stale"] = _like(page, old), list(old.passage_ids)
        if not notes:
            page = _like(page, self.documents.true_page(Page(*page[:4]), request.ctx))
        if about := self.documents.attack_at(page.url):
            notes["injected"] = [about.told()]
        if seconds:
            notes["latency"] = seconds
        if not notes:
            return page
        meta = {**getattr(page, "meta", {}), "degraded": notes}
        return ChargedPage.of(page, getattr(page, "cost", 0.0), meta)


def _like(page: Page, old: Page) -> Page:
    """``old`` at what ``page`` cost."""
    return ChargedPage.of(old, page.cost, page.meta) if isinstance(page, ChargedPage) else old
