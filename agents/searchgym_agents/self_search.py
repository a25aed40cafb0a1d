"""Sim-to-real for self-search: a real engine's results in place of those the policy writes itself.

A policy trained to write think → search → information → … → answer in one text (SSRL, arXiv
2508.10874; ``engine="self"``) keeps its form, but some information blocks come from an engine: of
the first K searches, of all, or of those whose query the policy is unsure of. Writing stops behind
such a search, the engine's block follows, and writing goes on from there, so nothing is written in
vain. All texts of a batch are written and searched together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from searchgym.batching import retried
from searchgym.dialects.base import SELF_SEARCH, get_dialect
from searchgym.dialects.escape import clean
from searchgym.dialects.masks import overlap
from searchgym.dialects.search_r1 import Block, SelfSearch, blocks
from searchgym.dialects.tags import trim
from searchgym.errors import DialectError, EngineError, EpisodeError
from searchgym.llms.base import Completion, Generator, GenRequest, Sampling, require
from searchgym.seeding import derive
from searchgym.types import (
    CallContext,
    Failure,
    Hit,
    Query,
    SearchEngine,
    Service,
    Span,
    Task,
    TurnRequest,
)

Which = int | Literal["all", "entropy"]
SAMPLING = Sampling(max_tokens=4_096)
"""SSRL's response length."""
REAL = "real"
"""Kind of the span of an engine's block (with the blank lines around it)."""


class Prompt(NamedTuple):
    """Prompt that one text continues. ``key`` seeds its draws and its searches."""

    text: str
    key: int = 0
    episode_id: str = ""
    task: Task | None = None
    """Task of the episode, needed only by engines that are told it (``needs_task``)."""


class TextLookup(NamedTuple):
    """One search of a text."""

    query: str
    real: bool
    """True if an engine answered it; else the policy wrote the information itself."""
    entropy: float | None
    """Uncertainty of its tokens in bits, see :func:`query_entropy`; None without ``logp``."""
    hits: tuple[Hit, ...]


class Grounded(NamedTuple):
    """A finished text."""

    text: str
    lookups: tuple[TextLookup, ...]
    real: tuple[Span, ...]
    """Spans that engines wrote; everything else is the policy's."""
    pieces: tuple[tuple[int, Completion], ...]
    """The policy's parts as sampled, each with its first character's place in ``text``."""
    cost: float
    """Cost of the searches."""
    finish: Literal["stop", "length", "eos"]


def entropy_gate(entropies: Sequence[float]) -> bool:
    """True if the newest of a text's searches should be real: the first always, a later one if its
    entropy is higher than that of the search before it, real or not.

    (SSRL keeps a window of 5 entropies but compares only the last two, so it changes nothing.)
    """
    return len(entropies) == 1 or entropies[-1] > entropies[-2]


def query_entropy(
    pieces: Sequence[tuple[int, Completion]], query: Span, measure: str = "sampled"
) -> float:
    """Mean uncertainty, in bits, of the sampled tokens that overlap a query.

    ``"sampled"``: SSRL's term −p·log2 p of each sampled token's probability p (needs ``logp``).
    ``"full"``: the entropy of the distribution each token was drawn from (needs ``entropy``).
    """
    values: list[float] = []
    for start, completion in pieces:
        measured = completion.logp if measure == "sampled" else completion.entropy
        if measured is None or completion.ends is None:
            raise EngineError(
                "the generator gave no token ends or no "
                f"{'log-probabilities' if measure == 'sampled' else 'entropies'}"
            )
        inside = overlap(completion.ends, [Span("", query.start - start, query.end - start)])
        chosen = np.maximum(np.asarray(measured, dtype=np.float64)[inside], -700.0)  # exp(x) > 0
        bits = chosen / np.log(2)
        values += (-np.exp(chosen) * bits if measure == "sampled" else bits).tolist()
    if not values:
        raise EngineError(f"no token of the text lies in {query}")
    return float(np.mean(values))


class SimToReal:
    """Writes self-search texts with a generator and puts an engine's results into them.

    Args:
        generator: Continues text prompts. ``real="entropy"`` needs ``logp`` (or ``entropy``).
        engine: Any search engine; None with ``real=0``, plain self-search.
        real: Which searches of a text are real: the first so many, ``"all"`` or ``"entropy"``.
        k: Hits per search.
        sampling: Its ``max_tokens`` bounds the tokens the policy writes in a text, all parts
            together (each part, with a generator that tells neither token ids nor their ends); its
            stop strings are replaced by this class's.
        dialect: Whose self-search form is written.
        max_searches: Further searches of a text stay the policy's own.
        max_retries: Retries of a failed call.
        snippet_chars: Characters of each passage that are shown; None: all.
        measure: Measure behind ``"entropy"``, see :func:`query_entropy`.
    """

    def __init__(
        self,
        generator: Generator,
        engine: SearchEngine | None,
        *,
        real: Which = "all",
        k: int = 3,
        sampling: Sampling = SAMPLING,
        dialect: str = "search_r1",
        max_searches: int = 8,
        max_retries: int = 2,
        snippet_chars: int | None = 4_000,
        measure: Literal["sampled", "full"] = "sampled",
    ) -> None:
        if not (real in ("all", "entropy") or (type(real) is int and real >= 0)):
            raise EngineError(f"real is a number of searches, 'all' or 'entropy', got {real!r}")
        if measure not in ("sampled", "full"):
            raise EngineError(f"measure is 'sampled' or 'full', got {measure!r}")
        if k < 1 or max_searches < 0 or max_retries < 0:
            raise EngineError(
                f"k must be ≥ 1, max_searches and max_retries ≥ 0, got {k}, {max_searches}, "
                f"{max_retries}"
            )
        if engine is None and real != 0:
            raise EngineError(f"real={real!r} needs an engine; without one say real=0")
        self._needs: frozenset[str] = frozenset()
        if real == "entropy":
            self._needs = frozenset({"logp" if measure == "sampled" else "entropy"})
            require(generator, *self._needs)
        self.generator, self.engine, self.real, self.k = generator, engine, real, k
        self.sampling, self.max_searches, self.max_retries = sampling, max_searches, max_retries
        self.snippet_chars, self.measure = snippet_chars, measure
        self.dialect = _form(dialect)

    @property
    def fingerprint(self) -> str:
        """Identifier of all settings that change the texts."""
        engine = self.engine.fingerprint if self.engine is not None else None
        return (
            f"sim-to-real({self.generator.fingerprint}, {engine}, real={self.real}, k={self.k}, "
            f"searches={self.max_searches}, chars={self.snippet_chars}, {self.measure}, "
            f"{self.dialect.name}, {tuple(self.sampling)})"
        )

    def run(self, prompts: Sequence[Prompt]) -> list[Grounded | Failure]:
        """Write all texts, in order; a text that the generator or the engine failed, retries
        included, is a ``Failure`` in its place."""
        if self.engine is not None and self.engine.needs_task:
            for prompt in prompts:
                if prompt.task is None:
                    raise EngineError(
                        f"{type(self.engine).__name__} must be told the task: Prompt(…, task=task)"
                    )
        texts = [_Text(prompt) for prompt in prompts]
        while active := [t for t in texts if not t.finish and t.failure is None]:
            self._write(active)
            self._search([t for t in active if t.query is not None])
        return [t.failure or self._finished(t) for t in texts]

    # --- writing ------------------------------------------------------------------------------
    def _stops(self, text: _Text) -> tuple[str, ...]:
        """Stop strings: after every search while the engine may be asked, else after the answer."""
        limit = self.max_searches
        if isinstance(self.real, int):
            limit = min(limit, self.real)
        # Not every "</search>" closes a search (it may be quoted), hence the bound on pieces.
        open_to_engine = len(text.entropies) < limit and len(text.pieces) < 4 * limit
        return ("</search>", "</answer>") if open_to_engine else ("</answer>",)

    def _write(self, active: Sequence[_Text]) -> None:
        requests = [
            GenRequest(
                text.prompt.text + text.text,
                self.sampling._replace(
                    max_tokens=self.sampling.max_tokens - text.spent, stop=self._stops(text)
                ),
                derive(text.prompt.key, "self-search", len(text.pieces)),
                self._needs,
            )
            for text in active
        ]
        service = cast("Service[Any, Any]", self.generator)
        answers = retried(service, requests, self.max_retries)
        for text, answer in zip(active, answers, strict=True):
            if isinstance(answer, Failure):
                text.failure = answer
            else:
                text.add(answer, self.sampling.max_tokens)
                self._decide(text)

    def _decide(self, text: _Text) -> None:
        """Check whether the search that the text now ends with, if it does, goes to the engine."""
        if text.finish or len(self._stops(text)) == 1:
            return
        tagged = blocks(text.text)
        last = tagged[-1] if tagged else None
        if last is None or last.kind != "search" or last.end != len(text.text):
            return
        if not all(block.closed for block in tagged):
            return  # within information that is still being written
        query = _content(text.text, last)
        if not query:
            return
        measured = self._entropy(text, last)
        text.entropies.append(np.nan if measured is None else measured)
        if self.real != "entropy" or entropy_gate(text.entropies):
            text.query = query

    def _entropy(self, text: _Text, block: Block) -> float | None:
        name = "logp" if self.measure == "sampled" else "entropy"
        if not self._needs and any(
            getattr(piece, name) is None or piece.ends is None for _, piece in text.pieces
        ):
            return None
        query = Span("search", *trim(text.text, block.inner, block.outer))
        return query_entropy(text.pieces, query, self.measure)

    # --- searching ----------------------------------------------------------------------------
    def _search(self, asking: Sequence[_Text]) -> None:
        if not asking:
            return
        queries = [
            Query(
                text.query or "",
                self.k,
                CallContext(
                    derive(text.prompt.key, "sim-to-real", len(text.entropies)),
                    text.prompt.episode_id,
                    {},
                    None,
                    text.prompt.task
                    if self.engine is not None and self.engine.needs_task
                    else None,
                ),
            )
            for text in asking
        ]
        assert self.engine is not None
        answers = retried(
            self.engine, queries, self.max_retries,
            lambda q, n: q._replace(ctx=q.ctx._replace(attempt=n)),
        )  # fmt: skip
        for text, answer in zip(asking, answers, strict=True):
            if isinstance(answer, Failure):
                text.failure = answer
                continue
            limit = self.snippet_chars
            hits = tuple(
                Hit(hit.passage._replace(text=hit.passage.text[:limit]), hit.score)
                for hit in answer
            )
            assert text.query is not None
            text.insert(self.dialect.render_hits([(text.query, hits)]), hits)
            text.cost += getattr(answer, "cost", 0.0)

    def _finished(self, text: _Text) -> Grounded:
        lookups = []
        for block in blocks(text.text):
            if block.kind == "search" and (query := _content(text.text, block)):
                hits = text.found.get(block.end)
                lookups.append(
                    TextLookup(query, hits is not None, self._entropy(text, block), hits or ())
                )
        return Grounded(
            text.text,
            tuple(lookups),
            tuple(text.real),
            tuple(text.pieces),
            text.cost,
            text.finish,  # type: ignore[arg-type]
        )


class _Text:
    """A text in the making."""

    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
        self.text = ""
        self.pieces: list[tuple[int, Completion]] = []
        self.entropies: list[float] = []  # one per search that was decided on
        self.real: list[Span] = []
        self.found: dict[int, tuple[Hit, ...]] = {}  # end of a search → what the engine found
        self.query: str | None = None  # what the engine is to be asked now
        self.spent = 0  # tokens the policy wrote
        self.cost = 0.0
        self.finish = ""
        self.failure: Failure | None = None

    def add(self, piece: Completion, max_tokens: int) -> None:
        """Append what the policy wrote; decide whether it is done."""
        self.pieces.append((len(self.text), piece))
        self.text += piece.text
        self.spent += len(piece.ids or piece.ends or ())
        if piece.finish != "stop" or self.text.endswith("</answer>"):
            self.finish = piece.finish
        elif self.spent >= max_tokens:
            self.finish = "length"

    def insert(self, block: str, hits: tuple[Hit, ...]) -> None:
        """Append what the engine found."""
        self.found[len(self.text)] = hits
        self.real.append(Span(REAL, len(self.text), len(self.text) + len(block)))
        self.text += block
        self.query = None


def _content(text: str, block: Block) -> str:
    return clean(text[block.inner : block.outer]).strip()


def _form(dialect: str) -> SelfSearch:
    base, plus, flags = dialect.partition("+")
    name = base if base in SELF_SEARCH else f"{base}_self"
    if name not in SELF_SEARCH:
        raise DialectError(f"the dialect {dialect!r} has no self-search form; use 'search_r1'")
    made = get_dialect(name + plus + flags)
    assert isinstance(made, SelfSearch)
    return made


class SelfSearchAgent:
    """Answers the requests of ``engine="self"`` environments.

    Without ``engine`` the policy writes its own results; with one, the searches that ``real`` names
    are answered by it (sim-to-real). Stateless: what is drawn depends on ``seed`` and the request.

    Args:
        generator: Any text generator.
        engine: Any search engine; None: self-search alone.
        seed: Seed of the draws.
        options: Options of :class:`SimToReal`.

    Raises:
        EngineError: impossible options, or an engine that must be told the task.
    """

    def __init__(
        self,
        generator: Generator,
        engine: SearchEngine | None = None,
        *,
        seed: int = 0,
        **options: Any,
    ) -> None:
        if engine is not None and engine.needs_task:
            raise EngineError(
                f"{type(engine).__name__} must be told the task, which no agent is; use another "
                "engine, or searchgym_agents.self_search.SimToReal with Prompt(…, task=task)"
            )
        options.setdefault("real", 0 if engine is None else "all")
        self.writer = SimToReal(generator, engine, **options)
        self.seed = seed
        self.sampling = self.writer.sampling

    @property
    def fingerprint(self) -> str:
        """Model, engine and everything else that changes the texts."""
        return f"{self.writer.fingerprint} seed {self.seed}"

    def ground(self, requests: Sequence[TurnRequest], /) -> list[Grounded]:
        """The texts with what is known of their searches.

        Raises:
            EpisodeError: a request of another mode.
            EngineError: the generator or the engine failed, retries included.
        """
        for request in requests:
            if not getattr(get_dialect(request.dialect), "self_search", False):
                raise EpisodeError(
                    f"this agent plays self-search episodes, got dialect {request.dialect!r}; make "
                    "the environment with engine='self'"
                )
        prompts = [
            Prompt(
                "".join(s.text for s in request.segments) + request.prefill,
                derive(self.seed, "self-search-agent", request.episode_id, request.turn),
                request.episode_id,
            )
            for request in requests
        ]
        done: list[Grounded] = []
        for request, reply in zip(requests, self.writer.run(prompts), strict=True):
            if isinstance(reply, Failure):
                raise EngineError(
                    f"episode {request.episode_id}: {reply.kind} after retries: {reply.message}"
                )
            done.append(reply)
        return done

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """One whole text per request; raises as :meth:`ground`."""
        return [made.text for made in self.ground(requests)]
