"""The candidate agent on the command line: ``searchgym train``, ``transfer`` and ``quickstart``."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from searchgym.cli.options import DataDir, Seconds, overrides
from searchgym.cli.output import console, examples, print_json, progress, say
from searchgym.errors import CardError, unknown
from searchgym.plugins import register

if TYPE_CHECKING:
    from searchgym.benchmark.contenders import Trained
    from searchgym.cards import Card

    from .agent import CandidateAgent
    from .encoder import WordEncoder
    from .training import CandidateRecipe

Settings = Sequence[str] | None
"""Changes by ``--set`` of a card's table ``train``."""


@cache
def saved_agent(weights: Path | None = None) -> CandidateAgent:
    """Return the agent with these weights; None: before its first update."""
    from .agent import CandidateAgent
    from .features import FeatureBuilder

    if weights is None:
        return CandidateAgent.untrained(FeatureBuilder(_encoder()))
    return CandidateAgent.load(weights, _encoder())


@cache
def _encoder() -> WordEncoder:
    """The word encoder that all agents share, because its vectors take memory."""
    from searchgym.storage.cache import cache_folder

    from .encoder import WordEncoder

    return WordEncoder(cache=cache_folder("vectors"))


class CandidateTraining:
    """Trains candidate agents by their cards, for ``searchgym train`` and for the ladder."""

    registered = "trainer:candidate"

    def __call__(
        self, card: Card, out: Path, seeds: Sequence[int], settings: Settings, *,
        seconds: float | None = None, as_json: bool = False,
    ) -> None:  # fmt: skip
        """Train one agent per seed in folder ``out``; an unfinished run goes on."""
        from .training import SeedTrainer

        trainer = SeedTrainer(self.recipe(card, settings), out)
        rows: list[dict[str, Any]] = []
        failures = []
        for seed in seeds or (0,):
            with training_bar(f"seed {seed}") as report:
                learned = trainer.train(seed, seconds=seconds, report=report)
            last: Mapping[str, float] = learned.curve[-1] if learned.curve else {}
            best = max((point["f1"] for point in learned.curve), default=None)
            rows.append(
                {"seed": seed, "weights": str(learned.path), "episodes": learned.episodes,
                 "seconds": learned.seconds, "f1": best, "curve": learned.curve}
            )  # fmt: skip
            if learned.failure:
                failures.append(learned.failure)
            say(
                f"seed {seed}: {learned.episodes:,} episodes in {learned.seconds:.0f} s, "
                f"development F1 {last.get('f1', float('nan')):.3f}; {learned.path}"
            )
        say(f"look at it: searchgym report {shlex.quote(str(out))} --open")
        if as_json:
            print_json(rows)
        if failures:
            say(f"Error: {'; '.join(failures)}")
            raise typer.Exit(1)

    def recipe(self, card: Card, settings: Settings = None) -> CandidateRecipe:
        """The card's recipe with parts of its tables replaced; ``CardError`` for a table that it
        does not have."""
        from .training import CandidateRecipe

        recipe = CandidateRecipe.of_card(card)
        known = {f.name for f in dataclasses.fields(recipe)}
        changes = overrides(settings)
        for key in changes:
            if key not in known:
                raise CardError(unknown("table of [train]", key, known))
        # what it is trained on comes first: seeds and development tasks are of that
        for key in sorted(changes, key=lambda name: name != "env"):
            value = changes[key]
            old = getattr(recipe, key)
            if key == "env":
                recipe = recipe.on(value)
            elif key == "worlds":
                recipe = recipe.in_worlds(value)
            elif key == "dev" and (recipe.mixed or not isinstance(value, Mapping)):
                recipe = dataclasses.replace(recipe, dev=recipe.ruled(value, split="dev"))
            elif not isinstance(value, dict):
                raise CardError(f"[train] {key} is a table, got {value!r}; it is now {old!r}")
            else:
                table: Any = {**old, **value}
                recipe = dataclasses.replace(recipe, **{key: table})
        return recipe

    def climbers(
        self, card: Card, out: Path, seeds: Sequence[int], settings: Settings, *,
        sources: Sequence[str] = (), seconds: float | None = None,
    ) -> Trained:  # fmt: skip
        """Train a card's agents for the ladder; see :func:`~.contenders.trained`."""
        from .contenders import trained

        return trained(
            card, out, recipe=self.recipe(card, settings), seeds=seeds, sources=sources,
            seconds=seconds, report=training_bar,
        )  # fmt: skip

    agent = staticmethod(saved_agent)


@contextmanager
def training_bar(label: str) -> Iterator[Any]:
    """A progress bar over a training run: ``report(what, fraction, point)``."""
    steps = 1000
    with progress(label, steps) as advance:
        done = 0

        def report(what: str, fraction: float, point: Mapping[str, float] | None) -> None:
            nonlocal done
            now = int(fraction * steps)
            if now > done:
                advance(now - done)
                done = now

        yield report


@register("command:quickstart")
def quickstart(
    out: Annotated[Path, typer.Option(help="Folder for everything.")] = Path("runs/quickstart"),
    episodes: Annotated[
        int, typer.Option(min=1, help="Train for so many at most; less if the curve is flat.")
    ] = 15_000,
    seconds: Seconds = None,
    seed: Annotated[list[int] | None, typer.Option(help="One agent per seed. Repeatable.")] = None,
    questions: Annotated[
        int | None,
        typer.Option(
            "--questions",
            "-n",
            min=1,
            help="Most questions per set (default: 300, of real text 120).",
        ),
    ] = None,
    worlds: Annotated[
        int, typer.Option(min=1, help="Train in so many of the card's worlds: more take longer.")
    ] = 2,
    data_dir: DataDir = None,
) -> None:
    """The main job: train the candidate agent from scratch, then measure it elsewhere.

    It learns in generated worlds and, where 'searchgym data get vital' has fetched them, from
    questions made of Wikipedia's introductions; it is measured in other worlds and wordings, on
    pages and questions of other kinds that it did not see, and on the real sets that are here.
    Training ends when the development curve is flat or the episodes are used, whatever the clock
    says: some three minutes with the measuring on two CPU cores. The same command goes on where it
    was interrupted.
    """
    from .quickstart import PROCESSES, QUESTIONS, REAL_QUESTIONS, has_text, quick_recipe
    from .quickstart import quickstart as run

    recipe = quick_recipe(worlds, episodes, text=has_text(data_dir))
    done = run(
        out, recipe=recipe, seconds=seconds, seeds=tuple(seed or [0]),
        data_dir=data_dir, generated_questions=questions or QUESTIONS,
        real_questions=questions or REAL_QUESTIONS, processes=PROCESSES,
        console=console(),
    )  # fmt: skip
    if not done.complete:
        raise KeyboardInterrupt
    if done.failure:
        say(f"Error: {done.failure}")
        raise typer.Exit(1)


quickstart.epilog = examples(  # type: ignore[attr-defined]
    "searchgym quickstart",
    "searchgym quickstart --episodes 4000 -n 100",
    "searchgym quickstart --data-dir ~/data --seed 0 --seed 1 --seed 2",
)
