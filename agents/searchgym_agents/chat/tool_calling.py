"""Native tool calls: the environment's tools as the server's, results as tool messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from searchgym.core.messages import calls_of, schemas
from searchgym.dialects.base import View, get_dialect
from searchgym.dialects.calls import call_of, dumps, loads
from searchgym.dialects.instructions import NO_SEARCH, limits, opening
from searchgym.llms.openai_chat import Said, ToolUse
from searchgym.types import Access, Action, Answer, Invalid, Search, ToolSpec, TurnRequest

from .chat import ChatAgent, ChatStep, question_of

ANSWER = ToolSpec(
    "answer",
    "Finish with the answer alone.",
    {
        "type": "object",
        "properties": {"answer": {"type": "string", "description": "A name or a few words."}},
        "required": ["answer"],
    },
)
_KEYS = {"search": "query", "access": "url", "answer": "answer"}
ABOVE = "Shown above, with the first query's results."
AGAIN = "Use one of the tools; give the final answer with the tool 'answer'."


class ToolCallingAgent(ChatAgent):
    """Searches, opens pages, uses tools and answers by tool calls.

    Several ``search`` calls in one reply run together where the environment allows parallel
    queries; of other calls in one reply only the first counts (``left_out`` says how many did
    not). Ids of calls
    are made from turn and place: nine letters and digits, which every server takes.

    Args:
        tool_choice: "auto", or "required" for servers that can hold a model to it.
        options: Options of :class:`ChatAgent`.
    """

    def __init__(
        self, base_url: str | None = None, model: str | None = None, *,
        tool_choice: str = "auto", **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(base_url, model, **options)
        self.tool_choice = tool_choice

    @property
    def sampling(self) -> dict[str, Any]:
        return {**super().sampling, "tool_choice": self.tool_choice}

    def fields(self, request: TurnRequest) -> Mapping[str, Any]:
        fields: dict[str, Any] = {
            "tools": schemas(offered(request)),
            "tool_choice": self.tool_choice,
        }
        if not _parallel(request):
            fields["parallel_tool_calls"] = False
        return fields

    def messages(
        self, request: TurnRequest, view: View, steps: Sequence[ChatStep]
    ) -> list[dict[str, Any]]:
        said = [opening(view), *limits(view, parallel=_parallel(request)), AGAIN]
        if not any(tool.name != "access" for tool in view.tools) or view.queries_left == 0:
            said.append(NO_SEARCH)
        chat: list[dict[str, Any]] = [
            {"role": "system", "content": " ".join(said)},
            {"role": "user", "content": question_of(request)},
        ]
        for turn, step in enumerate(steps):
            chat += _exchange(turn, step)
        return chat

    def read(self, said: Said, request: TurnRequest) -> tuple[Action, str]:
        if not said.calls:
            return Invalid("no_call"), said.text
        read = [action_of(use) for use in said.calls]
        first = read[0]
        if isinstance(first, Invalid):
            shown = "\n".join(f"{use.name} {use.arguments}" for use in said.calls)
            return first, f"{said.text}\n{shown}".strip()
        if not isinstance(first, Search):
            self.left_out += len(read) - 1
            return first, said.text
        queries: list[str] = []
        for action in read:
            if not isinstance(action, Search) or (queries and not _parallel(request)):
                break
            queries += action.queries
        queries = queries[: max(1, request.max_parallel)]
        self.left_out += len(read) - len(queries)
        return Search(tuple(queries)), said.text


def offered(request: TurnRequest) -> list[ToolSpec]:
    """The tools that can be used now, and the answer."""
    asking = request.queries_left != 0
    usable = [
        tool
        for tool in request.tools
        if request.turns_left > 1 and (asking or tool.name == "access")
    ]
    return [*usable, ANSWER]


def action_of(use: ToolUse) -> Action:
    """A call as an action; ``Invalid`` if its JSON is broken or lacks what it needs."""
    try:
        args = loads(use.arguments) if use.arguments.strip() else {}
    except (ValueError, RecursionError):
        return Invalid("broken_json")
    if not isinstance(args, dict):
        return Invalid("broken_json")
    if use.name not in _KEYS:
        made = call_of(use.name, args)
        return Invalid("unknown_tool") if isinstance(made, Invalid) else made
    value = args.get(_KEYS[use.name])
    if not isinstance(value, str) or not value.strip():
        return Invalid("broken_arguments")
    if use.name == "search":
        return Search((value,))
    return Access(value) if use.name == "access" else Answer(value)


def _parallel(request: TurnRequest) -> bool:
    return request.max_parallel > 1 and bool(
        getattr(get_dialect(request.dialect), "parallel", False)
    )


def _exchange(turn: int, step: ChatStep) -> list[dict[str, Any]]:
    """A turn and what came of it."""
    calls = calls_of(step.action)
    if not calls:
        said = {"role": "assistant", "content": step.text.strip() or "(nothing)"}
        return [said, {"role": "user", "content": f"{step.seen} {AGAIN}".strip()}]
    ids = [f"t{turn:03d}c{i:04d}" for i in range(len(calls))]
    uses = [
        {"id": i, "type": "function", "function": {"name": name, "arguments": dumps(arguments)}}
        for i, (name, arguments) in zip(ids, calls, strict=True)
    ]
    seen = [step.seen, *[ABOVE] * (len(calls) - 1)]
    return [
        {"role": "assistant", "content": step.thought or None, "tool_calls": uses},
        *(
            {"role": "tool", "tool_call_id": i, "content": text}
            for i, text in zip(ids, seen, strict=True)
        ),
    ]
