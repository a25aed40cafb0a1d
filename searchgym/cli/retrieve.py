"""``searchgym retrieve``: measures an engine by queries and judgements, without agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import DataError
from ..plugins import register
from .options import DataDir, Settings, json_or_text, overrides, set_option
from .output import (
    JsonFlag,
    counted,
    print_json,
    print_table,
    progress,
    say,
    with_examples,
    working,
)

if TYPE_CHECKING:
    from ..corpora.beir import Topics
    from ..evaluation.intervals import Interval
    from ..evaluation.retrieval import Retrieval


@register("retrieve")
@with_examples(
    "searchgym retrieve scifact/",
    "searchgym retrieve ir_scifact --engine bm25 --engine dense",
    "searchgym retrieve notes/ --queries questions.csv -k 20 --out notes.run",
    "searchgym retrieve passages.jsonl --queries queries.jsonl --qrels qrels/test.tsv",
    "searchgym retrieve beir/scifact/test",
)
def retrieve(
    source: Annotated[
        str,
        typer.Argument(
            metavar="COLLECTION|CORPUS",
            help="A BEIR folder, a set's name, a collection of ir_datasets, or passages.",
        ),
    ],
    queries: Annotated[
        Path | None, typer.Option(help="Queries (JSON lines, CSV, …), if CORPUS is passages.")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="Judgements (default: the questions' supporting_ids).")
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(help="An engine's name, or options as JSON (default: bm25). Repeatable: the "
                     "others are compared with the first."),
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Passages per query.")] = 100,
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=1, help="Only the first so many.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split (BEIR: test; sets: public).")] = None,
    keep_own: Annotated[
        bool,
        typer.Option("--keep-own", help="Rank a passage for the query that has its id, too; BEIR "
                     "leaves it out."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the rankings here, a TREC run; of several engines, a folder."),
    ] = None,
    data_dir: DataDir = None,
    settings: Annotated[
        Settings, set_option("Set an option of every engine: k1=1.2, stemmer=german.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:  # fmt: skip
    """Measure an engine alone: nDCG@10, recall, MRR and precision over judged queries.

    Equal scores are ordered as trec_eval orders them, by descending id, so that pytrec_eval and
    searchgym score measure the same from the file that --out writes.
    """
    from ..engines.registry import build_engine
    from ..evaluation.formats import write_run
    from ..evaluation.retrieval import measure_retrieval

    with working(f"reading {source} …"):
        topics = _topics(source, queries, qrels, split, data_dir)
    if number is not None:
        kept = dict(list(topics.qrels.items())[:number])
        topics = topics._replace(qrels=kept)
    found: dict[str, Retrieval] = {}
    for told in engine or ["bm25"]:
        spec = json_or_text(told)
        named = {"name": spec} if isinstance(spec, str) else spec
        with working(f"{told}: indexing {len(topics.corpus):,} passages …"):
            searches = build_engine({**named, **overrides(settings)}, topics.corpus)
        name = str(named.get("name"))
        if name in found:
            name += f" {len(found) + 1}"
        with progress(f"searching with {name}", len(topics.qrels)) as advance:
            found[name] = measure_retrieval(
                topics, searches, k=k, keep_own=keep_own, progress=advance
            )
    _print(found, topics, as_json)
    if out is not None:
        for name, retrieval in found.items():
            path = out if len(found) == 1 else out / f"{name.replace(' ', '-')}.run"
            say(f"wrote {write_run(path, retrieval.run)}")


def _print(found: Mapping[str, Retrieval], topics: Topics, as_json: bool) -> None:
    from ..evaluation.retrieval import differences

    first, *others = found
    notes = list(topics.notes)
    if own := max(retrieval.own for retrieval in found.values()):
        notes.append(
            f"{counted(own, 'query', 'queries')} found the passage with their own id, which BEIR "
            "leaves out; --keep-own ranks it"
        )
    beside = {name: differences(found[name], found[first]) for name in others}
    if as_json:
        records = [{**_facts(r, topics), "means": _plain(r.means)} for r in found.values()]
        for record, name in zip(records[1:], others, strict=True):
            record["differences"] = _plain(beside[name])
        print_json({**records[0], "notes": notes} if not others else
                   {"engines": records, "notes": notes})  # fmt: skip
        return
    facts = _facts(found[first], topics)
    rows = [
        {
            "measure": measure,
            **{f"{name}, mean [95 % interval]": str(r.means[measure]) for name, r in found.items()},
            **{f"{name} − {first}": str(gaps[measure]) for name, gaps in beside.items()},
        }
        for measure in found[first].means
    ]
    print_table(
        f"{', '.join(found)} on {facts['corpus']}: "
        f"{counted(facts['queries'], 'query', 'queries')}, "
        f"{counted(facts['passages'], 'passage', 'passages')}",
        rows,
    )
    for note in notes:
        say(note)


def _facts(retrieval: Retrieval, topics: Topics) -> dict[str, Any]:
    return {
        "corpus": retrieval.corpus, "passages": len(topics.corpus), "engine": retrieval.engine,
        "queries": len(retrieval.per_query), "k": retrieval.k,
        "queries per second": round(len(retrieval.run) / max(retrieval.seconds, 1e-9), 1),
    }  # fmt: skip


def _plain(means: Mapping[str, Interval]) -> dict[str, Any]:
    return {name: value._asdict() for name, value in means.items()}


def _topics(
    source: str, queries: Path | None, qrels: Path | None, split: str | None, data_dir: Path | None
) -> Topics:
    from ..cards import cards
    from ..corpora.beir import load_beir, load_ir_dataset, load_topics
    from ..corpora.data import data_directory
    from ..corpora.load import beir_passages
    from .targets import corpus, corpus_card

    if queries is not None:
        return load_topics(corpus(source, split or "public", data_dir), queries, qrels)
    if qrels is not None:
        raise DataError(f"--qrels {qrels} needs the queries it judges: --queries FILE")
    if beir_passages(Path(source)) is not None:
        return load_beir(source, split=split or "test")
    if not Path(source).exists() and "/" in source and source not in cards("corpora"):
        return load_ir_dataset(source)
    card = corpus_card(source)
    if card is None or card.body["kind"] != "real":
        raise DataError(f"{source} has no judgements of its own: add --queries FILE [--qrels FILE]")
    if not card.body.get("splits"):
        return load_beir(data_directory(data_dir) / card.id, split=split or "test")
    return _of_set(card.id, split or "public", data_dir)


def _of_set(name: str, split: str, data_dir: Path | None) -> Topics:
    """A set of questions whose evidence is named; evidence that is not in the corpus counts."""
    from ..corpora.beir import Topics
    from ..corpora.data import load_set

    passages, tasks = load_set(name, split=split, data_dir=data_dir)
    asked = [task for task in tasks if task.evidence]
    if not asked:
        raise DataError(f"no question of {name} names its evidence, so there is nothing to judge")
    return Topics(
        passages,
        {task.id: task.question for task in asked},
        {task.id: dict.fromkeys(task.evidence, 1) for task in asked},
    )
