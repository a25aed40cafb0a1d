"""Record, replay, or replay-or-ask-live: any engine or page source made reproducible.

Answers lie in one SQLite file, keyed by a digest of (the service's fingerprint, the request in
canonical form), so recordings of several services or versions share a file and never mix. What was
answered is on disk: a killed process loses nothing that it handed out.

Degrade what was recorded, never record what was degraded: noise belongs to one episode, a recording
to all. After DeepTravel's cached sandbox (``CachedBackend``) and SenseNova-MARS's cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from ..batching import run_batch
from ..corpora.corpus import Corpus
from ..errors import EngineError, check_known, unknown
from ..storage.files import parse_json
from ..storage.records import hits_from_json, hits_to_json, result_from_json, result_to_json
from ..storage.store import Store
from ..types import (
    CallContext,
    Charged,
    ChargedPage,
    Failure,
    Page,
    PageRequest,
    PageSource,
    Query,
    Ranking,
    Service,
    ToolCall,
)
from ..worlds.world import World
from .pages import pages_of
from .registry import build_engine


# --- requests and answers as JSON --------------------------------------------------------------
class ServiceCodec(NamedTuple):
    """Codec of one kind of service: requests and answers as JSON."""

    request: Callable[[Any], Any]
    """Request as JSON, without the episode's context."""
    context: Callable[[Any], Any]
    """The rest an answer may depend on: key, parameters, task, state."""
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    shown: Callable[[Any], str]
    """The request for people."""
    probe: Callable[[CallContext], Any]
    """A request in some context, to find out whether contexts matter."""

    def reads_context(self, service: Any) -> bool:
        """Check whether a service's answers depend on more than the request."""
        if service.needs_task:
            return True
        keys = [service.cache_key(self.probe(context)) for context in _CONTEXTS]
        return keys[0] is None or keys[0] != keys[1]


_CONTEXTS = (CallContext(1, "one", {}), CallContext(2, "two", {"noise": 0.5}, None, None, 1))


def _context(request: Query | PageRequest | ToolCall) -> Any:
    ctx = request.ctx
    task = None if ctx.task is None else [ctx.task.id, ctx.task.question, list(ctx.task.answers)]
    return [ctx.key, dict(ctx.params), ctx.state, task]


def _search_encode(ranking: Ranking) -> Any:
    if isinstance(ranking, Charged):
        return {"hits": hits_to_json(ranking), "cost": ranking.cost, "meta": dict(ranking.meta)}
    return {"hits": hits_to_json(ranking)}


def _search_decode(data: Any) -> Ranking:
    hits = hits_from_json(data["hits"])
    return Charged(hits, data["cost"], data["meta"]) if "cost" in data else hits


def _page_encode(page: Page | None) -> Any:
    if page is None:
        return None
    written = {"page": [page.url, page.title, page.text, list(page.passage_ids)]}
    if isinstance(page, ChargedPage):
        return {**written, "cost": page.cost, "meta": dict(page.meta)}
    return written


def _page_decode(data: Any) -> Page | None:
    if data is None:
        return None
    url, title, text, ids = data["page"]
    page = Page(url, title, text, tuple(ids))
    return ChargedPage.of(page, data["cost"], data["meta"]) if "cost" in data else page


def _tool_context(call: ToolCall) -> Any:
    """Tools are pure in (arguments, state), unless they are told the task: what stands behind such
    a one (a simulated engine) may read anything of the episode, its noise for instance."""
    return [call.ctx.state, None] if call.ctx.task is None else _context(call)


CODECS: dict[str, ServiceCodec] = {
    "search": ServiceCodec(
        request=lambda query: [query.text, query.k],
        context=_context,
        encode=_search_encode,
        decode=_search_decode,
        shown=lambda query: f"the query {query.text!r} with k={query.k}",
        probe=lambda context: Query("a query", 3, context),
    ),
    "access": ServiceCodec(
        request=lambda request: request.url,
        context=_context,
        encode=_page_encode,
        decode=_page_decode,
        shown=lambda request: f"the page {request.url!r}",
        probe=lambda context: PageRequest("https://a.example/page", context),
    ),
    "tool": ServiceCodec(
        request=lambda call: [call.tool, dict(call.args)],
        context=_tool_context,
        encode=result_to_json,
        decode=result_from_json,
        shown=lambda call: f"the call {call.tool}({dict(call.args)!r})",
        probe=lambda context: ToolCall("a tool", {}, 0, context),
    ),
}
"""Kind of service → how it is written down."""


# --- services on record ------------------------------------------------------------------------
Mode = Literal["record", "replay", "replay_or_live"]
MODES = ("record", "replay", "replay_or_live")
SERVICES = "recorded-services"
"""Namespace of what was recorded: fingerprint → kind and settings."""
Req = TypeVar("Req")
Res = TypeVar("Res")


class _Flight:
    """Request in flight."""

    __slots__ = ("done", "failure", "value")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.value: bytes | None = None
        self.failure = Failure("unavailable", "the call that was asked for this answer broke off")


class RecordedService(Generic[Req, Res]):
    """A service whose answers are kept on disk.

    ``mode``: "record" asks every time and keeps the newest answer; "replay" never asks; and
    "replay_or_live" asks only what the file lacks. A request that is being asked already is waited
    for, not asked again (by this object; between processes the first answer is kept).

    Failures are not recorded. A replay miss is a configuration error, not the policy's: a
    ``Failure("cache_miss")`` that no retry can mend.

    ``inner`` may be ``None`` for replay: the file knows what it recorded. ``fingerprint`` chooses
    where a file holds several recordings of a kind. If the inner service's answers depend on more
    than the request (its ``cache_key`` does), the episode's key, parameters and task are part of
    ours.
    """

    def __init__(
        self,
        inner: Service[Req, Res] | None,
        path: str | os.PathLike[str],
        *,
        kind: str,
        mode: Mode = "replay_or_live",
        fingerprint: str | None = None,
        store: Store | None = None,
    ) -> None:
        check_known("recording mode", MODES, mode, error=EngineError)
        if inner is None and mode != "replay":
            raise EngineError(
                f"mode {mode!r} needs something to ask: give 'engine', or use mode='replay'"
            )
        self.inner, self.mode, self.kind = inner, mode, kind
        self.path = Path(path)
        self.store = store or Store(path, readonly=mode == "replay")
        self._codec: ServiceCodec = CODECS[kind]
        self._flights: dict[bytes, _Flight] = {}
        self._guard = threading.Lock()
        self._asked = self._replayed = self._missed = 0
        if inner is not None:
            if fingerprint is not None:
                raise EngineError(
                    "'fingerprint' chooses among a file's recordings; what answers is given as "
                    "'engine', so leave one of them out"
                )
            if getattr(inner, "degrades", False):
                raise EngineError(
                    "a degraded service is not recorded, for its noise belongs to an episode; turn "
                    "it round: {'name': 'degraded', 'engine': {'name': 'recorded', …}, …}"
                )
            self._inner_fingerprint = inner.fingerprint
            about: dict[str, Any] = {
                "kind": kind,
                "context": self._codec.reads_context(inner),
                "needs_task": inner.needs_task,
                "normalise": False,  # as files of earlier versions say
            }
            if mode == "replay":
                self._insist(about)
            else:
                self._declare(about)
        else:
            self._inner_fingerprint, about = self._only(kind, fingerprint)
        self._context: bool = about["context"]
        self.needs_task: bool = about["needs_task"]
        self.fingerprint = f"recorded:{self._inner_fingerprint}"

    # --- Service ------------------------------------------------------------------------------
    def cache_key(self, request: Req, /) -> bytes | None:
        """Digest of the inner service's fingerprint and the canonical request: also the file's."""
        asked = self._codec.request(request)
        if self._context:
            asked = [asked, self._codec.context(request)]
        text = json.dumps([self._inner_fingerprint, self.kind, asked], sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).digest()

    def run(self, batch: Sequence[Req], /) -> list[Res | Failure]:
        """Answer every request in order; what is new is on disk when this returns."""
        keys = [self.cache_key(request) or b"" for request in batch]
        first = {key: i for i, key in reversed(list(enumerate(keys)))}
        if self.mode == "replay":
            recorded = dict(
                zip(first, self.store.get_many(self._namespace, list(first)), strict=True)
            )
            values: Mapping[bytes, bytes | Failure] = {
                key: self._missing(batch[first[key]]) if value is None else value
                for key, value in recorded.items()
            }
        else:
            values = self._live({key: batch[i] for key, i in first.items()})
        lost = sum(isinstance(values[key], Failure) for key in keys)
        with self._guard:
            self._replayed += len(keys) - lost
        return [self._decoded(values[key]) for key in keys]

    def stats(self) -> dict[str, int]:
        """Requests asked live, answered in all, and not found, since this object was made."""
        with self._guard:
            return {
                "asked": self._asked, "answered": self._replayed, "missed": self._missed,
                "recorded": self.store.count(self._namespace),
            }  # fmt: skip

    def close(self) -> None:
        """Close the file."""
        self.store.close()

    # --- asking -------------------------------------------------------------------------------
    def _live(self, wanted: Mapping[bytes, Req]) -> dict[bytes, bytes | Failure]:
        """Answers from the file or the service. Waits for others only after its own are done."""
        own: dict[bytes, _Flight] = {}
        others: dict[bytes, _Flight] = {}
        with self._guard:
            for key in wanted:
                if key in self._flights:
                    others[key] = self._flights[key]
                else:
                    own[key] = self._flights[key] = _Flight()
        try:
            self._ask({key: wanted[key] for key in own}, own)
        finally:
            with self._guard:
                for key in own:
                    del self._flights[key]
            for flight in own.values():
                flight.done.set()
        for flight in others.values():
            flight.done.wait()
        flights = {**own, **others}
        return {key: f.failure if f.value is None else f.value for key, f in flights.items()}

    def _ask(self, wanted: Mapping[bytes, Req], flights: Mapping[bytes, _Flight]) -> None:
        keys = list(wanted)
        if self.mode == "replay_or_live":
            for key, value in zip(keys, self.store.get_many(self._namespace, keys), strict=True):
                flights[key].value = value
            keys = [key for key in keys if flights[key].value is None]
        if not keys:
            return
        assert self.inner is not None
        answers = run_batch(self.inner, [wanted[key] for key in keys])
        fresh: dict[bytes, bytes] = {}
        for key, answer in zip(keys, answers, strict=True):
            if isinstance(answer, Failure):
                flights[key].failure = answer
                continue
            asked = self._codec.request(wanted[key])
            record = {"request": asked, "result": self._codec.encode(answer)}
            fresh[key] = json.dumps(record).encode("ascii")
        if self.mode == "record":
            self.store.put_many(self._namespace, fresh)
        else:
            fresh = self.store.add_many(self._namespace, fresh)
        for key, value in fresh.items():
            flights[key].value = value
        with self._guard:
            self._asked += len(keys)

    def _missing(self, request: Req) -> Failure:
        shown = self._codec.shown(request)
        message = (
            f"not recorded in {self.path}: {shown}, as answered by {self._inner_fingerprint}. "
            f"Record it with mode='replay_or_live', or check that corpus, engine options and k are "
            "those of the recording"
        )
        with self._guard:
            self._missed += 1
        return Failure("cache_miss", message, retryable=False)

    def _decoded(self, value: bytes | Failure) -> Any:
        """The answer as replayed, also when it was just recorded: both ways the same bytes."""
        if isinstance(value, Failure):
            return value
        return self._codec.decode(parse_json(value, self.path)["result"])

    # --- the file -----------------------------------------------------------------------------
    @property
    def _namespace(self) -> str:
        return f"recorded-{self.kind}"

    def _declare(self, about: Mapping[str, Any]) -> None:
        key = self._inner_fingerprint.encode() + b"\0" + self.kind.encode()
        said = self.store.add(SERVICES, key, json.dumps(about, sort_keys=True).encode())
        self._agree(parse_json(said, self.path), about)

    def _agree(self, said: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        if said != about:
            raise EngineError(
                f"{self.path} was recorded with {said}, now asked for {dict(about)}: "
                "use the same options or another file"
            )

    def _insist(self, about: Mapping[str, Any]) -> None:
        """Require that the file holds what is to be replayed, recorded with the same options."""
        known = recordings(self.store, self.kind)
        if self._inner_fingerprint not in known:
            raise EngineError(
                f"{self.path} holds nothing answered by {self._inner_fingerprint}, but by "
                f"{', '.join(known) or 'nobody'}: corpus and engine options must be those of the "
                "recording; or leave 'engine' out to replay the file as it is"
            )
        self._agree(known[self._inner_fingerprint], about)

    def _only(self, kind: str, fingerprint: str | None) -> tuple[str, dict[str, Any]]:
        """The one recording of this kind in the file, or the one that was named."""
        known = recordings(self.store, kind)
        if fingerprint is None and len(known) == 1:
            return next(iter(known.items()))
        if fingerprint in known:
            return fingerprint, known[fingerprint]
        if not known:
            raise EngineError(f"{self.path} holds no recording of kind {kind!r}")
        if fingerprint is None:
            raise EngineError(
                f"{self.path} holds {len(known)} recordings; choose one with 'fingerprint': "
                + ", ".join(map(repr, known))
            )
        raise EngineError(unknown("recording", fingerprint, known))


def recordings(store: Store, kind: str) -> dict[str, dict[str, Any]]:
    """Fingerprint → settings of a file's recordings of a kind, in order of fingerprint."""
    settings = {}
    for key, value in store.items(SERVICES):
        fingerprint, _, recorded = key.decode().rpartition("\0")
        if recorded == kind:
            settings[fingerprint] = parse_json(value, store.path)
    return settings


class RecordedEngine(RecordedService[Query, Ranking]):
    """A search engine on record; see :class:`RecordedService`."""

    def __init__(
        self, inner: Service[Query, Ranking] | None, path: str | os.PathLike[str], **options: Any
    ) -> None:
        super().__init__(inner, path, kind="search", **options)

    @property
    def axes(self) -> frozenset[str]:
        """The inner engine's. A file alone does not say: its keys hold what was asked for, and
        what was not recorded is a miss."""
        if self.inner is None:
            return frozenset({"noise"})
        return frozenset(getattr(self.inner, "axes", ()))

    def pages(self, default: PageSource) -> PageSource:
        """The inner engine's own page source on record; the corpus's needs no recording."""
        if self.inner is None:
            known = recordings(self.store, "access")
            if not known:
                return default
            return RecordedPages(None, self.path, mode="replay", store=self.store)
        source = pages_of(self.inner, default)
        if source is default:
            return default
        return RecordedPages(source, self.path, mode=self.mode, store=self.store)


class RecordedPages(RecordedService[PageRequest, Page | None]):
    """A page source on record; a page that does not exist is an answer, too."""

    def __init__(
        self,
        inner: Service[PageRequest, Page | None] | None,
        path: str | os.PathLike[str],
        **options: Any,
    ) -> None:
        super().__init__(inner, path, kind="access", **options)


def make(
    corpus: Corpus,
    world: World | None,
    *,
    path: str,
    engine: Any = None,
    mode: Mode = "replay_or_live",
    **options: Any,
) -> RecordedEngine:
    """Build for the registry: ``{"name": "recorded", "engine": …, "path": …, "mode": …}``.

    Without ``engine`` the file is replayed as it is; with it, replay insists on its fingerprint.
    """
    if engine is None and mode == "replay_or_live" and Path(path).is_file():
        mode = "replay"
    inner = None if engine is None else build_engine(engine, corpus, world)
    return RecordedEngine(inner, path, mode=mode, **options)
