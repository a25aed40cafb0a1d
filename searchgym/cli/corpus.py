"""``searchgym corpus``: index and inspect passages."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sized
from contextlib import nullcontext
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import EngineError, check_known
from ..plugins import register
from ..utils.trust import registered_only
from .options import CorpusName, DataDir, Settings, Split, Trust, overrides, set_option
from .output import (
    JsonFlag,
    print_facts,
    print_json,
    print_table,
    progress,
    with_examples,
    working,
)
from .targets import corpus, stream


@register("corpus index")
@with_examples(
    "searchgym corpus index encyclopedia --out runs/index",
    "searchgym corpus index notes/ --out runs/notes -s k1=1.2 -s b=0.75 -s stemmer=null",
    "searchgym corpus index hotpotqa --engine dense --index hnsw --out runs/dense",
    "searchgym corpus index hotpotqa --engine dense --out runs/e5 -s model=intfloat/e5-base-v2",
    "searchgym corpus index wiki18 --engine bm25_disk --out runs/wiki18",
)
def index(
    name: CorpusName,
    out: Annotated[
        Path,
        typer.Option(help="Folder of the index. bm25 replaces an older one, dense continues it."),
    ],
    engine: Annotated[str, typer.Option(help="bm25, dense or bm25_disk.")] = "bm25",
    kind: Annotated[
        str | None,
        typer.Option("--index", help="Dense only: flat (the default) or hnsw."),
    ] = None,
    split: Split = None,
    data_dir: DataDir = None,
    settings: Annotated[Settings, set_option("An option of the engine.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Build an index of a corpus and save it, ready to be memory-mapped.

    [bold]--set[/bold] gives arguments of the engine. BM25: k1, b, stemmer, stopwords, method,
    fields. Dense: the encoder's (model, preset, pooling, max_length, device, …), the index's
    (links, ef_construction, ef_search, depth), shard and threads.
    bm25_disk, which keeps passages and index on disk: k1, b, stemmer, stopwords, lowercase,
    unicode.

    A dense build that was interrupted or killed goes on where it was: run the command again.
    Environments use an index by engine={"name": "dense", "index": "FOLDER"}.
    An index of bm25_disk holds its passages: searchgym serve FOLDER needs nothing else.
    """
    builds = {"bm25": _bm25, "dense": _dense, "bm25_disk": _on_disk}
    check_known("engine with an index", builds, engine, error=EngineError)
    if kind is not None and engine != "dense":
        raise EngineError(f"--index {kind} needs --engine dense; {engine} has one kind of index")
    passages: Any
    if engine == "bm25_disk":  # indexed as they are read: none of them stays in memory
        passages = stream(name, split, data_dir)
    else:
        with working(f"reading {name} …"):
            passages = corpus(name, split, data_dir)
    start = time.perf_counter()
    made = builds[engine](passages, out, kind or "flat", overrides(settings))
    facts = {
        "corpus": getattr(passages, "name", name),
        **{key: made.pop(key) for key in ("passages", "digest")},
        "index": str(out),
        "bytes": sum(f.stat().st_size for f in out.rglob("*") if f.is_file()),
        "seconds": round(time.perf_counter() - start, 3),
        **made,
    }
    print_facts(f"Index of {facts['corpus']}", facts, as_json)


def _bm25(passages: Any, out: Path, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    from ..engines.registry import build_engine

    with working(f"indexing {len(passages):,} passages …"):
        engine: Any = build_engine({"name": "bm25", **options}, passages)
        engine.save(out)
    return _about(passages) | {"fingerprint": engine.fingerprint}


def _on_disk(passages: Any, out: Path, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    from ..engines.on_disk import DiskBM25Engine, build

    try:
        signature(build).bind(out, (), **options)
    except TypeError as error:
        raise EngineError(f"engine 'bm25_disk': {error}") from error
    size = len(passages) if isinstance(passages, Sized) else None
    with progress("indexing", size, "passages") as advance:
        build(out, passages, progress=advance, **options)
    made = DiskBM25Engine(out)
    return _about(made.passages) | {"fingerprint": made.fingerprint}


def _dense(passages: Any, out: Path, kind: str, options: dict[str, Any]) -> dict[str, Any]:
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
        made = build_dense(
            passages, encoder, out, kind=kind, numbers=numbers, progress=advance, **placed
        )
    recall = made["recall"]
    about = {"kind": kind, "numbers": made["numbers"], "encoder": encoder.name}
    if kind != "flat":
        about["recall@10 against flat"] = recall["served"]
        about["recall@10 before exact scoring"] = recall["raw"]
        about["queries measured"] = recall["queries"]
    return _about(passages) | about


def _about(passages: Any) -> dict[str, Any]:
    return {"passages": len(passages), "digest": passages.digest}


@register("corpus inspect")
@with_examples(
    "searchgym corpus inspect encyclopedia",
    "searchgym corpus inspect hotpotqa -q 'Scott Derrickson nationality'",
    "searchgym corpus inspect notes/ -q budget --json",
)
def inspect(
    name: CorpusName,
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
    with working(f"reading {name} …"):
        passages = corpus(name, split, data_dir)
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
    print_facts(passages.name, facts)
    for text, rows in rows_of.items():
        print()
        columns = ["score", "id", "title", "text"] if query else ["id", "title", "text"]
        shown = [{**row, "text": row["text"][:300]} for row in rows]
        print_table(f"Results for {text!r}" if query else "Samples", shown, columns)
