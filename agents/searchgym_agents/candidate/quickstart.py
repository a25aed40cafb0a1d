"""Quickstart: trains the candidate agent in generated worlds, and on real text where that was
fetched, then evaluates it outside them.

Work decides when it ends, not a clock: a machine half as fast takes twice as long and reaches the
same scores. Every part can be interrupted and goes on from there: trained agents and results are
kept in the output folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from searchgym.benchmark.ladder import (
    REAL_SETS,
    TEXT,
    WORLD,
    Rung,
    generated_rungs,
    real_rungs,
    text_rungs,
)
from searchgym.benchmark.ladder_table import print_ladder
from searchgym.benchmark.run import Contender, oracle, transfer
from searchgym.benchmark.table import Contrast, TransferTable, save_report

from .training import CandidateRecipe, Learned, SeedTrainer

if TYPE_CHECKING:
    from rich.console import Console

WORLDS, EPISODES = 2, 15_000
"""Worlds and episodes that the quickstart trains on, fewer than the card's."""
PATIENCE = 5
"""Evaluations without a better one after which its development curve counts as flat."""
QUESTIONS, REAL_QUESTIONS = 300, 120
"""Most questions of a generated rung, and of one of real text, whose passages take longer to read.
"""
BRANCHES = (1, 2)
"""Searches that may be followed from a state, and none from a state after two: those after three
take the longest to build, and development worlds did without them."""
TEXT_TASKS: Mapping[str, Any] = {"fact": 150, "gap": 150, "bridge": 40, "at_most": True}
"""Questions made of real text for training: of the same families as on its first rung."""
TEXT_WEIGHT = 0.5
"""Weight of these beside the worlds' 1: they are learnt sooner."""
PROCESSES = 2
"""Processes that measure, as many on every machine: how rungs are dealt out moves last digits."""


@dataclass
class Quickstart:
    """The results of the main job."""

    table: TransferTable
    contrasts: list[Contrast]
    learned: list[Learned]
    written: dict[str, Path]
    complete: bool

    @property
    def failure(self) -> str:
        """One sentence for each agent that learnt nothing, "" if all have learnt."""
        return "; ".join(filter(None, (run.failure for run in self.learned)))


def quick_recipe(
    worlds: int = WORLDS, episodes: int = EPISODES, card: str = "candidate", *, text: bool = False
) -> CandidateRecipe:
    """A card's recipe in fewer worlds and episodes, which stops once its curve is flat; with
    ``text`` a third of its questions are made of the pages of a real text."""
    recipe = CandidateRecipe.of_card(card)
    config = {**recipe.config, "episodes": episodes, "patience": PATIENCE, "branches": BRANCHES}
    quick = replace(recipe, worlds=recipe.worlds[:worlds], config=config)
    own = {"corpus": TEXT, "tasks": dict(TEXT_TASKS), "weight": TEXT_WEIGHT}
    return quick.beside(own) if text else quick


def has_text(data_dir: str | Path | None = None) -> bool:
    """Check whether the real text is on this machine."""
    return bool(text_rungs(data_dir)[0])


def quickstart(
    out_dir: str | Path = "quickstart",
    *,
    seconds: float | None = None,
    seeds: Sequence[int] = (0,),
    data_dir: str | Path | None = None,
    generated_questions: int | None = QUESTIONS,
    real_questions: int | None = REAL_QUESTIONS,
    sets: Sequence[str] = REAL_SETS,
    recipe: CandidateRecipe | None = None,
    processes: int = 1,
    console: Console | None = None,
) -> Quickstart:
    """Train from scratch, then print the ladder and save it with the learning curve.

    Args:
        out_dir: Keeps everything; the same call again goes on from what is there.
        seconds: Optional bound on the training of all seeds together, counted from each one's first
            update. Runs are reproducible only without it.
        seeds: One agent is trained for each.
        data_dir: Where the real sets are (default: ``SEARCHGYM_DATA``, else the user's cache).
        generated_questions: Questions per generated rung; None: all of the card's.
        real_questions: At most so many questions of a real text or set, drawn at random; None: all.
        sets: Which real sets.
        recipe: What is trained; :func:`quick_recipe` by default, with real text where it is.
        processes: Among which the rungs are shared out (:func:`~searchgym.benchmark.run.transfer`).
        console: Where to print (rich).
    """
    from rich.console import Console

    out = console or Console(highlight=False, emoji=False)
    folder = Path(out_dir)
    chosen = recipe or quick_recipe(text=has_text(data_dir))
    trainer = SeedTrainer(chosen, folder)
    learned: list[Learned] = []
    share = None if seconds is None else seconds / max(1, len(seeds))
    rungs, absent = ladder(chosen, data_dir, generated_questions, real_questions, sets)
    _announce(out, folder, rungs, absent)
    try:
        for seed in seeds:
            with _training_bar(out, seed, int(chosen.config.get("episodes", 0))) as report:
                learned.append(trainer.train(seed, seconds=share, report=report))
            out.print(_trained(learned[-1]))
    except KeyboardInterrupt:
        out.print(_again(folder, "training"))
        raise
    trainer.release()
    players = contenders(trainer, learned)
    with _evaluation_bar(out, rungs, len(players) + 2 * (len(learned) - 1)) as progress:
        table = transfer(players, rungs, out_dir=folder, processes=processes, progress=progress)
    contrasts = table.contrasts("trained", ("rules", "untrained"))
    table.absent, table.reference = list(absent), WORLD
    table.baselines = {"trained": "untrained"}
    written = save_report(folder, table, learned={"trained": learned}, contrasts=contrasts)
    print_ladder(table, out)
    if not table.complete:
        out.print(_again(folder, "the evaluation"))
    out.print(f"report: {written.get('html', written['json'])}", soft_wrap=True)
    return Quickstart(table, contrasts, learned, written, table.complete)


def ladder(
    recipe: CandidateRecipe,
    data_dir: str | Path | None = None,
    generated_questions: int | None = QUESTIONS,
    real_questions: int | None = REAL_QUESTIONS,
    sets: Sequence[str] = REAL_SETS,
) -> tuple[list[Rung], list[str]]:
    """The rungs of a recipe, and how to get the texts and real sets that are absent."""
    first = recipe.world()
    generated = [] if first is None else generated_rungs(first, cap=generated_questions)
    rules = recipe.rules
    text, without = text_rungs(data_dir, cap=real_questions, rules=rules)
    real, absent = real_rungs(data_dir, sets=sets, cap=real_questions, rules=rules)
    return generated + text + real, without + absent


def contenders(trainer: SeedTrainer, learned: Sequence[Learned]) -> dict[str, Contender]:
    """The agents of the table: two bars below the trained agent, and the upper bound."""
    from .rules import RulesAgent

    return {
        "untrained": [trainer.untrained(run) for run in learned],
        "rules": RulesAgent(),
        "trained": [run.agent for run in learned],
        "oracle": oracle,
    }


def _announce(out: Console, folder: Path, rungs: Sequence[Rung], absent: Sequence[str]) -> None:
    out.print(f"Rungs: {', '.join(rung.name for rung in rungs)}.")
    if absent:
        out.print(f"Not on this machine: {'; '.join(absent)}", style="dim")
    out.print(f"Everything goes to {folder}/", style="dim")


def _trained(run: Learned) -> str:
    last = run.curve[-1] if run.curve else {}
    best = max((point["f1"] for point in run.curve), default=float("nan"))
    return (
        f"seed {run.seed}: {run.episodes:,} episodes in {run.seconds:.0f} s, F1 {best:.3f} on the "
        f"development world with {last.get('searches', float('nan')):.2f} searches"
    )


def _again(folder: Path, what: str) -> str:
    return (
        f"[bold]Interrupted[/bold] during {what}. What was finished is kept in {folder}/; the same "
        "command goes on from there."
    )


def _bar(out: Console, *more: Any) -> Any:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from searchgym.utils.progress import LineProgress

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=20),
        TaskProgressColumn(), *more, TextColumn("left"), TimeRemainingColumn(compact=True),
    )  # fmt: skip
    return LineProgress(*columns, console=out)


@contextmanager
def _training_bar(out: Console, seed: int, episodes: int) -> Iterator[Any]:
    """A bar over the episodes with the time that is left; ``report(what, fraction, point)``."""
    with _bar(out) as bar:
        task = bar.add_task(f"seed {seed}: starting", total=1.0)
        best = ""

        def report(what: str, fraction: float, point: Mapping[str, float] | None) -> None:
            nonlocal best
            if point is not None:
                best = f", F1 {point['f1']:.2f}"
            done = f" {fraction * episodes:,.0f}/{episodes:,}" if fraction > 0 and episodes else ""
            bar.update(task, completed=fraction, description=f"seed {seed}: {what}{done}{best}")

        yield report


@contextmanager
def _evaluation_bar(out: Console, rungs: Sequence[Rung], agents: int) -> Iterator[Any]:
    """One bar over all questions of all agents; a rung counts once its questions are known."""
    with _bar(out) as bar:
        task = bar.add_task("measuring", total=agents * sum(r.cap or QUESTIONS for r in rungs))

        def progress(label: str, total: int) -> AbstractContextManager[Any]:
            bar.update(task, description=label)
            return nullcontext(lambda n: bar.advance(task, n))

        yield progress
