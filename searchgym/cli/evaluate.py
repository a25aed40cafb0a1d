"""``searchgym eval``: evaluates agents in an environment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CardError, EvaluationError
from ..utils.trust import registered_only
from .agent_errors import agent_errors, report_failures, say_if_asked_differently
from .contestants import contestant
from .names import file_stem, named
from .output import (
    JsonFlag,
    examples,
    print_json,
    print_table,
    progress,
    say,
    working,
)
from .scores import AgentResults, print_scores, records
from .targets import EnvId, Overrides, Trust, make_search_env, overrides

if TYPE_CHECKING:
    from ..envs.search import SearchEnv
    from ..evaluation.judge import LLMJudge
    from ..evaluation.result import EvalResult
    from ..types import Agent, Task


def evaluate(
    env: EnvId,
    agent: Annotated[
        list[str],
        typer.Option(
            "--agent",
            "-a",
            help="A card, weights, a model's folder or module:Class; NAME=… names it in tables. "
            "Repeatable.",
        ),
    ] = ["rules"],  # noqa: B006  (typer copies it)
    agent_set: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-set",
            "-A",
            metavar="KEY=VALUE",
            help="An option of the agents: model=…, base_url=…, temperature=0.7. Repeatable.",
        ),
    ] = None,
    questions: Annotated[
        int | None,
        typer.Option(
            "--questions", "-n", min=1, help="Ask only so many questions, of all kinds alike."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Fixes every episode.")] = 0,
    samples: Annotated[
        int,
        typer.Option(
            min=1, help="Play each question this often, with seed, seed + 1, …: gives pass@k."
        ),
    ] = 1,
    batch: Annotated[int, typer.Option(min=1, help="Episodes played at a time.")] = 256,
    workers: Annotated[int, typer.Option(min=1, help="Processes to share the questions.")] = 1,
    closed_book: Annotated[
        str,
        typer.Option(
            "--closed-book",
            metavar="MODE",
            help="Ask without tools, too: [bold]both[/bold], [bold]only[/bold] or "
            "[bold]none[/bold]; [bold]auto[/bold]: both where that costs no money.",
        ),
    ] = "auto",
    judge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,…",
            help="Have a model judge the answers, too: base_url=http://…/v1,model=… Repeatable.",
        ),
    ] = None,
    bars: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="Show the exact match of agents that cost nothing, and of the oracle, by family.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results and trajectories. The same command continues what "
            "is unfinished there."
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace what is in the folder.")] = False,
    retry_lost: Annotated[
        bool,
        typer.Option("--retry-lost", help="Play again the episodes that the infrastructure ended."),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Print every table: cost, families, refusals, …")
    ] = False,
    settings: Overrides = None,
    trust: Trust = False,
    as_json: JsonFlag = False,
) -> None:
    """Evaluate agents on an environment: every question once, means with 95 % intervals."""
    if bars:
        _baselines(env, questions, seed, settings, as_json)
        return
    if (fresh or retry_lost) and out is None:
        raise EvaluationError("--fresh and --retry-lost speak of a folder: name it with --out")
    options = overrides(agent_set, "--agent-set", "temperature=0.7")
    judging = _judge(judge, out)
    entries = [
        Entrant(env, tuple(settings or ()), name, made_of[0], options, questions)
        for name, made_of in named(agent).items()
    ]
    if out is not None and len({file_stem(entry.name) for entry in entries}) < len(entries):
        raise EvaluationError(f"two of the agents {', '.join(agent)} would share one file")
    from ..evaluation.play import spread, tasks_within

    with working(f"building {env} …"):
        shared = make_search_env(env, settings)
    tasks = spread(tasks_within(shared), questions)
    measured: list[AgentResults] = []
    with registered_only(out or "this file", trust=True) if trust else nullcontext():
        for entry, player in _players(entries, shared, tasks):
            how = _How(seed, samples, batch, workers, closed_book, out, fresh, retry_lost, judging)
            measured.append(_measure(entry, player, shared, tasks, how))
    say_if_asked_differently([m.first for m in measured])
    if as_json:
        print_json(records(measured, env))
    else:
        print_scores(measured, env, full=full)
    if out is not None:
        say(f"look at it: searchgym report {shlex.quote(str(out))} --open")


def _players(
    entries: Sequence[Entrant], shared: SearchEnv, tasks: Sequence[Task]
) -> list[tuple[Entrant, Agent]]:
    """Make every agent before any plays; leave out, with a note, those that cannot play here.

    Raises:
        CardError: none can, or one cannot be made.
    """
    makers = [(entry, contestant(entry.made_of, entry.options)) for entry in entries]
    made = [(entry, make(shared, tasks)) for entry, make in makers]
    players = [(entry, player) for entry, player in made if player is not None]
    absent = [entry.name for entry, player in made if player is None]
    if absent:
        told = f"{', '.join(absent)}: needs gold queries, which {entries[0].env} lacks"
        if not players:
            raise CardError(f"agent {told}; try -a rules")
        say(f"left out: {told}")
    return players


@dataclass(frozen=True)
class Entrant:
    """An agent and an environment as a person names them; builds both in any process."""

    env: str
    settings: tuple[str, ...]
    name: str
    """Name in tables and files."""
    made_of: str
    """A card, a path or ``module:Class``."""
    options: Mapping[str, Any]
    questions: int | None

    def __call__(self) -> tuple[Agent, SearchEnv]:
        from ..evaluation.play import spread, tasks_within

        shared = make_search_env(self.env, self.settings)
        tasks = spread(tasks_within(shared), self.questions)
        player = contestant(self.made_of, self.options)(shared, tasks)
        if player is None:
            raise CardError(f"agent {self.name!r} needs gold queries, which {self.env} lacks")
        return player, shared


@dataclass(frozen=True)
class _How:
    seed: int
    samples: int
    batch: int
    workers: int
    closed_book: str
    out: Path | None
    fresh: bool
    retry_lost: bool
    judge: LLMJudge | None


def _measure(
    entry: Entrant, player: Agent, shared: SearchEnv, tasks: Sequence[Task], how: _How
) -> AgentResults:
    """Every sample of an agent, with tools and without, as far as they are wanted."""
    from ..evaluation.closed_book import beside, plays

    opened, closed = plays(how.closed_book, player, shared)
    out: dict[bool, list[EvalResult]] = {True: [], False: []}
    for seed in range(how.seed, how.seed + how.samples):
        for with_tools in [w for w, wanted in ((False, closed), (True, opened)) if wanted]:
            result = _one(entry, player, shared, tasks, how, seed, with_tools)
            if with_tools and closed:
                result = beside(result, out[False][-1])
                if how.out is not None:
                    result.save(_path(how.out, entry.name, how, seed, with_tools))
            out[with_tools].append(result)
    report_failures(entry.name, [*out[True], *out[False]])
    if how.out is not None:
        say(f"{entry.name}: {_path(how.out, entry.name, how, how.seed, opened)}")
    return AgentResults(tuple(out[True]), tuple(out[False]))


def _one(
    entry: Entrant, player: Agent, shared: SearchEnv, tasks: Sequence[Task], how: _How, seed: int,
    with_tools: bool,
) -> EvalResult:  # fmt: skip
    from ..evaluation.judge import judged
    from ..evaluation.run import evaluate as run

    label = entry.name if with_tools else f"{entry.name}, closed book"
    path = None if how.out is None else _path(how.out, entry.name, how, seed, with_tools)
    with progress(label, len(tasks), "questions") as advance, agent_errors(entry.name):
        result = run(
            player, shared, name=entry.name, label=entry.env, tasks=tasks, seed=seed,
            batch=how.batch, search_enabled=None if with_tools else False, progress=advance,
            out=path, fresh=how.fresh, retry_lost=how.retry_lost, workers=how.workers, build=entry,
            options=entry.options,
        )  # fmt: skip
    if not result.complete:
        if path is not None:
            say(f"{len(result.rows)} of {len(tasks)} episodes are kept in {path.parent}; go on "
                "with the same command")  # fmt: skip
        raise KeyboardInterrupt
    if how.judge is not None:
        with progress(f"{label}, judge", len(tasks), "answers") as advance:
            result = judged(result, tasks, how.judge, advance)
        if path is not None:
            result.save(path)
    return result


def _path(out: Path, agent: str, how: _How, seed: int, with_tools: bool) -> Path:
    """See ``searchgym.evaluation.journal``."""
    name = file_stem(agent) + ("" if with_tools else ".closed-book")
    return out / f"{name}{'' if seed == how.seed else f'.seed-{seed}'}.json"


def _judge(given: Sequence[str] | None, out: Path | None) -> LLMJudge | None:
    if not given:
        return None
    from ..evaluation.judge import LLMJudge

    parts = [part for text in given for part in text.split(",")]
    options = overrides(parts, "--judge", "base_url=http://127.0.0.1:8000/v1,model=MODEL")
    if out is not None:
        options.setdefault("cache", str(out / "judge.sqlite"))
    return LLMJudge(**options)


def _baselines(
    env: str, questions: int | None, seed: int, settings: list[str] | None, as_json: bool
) -> None:
    from ..evaluation.baselines import baselines
    from ..evaluation.play import spread, tasks_within

    with working(f"building {env} …"):
        shared = make_search_env(env, settings)
    with progress("baselines", unit="episodes") as advance:
        table = baselines(
            shared, tasks=spread(tasks_within(shared), questions), seed=seed, progress=advance
        )
    if as_json:
        print_json(table)
    else:
        rows = [
            {"agent": agent, **{family: f"{em:.2f}" for family, em in row.items()}}
            for agent, row in table.items()
        ]
        print_table("Exact match by family", rows)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "eval",
        epilog=examples(
            "searchgym eval SearchQA-v0",
            "searchgym eval SearchQA-v0 -a rules -a mine=runs/x/agents/seed-0.safetensors --full",
            "searchgym eval MultiHopQA-v0 -a random -a rules -a oracle",
            "searchgym eval searchgym/HotpotQA-v0 -a my_package:MyAgent -n 100 --json",
            "searchgym eval SearchQA-v0 -a rules -s split=test --out runs/rules --workers 4",
            "searchgym eval SearchQA-v0 -a react -a tool-calling -n 50 -A "
            "base_url=http://127.0.0.1:8000/v1 -A model=Qwen/Qwen2.5-7B-Instruct",
            "searchgym eval HotpotQA-v0 -a runs/model -A temperature=1 --samples 4",
            "searchgym eval SearchQA-v0 --baselines",
        ),
    )(evaluate)
