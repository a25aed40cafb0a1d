"""An episode over the Model Context Protocol: any client that calls tools plays an environment.

Tools are ``reset``, which begins an episode and gives its question, the environment's own
(``search``, ``access``, …) and ``answer``, which ends it and tells what it was paid. ``reset``
names the episode, and the other tools are told which one they are for, because newer versions of
the protocol have no sessions. ``searchgym serve --mcp SearchQA-v0`` serves them on loopback at
``/mcp``. The ``serve`` extra brings what is needed; for searching without episodes, every
``searchgym serve`` has ``/mcp`` as well.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import count
from threading import Lock
from typing import Any

from ..envs.info import public_id
from ..envs.search import SearchEnv
from ..envs.session import Session
from ..envs.unwrap import search_env
from ..errors import EpisodeError, MissingExtraError, SearchGymError, check_known
from ..seeding import derive
from ..utils.version import __version__
from .common import harmless, native, one_row

_RESET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "task_id": {"type": "string", "description": "Which task; by default any."},
        "seed": {"type": "integer", "description": "Equal seeds begin equal episodes."},
    },
}
_ANSWER = {
    "type": "object",
    "properties": {"answer": {"type": "string", "description": "A name or a few words."}},
    "required": ["answer"],
}
_EPISODE = {"type": "string", "description": "The episode, as reset named it."}
KEPT = 1024
"""Episodes that a server remembers; the oldest are forgotten first."""


class EpisodeServer:
    """Plays episodes for clients of the protocol.

    Args:
        env: An environment, wrapped or not, its id, or a Gymnasium spec. Its dialect and
            instructions are not used: the client says how calls are written.
        tokenizer: Name or folder of the tokenizer of the clients' model, if one is known: no
            string of its special tokens is left in results.

    Raises:
        CardError: rules that tools cannot follow (delegation, judging, page stubs).
        MissingExtraError: the package ``mcp`` is missing.
    """

    def __init__(self, env: Any, *, tokenizer: Any = None) -> None:
        try:
            from mcp.server.lowlevel import Server
        except ImportError as error:
            raise MissingExtraError("episodes over MCP", "serve") from error
        inner = search_env(env)
        one_row(inner, draws=True)
        self.env: SearchEnv = native(inner)
        self._harmless = harmless(tokenizer)
        self._resets = count()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = Lock()
        self.server = Server(
            "searchgym-episode", version=__version__, on_list_tools=self._list,
            on_call_tool=self._call,
        )  # fmt: skip

    def app(self, hosts: Sequence[str] | None = None) -> Any:
        """Return the server as an ASGI application with the route ``/mcp``; ``hosts``: names by
        which it may be called, None: any, and pages of other sites by none."""
        from mcp.server.transport_security import TransportSecuritySettings

        from ..serve import guard

        unguarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        return guard(self.server.streamable_http_app(transport_security=unguarded), hosts)

    # --- the protocol -------------------------------------------------------------------------
    async def _list(self, context: Any, params: Any) -> Any:
        from mcp.types import ListToolsResult, Tool

        tools = [Tool(name="reset", description="Begin an episode.", input_schema=_RESET)]
        tools += [
            Tool(name=t.name, description=t.description, input_schema=_of_episode(t.parameters))
            for t in (self.env.rules.tools if self.env.search_enabled else ())
        ]
        ends = "End the episode with an answer; tells what it was paid."
        return ListToolsResult(
            tools=[
                *tools,
                Tool(name="answer", description=ends, input_schema=_of_episode(_ANSWER)),
            ]
        )

    async def _call(self, context: Any, params: Any) -> Any:
        from anyio import to_thread

        arguments = dict(params.arguments or {})
        return await to_thread.run_sync(self._play, params.name, arguments)

    def _play(self, tool: str, arguments: dict[str, Any]) -> Any:
        from mcp.types import CallToolResult, TextContent

        try:
            with self._lock:
                text, structured = self._act(tool, arguments)
            failed = False
        except (SearchGymError, TypeError) as error:
            text, structured, failed = str(error), {}, True
        content: list[Any] = [TextContent(type="text", text=text)]
        return CallToolResult(
            content=content, structured_content=structured or None, is_error=failed
        )

    def _act(self, tool: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        if tool == "reset":
            check_known("argument of reset", _RESET["properties"], *arguments, error=EpisodeError)
            return self._reset(**arguments)
        session = self._sessions.get(str(arguments.pop("episode", "")))
        if session is None:
            raise EpisodeError("there is no such episode: call reset, which names a new one")
        if tool == "answer":
            session.answer(str(arguments.get("answer", "")))
            return self._ended(session)
        result = self._harmless(session.call(tool, arguments))
        if session.done:
            text, structured = self._ended(session)
            return f"{result}\n\n{text}".strip(), structured
        return result, {"done": False, "turns_left": session.episode.turns_left}

    def _reset(self, task_id: str | None = None, seed: Any = None) -> tuple[str, dict[str, Any]]:
        number = next(self._resets) if seed is None else _whole(seed)
        key = derive(number, "mcp", "luck" if seed is None else "seed")
        name = secrets.token_hex(8)
        session = self._sessions[name] = Session(self.env, task_id or None, key=key)
        while len(self._sessions) > KEPT:
            self._sessions.popitem(last=False)
        messages = [self._harmless(message["content"]) for message in session.messages]
        return "\n\n".join([f"Episode: {name}", *messages]), {
            "episode": name,
            "task_id": public_id(session.episode.config.task.question),
            "done": False,
            "turns_left": session.episode.turns_left,
        }

    def _ended(self, session: Session) -> tuple[str, dict[str, Any]]:
        reward = session.reward
        said = "The engine failed; there is no reward." if reward is None else f"Reward: {reward}"
        return f"The episode is over. {said}", {
            "done": True, "reward": reward, "metrics": session.metrics,
        }  # fmt: skip


def _whole(seed: Any) -> int:
    """The seed as a number; models write it as a text, too."""
    try:
        number = int(seed)
        if not isinstance(seed, float) or number == seed:
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise EpisodeError(f"seed must be a whole number, got {seed!r:.80}")


def _of_episode(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's schema, with the argument that names the episode."""
    properties = {"episode": _EPISODE, **parameters.get("properties", {})}
    required = ["episode", *parameters.get("required", ())]
    return {**parameters, "properties": properties, "required": required}
