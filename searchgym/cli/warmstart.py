"""``searchgym warmstart``: a tokenizer and a small reader, trained from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import MissingExtraError
from .live import quiet_loading
from .output import JsonFlag, examples, print_facts, print_json, progress, say, working

if TYPE_CHECKING:
    from ..llms.sft import Progress


def warmstart(
    out: Annotated[Path, typer.Option(help="Folder of the model; an unfinished run goes on.")] = (
        Path("runs/warm")
    ),
    seed: Annotated[int, typer.Option(help="Fixes worlds, weights and order.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Make a language model that can search and read a little, out of nothing, on a CPU.

    The tokenizer and the weights are learnt from oracles' episodes in generated worlds. What comes
    out is a starting point for [bold]searchgym train RECIPE --model[/bold]. Ctrl-C or a kill loses
    little: the same command goes on.
    """
    with working("loading …"):
        try:
            from ..warmstart.run import STAGES, warm_start
        except ImportError as error:
            raise MissingExtraError("training a language model", "llm") from error
    total = sum(stage.config.steps for stage in STAGES)
    last: list[Progress] = []
    with progress("writing traces, then training", total) as advance, quiet_loading():
        done: dict[int, int] = {}

        def report(stage: int, now: Progress) -> None:
            advance(now.step - done.get(stage, 0))
            done[stage] = now.step
            last[:] = [now]

        made = warm_start(out, STAGES, seed=seed, report=report)
    facts: dict[str, Any] = {
        "model": str(out),
        "parameters": sum(p.numel() for p in made.model.parameters()),
        "tokens": made.tokens,
        "minutes": round(made.seconds / 60, 1),
        "accuracy of the last step": last[0].accuracy if last else None,
    }
    print_json(facts) if as_json else print_facts("Warm start", facts)
    say(f"go on with: searchgym train grpo --model {out} --lr 1e-3")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(epilog=examples("searchgym warmstart", "searchgym warmstart --out runs/small"))(
        warmstart
    )
