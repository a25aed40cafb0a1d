"""``searchgym serve --openenv`` and ``--mcp``: episodes of an environment over the network."""

from __future__ import annotations

from typing import Any

import typer

from ..errors import MissingExtraError, SearchGymError
from .output import working
from .targets import make_search_env

USED = frozenset({"context", "name", "host", "port", "settings", "openenv", "mcp"})
"""Options of ``serve`` that episodes use; the others are about searches."""


def serve_env(
    context: typer.Context, name: str, host: str, port: int, settings: list[str] | None, mcp: bool
) -> None:
    """Serve an environment's episodes until interrupted: over MCP, else to clients of OpenEnv.

    Raises:
        SearchGymError: an option that says nothing of episodes, or an address of others' machines.
    """
    from ..serve.hosts import is_loopback

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
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("the server (uvicorn)", "serve") from error
    with working(f"building {name} …"):
        env = make_search_env(name, settings)
        app, path = _app(env, mcp)
    print(f"serving episodes of {name} on http://{host}:{port}{path}", flush=True)
    uvicorn.run(app, host=host, port=port, log_level="warning")


def _app(env: Any, mcp: bool) -> tuple[Any, str]:
    if mcp:
        from ..integrations.mcp import EpisodeServer

        return EpisodeServer(env).app(), "/mcp"
    try:
        from ..integrations.openenv import app
    except ImportError as error:
        raise SearchGymError(str(error)) from error
    return app(env), ""
