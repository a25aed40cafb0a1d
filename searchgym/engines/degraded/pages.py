"""Opening pages on a degraded web: dead links, old versions, and what only its results invented."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...batching import run_batch
from ...types import ChargedPage, Failure, Page, PageRequest, PageSource
from .documents import Documents
from .rates import Rates, Weather, episode_key, strikes


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
