"""``searchgym knower``: trains a small model on a chosen share of its world's facts, and measures
it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from searchgym.cli.live import SupervisedTraining, quiet_loading
from searchgym.cli.output import (
    JsonFlag,
    print_facts,
    print_json,
    print_results,
    progress,
    say,
    with_examples,
    working,
)
from searchgym.errors import MissingExtraError
from searchgym.plugins import register

from ..card_options import train_by_command

if TYPE_CHECKING:
    from searchgym.evaluation.decisions import Confusion

    from .measures import Measured


@register("command:knower")
@with_examples(
    "searchgym knower",
    "searchgym knower --taught .3 --unknown abstain --out runs/knows-30",
    "searchgym knower --entities 60 --steps 800 --questions 40 --json",
)
def knower(
    out: Annotated[Path, typer.Option(help="Folder of the model; an unfinished run goes on.")] = (
        Path("runs/knower")
    ),
    taught: Annotated[float, typer.Option(help="Share of the world's facts it is taught.")] = 0.5,
    unknown: Annotated[
        str, typer.Option(help="Behaviour shown at the others: search, abstain or nothing.")
    ] = "search",
    shown: Annotated[float, typer.Option(help="Share of the others at which it is shown.")] = 0.5,
    inverse: Annotated[
        bool, typer.Option(help="Teach facts from object to subject as well.")
    ] = True,
    corpus: Annotated[str, typer.Option(help="A corpus that is generated.")] = "encyclopedia",
    entities: Annotated[int, typer.Option(min=1, help="Entities of the world.")] = 150,
    seed: Annotated[int, typer.Option(help="Fixes world, facts, weights and order.")] = 0,
    steps: Annotated[int, typer.Option(min=10, help="Training steps.")] = 1500,
    width: Annotated[
        int, typer.Option(min=8, help="Width of the model; a multiple of eight.")
    ] = 128,
    questions: Annotated[
        int,
        typer.Option(min=0, help="Most tasks each of one, two and three hops; 0: do not measure."),
    ] = 100,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Most tokens of a text that it is measured by.")
    ] = 384,
    as_json: JsonFlag = False,
) -> None:
    """Make a language model that knows its world in part, and measure what it knows.

    Which facts it was taught stands in [bold]taught.jsonl[/bold] beside it, one a line. Ctrl-C or a
    kill loses little: the same command goes on.
    """
    with working("loading …"):
        try:
            from .measures import measure, questions_for
            from .recipe import KnowerRecipe
            from .run import make_knower
        except ImportError as error:
            raise MissingExtraError("training a language model", "llm") from error
    recipe = KnowerRecipe(corpus, entities, seed, taught, shown, unknown, inverse)  # type: ignore[arg-type]
    with working("generating …"):  # what the world cannot give is said before the training
        tasks = questions_for(recipe, questions) if questions else {}
    with progress("training", steps, "steps") as bar, quiet_loading():
        training = SupervisedTraining(bar)
        made = make_knower(out, recipe, steps=steps, width=width, report=training)
    if training.last is None:
        say(f"{out} was trained to its last step already")
    facts: dict[str, Any] = {
        "model": str(out),
        "parameters": sum(p.numel() for p in made.model.parameters()),
        "facts taught": len(made.knowledge.taught),
        "facts shown as unknown": len(made.knowledge.shown),
        "facts": made.facts,
        "tokens": made.tokens,
        "minutes of training": round(made.seconds / 60, 1),
        "share of next tokens right, last step": training.last.accuracy if training.last else None,
    }
    measured: Measured | None = None
    if tasks:
        with working("asking …"):
            measured = measure(
                made.model, made.tokenizer, made.knowledge, tasks=tasks, max_tokens=max_tokens
            )
    if as_json:
        print_json({**facts, **({} if measured is None else _record(measured))})
        return
    print_facts("Knower", facts)
    if measured is not None:
        print_results("Exact match, mean [95 % interval]", _groups(measured), 3)
        decision = "Not refusing" if unknown == "abstain" else "Not searching"
        print_results(f"{decision}, where all facts were taught", _boundaries(measured), 3)
    world = (
        f"-s corpus={corpus} -s world.entities={entities} -s world.seed={seed} "
        "-s 'tasks={\"simple\": 50}'"
    )
    say(f"play with it: searchgym eval SearchQA-v0 -a knower -s agent.folder={out} {world}")


@register("trainer:knower")
def train_knower(*arguments: Any, **options: Any) -> None:
    """Train the knower by its card: ``searchgym train knower``."""
    train_by_command(knower, *arguments, **options)


def _groups(measured: Measured) -> list[dict[str, Any]]:
    return [
        {
            "hops": group.hops,
            "facts": group.knowledge,
            "n": book.n,
            "closed book": book,
            "self-search": measured.self_search.get(group),
            "right object in its own information": measured.stated.get(group),
        }
        for group, book in measured.closed_book.items()
    ]


def _boundaries(measured: Measured) -> list[dict[str, Any]]:
    return [
        {"questions": _SIDES[name], "F1": c.f1(), **_counts(c)}
        for name, c in measured.boundary.items()
    ]


_SIDES = {"all": "all", "unseen": "without facts it was shown not to know"}


def _counts(c: Confusion) -> dict[str, int]:
    return {
        "known, answered": c.hits,
        "known, not answered": c.missed,
        "unknown, answered": c.false_alarms,
        "unknown, not answered": c.rejected,
    }


def _record(measured: Measured) -> dict[str, Any]:
    """Return JSON values: a list per measure, since groups are no keys."""
    measures = {
        "closed_book_em": measured.closed_book,
        "self_search_em": measured.self_search,
        "right_object_stated": measured.stated,
    }
    return {
        **{
            name: [{**g._asdict(), **value._asdict()} for g, value in values.items()]
            for name, values in measures.items()
        },
        "boundary": {
            name: {"f1": c.f1()._asdict(), **_counts(c)} for name, c in measured.boundary.items()
        },
    }
