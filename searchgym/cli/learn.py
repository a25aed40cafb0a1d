"""``searchgym train``, ``transfer``, ``quickstart``: learning, and what it is worth elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from .output import JsonFlag, console, examples, print_json, progress, say, working
from .targets import DataDir, Overrides

Seconds = Annotated[
    float | None,
    typer.Option(min=1, help="Stop training after so long; reproducible only without it."),
]


def train(
    card: Annotated[str, typer.Argument(metavar="CARD", help="An agent card that learns.")],
    out: Annotated[Path, typer.Option(help="Folder for agents and vectors.")] = Path("runs/train"),
    seed: Annotated[list[int] | None, typer.Option(help="One agent per seed. Repeatable.")] = None,
    seconds: Seconds = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="KEY=VALUE",
            help="Override the card's train table: config.episodes=5000. Repeatable.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:  # fmt: skip
    """Train an agent by its card: where, with which hyperparameters, is all written there.

    Ctrl-C keeps a checkpoint, and the same command goes on from it. What is written can be passed
    to [bold]searchgym eval --agent[/bold] and [bold]searchgym transfer --agent[/bold].
    """
    from ..transfer.training import Recipe, Trainer

    recipe = Recipe.of_card(_card(card))
    trainer = Trainer(_changed(recipe, settings), out)
    rows = []
    for number in seed or [0]:
        with _bar(f"seed {number}") as report:
            learned = trainer.train(number, seconds=seconds, report=report)
        last: Mapping[str, float] = learned.curve[-1] if learned.curve else {}
        rows.append(
            {"seed": number, "weights": str(learned.path), "episodes": learned.episodes,
             "seconds": learned.seconds, "f1": max((p["f1"] for p in learned.curve), default=None),
             "curve": learned.curve}
        )  # fmt: skip
        say(
            f"seed {number}: {learned.episodes:,} episodes in {learned.seconds:.0f} s, "
            f"development F1 {last.get('f1', float('nan')):.3f}; {learned.path}"
        )
    if as_json:
        print_json(rows)


def _card(name: str) -> Any:
    from ..cards import card, read_card

    if (Path(name) / "card.toml").is_file():
        return read_card(Path(name), "agents")
    return card("agents", name)


def _changed(recipe: Any, settings: list[str] | None) -> Any:
    """The recipe with parts of its tables replaced; ``CardError`` for a table it has not."""
    import dataclasses

    from ..errors import CardError, unknown
    from .targets import overrides

    changes: dict[str, Any] = {}
    known = {f.name for f in dataclasses.fields(recipe)}
    for key, value in overrides(settings).items():
        if key not in known:
            raise CardError(unknown("table of [train]", key, known))
        old = getattr(recipe, key)
        changes[key] = {**old, **value} if isinstance(value, dict) else tuple(value)
    return dataclasses.replace(recipe, **changes)


def _bar(label: str) -> Any:
    """A progress bar over a training run: ``report(what, fraction, point)``."""
    from contextlib import contextmanager

    steps = 1000

    @contextmanager
    def bar() -> Any:
        with progress(label, steps) as advance:
            done = 0

            def report(what: str, fraction: float, point: Mapping[str, float] | None) -> None:
                nonlocal done
                now = int(fraction * steps)
                if now > done:
                    advance(now - done)
                    done = now

            yield report

    return bar()


def transfer(
    agent: Annotated[
        list[str],
        typer.Option("--agent", "-a", help="A card, weights or module:Class. Repeatable."),
    ] = ["random", "first-hit", "best-sentence", "rules", "oracle"],  # noqa: B006
    env: Annotated[str, typer.Option(help="The generated environment at the ladder's foot.")] = (
        "SearchQA-v0"
    ),
    out: Annotated[Path, typer.Option(help="Folder for results; finished ones are kept.")] = Path(
        "runs/transfer"
    ),
    questions: Annotated[
        int | None, typer.Option("--questions", "-n", min=1, help="At most so many per set.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes every episode.")] = 0,
    data_dir: DataDir = None,
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """From generated worlds to real passages: every agent on every set, one table.

    Rungs: the environment's own world, a held-out world, held-out wording, and each real set that
    is on this machine. Results are saved one by one; the same command goes on where it stopped.
    """
    import gymnasium as gym

    from ..transfer import transfer as climb
    from ..transfer.quickstart import RULES
    from ..transfer.report import print_table, save_report
    from ..transfer.rungs import generated_rungs, real_rungs, smoke_rung
    from .contestants import contestant
    from .targets import env_id, overrides

    keywords = {**gym.spec(env_id(env)).kwargs, **overrides(settings)}
    rules = {k: v for k, v in keywords.items() if k in RULES}
    real, absent = real_rungs(data_dir, cap=questions, rules=rules)
    rest = real or [smoke_rung(cap=questions, rules=rules)]
    rungs = generated_rungs(keywords, cap=questions) + rest
    short = {name: Path(name).stem if "/" in name else name for name in agent}
    if len(set(short.values())) < len(short):  # two runs' seed-0: tell them apart by their paths
        short = {name: name for name in agent}
    makers = {short[name]: contestant(name) for name in agent}
    table = climb(makers, rungs, out_dir=out, seed=seed, progress=progress)
    with working("drawing …"):
        written = save_report(out, table, absent=absent)
    if as_json:
        print_json(table.to_json())
    else:
        print_table(table, (), console())
        for line in absent:
            say(f"not on this machine: {line}")
    for path in written.values():
        say(f"wrote {path}")
    if not table.complete:
        raise KeyboardInterrupt


def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for everything.")] = Path("runs/quickstart"),
    seconds: Annotated[float, typer.Option(min=1, help="Wall clock for training.")] = 270.0,
    seed: Annotated[list[int] | None, typer.Option(help="One agent per seed. Repeatable.")] = None,
    questions: Annotated[
        int, typer.Option("--questions", "-n", min=1, help="At most so many per set.")
    ] = 300,
    worlds: Annotated[
        int, typer.Option(min=1, help="Train in so many of the card's worlds: more take longer.")
    ] = 2,
    data_dir: DataDir = None,
) -> None:
    """The main job: train the candidate agent from scratch, then print and save the transfer table.

    About five minutes on two CPU cores. Nothing is downloaded; without real sets the last rung is
    a smoke run on Python's own documentation. The same command goes on where it was interrupted.
    """
    from dataclasses import replace

    from ..transfer.quickstart import quickstart as run
    from ..transfer.training import Recipe

    recipe = Recipe.of_card()
    recipe = replace(recipe, worlds=recipe.worlds[:worlds])  # encoding all six takes minutes
    done = run(
        out, recipe=recipe, budget_s=seconds, seeds=tuple(seed or [0]), data_dir=data_dir,
        generated_questions=questions, real_questions=questions, console=console(),
    )  # fmt: skip
    if not done.complete:
        raise KeyboardInterrupt


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command(
        epilog=examples(
            "searchgym train candidate",
            "searchgym train candidate --seed 0 --seed 1 --seconds 120 --out runs/two",
            "searchgym train ./my-agent -s config.episodes=20000 --json",
        )
    )(train)
    app.command(
        epilog=examples(
            "searchgym transfer",
            "searchgym transfer -a rules -a runs/train/agents/seed-0.safetensors",
            "searchgym transfer --env MultiHopQA-v0 -a oracle -n 50 --json",
        )
    )(transfer)
    app.command(
        epilog=examples(
            "searchgym quickstart",
            "searchgym quickstart --seconds 60 -n 100",
            "searchgym quickstart --data-dir ~/data --seed 0 --seed 1 --seed 2",
        )
    )(quickstart)
