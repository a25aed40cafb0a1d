"""``searchgym corpus``: index and inspect passages."""

from __future__ import annotations

import statistics
from collections.abc import Sized
from contextlib import nullcontext
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import EngineError, unknown
from ..utils.trust import registered_only
from .output import (
    JsonFlag,
    examples,
    group,
    print_facts,
    print_json,
    print_table,
    progress,
    working,
)
from .targets import DataDir, Overrides, Trust, overrides

if TYPE_CHECKING:
    from ..corpora.corpus import Corpus

app = group("Index and inspect corpora.")

Name = Annotated[
    str, typer.Argument(metavar="CORPUS", help="A corpus card's name, a passage file, a folder.")
]
Split = Annotated[str | None, typer.Option(help="Split (default: train; real sets: public).")]


def _split(name: str, split: str | None) -> str:
    from .sources import corpus_card

    if split is not None:
        return split
    card = corpus_card(name)
    return "public" if card is not None and card.body["kind"] == "real" else "train"


@app.command(
    epilog=examples(
        "searchgym corpus index encyclopedia --out runs/index",
        "searchgym corpus index notes/ --out runs/notes -s k1=1.2 -s b=0.75 -s stemmer=null",
        "searchgym corpus index hotpotqa --engine dense --index hnsw --out runs/dense",
        "searchgym corpus index hotpotqa --engine dense --out runs/e5 -s model=intfloat/e5-base-v2",
        "searchgym corpus index wiki18 --engine bm25_disk --out runs/wiki18",
    )
)
def index(
    name: Name,
    out: Annotated[
        Path,
        typer.Option(help="Folder of the index. bm25 replaces an older one, dense continues it."),
    ],
    engine: Annotated[str, typer.Option(help="bm25, dense or bm25_disk.")] = "bm25",
    kind: Annotated[
        str | None,
        typer.Option("--index", help="Dense only: flat (the default), ivf, ivfpq or hnsw."),
    ] = None,
    split: Split = None,
    data_dir: DataDir = None,
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """Build an index of a corpus and save it, ready to be memory-mapped.

    [bold]--set[/bold] gives arguments of the engine. BM25: k1, b, stemmer, stopwords, method,
    fields. Dense: the encoder's (model, preset, pooling, max_length, device, …), the index's
    (nlist, nprobe, m, nbits, links, ef_construction, ef_search, depth), shard and threads.
    bm25_disk, which keeps passages and index on disk: k1, b, stemmer, stopwords, lowercase,
    unicode.

    A dense build that was interrupted or killed goes on where it was: run the command again.
    Environments use an index by engine={"name": "dense", "index": "FOLDER"}.
    An index of bm25_disk holds its passages: searchgym serve FOLDER needs nothing else.
    """
    import time

    from .sources import corpus as load

    if engine not in (known := ("bm25", "dense", "bm25_disk")):
        raise EngineError(unknown("engine with an index", engine, known))
    if kind is not None and engine != "dense":
        raise EngineError(f"--index {kind} needs --engine dense; {engine} has one kind of index")
    if engine == "bm25_disk":
        about = _index_on_disk(name, _split(name, split), data_dir, out, overrides(settings))
        _print(f"Index of {name}", about, as_json)
        return
    with working(f"reading {name} …"):
        passages = load(name, _split(name, split), data_dir)
    start = time.perf_counter()
    build = _index_bm25 if engine == "bm25" else _index_dense
    about = build(passages, out, kind or "flat", overrides(settings))
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    facts = {
        "corpus": passages.name,
        "passages": len(passages),
        "digest": passages.digest,
        "index": str(out),
        "bytes": size,
        "seconds": round(time.perf_counter() - start, 3),
        **about,
    }
    _print(f"Index of {passages.name}", facts, as_json)


def _index_bm25(passages: Corpus, out: Path, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    from ..engines.registry import build_engine

    with working(f"indexing {len(passages):,} passages …"):
        engine: Any = build_engine({"name": "bm25", **options}, passages)
        engine.save(out)
    return {"fingerprint": engine.fingerprint}


def _index_on_disk(
    name: str, split: str, data_dir: Path | None, out: Path, options: dict[str, Any]
) -> dict[str, Any]:
    """Index passages as they are read: none of them stays in memory."""
    import time

    from ..engines.on_disk import DiskBM25Engine, build
    from .sources import stream

    try:
        signature(build).bind(out, (), **options)
    except TypeError as error:
        raise EngineError(f"engine 'bm25_disk': {error}") from error
    start = time.perf_counter()
    passages = stream(name, split, data_dir)
    size = len(passages) if isinstance(passages, Sized) else None
    with progress(f"indexing {name}", size, "passages") as advance:
        build(out, passages, progress=advance, **options)
    made = DiskBM25Engine(out)
    return {
        "corpus": name,
        "passages": len(made),
        "digest": made.passages.digest,
        "index": str(out),
        "bytes": sum(f.stat().st_size for f in out.rglob("*") if f.is_file()),
        "seconds": round(time.perf_counter() - start, 3),
        "fingerprint": made.fingerprint,
    }


def _index_dense(passages: Corpus, out: Path, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    from ..engines.dense import NUMBERS, encoder_of
    from ..engines.dense.build import build_dense

    numbers = {name: options.pop(name) for name in list(options) if name in NUMBERS}
    placed = {name: options.pop(name) for name in ("shard", "threads") if name in options}
    try:
        with working("loading the encoder …"):
            encoder = encoder_of(options.pop("encoder", None), options)
    except TypeError as error:
        raise EngineError(f"engine 'dense': {error}") from error
    with progress(f"encoding with {encoder.name}", len(passages), "passages") as advance:
        done = 0

        def show(now: int, total: int) -> None:
            nonlocal done
            advance(now - done)
            done = now

        made = build_dense(
            passages, encoder, out, kind=kind, numbers=numbers, progress=show, **placed
        )
    recall = made["recall"]
    about = {"kind": kind, "numbers": made["numbers"], "encoder": encoder.name}
    if kind != "flat":
        about["recall@10 against flat"] = recall["served"]
        about["recall@10 before exact scoring"] = recall["raw"]
        about["queries measured"] = recall["queries"]
    return about


@app.command(
    epilog=examples(
        "searchgym corpus inspect encyclopedia",
        "searchgym corpus inspect hotpotqa -q 'Scott Derrickson nationality'",
        "searchgym corpus inspect notes/ -q budget --json",
    )
)
def inspect(
    name: Name,
    query: Annotated[
        list[str] | None, typer.Option("--query", "-q", help="Search for this. Repeatable.")
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="Passages per query, or samples.")] = 3,
    index_dir: Annotated[
        Path | None, typer.Option("--index", help="Use an index made by 'corpus index'.")
    ] = None,
    split: Split = None,
    data_dir: DataDir = None,
    trust: Trust = False,
    as_json: JsonFlag = False,
) -> None:
    """Size, digest and samples of a corpus; with queries, what BM25 or a dense index finds."""
    from .sources import corpus as load

    with working(f"reading {name} …"):
        passages = load(name, _split(name, split), data_dir)
    lengths = [len(p.text) for p in passages]
    facts = {
        "corpus": passages.name,
        "passages": len(passages),
        "pages": len({p.url for p in passages}),
        "digest": passages.digest,
        "characters, median": statistics.median(lengths),
        "characters, longest": max(lengths),
        "characters, all": sum(lengths),
    }
    rows_of: dict[str, list[dict[str, Any]]] = {}
    if query:
        from ..engines.registry import build_engine

        kind = "dense" if index_dir and (index_dir / "plan.json").exists() else "bm25"
        options = {"index": str(index_dir)} if index_dir else {}
        with registered_only(index_dir or name, trust=True) if trust else nullcontext():
            engine: Any = build_engine({"name": kind, **options}, passages)
        for text, ranking in zip(query, engine.search(query, k), strict=True):
            rows_of[text] = [{**hit.passage._asdict(), "score": hit.score} for hit in ranking]
    else:
        step = max(1, len(passages) // k)
        rows_of[""] = [passages[i]._asdict() for i in range(0, len(passages), step)][:k]
    if as_json:
        print_json({**facts, "found" if query else "samples": rows_of if query else rows_of[""]})
        return
    _print(passages.name, facts, False)
    for text, rows in rows_of.items():
        print()
        columns = ["score", "id", "title", "text"] if query else ["id", "title", "text"]
        shown = [{**row, "text": row["text"][:300]} for row in rows]
        print_table(f"Results for {text!r}" if query else "Samples", shown, columns)


def _print(title: str, facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(facts)
    else:
        print_facts(title, facts)
