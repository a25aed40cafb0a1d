"""``searchgym serve``: a corpus behind every ``/retrieve`` dialect, or episodes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CardError, SearchGymError
from ..objects import also_look_in, is_path
from ..plugins import register
from ..serve.dialects import Limits
from ..serve.settings import Settings as ServerSettings
from .options import (
    CorpusName,
    DataDir,
    Settings,
    Split,
    fills,
    overrides,
    refuse_options,
    set_option,
)
from .output import say, with_examples, working
from .targets import corpus_and_world, corpus_card, is_documents, make_search_env

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ..corpora.corpus import Corpus
    from ..serve import Board

_HOME = str(Path(__file__).resolve().parents[2])
WORKER = [
    sys.executable, "-P",  # no module of the working directory stands in for an installed one
    "-c", f"import sys; sys.path.append({_HOME!r}); "
    "from searchgym.cli.serve import run_worker; run_worker()",
]  # fmt: skip
OF_EPISODES = frozenset(
    {"context", "name", "host", "port", "allow_host", "settings", "openenv", "mcp"}
)
"""Options that episodes use; the others are about searches."""


@register("serve")
@with_examples(
    "searchgym serve hotpotqa --engine bm25 --port 8000",
    "searchgym serve encyclopedia --engine graph",
    "searchgym serve notes/ --watch -s engine.k1=1.2",
    "searchgym serve hotpotqa --workers 2 --token s3cret --max-k 20",
    "searchgym serve hotpotqa --port 6002 --dialect zerosearch",
    "searchgym serve runs/wiki18 -s engine.threads=2",
    "searchgym serve SearchQA-v0 --mcp",
)
@fills(
    "told", ServerSettings,
    {"allowed_hosts": "allow_host", "max_in_flight": "in_flight", "deadline_s": "deadline",
     "grace_s": "grace", "read_s": "read_timeout"},
    leave=("limits", "max_queue", "default_k", "token"),
)  # fmt: skip
@fills(
    "limits", Limits,
    {"body_bytes": "max_body", "queries": "max_queries", "k": "max_k", "results": "max_results",
     "response_bytes": "max_answer", "query_characters": "max_query"},
)  # fmt: skip
def serve(
    context: typer.Context,
    name: CorpusName,
    told: ServerSettings,
    limits: Limits,
    engine: Annotated[
        str, typer.Option(help="An engine's name, or package.module:Class.")
    ] = "bm25",
    k: Annotated[
        int | None,
        typer.Option("--k", min=1, help="Passages if a request names none (default: 3)."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SEARCHGYM_TOKEN",
            help="Ask for this bearer token. Other users of this machine see it in the list of "
            "processes: better set the environment variable.",
        ),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a BM25 index. If it is missing, the index is built and saved there."
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Read a folder of documents again when it changes.")
    ] = False,
    split: Split = None,
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
        Settings,
        set_option(
            "Set an option of the engine (engine.k1=1.2) or, with --openenv and --mcp, of the "
            "environment (world.entities=2000)."
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
        refuse_options(context, OF_EPISODES, "is about searches: leave it out to serve episodes")
        _serve_episodes(name, told, settings, mcp)
        return 0
    from ..engines.on_disk import is_index
    from ..serve import Board, bind, is_loopback, supervise
    from ..serve.workers import serve as run

    if is_index(name):
        if engine not in ("bm25", "bm25_disk"):
            raise SearchGymError(f"{name} is an index of bm25_disk: leave --engine {engine} out")
        engine = "bm25_disk"
    given = overrides(settings)
    if wrong := sorted(set(given) - {"engine"}):
        raise SearchGymError(f"--set takes engine options here, like engine.k1=1.2; got {wrong[0]}")
    told = replace(told, limits=limits, token=token, default_k=min(3, limits.k) if k is None else k)
    if not is_loopback(told.host) and told.token is None:
        say(f"warning: {told.host} can be reached from other machines, and there is no --token")
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

    announce = _announcing(f"{name} with {engine}", told.host)
    if told.workers > 1:
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


def _announcing(what: str, host: str, path: str = "") -> Callable[[int], None]:
    shown = f"[{host}]" if ":" in host else host
    return lambda at: print(f"serving {what} on http://{shown}:{at}{path}", flush=True)


def _builder(source: Mapping[str, Any], told: ServerSettings) -> Callable[[Board], FastAPI]:
    def build(board: Board) -> FastAPI:
        from ..serve import build_app

        corpus, engine, method = _searched(source)
        return build_app(engine, corpus, told, board=board, method=method)

    return build


def _searched(source: Mapping[str, Any]) -> tuple[Any, Any, str]:
    """The passages, the engine over them, and its name."""
    from ..engines.on_disk import is_index

    name, method = source["corpus"], source["engine"]["name"]
    if is_index(name):
        engine = _stored(source)
        return engine.passages, engine, "bm25_disk"
    if source["index"] is None and is_documents(name):
        return (*_documents(source), method)
    data_dir = Path(source["data_dir"]) if source["data_dir"] else None
    with working(f"reading {name} …"):
        corpus, world = corpus_and_world(name, source["split"], data_dir)
    with working(f"preparing {method} over {len(corpus):,} passages …"):
        return corpus, _engine(source, corpus, world), method


def _stored(source: Mapping[str, Any]) -> Any:
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


def _engine(source: Mapping[str, Any], corpus: Corpus, world: Any) -> Any:
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


# --- episodes -------------------------------------------------------------------------------------
def _serve_episodes(
    name: str, told: ServerSettings, settings: Sequence[str] | None, mcp: bool
) -> None:
    """Serve an environment's episodes until interrupted: over MCP, else to clients of OpenEnv.

    Raises:
        SearchGymError: an address of others' machines.
    """
    from ..serve import bind, is_loopback, make_server

    if not is_loopback(told.host):
        raise SearchGymError(
            f"--host {told.host}: episodes are served on this machine only, for they have no "
            "token; put a proxy with a login before them"
        )
    with contextlib.closing(bind(told)) as bound:
        with working(f"building {name} …"):
            env = _environment(name, settings, "--mcp" if mcp else "--openenv")
            app = _app(env, mcp, told.hosts)
        announce = _announcing(f"episodes of {name}", told.host, "/mcp" if mcp else "")
        make_server(app, told, bound, announce, websockets=not mcp).run([bound])


def _environment(name: str, settings: Sequence[str] | None, flag: str) -> Any:
    try:
        return make_search_env(name, settings)
    except CardError as error:
        try:
            documents = is_documents(name) or corpus_card(name) is not None or Path(name).exists()
        except CardError:
            raise error from None
        if not documents:
            raise
        path = name if is_path(name) or not Path(name).exists() else f"./{name}"
        raise CardError(
            f"{flag} serves episodes of an environment, and {name} is none: searchgym serve {path} "
            "serves searches in it, over MCP at /mcp (tools search, get_document)"
        ) from None


def _app(env: Any, mcp: bool, hosts: Sequence[str] | None) -> Any:
    if mcp:
        from ..integrations.mcp import EpisodeServer

        return EpisodeServer(env).app(hosts)
    try:
        from ..integrations.openenv import app
    except ImportError as error:
        raise SearchGymError(str(error)) from error
    return app(env, hosts=hosts)
