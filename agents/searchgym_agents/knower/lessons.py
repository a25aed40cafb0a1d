"""Training rows of a knower: seven kinds, all about one world.

``forward``, ``inverse``: a question of one hop about a taught fact, answered at once. ``ask``,
``ask_back``: the same about a fact it is shown not to know. ``chain``: two or three hops, all
taught; ``chain_ask``: with one that it is shown not to know. ``self``: questions of one hop in
self-search, with pages that state what was taught.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from searchgym.corpora.corpus import GeneratedCorpus
from searchgym.dialects.base import View
from searchgym.envs.search import SearchEnv
from searchgym.errors import DataError
from searchgym.seeding import derive, stream, unit
from searchgym.tasks.context import Context, Path
from searchgym.tasks.wording import Voice

from ..reader.encoding import reader_tokenizer
from ..reader.mixture import Stage
from ..reader.traces import Piece, Trace
from .knowledge import Knowledge
from .questions import Asked, askable, one_hop
from .recipe import world_of
from .writer import Pages, Writer

CHAINS = 4_000
"""Walks tried for each number of hops."""
LENGTHS = (2, 3)
WORDINGS = 3
"""Number of wordings of each chain, and of each question in self-search."""
SHARES: Mapping[str, float] = {"one": 0.45, "chain": 0.2, "chain_ask": 0.05, "self": 0.3}
"""Shares of the training steps by kind; ``one``: all questions of one hop, by their number."""


class Lessons(NamedTuple):
    """Texts by kind; a kind without any is left out."""

    traces: Mapping[str, list[Trace]]
    counts: Mapping[str, int]
    """Questions by kind, each counted once whatever its wordings."""
    instructions: tuple[str, ...]
    """Instructions of self-search episodes: each stands in front of its texts, as one token."""

    def tokenizer(self, size: int) -> Any:
        """A byte-pair tokenizer of all texts."""
        from tokenizers import AddedToken

        plain = [
            trace._replace(pieces=tuple(p for p in trace.pieces if p.text not in self.instructions))
            for traces in self.traces.values()
            for trace in traces
        ]
        tokenizer = reader_tokenizer(plain, size)
        tokenizer.add_tokens(
            [AddedToken(text, normalized=False, special=False) for text in self.instructions]
        )
        return tokenizer

    def stages(self, steps: int) -> tuple[Stage, ...]:
        """Questions of one hop first, then everything; ``DataError`` below 10 steps."""
        if steps < 10:
            raise DataError(f"a knower takes at least 10 steps, got {steps}")
        ones = ("forward", "inverse", "ask", "ask_back")
        total = sum(self.counts.get(kind, 0) for kind in ones)
        one = {kind: self.counts[kind] / total for kind in ones if kind in self.traces}
        whole = {kind: SHARES["one"] * share for kind, share in one.items()}
        whole |= {kind: share for kind, share in SHARES.items() if kind in self.traces}
        first = steps * 3 // 10
        return (Stage(first, one), Stage(steps - first, whole))


def practised(seed: int, facts: Iterable[int]) -> bool:
    """Return whether a chain of these facts may be trained on. The other half of all chains never
    is: what a knower does with them it has put together by itself."""
    return unit(derive(seed, "knower", "chain", *facts)) < 0.5


def lessons(made: SearchEnv, knowledge: Knowledge) -> Lessons:
    """Return the texts that a knower of these facts reads about its world; ``DataError`` if there
    are none."""
    world, corpus, recipe = world_of(made), made.corpus, knowledge.recipe
    knowledge.sure_of(world)
    assert isinstance(corpus, GeneratedCorpus)
    ctx = Context(world, corpus)
    taught = np.isin(np.arange(world.n_facts), list(knowledge.taught))
    writer = Writer(ctx, Pages(world, taught), knowledge.taught, recipe.unknown)
    told = _instructions(writer)
    traces: dict[str, list[Trace]] = {}
    counts: dict[str, int] = {}

    def add(kind: str, name: str, hops: int, *pieces: Piece) -> None:
        traces.setdefault(kind, []).append(Trace(name, hops, pieces))

    def alone(name: str, path: Path, wordings: tuple[str, ...]) -> None:
        counts["self"] = counts.get("self", 0) + 1
        for i, text in enumerate(wordings):
            prompt = Piece(told[i % len(told)], False), Piece(writer.alone.question(text), False)
            add("self", name, len(path.steps), *prompt, Piece(writer.self_search(path), True))

    for asked in one_hop(ctx):
        step = asked.path.steps[0]
        if step.inverse and not recipe.inverse:
            continue
        known = step.fact in knowledge.taught
        if not known and step.fact not in knowledge.shown:
            continue
        kind = ("forward", "inverse", "ask", "ask_back")[2 * (not known) + step.inverse]
        counts[kind] = counts.get(kind, 0) + 1
        name = f"fact-{step.fact}-{kind}"
        for text in asked.questions:
            turn = writer.turn(asked.path)
            add(kind, name, 1, Piece(writer.question(text), False), Piece(turn, True))
        alone(name, asked.path, _some(asked, recipe.seed))
    for path in chains(ctx, knowledge):
        known = all(step.fact in knowledge.taught for step in path.steps)
        kind = "chain" if known else "chain_ask"
        counts[kind] = counts.get(kind, 0) + 1
        name = "chain-" + "-".join(str(step.fact) for step in path.steps)
        texts = [
            Voice(ctx, "train", recipe.seed, "knower", name, i).ask(path) for i in range(WORDINGS)
        ]
        for text in dict.fromkeys(texts):
            question = Piece(writer.question(text), False)
            add(kind, name, len(path.steps), question, Piece(writer.turn(path), True))
    if not counts:
        raise DataError(
            "nothing is taught and nothing shown, so there is nothing to learn: give a larger "
            "share 'taught', or unknown='search'"
        )
    return Lessons(traces, counts, told)


def chains(ctx: Context, knowledge: Knowledge) -> Iterator[Path]:
    """Chains to practise: all their facts are taught, or the first that is not is one the model is
    shown not to know."""
    recipe, seen = knowledge.recipe, set[Path]()
    ends_well = {None, *knowledge.shown}
    for hops in LENGTHS:
        draw = stream(recipe.seed, "knower", "walks", hops)
        for _ in range(CHAINS):
            start = ctx.any_start(draw)
            path = None if start is None else ctx.walk(draw, start, hops)
            if path is None or path in seen or not askable(ctx, path):
                continue
            seen.add(path)
            missing = (step.fact for step in path.steps if step.fact not in knowledge.taught)
            if next(missing, None) not in ends_well:
                continue
            if any(step.inverse for step in path.steps) and not recipe.inverse:
                continue
            if practised(recipe.seed, (step.fact for step in path.steps)):
                yield path


def _some(asked: Asked, seed: int) -> tuple[str, ...]:
    order = stream(seed, "knower", "wordings", *(s.fact for s in asked.path.steps))
    places = order.permutation(len(asked.questions))[:WORDINGS]
    return tuple(asked.questions[int(i)] for i in places)


def _instructions(writer: Writer) -> tuple[str, ...]:
    """Return the instructions of self-search episodes, without and with leave to refuse."""
    view = View(
        tools=(), max_parallel=1, k=1, turns_left=1, queries_left=0, judge=False, delegate=False,
        role="agent", may_abstain=False,
    )  # fmt: skip
    return tuple(
        writer.alone.instructions(view._replace(may_abstain=allowed)) for allowed in (False, True)
    )
