"""Candidate agents on the ladder: trained by card, seed and source, and untrained controls.

A *source* is what an agent is trained against: an engine over the card's worlds ("bm25", "graph"),
another generated corpus, or any environment options.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from searchgym.benchmark.contenders import UNTRAINED, Trained
from searchgym.benchmark.ladder import REAL_SETS
from searchgym.cards import Card, cards
from searchgym.engines.registry import ENGINES
from searchgym.errors import CardError, unknown
from searchgym.types import CallContext, Query

from .features import FeatureBuilder
from .training import CandidateRecipe, Report, SeedTrainer


def source_options(source: str) -> dict[str, Any]:
    """Environment options of a source: an engine's name, a generated corpus, or a JSON object.

    Raises:
        CardError: none of these; the near names are given.
    """
    if source.lstrip().startswith("{"):
        try:
            options: dict[str, Any] = json.loads(source)
        except ValueError as error:
            raise CardError(f"--source {source!r} is no JSON object: {error}") from None
        return options
    worlds = [n for n, c in cards("corpora").items() if c.body["kind"] == "world"]
    if source in ENGINES:
        return {"engine": source}
    if source in worlds:
        return {"corpus": source}
    if source == "self" or source in REAL_SETS:
        raise CardError(
            f"--source {source}: agents by card are trained in generated worlds with an engine; "
            "a language model trained otherwise climbs by its folder: NAME=FOLDER"
        )
    raise CardError(
        f"{unknown('source', source, [*ENGINES, *worlds])}, or environment options as JSON"
    )


def trained(
    card: Card,
    out: Path,
    *,
    recipe: CandidateRecipe,
    seeds: Sequence[int],
    sources: Sequence[str] = (),
    seconds: float | None = None,
    report: Callable[[str], Any] | None = None,
) -> Trained:
    """Train a card's agent for every source and seed; what is finished in ``out`` is loaded.

    Args:
        card: One with a ``[train]`` table, whose name the agents have.
        recipe: That of the card, possibly changed.
        out: Keeps weights, checkpoints and the encoder's vectors, shared between sources.
        seeds: One agent each; they have the same name in the table.
        sources: See :func:`source_options`; none: the card's own environment.
        seconds: Wall clock per agent; reproducible only without.
        report: Makes the context of a run from its label: ``with report(label) as report:``.

    Raises:
        CardError: a source that the agent cannot be trained with.
    """
    done = Trained()
    builder = FeatureBuilder(recipe.make_encoder(out / "vectors"))
    for source in sources or [""]:
        name = card.id if len(sources) < 2 else f"{card.id} ({source})"
        own = recipe
        if source:
            own = recipe.on(source_options(source))
            _check(own, source)
        folder = out / "sources" / _slug(source) if source else out
        trainer = SeedTrainer(own, folder, builder=builder)
        learned = []
        for seed in seeds:
            if report is None:
                learned.append(trainer.train(seed, seconds=seconds))
                continue
            with report(f"{name}, seed {seed}") as told:
                watch: Report = told
                learned.append(trainer.train(seed, seconds=seconds, report=watch))
        trainer.release()
        before = f"{name} {UNTRAINED}"
        done.agents[before] = [trainer.untrained(run) for run in learned]
        done.agents[name] = [run.agent for run in learned]
        done.untrained[name] = before
        done.learned[name] = learned
    return done


def _check(recipe: CandidateRecipe, source: str) -> None:
    """Rollouts share what a search finds, so the engine must be pure in the query."""
    engine = recipe.settings()[1][0].env.engine
    if engine.needs_task or engine.cache_key(Query("x", 1, CallContext(0, "", {}))) is None:
        raise CardError(
            f"--source {source}: this agent learns from engines whose answers depend on the query "
            "alone (bm25, graph, dense, hybrid)"
        )


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
