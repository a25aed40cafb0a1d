"""Agents of the transfer benchmark: trained here by card, seed and source, and untrained controls.

A *source* is what an agent is trained against: an engine over the card's worlds ("bm25", "graph"),
another generated corpus, or any environment options.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..cards import Card, cards
from ..engines.registry import ENGINES
from ..errors import CardError, unknown
from ..reports.findings import SCRIPTS as SCRIPTS
from ..types import Agent
from .rungs import REAL_SETS
from .table import TransferTable
from .training import CandidateRecipe, Learned, Report, SeedTrainer

BARS = frozenset({*SCRIPTS, "random", "oracle", "always-refuse", "always-yes", "majority"})
"""Agents that stand in the table to be cleared; their gains are not reported."""
UNTRAINED, BEST = "untrained", "best"


@dataclass
class Trained:
    """Agents by name, one per seed each, and whose gains are counted from whom."""

    agents: dict[str, list[Agent]] = field(default_factory=dict)
    untrained: dict[str, str] = field(default_factory=dict)
    """Trained agent → its untrained self."""
    learned: dict[str, list[Learned]] = field(default_factory=dict)


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
    seeds: Sequence[int],
    sources: Sequence[str] = (),
    change: Callable[[CandidateRecipe], CandidateRecipe] = lambda recipe: recipe,
    seconds: float | None = None,
    report: Callable[[str], Any] | None = None,
) -> Trained:
    """Train a card's agent for every source and seed; what is finished in ``out`` is loaded.

    Args:
        card: One with a ``[train]`` table.
        out: Keeps weights, checkpoints and the encoder's vectors, shared between sources.
        seeds: One agent each; they have the same name in the table.
        sources: See :func:`source_options`; none: the card's own environment.
        change: Applied to every recipe (overrides).
        seconds: Wall clock per agent; reproducible only without.
        report: Makes the context of a run from its label: ``with report(label) as report:``.

    Raises:
        CardError: a source that the agent cannot be trained with.
    """
    done = Trained()
    builder = None
    for source in sources or [""]:
        name = card.id if len(sources) < 2 else f"{card.id} ({source})"
        recipe = change(CandidateRecipe.of_card(card))
        if source:
            recipe = replace(recipe, env={**recipe.env, **source_options(source)})
            _check(recipe, source)
        folder = out / "sources" / _slug(source) if source else out
        trainer = SeedTrainer(recipe, folder, builder=builder or _builder(recipe, out))
        builder = trainer.builder
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


def _builder(recipe: CandidateRecipe, out: Path) -> Any:
    from ..candidates.features import FeatureBuilder

    return FeatureBuilder(recipe.make_encoder(out / "vectors"))


def _check(recipe: CandidateRecipe, source: str) -> None:
    """Rollouts share what a search finds, so the engine must be pure in the query."""
    from ..types import CallContext, Query

    engine = recipe.settings()[1].engine
    if engine.needs_task or engine.cache_key(Query("x", 1, CallContext(0, "", {}))) is None:
        raise CardError(
            f"--source {source}: this agent learns from engines whose answers depend on the query "
            "alone (bm25, graph, dense, hybrid)"
        )


def baselines(
    table: TransferTable, contenders: Sequence[str], untrained: Mapping[str, str], wanted: str
) -> dict[str, str]:
    """Contender → the agent its gains are counted from.

    ``wanted``: "untrained" (the best script for those that were not trained here), "best" (the
    script with the highest F1 on the reference rung) or an agent of the table.

    Raises:
        CardError: no such agent.
    """
    if wanted not in (UNTRAINED, BEST, *table.agents):
        raise CardError(unknown("baseline", wanted, [UNTRAINED, BEST, *table.agents]))
    scores = script_scores(table)
    best = max(scores, key=lambda name: scores[name]) if scores else None
    chosen: dict[str, str] = {}
    for name in contenders:
        own = untrained.get(name) if wanted == UNTRAINED else None
        base = own or (best if wanted in (UNTRAINED, BEST) else wanted)
        if base is not None and base != name:
            chosen[name] = base
    return chosen


def script_scores(table: TransferTable) -> dict[str, float]:
    """Mean F1 of the scripted agents of a table on its reference rung."""
    cells = {name: table.cell(table.reference, name, "f1") for name in SCRIPTS}
    return {name: cell.mean for name, cell in cells.items() if cell is not None}


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
