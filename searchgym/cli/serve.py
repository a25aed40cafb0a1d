"""``searchgym serve``: any corpus and engine behind every ``/retrieve`` dialect."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SearchGymError
from ..objects import also_look_in
from ..text import QUERY_CHARACTERS
from .output import examples, say, working
from .targets import DataDir, overrides

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ..corpora.corpus import Corpus
    from ..engines.on_disk import DiskBM25Engine
    from ..serve import Board, Settings
    from ..worlds.world import World

Name = Annotated[
    str, typer.Argument(metavar="CORPUS", help="A corpus card's name, a passage file, a folder.")
]
_HOME = str(Path(__file__).resolve().parents[2])
WORKER = [
    sys.executable, "-P",  # no module of the working directory stands in for an installed one
    "-c", f"import sys; sys.path.append({_HOME!r}); "
    "from searchgym.cli.serve import run_worker; run_worker()",
]  # fmt: skip


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        epilog=examples(
            "searchgym serve hotpotqa --engine bm25 --port 8000",
            "searchgym serve encyclopedia --engine graph",
            "searchgym serve notes/ --watch -s engine.k1=1.2",
            "searchgym serve hotpotqa --workers 2 --token s3cret --max-k 20",
            "searchgym serve hotpotqa --port 6002 --dialect zerosearch",
            "searchgym serve runs/wiki18 -s engine.threads=2",
            "searchgym serve SearchQA-v0 --mcp",
        )
    )(serve)


def serve(
    context: typer.Context,
    name: Name,
    engine: Annotated[
        str, typer.Option(help="An engine's name, or package.module:Class.")
    ] = "bm25",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the port.")] = 1,
    dialect: Annotated[
        str, typer.Option(help="Dialect of /retrieve; 'auto' looks at each request.")
    ] = "auto",
    k: Annotated[
        int | None,
        typer.Option("--k", min=1, help="Passages if a request names none (default: 3)."),
    ] = None,
    max_k: Annotated[int, typer.Option(min=1, help="Most passages per query.")] = 1000,
    max_queries: Annotated[int, typer.Option(min=1, help="Most queries per request.")] = 512,
    max_query: Annotated[
        int, typer.Option(min=1, help="Longest query, URL or title in characters.")
    ] = QUERY_CHARACTERS,
    max_body: Annotated[int, typer.Option(min=1, help="Largest request in bytes.")] = 1 << 20,
    max_results: Annotated[
        int, typer.Option(min=1, help="Most passages per answer: queries times k.")
    ] = 1 << 14,
    max_answer: Annotated[int, typer.Option(min=1, help="Largest answer in bytes.")] = 64 << 20,
    max_connections: Annotated[
        int | None,
        typer.Option(min=1, help="Connections per process (default: 4096, or what ulimit allows)."),
    ] = None,
    read_timeout: Annotated[
        float,
        typer.Option(
            min=0.1, help="Seconds in which a request's head, and then its body, must arrive."
        ),
    ] = 20.0,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SEARCHGYM_TOKEN",
            help="Ask for this bearer token. Other users of this machine see it in the list of "
            "processes: better set the environment variable.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A further name of this server in Host and Origin, such as a proxy's."),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a BM25 index. If it is missing, the index is built and saved there."
        ),
    ] = None,
    max_batch: Annotated[int, typer.Option(min=1, help="Most queries per engine call.")] = 64,
    max_wait_ms: Annotated[
        float, typer.Option(min=0, help="Longest wait for more queries, in milliseconds.")
    ] = 3.0,
    in_flight: Annotated[
        int, typer.Option(min=1, help="Engine calls at the same time, for engines that batch.")
    ] = 2,
    deadline: Annotated[float, typer.Option(min=0, help="Seconds a request may take.")] = 60.0,
    grace: Annotated[
        float,
        typer.Option(min=0, help="Seconds in which accepted requests are finished at the end."),
    ] = 30.0,
    watch: Annotated[
        bool, typer.Option("--watch", help="Read a folder of documents again when it changes.")
    ] = False,
    split: Annotated[
        str | None, typer.Option(help="Split (default: train; real sets: public).")
    ] = None,
    openenv: Annotated[
        bool, typer.Option("--openenv", help="CORPUS is an environment: serve OpenEnv's episodes.")
    ] = False,
    mcp: Annotated[
        bool,
        typer.Option(
            "--mcp",
            help="CORPUS is an environment: serve its episodes over MCP. Searches in passages or "
            "documents are at /mcp without this.",
        ),
    ] = False,
    data_dir: DataDir = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="KEY=VALUE",
            help="Set an option of the engine (engine.k1=1.2) or, with --openenv and --mcp, of the "
            "environment (world.entities=2000). Repeatable.",
        ),
    ] = None,
) -> int:
    """Serve searches over HTTP to any agent that speaks a /retrieve dialect.

    Routes: GET / (a page to search from a browser), POST /retrieve, /access, /DIALECT/retrieve,
    /mcp; GET /healthz, /stats, /metrics, /openapi.json (which describes them all).
    [bold]--set[/bold] gives engine options: -s engine.k1=1.2. On SIGTERM, accepted requests
    are finished.

    Clients of the Model Context Protocol find the tools search and get_document at /mcp:
    {"mcpServers": {"searchgym": {"type": "http", "url": "http://127.0.0.1:8000/mcp"}}}
    (with a token, add "headers": {"Authorization": "Bearer TOKEN"}).
    """
    if openenv or mcp:
        from .serve_env import serve_env

        serve_env(context, name, host, port, allow_host, settings, mcp)
        return 0
    from ..engines.on_disk import is_index
    from ..serve import Board, Limits, Settings, bind, is_loopback, supervise
    from ..serve.workers import serve as run
    from .search import is_documents

    if is_index(name):
        if engine not in ("bm25", "bm25_disk"):
            raise SearchGymError(f"{name} is an index of bm25_disk: leave --engine {engine} out")
        engine = "bm25_disk"
    given = overrides(settings)
    if wrong := sorted(set(given) - {"engine"}):
        raise SearchGymError(f"--set takes engine options here, like engine.k1=1.2; got {wrong[0]}")
    told = Settings(
        host=host, port=port, workers=workers, dialect=dialect,
        default_k=min(3, max_k) if k is None else k,
        limits=Limits(max_body, max_queries, max_k, max_results, max_answer, max_query),
        token=token,
        max_batch=max_batch, max_wait_s=max_wait_ms / 1e3, max_in_flight=in_flight,
        deadline_s=deadline, grace_s=grace, allowed_hosts=tuple(allow_host or ()),
        max_connections=max_connections, read_s=read_timeout,
    )  # fmt: skip
    if not is_loopback(host) and token is None:
        say(f"warning: {host} can be reached from other machines, and there is no --token")
    source: dict[str, Any] = {
        "corpus": name,
        "engine": {"name": engine, **given.get("engine", {})},
        "index": None if index is None else str(index),
        "split": split,
        "data_dir": None if data_dir is None else str(data_dir),
        "watch": watch,
    }
    if watch and (index is not None or is_index(name) or not is_documents(name)):
        raise SearchGymError("--watch is for a folder of documents, without --index")
    if split is not None and (is_index(name) or is_documents(name)):
        raise SearchGymError(f"--split is for generated worlds and real sets; {name} has none")

    def announce(at: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        print(f"serving {name} with {engine} on http://{shown}:{at}", flush=True)

    if workers > 1:
        return supervise(told, WORKER, source, announce)
    with contextlib.closing(bind(told)) as bound:
        run(_builder(source, told), told, bound, Board(), announce)
    return 0


def run_worker() -> None:
    """The main function of a worker process (see ``serve.supervise``)."""
    from ..serve import worker

    also_look_in(os.getcwd())
    try:
        worker(_builder)
    except SearchGymError as error:
        print(f"searchgym: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


def _builder(source: Mapping[str, Any], settings: Settings) -> Callable[[Board], FastAPI]:
    def build(board: Board) -> FastAPI:
        from ..engines.on_disk import is_index
        from ..serve import build_app
        from .search import is_documents

        data_dir = Path(source["data_dir"]) if source["data_dir"] else None
        if is_index(source["corpus"]):
            engine = _stored(source)
            return build_app(engine, engine.passages, settings, board=board, method="bm25_disk")
        name = source["engine"]["name"]
        if source["index"] is None and is_documents(source["corpus"]):
            corpus, engine = _documents(source)
            return build_app(engine, corpus, settings, board=board, method=name)
        with working(f"reading {source['corpus']} …"):
            corpus, world = _passages(source["corpus"], source["split"], data_dir)
        with working(f"preparing {name} over {len(corpus):,} passages …"):
            engine = _engine(source, corpus, world)
        return build_app(engine, corpus, settings, board=board, method=name)

    return build


def _stored(source: Mapping[str, Any]) -> DiskBM25Engine:
    """Open an index that holds its passages (``searchgym corpus index --engine bm25_disk``)."""
    from ..engines.on_disk import DiskBM25Engine

    options = {k: v for k, v in source["engine"].items() if k != "name"}
    if source["index"] is not None:
        raise SearchGymError(f"{source['corpus']} is an index itself: leave --index out")
    try:
        return DiskBM25Engine(source["corpus"], **options)
    except TypeError as error:
        raise SearchGymError(f"engine 'bm25_disk': {error}") from error


def _documents(source: Mapping[str, Any]) -> tuple[Corpus, Any]:
    """Documents and their engine from the user's cache; with ``watch``, ones that are exchanged
    when the folder changes."""
    from ..engines.folders import FolderIndex

    with working(f"reading {source['corpus']} …"):
        index = FolderIndex(source["corpus"], source["engine"])
    if not source["watch"]:
        return index.corpus, index.engine
    from ..serve import Watcher

    watcher = Watcher(index)
    watcher.start()
    return watcher.corpus, watcher.engine


def _passages(name: str, split: str | None, data_dir: Path | None) -> tuple[Corpus, World | None]:
    from .sources import corpus, corpus_card, world

    card = corpus_card(name)
    if card is not None and card.body["kind"] == "world":
        made = world(name, split or "train", None)
        return made.corpus, made.world
    return corpus(name, split or "public", data_dir), None


def _engine(source: Mapping[str, Any], corpus: Corpus, world: World | None) -> Any:
    from ..engines.registry import build_engine

    spec, index = dict(source["engine"]), source["index"]
    if index is None:
        return build_engine(spec, corpus, world)
    if spec["name"] != "bm25":
        raise SearchGymError(
            f"--index is for bm25; give {spec['name']} its own: -s engine.index=FOLDER"
        )
    if (Path(index) / "index.json").is_file():
        return build_engine({**spec, "index": index}, corpus, world)
    engine: Any = build_engine(spec, corpus, world)
    engine.save(index)
    return engine
