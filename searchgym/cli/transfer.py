"""``searchgym transfer``: evaluates agents on each rung between their world and real questions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CardError, unknown
from ..text import printable
from .learn import trainer_of
from .names import named
from .output import JsonFlag, console, examples, print_json, print_table, progress, say, working
from .targets import DataDir, Overrides, overrides

if TYPE_CHECKING:
    from ..benchmark.contenders import Trained
    from ..benchmark.ladder import Ladder
    from ..benchmark.run import Contender
    from ..benchmark.table import TransferTable
    from ..cards import Card
    from .output import ProgressBar

_TRAIN = "Agents that are trained here"
_ENGINES = "Engines of the far rungs"
DEFAULT = ("random", "first-hit", "best-sentence", "rules", "oracle")


def transfer(
    context: typer.Context,
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
    agent_set: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-set", "-A", metavar="KEY=VALUE",
            help="An option of the agents that are not trained here: temperature=0.7. Repeatable.",
        ),
    ] = None,
    rungs: Annotated[
        str | None,
        typer.Option(
            help="Only these, by comma: source, world, wording, schema, degraded, misinformation, "
            "dense, hybrid, simulated, real, remote, or a set's name."
        ),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(help="Environment of the first rungs. Default: the card's, else SearchQA-v0."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for results; finished ones are kept.")] = Path(
        "runs/transfer"
    ),
    questions: Annotated[
        int | None, typer.Option("--questions", "-n", min=1, help="Most questions per rung.")
    ] = None,
    real_questions: Annotated[
        int | None, typer.Option(min=1, help="Most questions per real set (default: -n).")
    ] = None,
    baseline: Annotated[
        str,
        typer.Option(
            help="What gains are counted from: untrained (agents trained here; for others the best "
            "script), best (the best script), or an agent of the table."
        ),
    ] = "untrained",
    reference: Annotated[
        str, typer.Option(help="The rung by whose gain transfer ratios are divided.")
    ] = "held-out world",
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Agents trained per source. Agents that are not trained here play once: give "
            "several as NAME=A,B,C.",
            rich_help_panel=_TRAIN,
        ),
    ] = 1,
    source: Annotated[
        list[str] | None,
        typer.Option(
            help="Train against this: an engine (bm25, graph), a generated corpus, or environment "
            "options as JSON. Repeatable.",
            rich_help_panel=_TRAIN,
        ),
    ] = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            "--train", "-t", metavar="KEY=VALUE",
            help="Entry of the card's train table: config.episodes=5000. Repeatable.",
            rich_help_panel=_TRAIN,
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1, help="Stop each training after so many seconds.", rich_help_panel=_TRAIN
        ),
    ] = None,
    generator: Annotated[
        str | None,
        typer.Option(
            help="Plays the simulated engine: a model's folder, a generator as JSON, or options of "
            "the engine 'simulated' as JSON.",
            rich_help_panel=_ENGINES,
        ),
    ] = None,
    remote: Annotated[
        str | None,
        typer.Option(
            help="A search server's URL, or options of the engine 'remote' as JSON.",
            rich_help_panel=_ENGINES,
        ),
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(
            help="File that keeps the remote engine's answers (default: in --out). Without "
            "--remote, it is replayed.",
            rich_help_panel=_ENGINES,
        ),
    ] = None,
    remote_set: Annotated[
        str | None,
        typer.Option(
            help="Set whose questions the remote engine is asked (default: the first set here).",
            rich_help_panel=_ENGINES,
        ),
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
    seed: Annotated[int, typer.Option(min=0, help="Fixes questions and episodes.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Episodes played at a time.")] = 256,
    data_dir: DataDir = None,
    settings: Overrides = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Also EM, recall, searches, bounds, drops and traits."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:  # fmt: skip
    """Agents on the ladder from their own world to real passages: scores, drops, transfer ratios.

    Rungs that cannot be played here are listed with the reason. Results are saved one by one, and
    the same command continues where it stopped. Afterwards, the file lacks.json says what makes
    real questions harder.
    """
    from ..benchmark import transfer as climb
    from ..benchmark.contenders import BARS, SCRIPTS, baselines
    from ..benchmark.lacks import lacks
    from ..benchmark.ladder import choose
    from ..benchmark.ladder_table import print_ladder
    from ..benchmark.rungs import REAL_SETS
    from ..benchmark.table import save_report
    from ..evaluation.display import unreadable_note

    names = [*(agents or ()), *(agent or ())] or list(DEFAULT)
    cards = {name: card for name in names if (card := _learning(name)) is not None}
    if seeds > 1 and not cards:
        say("--seeds trains a card that learns several times; these agents play once")
    if (source or train) and not cards:
        raise CardError(
            "--source and --train are for cards that learn: searchgym transfer candidate"
        )
    ladder = _ladder(
        env, [trainer_of(card).recipe(card, train) for card in cards.values()], settings,
        data_dir=data_dir, cap=questions, real_cap=real_questions, generator=generator,
        remote=remote, recording=recording or (out / "calls.sqlite" if remote else None),
        remote_set=remote_set, cache=out / "dense",
    )  # fmt: skip
    there = [r.name for r in ladder.rungs]
    absent = [line.partition(":")[0] for line in ladder.absent]
    if reference not in (rung_names := {*REAL_SETS, *there, *absent}):
        raise CardError(unknown("rung", reference, sorted(rung_names)))
    ladder = choose(ladder, [r.strip() for r in rungs.split(",")] if rungs else [])
    if reference not in [r.name for r in ladder.rungs]:
        say(f"no rung {reference!r} here: transfer ratios need it")
    options = overrides(agent_set, "--agent-set", "temperature=0.7")
    players, ready = _players(names, cards, options, out, seeds, source, train, seconds, baseline)
    say(f"{len(ladder.rungs)} rungs, {len(players)} agents each; a rung's passages are indexed "
        "first, which takes longer than to play; --rungs chooses")  # fmt: skip
    with progress("indexing") as bar:  # one for all: many short ones would never tell anything

        @contextmanager
        def stage(label: str, total: int) -> Iterator[ProgressBar]:
            bar.stage(label, total, "questions")
            yield bar

        table = climb(players, ladder.rungs, out_dir=out, seed=seed, batch=batch, progress=stage)
    table.reference, table.absent = reference, list(ladder.absent)
    contenders = [n for n in table.agents if n not in BARS and n not in ready.untrained.values()]
    table.baselines = baselines(table, contenders, ready.untrained, baseline)
    with working("looking for what the simulator lacks …"):
        traits = lacks(table, ladder.rungs, contenders, out / "lacks.json", seed=seed)
    with working("drawing …"):
        scripts = [name for name in SCRIPTS if name in table.agents]
        pairs = [c for n in table.baselines
                 for c in table.contrasts(n, [s for s in scripts if s != n])]  # fmt: skip
        written = save_report(out, table, learned=ready.learned, contrasts=pairs)
    if as_json:
        print_json({**table.to_json(), "lacks": traits})
    else:
        unneeded = () if len(table.agents) < 4 or not table.baselines else _weaker(table)
        print_ladder(table, console(), hidden=unneeded, full=full)
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
        from ..benchmark import expected

        run = expected.record(table, _told(context), traits)
        say(f"wrote {expected.save(record, run_name, run)}")
    if against is not None:
        _compare(table, against, run_name)


def _weaker(table: TransferTable) -> tuple[str, ...]:
    """Scripted agents that need no column: all but the best script and those that were asked for
    as a baseline."""
    from ..benchmark.contenders import script_scores

    scores = script_scores(table)
    best = max(scores, key=lambda name: scores[name], default="")
    return tuple(n for n in scores if n != best and n not in table.baselines.values())


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
    from ..benchmark import expected
    from ..errors import unknown

    runs = expected.load(path)
    if name not in runs:
        raise CardError(unknown(f"run of {path}", name, runs))
    if lines := expected.outside(table, runs[name]):
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
    env: str | None, recipes: Sequence[Any], settings: list[str] | None, *,
    generator: Any, remote: Any, recording: Path | None, remote_set: str | None, cache: Path,
    **options: Any,
) -> Ladder:  # fmt: skip
    """Rungs above the environment, or above the first card's training world."""
    from ..benchmark.ladder import Engines, full_ladder
    from .targets import without_keywords

    if env is None and recipes:
        first = recipes[0]
        world = {**first.env.get("world", {}), "seed": first.worlds[0]}
        keywords: dict[str, Any] = {**first.env, "world": world}
    else:
        keywords, options["make"] = without_keywords(env or "SearchQA-v0")
    for key, value in overrides(settings).items():
        old = keywords.get(key)
        if isinstance(value, dict) and isinstance(old, dict) and key != "tasks":
            value = {**old, **value}
        keywords[key] = value
    engines = Engines(
        generator=json_or_text(generator), remote=json_or_text(remote), recording=recording,
        remote_set=remote_set, cache=cache,
    )  # fmt: skip
    return full_ladder(keywords, engines=engines, **options)


def json_or_text(text: str | None) -> Any:
    """A JSON object where it is one, else the text."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise CardError(f"{text!r} is no JSON object: {error}") from None


def _players(
    names: Sequence[str], cards: dict[str, Card], options: Mapping[str, Any], out: Path, seeds: int,
    source: list[str] | None, train: list[str] | None, seconds: float | None, baseline: str,
) -> tuple[dict[str, Contender], Trained]:  # fmt: skip
    """Return the agents of the ladder, baselines first; train the agents of cards."""
    from ..benchmark.contenders import BARS, BEST, SCRIPTS, UNTRAINED, Trained
    from .contestants import contestant

    ready = Trained()
    given = named([n for n in names if n not in cards], several=True)
    if options and not given:
        raise CardError(
            f"--agent-set ({', '.join(options)}) is for agents that are not trained here; --train "
            f"is for {', '.join(cards)}"
        )
    bars = () if all(n in BARS for n in given) and not cards else SCRIPTS
    players: dict[str, Contender] = {name: contestant(name) for name in bars}
    if baseline not in (UNTRAINED, BEST, *given, *cards):
        players.setdefault(baseline, contestant(baseline))
    for name, parts in given.items():
        made = [contestant(part, options) for part in parts]
        players[name] = made if len(made) > 1 else made[0]
    for card in cards.values():
        done = trainer_of(card).climbers(
            card, out, range(seeds), train, sources=source or (), seconds=seconds
        )
        players |= done.agents
        ready.untrained |= done.untrained
        ready.learned |= done.learned
    return players, ready


def _print_steps(table: TransferTable) -> None:
    """Drops from rung to rung and transfer ratios."""
    if drops := table.drops():
        rows = [
            {"rung": d.rung, "from": d.above, "agent": d.agent, "F1 lost": _signed(d.drop),
             "questions": "the same" if d.paired else "others"}
            for d in drops if d.agent in table.baselines
        ]  # fmt: skip
        if rows:
            print_table("What each step costs: mean [95 % interval]", rows)
    if gains := table.gains():
        print_table(
            f"Transfer ratio: F1 gain over the baseline / that in {table.reference!r}",
            [
                {"rung": g.rung, "agent": g.agent, "baseline": g.baseline,
                 "gain": _signed(g.gain),
                 "ratio": format(g.ratio, ".2f") if g.ratio else "undefined"}
                for g in gains
            ],
        )  # fmt: skip
        for why in dict.fromkeys(f"{g.agent}: {g.why}" for g in gains if g.why):
            say(f"undefined: {why}")


def _print_lacks(traits: Sequence[dict[str, Any]]) -> None:
    """Print a table of the traits that explain lost points, by agent and real rung."""
    rows = [
        {"rung": f["rung"], "agent": f["agent"], "F1 lost": f["lost"], "trait": f["trait"],
         "of it explained": "{mean:+.2f} [{low:+.2f}, {high:+.2f}]".format(**f["explained"])}
        for f in traits if f["explained"]["low"] > 0
    ]  # fmt: skip
    if rows:
        print_table(
            "What the simulator lacks: traits that explain lost points (they overlap)", rows
        )
    elif traits:
        say("no trait explains lost points beyond doubt; all of them: lacks.json")


def _signed(interval: Any) -> str:
    return format(interval, "+.2f")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        epilog=examples(
            "searchgym transfer",
            "searchgym transfer candidate --seeds 3 -n 300",
            "searchgym transfer candidate --source bm25 --source graph --rungs world,wording,real",
            "searchgym transfer reader=runs/warm-0,runs/warm-1 --env SimpleQA-v0 -n 100",
            "searchgym transfer runs/train/agents/seed-0.safetensors --baseline rules",
            "searchgym transfer candidate --generator runs/simulator --remote "
            "http://127.0.0.1:8000/retrieve",
        )
    )(transfer)
