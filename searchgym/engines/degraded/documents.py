"""The documents a degraded web holds beside the true ones, by address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...corpora.corpus import Corpus
from ...seeding import derive
from ...text import normalise_answer
from ...types import CallContext, Page, Passage
from ...worlds.world import World
from .attacks import ATTACKS, Attack, attack
from .facts import Change, FactRewriter, dated
from .junk import junk
from .rates import episode_key
from .urls import Invented, invent, recognise

_MASK = 0xFFFFFFFF
_TRIES = 24


class Falsified(NamedTuple):
    """A passage with wrong facts."""

    passage: Passage
    changes: tuple[Change, ...]


class Documents:
    """Writes invented documents; search results and opened pages agree because both ask here.

    ``dates``: old versions and contradicting pages say how old they are.
    """

    def __init__(self, corpus: Corpus, world: World | None, *, dates: bool = True) -> None:
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
        best: tuple[Invented, Attack] | None = None
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
        return (dated(text, key) if self.dates and changes else text), changes

    def _attack(self, made: Invented) -> Attack:
        """A falsehood claims the name of a passage that the question did not mention."""
        topic = normalise_answer(made.topic)
        n, start = len(self.corpus), derive(made.key, "claim")
        for i in range(min(n, 8)):
            title = self.corpus[(start + i) % n].title
            if title and normalise_answer(title) not in topic:
                return attack(made, title)
        return attack(made, f"number {start % 1000}")
