"""``searchgym audit``: measures whether questions can be answered, and if not, why not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from searchgym.cli.options import DataDir, Overrides, overrides, refuse_options
from searchgym.cli.output import (
    JsonFlag,
    examples,
    print_json,
    print_results,
    print_table,
    progress,
    say,
    working,
)
from searchgym.errors import CardError, DataError, EngineError
from searchgym.objects import is_path
from searchgym.plugins import register

if TYPE_CHECKING:
    from searchgym.corpora.corpus import Corpus
    from searchgym.types import Task
    from searchgym.worlds.world import World

    from .report import AnswerabilityReport
    from .verdicts import Verdict


OF_PROOFS = frozenset({"name", "prove", "count", "k", "split", "settings", "as_json"})
"""Options that --prove uses."""


@register("command:audit")
def audit(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="SET|ENV|FILE",
            help="A real set, an environment, a generated world, or a question file of yours.",
        ),
    ],
    corpus: Annotated[
        str | None,
        typer.Option(help="Passages to answer from: a name, file, folder (default: its own)."),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Searches them: a name, or options as JSON.")
    ] = "bm25",
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Results per search.")] = 5,
    turns: Annotated[int, typer.Option(min=1, help="Searches per question.")] = 4,
    questions: Annotated[
        int | None, typer.Option("--questions", "-n", min=1, help="Only so many, evenly spread.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split (default: public; train for worlds).")
    ] = None,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove", help="Generated worlds: prove fresh tasks one by one."
        ),
    ] = False,
    count: Annotated[
        int, typer.Option(min=1, help="Tasks per family with --prove.")
    ] = 100,
    shown: Annotated[
        int, typer.Option("--list", min=0, help="Show so many unanswerable questions.")
    ] = 10,
    shortcuts: Annotated[
        bool,
        typer.Option(
            "--shortcuts", help="Shares of questions that are easier than they look."
        ),
    ] = False,
    rare: Annotated[
        int, typer.Option(min=0, help="Passages that hold an exposed constant, with --shortcuts.")
    ] = 3,
    closed_book: Annotated[
        str | None,
        typer.Option(help="Generator asked without passages: a name, or options as JSON."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write everything: a .json or .csv file.")
    ] = None,
    data_dir: DataDir = None,
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:  # fmt: skip
    """Measure what share of the questions a corpus answers, also within k results and n turns.

    A scripted searcher asks for the question, the names in it, titles it has been shown, and gold
    queries where the task has some, choosing best: an upper bound for agents that search so.
    [bold]--shortcuts[/bold] measures the risks of FORT-Searcher instead: one clue finds all, one
    page states all, constants are exposed, the answer is known before. [bold]--set[/bold] gives
    options of the environment, or of the world with --prove.
    """
    from searchgym.cli.options import json_or_text
    from searchgym.engines.registry import build_engine
    from searchgym.evaluation.play import spread

    from .report import measure_answerability

    if prove:
        refuse_options(
            context, OF_PROOFS,
            "cannot stand with --prove, which asks BM25 for fresh tasks of a generated world; it "
            "takes --count, -k, --split, --set and --json",
        )  # fmt: skip
        _prove(name, split or "train", count, k, settings, as_json)
        return
    others = context.params.keys() - {"count"}
    refuse_options(context, others, "is for --prove; of other questions, --questions N")
    if out is not None and out.suffix not in (".json", ".csv"):
        raise DataError(f"--out {out}: give a .json or .csv file")
    with working(f"reading {name} …"):
        passages, world, tasks = _material(name, corpus, split, settings, data_dir)
    chosen = spread(tasks, questions)
    spec = json_or_text(engine)
    with working(f"indexing {len(passages):,} passages …"):
        searches = build_engine(spec, passages, world)
    if searches.needs_task and "degraded" not in searches.fingerprint:
        raise EngineError(f"engine {engine!r} is told the answers: it says nothing of a corpus")
    if shortcuts:
        _measure_shortcuts(
            chosen, passages, searches, k, rare, json_or_text(closed_book), as_json, out
        )
        return
    with progress("searching", len(chosen), "questions") as advance:
        report = measure_answerability(
            chosen, passages, searches, k=k, turns=turns, name=name, progress=advance
        )
    if out is not None:
        say(f"wrote {report.save(out)}")
    if as_json:
        print_json(report.to_json())
    else:
        _print(report, shown)


def _material(
    name: str, corpus: str | None, split: str | None, settings: list[str] | None,
    data_dir: Path | None,
) -> tuple[Corpus, World | None, list[Task]]:  # fmt: skip
    """Passages, the world behind them if any, and questions."""
    from searchgym.cli.targets import corpus as load
    from searchgym.cli.targets import corpus_card

    if Path(name).is_file() and (is_path(name) or Path(name).suffix):
        from searchgym.corpora.load import load_questions

        if corpus is None:
            raise DataError(f"{name} needs passages: --corpus FILE, FOLDER or a set's name")
        if settings:
            raise DataError(
                f"--set {settings[0]} is for an environment's questions, and {name} is a file; "
                'options of the engine: --engine \'{"name": "bm25", "k1": 1.2}\''
            )
        if split is not None and corpus_card(corpus) is None:
            raise DataError(
                f"--split {split} chooses among a card's; neither {name} nor {corpus} has one"
            )
        return load(corpus, split or "public", data_dir), None, load_questions(name)
    try:
        card = corpus_card(name)
    except CardError as error:
        card = None
        _known_environment(name, error)
    options: dict[str, Any] = {"data_dir": str(data_dir)} if data_dir is not None else {}
    if card is not None:
        real = card.body["kind"] == "real"
        options |= {"corpus": name, "split": split or ("public" if real else "train")}
    shared = _setting(None if card is not None else name, options, split, settings)
    if corpus is None:
        return shared.corpus, shared.world, list(shared.tasks)
    return load(corpus, split or "public", data_dir), None, list(shared.tasks)


def _known_environment(name: str, error: CardError) -> None:
    """Raise where a name that is no corpus is no environment either; near names of both."""
    from searchgym.cli.targets import env_id

    try:
        env_id(name)
    except CardError as other:
        raise CardError(f"{name!r} is no question file; {error}; {other}") from None


def _setting(
    env: str | None, options: Mapping[str, Any], split: str | None, settings: list[str] | None
) -> Any:
    from searchgym.cli.targets import make_search_env
    from searchgym.envs.search import SearchEnv

    if env is None:
        return SearchEnv(**{**options, **overrides(settings)})
    chosen = {**options, **({"split": split} if split is not None else {})}
    return make_search_env(env, settings, **chosen)


def _print(report: AnswerabilityReport, shown: int) -> None:
    title = (
        f"{report.questions} from {report.corpus}: what can be answered, k={report.k}, "
        f"{report.turns} turns [95 % interval]"
    )
    rows = [
        {"questions": line.group, "judged": line.questions, "apart": line.apart or None,
         "in the corpus": line.in_corpus, "by one search": line.one_search,
         f"within {report.turns} turns": line.within}
        for line in report.lines()
    ]  # fmt: skip
    print_results(title, rows, 3)
    if reasons := report.reasons():
        print_table("Why not", [{"reason": r, "questions": n} for r, n in reasons.items()])
    lost = report.unanswerable()
    if lost and shown:
        some = _some(lost, shown)
        print_table(
            f"{len(some)} of {len(lost)} that cannot be answered (all of them: --out)",
            [{"id": v.task_id, "question": v.question, "reason": v.reason, "what": v.detail}
             for v in some],
        )  # fmt: skip


def _measure_shortcuts(
    tasks: list[Task], corpus: Corpus, engine: Any, k: int, rare: int, closed_book: Any,
    as_json: bool, out: Path | None,
) -> None:  # fmt: skip
    from searchgym.llms.registry import build_generator

    from .report import write_report
    from .shortcuts import find_shortcuts, rates

    generator = build_generator(closed_book) if closed_book else None
    with working(f"looking for shortcuts of {len(tasks):,} questions …"):
        found = find_shortcuts(tasks, corpus, engine, k=k, rare=rare, closed_book=generator)
    shares = rates(found)
    record = {
        "corpus": corpus.name, "digest": corpus.digest, "engine": engine.fingerprint,
        "k": k, "rare": rare, "closed_book": generator.fingerprint if generator else None,
        "shares": {group: {risk: part._asdict() for risk, part in risks.items()}
                   for group, risks in shares.items()},
    }  # fmt: skip
    if out is not None:
        rows = [finding._asdict() for finding in found]
        write_report(out, rows, {**record, "questions": rows})
        say(f"wrote {out}")
    if as_json:
        print_json(record)
        return
    rows = [
        {"questions": group, "judged": next(iter(risks.values())).n,
         **{risk: share.mean if share.n else None for risk, share in risks.items()}}
        for group, risks in shares.items()
    ]  # fmt: skip
    print_results(f"Shortcuts of {len(found):,} questions, k={k}: shares", rows, 3)


def _some(verdicts: list[Verdict], number: int) -> list[Verdict]:
    """A few of every reason in turn."""
    by_reason: dict[str, list[Verdict]] = {}
    for v in verdicts:
        by_reason.setdefault(v.reason, []).append(v)
    picked: list[Verdict] = []
    for row in range(max(map(len, by_reason.values()))):
        picked += [group[row] for group in by_reason.values() if row < len(group)]
    return sorted(picked[:number], key=verdicts.index)


def _prove(
    name: str, split: str, count: int, k: int, settings: list[str] | None, as_json: bool
) -> None:
    """Task by task: one answer, each fact stated, each page retrievable."""
    from searchgym.cli.targets import world
    from searchgym.engines.registry import build_engine
    from searchgym.tasks.audit import verify
    from searchgym.tasks.build import build_tasks
    from searchgym.tasks.families import FAMILIES

    with working(f"generating {name} …"):
        made = world(name, split, settings)
    with working(f"building {count} tasks of {len(FAMILIES.shipped)} families …"):
        built = build_tasks(
            made.world, made.corpus, seed=made.seed,
            counts={**dict.fromkeys(FAMILIES.shipped, count), "at_most": True},
            wording_seed=made.wording_seed, phrasing=made.phrasing, split=split,
        )  # fmt: skip
    with working("proving …"):
        report = verify(built, made.world, made.corpus, build_engine("bm25", made.corpus), k=k)
    if as_json:
        print_json(
            {"corpus": made.corpus.name, "digest": made.corpus.digest, "k": k,
             "engine": report.engine, "kept": report.rate(), "families": report.counts()}
        )  # fmt: skip
        return
    print(report.table())
    say(f"{report.rate():.1%} of {len(built):,} tasks proved; environments keep only those")


audit.epilog = examples(  # type: ignore[attr-defined]
    "searchgym audit hotpotqa",
    "searchgym audit triviaqa -k 10 --turns 6 --out runs/triviaqa.csv",
    "searchgym audit nq --corpus hotpotqa --engine dense -n 200",
    "searchgym audit my-questions.jsonl --corpus notes/",
    "searchgym audit MultiHopQA-v0 --json",
    "searchgym audit musique --shortcuts",
    "searchgym audit encyclopedia --prove --count 50",
)
