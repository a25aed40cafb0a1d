"""``searchgym serve --openenv`` and ``--mcp``: episodes of an environment over the network."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import typer

from ..errors import SearchGymError
from .output import working
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
    from ..serve.hosts import is_loopback
    from ..serve.run import bind, make_server
    from ..serve.settings import Settings

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
            app = _app(make_search_env(name, settings), mcp, told.hosts)

        def announce(at: int) -> None:
            shown = f"[{host}]" if ":" in host else host
            path = "/mcp" if mcp else ""
            print(f"serving episodes of {name} on http://{shown}:{at}{path}", flush=True)

        make_server(app, told, bound, announce, websockets=not mcp).run([bound])


def _app(env: Any, mcp: bool, hosts: Sequence[str] | None) -> Any:
    if mcp:
        from ..integrations.mcp import EpisodeServer

        return EpisodeServer(env).app(hosts)
    try:
        from ..integrations.openenv import app
    except ImportError as error:
        raise SearchGymError(str(error)) from error
    return app(env, hosts=hosts)
