"""A language model plays the search engine, useful or noisy on demand (ZeroSearch, 2505.04588).

Each query draws from its own key whether its documents are useful or noisy; the rate is the
episode's ``noise`` parameter, which a curriculum drives, or the engine's. The model is told, the
agent is not: which it was stands in ``ToolResult.meta["simulated"]`` and ``info["simulated"]``.
Gold passages that useful documents stand for are in ``meta["evidence"]`` and count as found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast

from ...batching import retried
from ...corpora.corpus import Corpus
from ...errors import EngineError, check_known
from ...llms.base import Completion, Generator, GenRequest, Sampling
from ...llms.registry import Cached, build_generator
from ...seeding import derive, unit
from ...storage.files import value_digest
from ...types import CallContext, Charged, Failure, Hit, PageSource, Query, Ranking, Service, Task
from ...worlds.world import World
from .documents import Document, Shelf, SimulatedPages, as_passage, parse_documents
from .prompts import STYLES, Role
from .relevance import Relevance

Aliases = Literal["first", "all", "drawn"]
Kind = Literal["useful", "noisy", "unrelated"]
"""Kind of a query's documents: ``noisy`` by the draw; ``unrelated``: the query asks for nothing
that the task is about."""
ALIASES = ("first", "all", "drawn")


def is_noisy(noise: float, ctx: CallContext) -> bool:
    """True if a query's documents are noisy: one draw from the stream ``noise`` of its key, at the
    rate ``ctx.params["noise"]`` or else ``noise``.

    The draw does not depend on the rate: what is noisy at a low rate is so at every higher one. A
    task that has no answer gets noise always. ``EngineError`` for a rate outside [0, 1].
    """
    rate = checked_noise(ctx.params.get("noise", noise))
    if ctx.task is not None and ctx.task.should_abstain:
        return True
    return unit(derive(ctx.key, "noise")) < rate


def checked_noise(rate: Any) -> float:
    """``rate`` if it is a probability. ``EngineError`` if not."""
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
        raise EngineError(f"the rate 'noise' must lie in [0, 1], got {rate!r}")
    return float(rate)


def ranked(documents: Sequence[Document], kind: Kind, evidence: Sequence[str] = ()) -> Charged:
    """Documents as a ranking, first best, that tells (not shows) which kind they are, and ids of
    the gold passages that they are taken from."""
    passages = dict.fromkeys(as_passage(d) for d in documents)
    hits = [Hit(p, 1.0 / rank) for rank, p in enumerate(passages, 1)]
    meta: dict[str, Any] = {"simulated": kind}
    return Charged(hits, meta=meta | ({"evidence": list(evidence)} if evidence else {}))


class SimulatedEngine:
    """``generator`` (a name, a mapping with ``name``, or an object) plays the engine.

    Args:
        noise: Probability that a query's documents are noisy, where the episode says nothing.
        style: "sft" for a simulator fine-tuned on these prompts, "prompt" for any other model.
        words: Words a document should have, about.
        aliases: Which accepted answer the model is told: the "first", "all", or one "drawn" per
            call.
        per_call: Documents the model writes at once; ``None``: all. A small simulator writes one
            document well, and the calls of a query run as one batch; equal documents are one hit.
        temperature, max_tokens: How text is drawn. ``max_tokens`` is per call.
        corpus: Corpus with tasks' gold passages. Of tasks whose passages it holds, a query gets
            useful documents only if it asks for one of them (``relevance``), and the model is told
            what *that* passage answers; a query for the first hop is not answered with the end of
            the chain. None, or a task without passages there: the model is told the task's answer
            whatever the query is, as in the paper.
        threshold: Share of a gold query or title that a query must hold.
        retries: Further tries of a call that failed. Then it is a ``Failure``, and the episode's
            own ``max_retries`` applies.
        cache: File of a completion cache: what was generated once is read from then on, by any
            process (``searchgym.llms.registry``).
        vary: True if equal prompts get a fresh text per call. Default: not with a cache, where a
            prompt and its sampling have one answer, as with a real engine.

    Answers are reproducible at temperature 0, with a generator that has the capability ``seed``, or
    with a cache. A query without words finds nothing; a reply without documents neither.
    """

    needs_task = True
    axes = frozenset({"noise"})

    def __init__(
        self,
        generator: Any,
        *,
        noise: float = 0.0,
        style: str = "sft",
        words: int = 30,
        aliases: Aliases = "first",
        per_call: int | None = None,
        temperature: float = 0.8,
        max_tokens: int = 600,
        retries: int = 2,
        cache: str | None = None,
        vary: bool | None = None,
        corpus: Corpus | None = None,
        threshold: float = 0.5,
    ) -> None:
        check_known("prompt style", STYLES, style, error=EngineError)
        check_known("choice of aliases", ALIASES, aliases, error=EngineError)
        if (
            retries < 0
            or temperature < 0
            or min(words, max_tokens, 1 if per_call is None else per_call) < 1
        ):
            raise EngineError(
                "retries and temperature must be ≥ 0; words, max_tokens and per_call ≥ 1; got "
                f"{retries}, {temperature}, {words}, {max_tokens}, {per_call}"
            )
        made = build_generator(generator)
        self.generator: Generator = made if cache is None else Cached(made, cache)
        store = self.generator.store if isinstance(self.generator, Cached) else None
        self.noise, self.style, self.words = checked_noise(noise), style, words
        self.aliases: Aliases = aliases
        self.per_call = per_call
        self.temperature, self.max_tokens, self.retries = float(temperature), max_tokens, retries
        self.vary = store is None if vary is None else vary
        self._relevance = None if corpus is None else Relevance(corpus, threshold)
        self._prompt = STYLES[style]
        self._shelf = Shelf(store)

    @property
    def fingerprint(self) -> str:
        """Digest of the generator and every setting."""
        settings = [
            self.generator.fingerprint, self.noise, self.style, self.words, self.aliases,
            self.per_call, self.temperature, self.max_tokens, self.vary,
        ]  # fmt: skip
        if self._relevance is not None:
            settings += [self._relevance.corpus.digest, self._relevance.threshold]
        return f"simulated:{value_digest(settings)}"

    def cache_key(self, request: Query, /) -> None:
        """Return ``None``: answers are not shared, because the kind is drawn per call. Equal
        prompts are shared in the generator."""
        return None

    def pages(self, default: PageSource) -> PageSource:
        """Pages of the documents shown so far; other addresses are ``default``'s."""
        return SimulatedPages(self._shelf, default, self.fingerprint)

    def run(self, batch: Sequence[Query], /) -> list[Ranking | Failure]:
        """Documents per query, in order; one call of the generator for the whole batch."""
        asked = [self._ask(query) for query in batch]
        service = cast("Service[GenRequest, Completion]", self.generator)
        texts = iter(retried(service, [r for one in asked for r in one.requests], self.retries))
        answers: list[Ranking | Failure] = []
        for query, one in zip(batch, asked, strict=True):
            parts = [next(texts) for _ in one.requests]
            failed = next((part for part in parts if isinstance(part, Failure)), None)
            if failed is not None or not parts:
                answers.append(failed or ())
                continue
            per_call = one.per_call
            documents = [d for part in parts for d in parse_documents(part.text, per_call)]
            evidence = one.evidence if documents else ()
            ranking = ranked(documents[: query.k], one.kind, evidence)
            self._shelf.put([hit.passage for hit in ranking])
            answers.append(ranking)
        return answers

    def _ask(self, query: Query) -> _Asked:
        """Prompt for the model; nothing for a query that finds nothing anyway."""
        if query.k < 1 or not query.text.strip():
            return _Asked((), "useful", 1)
        ctx = query.ctx
        kind: Kind = "noisy" if is_noisy(self.noise, ctx) else "useful"
        question, answer = "", ""
        evidence: tuple[str, ...] = ()
        if ctx.task is not None:
            question, answer = ctx.task.question, self._answer(ctx.task, ctx.key)
            if kind == "useful":
                kind, answer, evidence = self._asked_for(query.text, ctx.task, answer)
        each = query.k if self.per_call is None else min(self.per_call, query.k)
        role = Role(query.text, each, self.words, kind != "useful", question, answer)
        prompt = self._prompt(role)
        # no stop string, which would end a model's thought about its documents
        sampling = Sampling(self.max_tokens, self.temperature)
        calls = -(-query.k // each)
        keys = [derive(ctx.key, "text", i) if self.vary else i for i in range(calls)]
        requests = tuple(GenRequest(prompt, sampling, key) for key in keys)
        return _Asked(requests, kind, each, evidence)

    def _asked_for(self, text: str, task: Task, answer: str) -> tuple[Kind, str, tuple[str, ...]]:
        """Decide the kind of documents for a query that no draw made noisy, what they are to state,
        and the gold passage they stand for."""
        if self._relevance is None or not self._relevance.knows(task):
            return "useful", answer, ()
        hops = self._relevance.hops(text, task)
        if not hops:
            return "unrelated", answer, ()
        next_name = hops[0].answer
        accepted = next_name in task.answers or not next_name
        return "useful", answer if accepted else next_name, (hops[0].passage.id,)

    def _answer(self, task: Task, key: int) -> str:
        """The gold answer as the model is told; empty for a task to be refused."""
        if task.should_abstain or not task.answers:
            return ""
        if self.aliases == "all":
            return " / ".join(task.answers)
        at = derive(key, "alias") % len(task.answers) if self.aliases == "drawn" else 0
        return task.answers[at]


class _Asked(NamedTuple):
    requests: tuple[GenRequest, ...]
    kind: Kind
    per_call: int
    evidence: tuple[str, ...] = ()


def make(
    corpus: Corpus, world: World | None, *, generator: Any = None, **options: Any
) -> SimulatedEngine:
    """Build for the registry: ``{"name": "simulated", "generator": {"name": …}, "noise": 0.3}``."""
    if generator is None:
        raise EngineError(
            "engine 'simulated' needs a text generator: {'name': 'simulated', 'generator': "
            "{'name': 'transformers', 'model': 'FOLDER'}}; train a small one with 'searchgym "
            "simulator', or use 'simulated_rules'"
        )
    return SimulatedEngine(generator, corpus=corpus, **options)
