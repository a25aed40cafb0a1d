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
from ..plugins import register
from ..utils.trust import registered_only
from .agents import agent_errors, contestant, file_stem, named, report_failures
from .options import EnvId, Least1, Settings, Trust, fills, overrides, set_option, settings_of
from .output import (
    JsonFlag,
    print_json,
    progress,
    say,
    with_examples,
    working,
)
from .scores import AgentResults, print_scores, records
from .targets import make_search_env

if TYPE_CHECKING:
    from ..envs.search import SearchEnv
    from ..evaluation.judge import LLMJudge
    from ..evaluation.result import EvalResult
    from ..types import Agent, Task


@dataclass(frozen=True)
class EvalOptions:
    """Options of an evaluation."""

    questions: Annotated[int | None, typer.Option("--questions", "-n", min=1)] = None
    """Ask only so many questions, of all kinds alike."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Fixes every episode."""
    samples: Least1 = 1
    """Play each question this often, with seed, seed + 1, …: gives pass@k."""
    batch: Least1 = 256
    """Episodes played at a time."""
    workers: Least1 = 1
    """Processes to share the questions."""
    closed_book: Annotated[str, typer.Option(metavar="MODE")] = "auto"
    """Ask without tools, too: [bold]both[/bold], [bold]only[/bold] or [bold]none[/bold];
    [bold]auto[/bold]: both where that costs no money."""
    out: Path | None = None
    """Folder for results and trajectories. The same command continues what is unfinished there."""
    fresh: bool = False
    """Replace what is in the folder."""
    retry_lost: bool = False
    """Play again the episodes that the infrastructure ended."""

    def path(self, agent: str, seed: int, with_tools: bool) -> Path | None:
        """Return the file of a result; see ``searchgym.evaluation.journal``."""
        if self.out is None:
            return None
        name = file_stem(agent) + ("" if with_tools else ".closed-book")
        return self.out / f"{name}{'' if seed == self.seed else f'.seed-{seed}'}.json"


@register("eval")
@with_examples(
    "searchgym eval SearchQA-v0",
    "searchgym eval SearchQA-v0 -a rules -a mine=runs/x/agents/seed-0.safetensors --full",
    "searchgym eval MultiHopQA-v0 -a random -a rules -a oracle",
    "searchgym eval searchgym/HotpotQA-v0 -a my_package:MyAgent -n 100 --json",
    "searchgym eval SearchQA-v0 -a rules -s split=test --out runs/rules --workers 4",
    "searchgym eval SearchQA-v0 -a react -a tool-calling -n 50 -s "
    "agent.base_url=http://127.0.0.1:8000/v1 -s agent.model=Qwen/Qwen2.5-7B-Instruct",
    "searchgym eval HotpotQA-v0 -a runs/model -s agent.temperature=1 --samples 4",
)
@fills("plan", EvalOptions)
def evaluate(
    env: EnvId,
    plan: EvalOptions,
    agent: Annotated[
        list[str],
        typer.Option(
            "--agent",
            "-a",
            help="A card, weights, a model's folder or module:Class; NAME=… names it in tables. "
            "Repeatable.",
        ),
    ] = ["rules"],  # noqa: B006  (typer copies it)
    settings: Annotated[
        Settings,
        set_option(
            "An option of the environment (k=5, world.entities=2000), of the agents "
            "(agent.temperature=0.7), or of a model that judges the answers, too "
            "(judge.base_url=http://…/v1, judge.model=…)."
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print every table: cost, families, refusals, …")
    ] = False,
    trust: Trust = False,
    as_json: JsonFlag = False,
) -> None:
    """Evaluate agents on an environment: every question once, means with 95 % intervals."""
    given, of_agents, of_judge = settings_of(settings, "agent", "judge")
    if (plan.fresh or plan.retry_lost) and plan.out is None:
        raise EvaluationError("--fresh and --retry-lost speak of a folder: name it with --out")
    options = overrides(of_agents, "agent.temperature=0.7")
    judge = _judge(overrides(of_judge), plan.out)
    entries = [
        Entrant(env, tuple(given), name, made_of[0], options, plan.questions)
        for name, made_of in named(agent).items()
    ]
    if plan.out is not None and len({file_stem(entry.name) for entry in entries}) < len(entries):
        raise EvaluationError(f"two of the agents {', '.join(agent)} would share one file")

    with working(f"building {env} …"):
        shared, tasks = entries[0].questions_asked()
    measured: list[AgentResults] = []
    with registered_only(plan.out or "this file", trust=True) if trust else nullcontext():
        for entry, player in _players(entries, shared, tasks):
            measured.append(_measure(entry, player, shared, tasks, plan, judge))
    _say_if_asked_differently([m.first for m in measured])
    if as_json:
        print_json(records(measured, env))
    else:
        print_scores(measured, env, full=full)
    if plan.out is not None:
        say(f"look at it: searchgym report {shlex.quote(str(plan.out))} --open")


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

    def questions_asked(self) -> tuple[SearchEnv, Sequence[Task]]:
        """Make the environment, and choose the questions."""
        from ..evaluation.play import spread, tasks_within

        shared = make_search_env(self.env, self.settings)
        return shared, spread(tasks_within(shared), self.questions)

    def __call__(self) -> tuple[Agent, SearchEnv]:
        shared, tasks = self.questions_asked()
        player = contestant(self.made_of, self.options)(shared, tasks)
        if player is None:
            raise CardError(f"agent {self.name!r} needs gold queries, which {self.env} lacks")
        return player, shared


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


def _measure(
    entry: Entrant, player: Agent, shared: SearchEnv, tasks: Sequence[Task], plan: EvalOptions,
    judge: LLMJudge | None,
) -> AgentResults:  # fmt: skip
    """Every sample of an agent, with tools and without, as far as they are wanted."""
    from ..evaluation.decisions import beside, plays

    opened, closed = plays(plan.closed_book, player, shared)
    out: dict[bool, list[EvalResult]] = {True: [], False: []}
    for seed in range(plan.seed, plan.seed + plan.samples):
        for with_tools in [w for w, wanted in ((False, closed), (True, opened)) if wanted]:
            result = _one(entry, player, shared, tasks, plan, judge, seed, with_tools)
            if with_tools and closed:
                result = beside(result, out[False][-1])
                if (path := plan.path(entry.name, seed, with_tools)) is not None:
                    result.save(path)
            out[with_tools].append(result)
    report_failures(entry.name, [*out[True], *out[False]])
    if plan.out is not None:
        say(f"{entry.name}: {plan.path(entry.name, plan.seed, opened)}")
    return AgentResults(tuple(out[True]), tuple(out[False]))


def _one(
    entry: Entrant, player: Agent, shared: SearchEnv, tasks: Sequence[Task], plan: EvalOptions,
    judge: LLMJudge | None, seed: int, with_tools: bool,
) -> EvalResult:  # fmt: skip
    from ..evaluation.run import evaluate as run

    label = entry.name if with_tools else f"{entry.name}, closed book"
    path = plan.path(entry.name, seed, with_tools)
    with progress(label, len(tasks), "questions") as advance, agent_errors(entry.name):
        result = run(
            player, shared, name=entry.name, label=entry.env, tasks=tasks, seed=seed,
            batch=plan.batch, search_enabled=None if with_tools else False, progress=advance,
            out=path, fresh=plan.fresh, retry_lost=plan.retry_lost, workers=plan.workers,
            build=entry, options=entry.options,
        )  # fmt: skip
    if not result.complete:
        if path is not None:
            say(f"{len(result.rows)} of {len(tasks)} episodes are kept in {path.parent}; go on "
                "with the same command")  # fmt: skip
        raise KeyboardInterrupt
    if judge is not None:
        from ..evaluation.judge import judged

        with progress(f"{label}, judge", len(tasks), "answers") as advance:
            result = judged(result, tasks, judge, advance)
        if path is not None:
            result.save(path)
    return result


def _judge(options: dict[str, Any], out: Path | None) -> LLMJudge | None:
    if not options:
        return None
    from ..evaluation.judge import LLMJudge

    if out is not None:
        options.setdefault("cache", str(out / "judge.sqlite"))
    return LLMJudge(**options)


def _say_if_asked_differently(results: Sequence[EvalResult]) -> None:
    """Name what differs in how language models of one evaluation were asked."""
    from ..evaluation.comparison import asked_differently, told

    first, *others = results
    for other in others:
        if differs := asked_differently(other, first):
            say(f"{other.agent} and {first.agent} were asked differently: {told(differs)}; "
                "-s agent.KEY=VALUE sets it for all agents")  # fmt: skip
