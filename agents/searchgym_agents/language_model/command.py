"""The command line's side of fine-tuning: an agent's card, stage by stage, with progress."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from searchgym.cli.live import SupervisedTraining, quiet_loading
from searchgym.cli.output import print_facts, print_json, progress, say
from searchgym.errors import MissingExtraError
from searchgym.plugins import register

from ..card_options import options_of

if TYPE_CHECKING:
    from searchgym.cards import Card

    from .recipe import FinetuneRecipe


@register("trainer:finetune")
def finetune(
    card: Card, out: Path, seeds: Sequence[int], settings: Sequence[str] | None, *,
    seconds: float | None = None, as_json: bool = False,
) -> None:  # fmt: skip
    """Train by a card's ``train`` table, changed by ``settings``, in folder ``out``; an unfinished
    run goes on.

    Raises:
        CardError: several seeds, a limit of seconds, or settings that the table does not have.
    """
    options, seed = options_of(card, seeds, settings, seconds)
    try:
        from .recipe import FinetuneRecipe
        from .run import RL, finish, rewarded, teach
    except ImportError as error:
        raise MissingExtraError("training a language model", "llm") from error
    from searchgym.cli.train import run as train_by_rewards

    recipe = FinetuneRecipe.of(options)
    plan = rewarded(out, recipe, seed)  # before: what it refuses is said at once
    taught = _taught(out, recipe, seed, teach)
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
    from .demonstrations import count_of

    count = count_of(recipe.demonstrations)
    unit = "environments" if recipe.demonstrations.get("seeds") is None else "worlds"
    with progress("demonstrations", count, unit) as bar, quiet_loading():

        def made(number: int) -> None:
            if number == 1 and not sys.stderr.isatty():
                say(f"making the demonstrations of {count} {unit}")
            bar.to(number)

        report = SupervisedTraining(bar, label="supervised training", lines=1)
        try:
            return teach(out, recipe, seed=seed, made=made, report=report)
        except KeyboardInterrupt:
            if report.last is not None:
                step, steps = report.last.step, report.last.steps
                say(f"stopped at step {step} of {steps}; the same command goes on")
            raise
