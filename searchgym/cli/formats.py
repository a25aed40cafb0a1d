"""``searchgym export`` and ``score``: write questions for other programs, and score their
output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..corpora.parquet import SCORED
from ..errors import DataError, check_known
from ..objects import bare_hint, is_path
from ..plugins import register
from ..scoring import SCORING_VERSION
from ..utils.trust import registered_only
from .options import Overrides, Trust
from .output import JsonFlag, print_json, print_table, say, with_examples, working
from .targets import make_search_env

if TYPE_CHECKING:
    from ..core.trajectory import Trajectory
    from ..evaluation.retrieval import RunScores
    from ..types import Task

PLAYED = {
    "trec": "a TREC run of the passages it was shown",
    "browsecomp-plus": "a folder of BrowseComp-Plus run files",
    "parquet": "a table of trajectories",
    "jsonl": "trajectories as JSON lines, from a table",
    "minari": "a Minari dataset, whose id --out names",
}
ASKED = {
    "qrels": "TREC judgements of the tasks' evidence",
    "search-r1": "questions in Search-R1's parquet layout",
}
HUB = "hub"


@register("export")
@with_examples(
    "searchgym export runs/rules.trajectories.jsonl --to trec --out rules.run",
    "searchgym export HotpotQA-v0 --to qrels --out hotpotqa.qrels",
    "searchgym export SearchQA-v0 --to search-r1 --out train.parquet",
    "searchgym export runs/rules.trajectories.jsonl --to browsecomp-plus --out submitted",
    "searchgym export MultiHopQA-v0 --to hub --out hub/questions",
    "searchgym export runs/x/model --to hub --out hub/agent --licence apache-2.0",
)
def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|ENV|AGENT",
            help="A file of trajectories (eval --out writes them), an environment's id, or a "
            "trained agent (hub)."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file or folder to write.")],
    to: Annotated[
        str,
        typer.Option("--to", help=f"Of trajectories: {', '.join(PLAYED)}; of both: "
                     f"{', '.join(ASKED)}; of all and of trained agents: hub."),
    ],
    data_source: Annotated[
        str | None,
        typer.Option(help="Data set of search-r1 as which the questions are scored "
                     f"({', '.join(SCORED)}). Default: the set that they are from."),
    ] = None,
    licence: Annotated[
        str | None, typer.Option(help="The hub's name of a trained agent's licence (hub).")
    ] = None,
    settings: Overrides = None,
    trust: Trust = False,
) -> None:  # fmt: skip
    """Write trajectories, questions or trained agents in other programs' formats."""
    check_known("format", {**PLAYED, **ASKED, HUB: ""}, to, error=DataError)
    if data_source is not None and to != "search-r1":
        raise DataError(f"--data-source belongs to --to search-r1, not {to}")
    if data_source is not None:
        check_known("data source", SCORED, data_source, error=DataError)
    if to == HUB:
        held = _write_hub(source, out, licence, settings, trust)
        say(f"{out}: {held}, and README.md, its card")
        return
    if licence is not None:
        raise DataError(f"--licence belongs to --to hub, not {to}")
    if to not in ASKED:
        with registered_only(source, trust=trust):
            say(f"{out}: {_write_played(to, source, out)} episodes")
        return
    if (path := _file(source)) is None:
        tasks, corpus = _env_questions(source, settings)
        name = str(corpus if corpus in SCORED else source.rpartition("/")[2])
    elif settings:
        raise DataError(f"--set speaks of an environment, and {source} is a file")
    else:
        name = path.name.split(".")[0]
        with registered_only(source, trust=trust):
            asked = {t.task_id: t.replay(scored=False).config.task for t in _trajectories(path)}
        tasks = list(asked.values())
    say(f"{out}: {_write_tasks(to, tasks, data_source or name, out)} questions")


@register("score")
@with_examples(
    "searchgym score rules.run --qrels hotpotqa.qrels",
    "searchgym score submitted --env HotpotQA-v0",
)
def score(
    made: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A TREC run, or a folder of BrowseComp-Plus run files."),
    ],
    env: Annotated[
        str | None, typer.Option(help="The environment whose questions it answers.")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="TREC judgements, in place of an environment's evidence.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", "-k", min=1, help="Passages of a run that count.")
    ] = None,
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure what other programs have made, by the metrics of eval."""
    from ..evaluation.formats import qrels_of, read_qrels, read_run, read_runs
    from ..evaluation.retrieval import score_run, score_runs

    if (env is None) == (qrels is None) or (made.is_dir() and env is None):
        raise DataError(
            "say what is right: --env ENV (its questions and evidence), or for a TREC run "
            "--qrels FILE"
        )
    if made.is_dir():
        assert env is not None
        scores = score_runs(read_runs(made), _env_tasks(env, settings))
    else:
        judged = read_qrels(qrels) if qrels else qrels_of(_env_tasks(str(env), settings))
        scores = score_run(read_run(made), judged, k)
    _show(scores, made, as_json)


def _show(scores: RunScores, made: Path, as_json: bool) -> None:
    if as_json:
        means = {name: interval._asdict() for name, interval in scores.means.items()}
        print_json(
            {
                "questions": scores.questions,
                "missing": scores.missing,
                "scoring_version": SCORING_VERSION,
                "means": means,
            }
        )
        return
    rows = [
        {"metric": name.replace("_", " "), "mean [95 % interval]": str(v), "questions": v.n}
        for name, v in scores.means.items()
    ]
    print_table(f"{made}: {scores.questions:,} questions", rows)
    if scores.missing:
        say(f"{scores.missing} questions are not in it; they score 0")


def _write_tasks(to: str, tasks: list[Task], name: str, out: Path) -> int:
    from ..corpora.parquet import search_r1_row, write_parquet
    from ..evaluation.formats import qrels_of, write_qrels

    if to == "search-r1":
        sources = [str(task.meta.get("data_source", name)) for task in tasks]
        rows = [search_r1_row(t, i, s) for i, (t, s) in enumerate(zip(tasks, sources, strict=True))]
        write_parquet(out, rows)
        if other := sorted(set(sources) - {*SCORED}):
            say(
                f"Search-R1 scores no data source {other[0]!r}: name one of its own that is scored "
                f"alike, --data-source {SCORED[0]}"
            )
        return len(tasks)
    judged = qrels_of(tasks)
    if not judged:
        raise DataError(f"no question of {name} names its evidence, so there is nothing to judge")
    write_qrels(out, judged)
    return len(judged)


def _write_played(to: str, source: str, out: Path) -> int:
    from ..core.trajectory import write_jsonl
    from ..evaluation.formats import run_of, write_run, write_runs, write_trajectories

    path = _file(source)
    if path is None:
        raise DataError(
            f"--to {to} takes trajectories: DIR/AGENT.trajectories.jsonl, as 'searchgym "
            f"eval {source} --out DIR' writes it; {source} is no such file{bare_hint(source)}"
        )
    if to == "minari":
        from ..integrations import minari

        return int(minari.write(out.as_posix(), _trajectories(path)).total_episodes)
    if to == "parquet":
        return write_trajectories(out, _trajectories(path))
    if to == "jsonl":
        return write_jsonl(out, _trajectories(path))
    if to == "browsecomp-plus":
        return write_runs(out, (t.replay(scored=False) for t in _trajectories(path)))
    shown = {t.task_id: list(t.replay(scored=False).seen) for t in _trajectories(path)}
    tag = path.name.split(".")[0]
    write_run(out, run_of(shown), tag)
    return len(shown)


def _write_hub(
    source: str, out: Path, licence: str | None, settings: list[str] | None, trust: bool
) -> str:
    """Write a folder for the hub; what it holds."""
    from ..integrations import hub

    path = Path(source)
    agent = path.suffix == ".safetensors" or (path.is_dir() and any(path.glob("*.safetensors")))
    if licence is not None and not agent:
        raise DataError(f"--licence is a trained agent's; that of {source} follows from its corpus")
    if agent:
        return f"{hub.write_agent(out, path, licence or hub.UNSAID):,} parameters"
    if (played := _file(source)) is not None:
        with registered_only(source, trust=trust):
            count = hub.write_played(out, _trajectories(played), source, _played_in(played))
        return f"{count} episodes"
    tasks, corpus = _env_questions(source, settings)
    return f"{hub.write_tasks(out, tasks, source, str(corpus), settings or ())} questions"


def _played_in(path: Path) -> str:
    """The corpus of the result beside a file of trajectories; "" where there is none."""
    from ..evaluation.result import EvalResult

    result = path.with_name(path.name.split(".")[0] + ".json")
    known = EvalResult.load(result).settings if result.is_file() else {}
    return str(known.get("environment", {}).get("corpus", ""))


def _env_tasks(env: str, settings: list[str] | None) -> list[Task]:
    return _env_questions(env, settings)[0]


def _env_questions(env: str, settings: list[str] | None) -> tuple[list[Task], object]:
    """The tasks of an environment, and which corpus it names."""
    with working(f"building {env} …"):
        made = make_search_env(env, settings)
        return list(made.tasks), made.setup.options.corpus


def _trajectories(path: Path) -> Iterator[Trajectory]:
    from ..core.trajectory import read_jsonl
    from ..evaluation.formats import read_trajectories

    return read_trajectories(path) if path.suffix == ".parquet" else read_jsonl(path)


def _file(source: str) -> Path | None:
    """The file of trajectories a person means; of a folder, the only one in it."""
    path = Path(source)
    if not is_path(source) and not path.suffix:  # an environment's id
        return None
    if path.is_file():
        return path
    if not path.is_dir() or (path / "card.toml").is_file():
        return None
    files = sorted(path.glob("*.trajectories.jsonl"))
    if len(files) != 1:
        names = ", ".join(p.name for p in files) or "none"
        raise DataError(f"{path} holds {len(files)} files of trajectories ({names}); name one")
    return files[0]
