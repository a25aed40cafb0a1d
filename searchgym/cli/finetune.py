"""The command line's side of fine-tuning: an agent's card, stage by stage, with progress."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CardError, MissingExtraError
from .live import quiet_loading
from .output import print_facts, print_json, progress, say
from .targets import overrides

if TYPE_CHECKING:
    from ..cards import Card
    from ..finetune.recipe import FinetuneRecipe
    from ..llms.sft import Progress


def fine_tunes(card: Card) -> bool:
    """Return whether a card trains a pretrained language model."""
    return "model" in card.body.get("train", {})


def run(
    card: Card, out: Path, seeds: Sequence[int], settings: Sequence[str] | None, *, as_json: bool
) -> None:
    """Train by a card's ``train`` table, changed by ``settings``, in folder ``out``; an unfinished
    run goes on.

    Raises:
        CardError: several seeds, or settings that the table does not have.
    """
    if len(seeds) > 1:
        raise CardError("one seed per folder: run again with another --seed and --out")
    try:
        from ..finetune.recipe import FinetuneRecipe
        from ..finetune.run import RL, finish, rewarded, teach
    except ImportError as error:
        raise MissingExtraError("training a language model", "llm") from error
    from .train_lm import run as train_by_rewards

    recipe = FinetuneRecipe.of(merged(card.body["train"], overrides(settings)))
    seed = seeds[0] if seeds else 0
    taught = _taught(out, recipe, seed, teach)
    plan = rewarded(out, recipe, seed)
    if plan is not None:
        train_by_rewards(plan, out / RL, as_json=as_json)
    with quiet_loading():
        model = finish(out, recipe)
    facts = {
        "model": str(model),
        "demonstrations": taught.episodes,
        "their tokens": taught.tokens,
        "minutes of supervised training": round(taught.seconds / 60, 1),
        "reinforcement learning": "none" if plan is None else str(out / RL),
    }
    print_json(facts) if as_json else print_facts(card.id, facts)
    say(f"evaluate it: searchgym eval HotpotQA-v0 --agent {shlex.quote(str(model))} -n 100")


def _taught(out: Path, recipe: FinetuneRecipe, seed: int, teach: Any) -> Any:
    """The supervised stage, with a bar for the demonstrations and one for the training; where
    nobody watches a terminal, with a line per step instead."""
    from ..finetune.demonstrations import count_of

    count = count_of(recipe.demonstrations)
    unit = "environments" if recipe.demonstrations.get("seeds") is None else "worlds"
    steps = recipe.config(seed).steps
    watched = sys.stderr.isatty()
    with progress("demonstrations", count, unit) as bar, quiet_loading():
        done, training = 0, False

        def made(number: int) -> None:
            nonlocal done
            bar(number - done)
            if not watched and done == 0:
                say(f"making the demonstrations of {count} {unit}")
            done = number

        def report(now: Progress) -> None:
            nonlocal done, training
            if not training:
                bar.stage("supervised training", steps, "steps")
                done, training = 0, True
            bar(now.step - done)
            done = now.step
            if not watched:
                say(f"step {now.step}/{steps} loss {now.loss:.3f} {now.seconds:.1f} s")

        return teach(out, recipe, seed=seed, made=made, report=report)


def merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with changes, within its tables, too; those of tasks are replaced."""
    both = dict(table)
    for key, value in changes.items():
        old = both.get(key)
        nested = isinstance(old, Mapping) and isinstance(value, Mapping) and key != "tasks"
        both[key] = merged(old, value) if nested else value  # type: ignore[arg-type]
    return both
