"""The main job: train the candidate agent in generated worlds, then evaluate it outside them.

Every part can be interrupted and goes on from there: trained agents, results and encoded passages
are kept in the output folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .ladder import RULES
from .report import print_table, save_report
from .run import Contender, oracle, transfer
from .rungs import REAL_SETS, WORLD, Rung, generated_rungs, real_rungs, smoke_rung
from .table import Contrast, TransferTable
from .training import CandidateRecipe, Learned, SeedTrainer

if TYPE_CHECKING:
    from rich.console import Console

ENOUGH = 8_000
"""Episodes after which the candidate agent searches a second time where it should. Two idle cores
play more in the time given, a busy or slow machine may not."""
GENERATED_QUESTIONS = 300
REAL_QUESTIONS = 500


@dataclass
class Quickstart:
    """The results of the main job."""

    table: TransferTable
    contrasts: list[Contrast]
    learned: list[Learned]
    written: dict[str, Path]
    complete: bool


def quickstart(
    out_dir: str | Path = "quickstart",
    *,
    budget_s: float = 270.0,
    seeds: Sequence[int] = (0,),
    data_dir: str | Path | None = None,
    generated_questions: int | None = GENERATED_QUESTIONS,
    real_questions: int | None = REAL_QUESTIONS,
    sets: Sequence[str] = REAL_SETS,
    recipe: CandidateRecipe | str = "candidate",
    console: Console | None = None,
) -> Quickstart:
    """Train from scratch, then print and save the transfer table and the learning curve.

    Args:
        out_dir: Keeps everything; the same call again goes on from what is there.
        budget_s: Wall clock for training all seeds together, counted from each one's first update.
            Runs are exactly reproducible only where the recipe's episodes end before it.
        seeds: One agent is trained for each.
        data_dir: Where the real sets are (default: ``SEARCHGYM_DATA``, else the user's cache).
        generated_questions: Questions per generated rung; None: all of the card's.
        real_questions: At most so many questions per real set, drawn at random; None: all.
        sets: Which real sets.
        recipe: An agent card's name or folder, or a recipe.
        console: Where to print (rich).
    """
    from rich.console import Console

    out = console or Console(highlight=False)
    folder = Path(out_dir)
    chosen = recipe if isinstance(recipe, CandidateRecipe) else CandidateRecipe.of_card(recipe)
    trainer = SeedTrainer(chosen, folder)
    learned: list[Learned] = []
    share = budget_s / max(1, len(seeds))
    rungs, absent = ladder(chosen, data_dir, generated_questions, real_questions, sets)
    _announce(out, folder, rungs, absent, generated_questions, real_questions)
    try:
        for seed in seeds:
            with _training_bar(out, seed) as report:
                learned.append(trainer.train(seed, seconds=share, report=report))
            out.print(_trained(learned[-1]))
            if learned[-1].episodes < min(ENOUGH, chosen.config.get("episodes", ENOUGH)):
                out.print(_too_little(budget_s))
    except KeyboardInterrupt:
        out.print(_again(folder, "training"))
        raise
    trainer.release()
    with _evaluation_bars(out) as progress:
        table = transfer(contenders(trainer, learned), rungs, out_dir=folder, progress=progress)
    contrasts = table.contrasts("trained", ("rules", "untrained"))
    print_table(table, contrasts, console)
    table.absent, table.reference = list(absent), WORLD
    table.baselines = {"trained": "untrained"}
    written = save_report(folder, table, learned={"trained": learned}, contrasts=contrasts)
    for path in written.values():
        out.print(f"wrote {path}", style="dim")
    if not table.complete:
        out.print(_again(folder, "the evaluation"))
    return Quickstart(table, contrasts, learned, written, table.complete)


def ladder(
    recipe: CandidateRecipe,
    data_dir: str | Path | None = None,
    generated_questions: int | None = GENERATED_QUESTIONS,
    real_questions: int | None = REAL_QUESTIONS,
    sets: Sequence[str] = REAL_SETS,
) -> tuple[list[Rung], list[str]]:
    """The rungs of a recipe, and how to get the real sets that are absent.

    Without any real set the last rung is Python's documentation strings.
    """
    generated = generated_rungs(
        {**recipe.env, "world": {**recipe.env.get("world", {}), "seed": recipe.worlds[0]}},
        cap=generated_questions,
    )
    rules = {k: v for k, v in recipe.env.items() if k in RULES}
    real, absent = real_rungs(data_dir, sets=sets, cap=real_questions, rules=rules)
    return generated + (real or [smoke_rung(rules=rules)]), absent


def contenders(trainer: SeedTrainer, learned: Sequence[Learned]) -> dict[str, Contender]:
    """The agents of the table, weakest first."""
    from ..agents.scripted import BestSentenceAgent, FirstHitAgent, RandomAgent, RulesAgent

    return {
        "random": RandomAgent(),
        "first-hit": FirstHitAgent(),
        "best-sentence": BestSentenceAgent(),
        "rules": RulesAgent(),
        "untrained": [trainer.untrained(run) for run in learned],
        "trained": [run.agent for run in learned],
        "oracle": oracle,
    }


def _announce(
    out: Console,
    folder: Path,
    rungs: Sequence[Rung],
    absent: Sequence[str],
    generated: int | None,
    real: int | None,
) -> None:
    names = ", ".join(rung.name for rung in rungs)
    caps = [f"{'all' if n is None else f'at most {n}'}" for n in (generated, real)]
    out.print(f"Rungs: {names}. Questions: {caps[0]} per generated, {caps[1]} per real set.")
    if absent and all(rung.kind != "real" for rung in rungs):
        out.print(
            "No real set is on this machine, so the last rung is a smoke run on Python's own "
            "documentation. To get real sets: [bold]searchgym data[/bold]"
        )
    elif absent:
        out.print(f"Not on this machine: {'; '.join(absent)}", style="dim")
    out.print(f"Everything goes to {folder}/", style="dim")


def _trained(run: Learned) -> str:
    last = run.curve[-1] if run.curve else {}
    best = max((point["f1"] for point in run.curve), default=float("nan"))
    return (
        f"seed {run.seed}: {run.episodes:,} episodes in {run.seconds:.0f} s, F1 {best:.3f} on the "
        f"development world with {last.get('searches', float('nan')):.2f} searches"
    )


def _too_little(budget_s: float) -> str:
    return (
        "[yellow]That is little[/yellow]: this machine is slow, or was busy. Texts encoded so far "
        f"are kept; --seconds {2 * budget_s:.0f} trains anew, for longer."
    )


def _again(folder: Path, what: str) -> str:
    return (
        f"[bold]Interrupted[/bold] during {what}. What was finished is kept in {folder}/; the same "
        "command goes on from there."
    )


@contextmanager
def _training_bar(out: Console, seed: int) -> Iterator[Any]:
    """A bar over the run; ``report(what, fraction, point)``."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task(f"seed {seed}: starting", total=1.0)
        best = ""

        def report(what: str, fraction: float, point: Mapping[str, float] | None) -> None:
            nonlocal best
            if point is not None:
                best = f", F1 {point['f1']:.3f}, searches {point['searches']:.2f}"
            bar.update(task, description=f"seed {seed}: {what}{best}")
            if fraction > 0:  # encoding reports 0: it must not set the bar back
                bar.update(task, completed=fraction)

        yield report


@contextmanager
def _evaluation_bars(out: Console) -> Iterator[Any]:
    """One bar per agent and rung; finished ones disappear."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:

        @contextmanager
        def progress(label: str, total: int) -> Iterator[Any]:
            task = bar.add_task(label, total=total)
            try:
                yield lambda n: bar.advance(task, n)
            finally:
                bar.remove_task(task)

        yield progress
