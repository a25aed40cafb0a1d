"""``searchgym transfer``: evaluates agents on each rung between their world and real questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..benchmark.ladder import Engines
from ..errors import CardError, check_known
from ..plugins import register
from ..text import printable
from .agents import contestant, named
from .options import (
    DataDir,
    Least1,
    Maybe1,
    Settings,
    fills,
    json_or_text,
    overrides,
    set_option,
    settings_of,
)
from .output import (
    JsonFlag,
    console,
    print_json,
    print_results,
    progress,
    say,
    with_examples,
    working,
)
from .targets import merged, without_keywords
from .train import trainer_of

if TYPE_CHECKING:
    from ..benchmark.contenders import Trained
    from ..benchmark.ladder import Ladder
    from ..benchmark.run import Contender
    from ..benchmark.table import TransferTable
    from ..cards import Card
    from .output import ProgressBar

DEFAULT = ("random", "first-hit", "best-sentence", "rules", "oracle")
_TRAIN = "Agents that are trained here"


@dataclass(frozen=True)
class ClimbOptions:
    """Options of a climb."""

    rungs: str | None = None
    """Only these, by comma: source, world, wording, schema, degraded, misinformation, dense,
    hybrid, simulated, text, real, remote, or a set's name."""
    env: str | None = None
    """Environment of the first rungs. Default: the card's, else SearchQA-v0."""
    out: Path = Path("runs/transfer")
    """Folder for results; finished ones are kept."""
    questions: Annotated[int | None, typer.Option("--questions", "-n", min=1)] = None
    """Most questions per rung."""
    real_questions: Maybe1 = None
    """Most questions per real set (default: -n)."""
    baseline: str = "untrained"
    """Baseline of gains: untrained (agents trained here; for others the best script),
    best (the best script), or an agent of the table."""
    reference: str = "held-out world"
    """The rung by whose gain transfer ratios are divided."""
    seeds: Annotated[int, typer.Option(min=1, rich_help_panel=_TRAIN)] = 1
    """Agents trained per source. Agents that are not trained here play once: give several as
    NAME=A,B,C."""
    source: Annotated[list[str] | None, typer.Option(rich_help_panel=_TRAIN)] = None
    """Train against this: an engine (bm25, graph), a generated corpus, or environment options as
    JSON. Repeatable."""
    seconds: Annotated[float | None, typer.Option(min=1, rich_help_panel=_TRAIN)] = None
    """Stop each training after so many seconds."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Fixes questions and episodes."""
    batch: Least1 = 256
    """Episodes played at a time."""


@register("transfer")
@with_examples(
    "searchgym transfer",
    "searchgym transfer candidate --seeds 3 -n 300",
    "searchgym transfer candidate --source bm25 --source graph --rungs world,wording,real",
    "searchgym transfer reader=runs/warm-0,runs/warm-1 --env SimpleQA-v0 -n 100",
    "searchgym transfer runs/train/agents/seed-0.safetensors --baseline rules",
    "searchgym transfer candidate --generator runs/simulator --remote "
    "http://127.0.0.1:8000/retrieve",
)
@fills("plan", ClimbOptions)
@fills("engines", Engines, leave=("degraded", "cache"))
def transfer(
    context: typer.Context,
    plan: ClimbOptions,
    engines: Engines,
    agents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CARD|AGENT]...",
            help="A card that learns by itself (candidate) is trained first; else a card, weights, "
            "the folder of a language model, module:Class. NAME=A,B,C: one agent, several seeds.",
        ),
    ] = None,
    agent: Annotated[
        list[str] | None, typer.Option("--agent", "-a", help="The same as CARD|AGENT.")
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Write the run, and how to repeat it, into this expected.json."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Compare with the same run in this expected.json; exit 1 if it differs."),
    ] = None,
    run_name: Annotated[
        str, typer.Option("--run", help="The run's name in these files.")
    ] = "ladder",
    data_dir: DataDir = None,
    settings: Annotated[
        Settings,
        set_option(
            "An option of the environment (k=5), of agents that are not trained here "
            "(agent.temperature=0.7), or of the train table of a card (train.config.episodes=5000)."
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Also EM, recall, searches, bounds, drops and traits."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Agents on the ladder from their own world to real passages: scores, drops, transfer ratios.

    Rungs that cannot be played here are listed with the reason. Results are saved one by one, and
    the same command continues where it stopped. Afterwards, the file lacks.json says what makes
    real questions harder.
    """
    from ..benchmark import reference_runs
    from ..benchmark import transfer as climb
    from ..benchmark.contenders import conclude, needless_columns, require_rung
    from ..benchmark.ladder import choose
    from ..benchmark.ladder_table import print_ladder
    from ..evaluation.comparison import unreadable_note

    of_env, of_agents, of_training = settings_of(settings, "agent", "train")
    names = [*(agents or ()), *(agent or ())] or list(DEFAULT)
    cards = {name: card for name in names if (card := _learning(name)) is not None}
    if plan.seeds > 1 and not cards:
        say("--seeds trains a card that learns several times; these agents play once")
    if (plan.source or of_training) and not cards:
        raise CardError(
            "--source and -s train.… are for cards that learn: searchgym transfer candidate"
        )
    recipes = [trainer_of(card).recipe(card, of_training) for card in cards.values()]
    ladder = _ladder(plan, engines, recipes, of_env, data_dir)
    require_rung(ladder, plan.reference)
    ladder = choose(ladder, [r.strip() for r in plan.rungs.split(",")] if plan.rungs else [])
    if plan.reference not in [r.name for r in ladder.rungs]:
        say(f"no rung {plan.reference!r} here: transfer ratios need it")
    options = overrides(of_agents, "agent.temperature=0.7")
    players, ready = _players(names, cards, options, plan, of_training)
    say(f"rungs: {len(ladder.rungs)}, agents: {len(players)}; a rung's passages are indexed "
        "first, which takes longer than to play; --rungs chooses")  # fmt: skip
    with progress("indexing") as bar:  # one for all: many short ones would never tell anything

        @contextmanager
        def stage(label: str, total: int) -> Iterator[ProgressBar]:
            bar.stage(label, total, "questions")
            yield bar

        table = climb(
            players, ladder.rungs, out_dir=plan.out, seed=plan.seed, batch=plan.batch,
            progress=stage,
        )  # fmt: skip
    with working("comparing and drawing …"):
        traits, written = conclude(
            table, ladder, ready, plan.out, reference=plan.reference, baseline=plan.baseline,
            seed=plan.seed,
        )  # fmt: skip
    if as_json:
        print_json({**table.to_json(), "lacks": traits})
    else:
        print_ladder(table, console(), hidden=needless_columns(table), full=full)
        if full:
            _print_steps(table)
            _print_lacks(traits)
        for line in table.absent:
            say(f"absent: {line}")
    for name, wrong in table.unreadable().items():
        say(printable(unreadable_note(name, wrong)))
    say(f"report: {written.get('html', written['json'])}")
    if not table.complete:
        raise KeyboardInterrupt
    if record is not None:
        run = reference_runs.record(table, _told(context), traits)
        say(f"wrote {reference_runs.save(record, run_name, run)}")
    if against is not None:
        _compare(table, against, run_name)


_ELSEWHERE = frozenset({"out", "record", "against", "run_name", "data_dir", "full", "as_json"})
"""Parameters that say where things lie, not what is measured."""


def _told(context: typer.Context) -> list[str]:
    """The arguments of this call that are needed to repeat it."""
    words: list[str] = []
    for parameter in context.command.params:
        name, value = str(parameter.name), context.params.get(str(parameter.name))
        if name in _ELSEWHERE or value is None or value == parameter.get_default(context):
            continue
        for word in value if isinstance(value, list | tuple) else [value]:
            if parameter.param_type_name == "option":
                words.append(max(parameter.opts, key=len))
            words.append(str(word))
    return words


def _compare(table: TransferTable, path: Path, name: str) -> None:
    """Exit 1, line by line, where the run has left the recorded intervals."""
    from ..benchmark import reference_runs

    runs = reference_runs.load(path)
    check_known(f"run of {path}", runs, name)
    if lines := reference_runs.outside(table, runs[name]):
        for line in lines:
            say(f"differs: {line}")
        raise typer.Exit(1)
    say(f"every recorded mean of {name!r} in {path} was met")


def _learning(name: str) -> Card | None:
    """The card of an agent that is trained here, else None."""
    from ..cards import card, cards
    from ..objects import own_folder

    if name not in cards("agents") and own_folder(name) is None:
        return None
    agent_card = card("agents", name)
    climbs = "train" in agent_card.body and hasattr(trainer_of(agent_card), "climbers")
    return agent_card if climbs else None


def _ladder(
    plan: ClimbOptions, engines: Engines, recipes: Sequence[Any], settings: Sequence[str],
    data_dir: Path | None,
) -> Ladder:  # fmt: skip
    """Rungs above the environment, or above the first card's training world."""
    from ..benchmark.ladder import full_ladder

    options: dict[str, Any] = {}
    keywords: dict[str, Any] | None = None
    if plan.env is None and recipes:
        keywords = recipes[0].world()  # None: trained on texts alone
    if keywords is None:
        keywords, options["make"] = without_keywords(plan.env or "SearchQA-v0")
    keywords |= merged(keywords, overrides(settings))
    recording = engines.recording or (plan.out / "calls.sqlite" if engines.remote else None)
    engines = replace(
        engines, generator=json_or_text(engines.generator), remote=json_or_text(engines.remote),
        recording=recording, cache=plan.out / "dense",
    )  # fmt: skip
    return full_ladder(
        keywords, data_dir=data_dir, cap=plan.questions, real_cap=plan.real_questions,
        engines=engines, **options,
    )  # fmt: skip


def _players(
    names: Sequence[str], cards: dict[str, Card], options: Mapping[str, Any], plan: ClimbOptions,
    train: Sequence[str],
) -> tuple[dict[str, Contender], Trained]:  # fmt: skip
    """Return the agents of the ladder, baselines first; train the agents of cards."""
    from ..benchmark.contenders import BARS, BEST, SCRIPTS, UNTRAINED, Trained

    ready = Trained()
    given = named([n for n in names if n not in cards], several=True)
    if options and not given:
        raise CardError(
            f"-s agent.… ({', '.join(options)}) is for agents that are not trained here; "
            f"-s train.… is for {', '.join(cards)}"
        )
    bars = () if all(n in BARS for n in given) and not cards else SCRIPTS
    players: dict[str, Contender] = {name: contestant(name) for name in bars}
    if plan.baseline not in (UNTRAINED, BEST, *given, *cards):
        players.setdefault(plan.baseline, contestant(plan.baseline))
    for name, parts in given.items():
        made = [contestant(part, options) for part in parts]
        players[name] = made if len(made) > 1 else made[0]
    for card in cards.values():
        done = trainer_of(card).climbers(
            card, plan.out, range(plan.seeds), train, sources=plan.source or (),
            seconds=plan.seconds,
        )  # fmt: skip
        players |= done.agents
        ready.untrained |= done.untrained
        ready.learned |= done.learned
    return players, ready


def _print_steps(table: TransferTable) -> None:
    """Drops from rung to rung and transfer ratios."""
    rows = [
        {"rung": d.rung, "from": d.above, "agent": d.agent, "F1 lost": d.drop,
         "questions": "the same" if d.paired else "others"}
        for d in table.drops() if d.agent in table.baselines
    ]  # fmt: skip
    print_results("What each step costs: mean [95 % interval]", rows, signed=["F1 lost"])
    if gains := table.gains():
        print_results(
            f"Transfer ratio: F1 gain over the baseline / that in {table.reference!r}",
            [
                {"rung": g.rung, "agent": g.agent, "baseline": g.baseline,
                 "gain": g.gain, "ratio": g.ratio or "undefined"}
                for g in gains
            ],
            signed=["gain"],
        )  # fmt: skip
        for why in dict.fromkeys(f"{g.agent}: {g.why}" for g in gains if g.why):
            say(f"undefined: {why}")


def _print_lacks(traits: Sequence[dict[str, Any]]) -> None:
    """Print a table of the traits that explain lost points, by agent and real rung."""
    from ..evaluation.intervals import Interval

    rows = [
        {"rung": f["rung"], "agent": f["agent"], "F1 lost": f["lost"], "trait": f["trait"],
         "of it explained": Interval.read(f["explained"])}
        for f in traits if f["explained"]["low"] > 0
    ]  # fmt: skip
    if rows:
        title = "What the simulator lacks: traits that explain lost points (they overlap)"
        print_results(title, rows, signed=["of it explained"])
    elif traits:
        say("no trait explains lost points beyond doubt; all of them: lacks.json")
