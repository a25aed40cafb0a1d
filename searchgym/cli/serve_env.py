"""``searchgym serve --openenv`` and ``--mcp``: episodes of an environment over the network."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from ..errors import CardError, SearchGymError
from ..objects import is_path
from .output import working
from .search import is_documents
from .sources import corpus_card
from .targets import make_search_env

USED = frozenset({"context", "name", "host", "port", "allow_host", "settings", "openenv", "mcp"})
"""Options of ``serve`` that episodes use; the others are about searches."""


def serve_env(
    context: typer.Context, name: str, host: str, port: int, names: list[str] | None,
    settings: list[str] | None, mcp: bool,
) -> None:  # fmt: skip
    """Serve an environment's episodes until interrupted: over MCP, else to clients of OpenEnv.

    Raises:
        SearchGymError: an option that says nothing of episodes, or an address of others' machines.
    """
    from ..serve import Settings, bind, is_loopback, make_server

    for option in context.params:
        source = context.get_parameter_source(option)  # an enumeration of typer's own click
        if option not in USED and source is not None and source.name == "COMMANDLINE":
            flag = option.replace("_", "-")
            raise SearchGymError(f"--{flag} is about searches: leave it out to serve episodes")
    if not is_loopback(host):
        raise SearchGymError(
            f"--host {host}: episodes are served on this machine only, for they have no token; put "
            "a proxy with a login before them"
        )
    told = Settings(host=host, port=port, allowed_hosts=tuple(names or ()))
    with contextlib.closing(bind(told)) as bound:
        with working(f"building {name} …"):
            env = _environment(name, settings, "--mcp" if mcp else "--openenv")
            app = _app(env, mcp, told.hosts)

        def announce(at: int) -> None:
            shown = f"[{host}]" if ":" in host else host
            path = "/mcp" if mcp else ""
            print(f"serving episodes of {name} on http://{shown}:{at}{path}", flush=True)

        make_server(app, told, bound, announce, websockets=not mcp).run([bound])


def _environment(name: str, settings: list[str] | None, flag: str) -> Any:
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
