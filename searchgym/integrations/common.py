"""Parts that several adapters share: rules they can follow, texts for other people's chat
templates, tools as Python methods."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..dialects.prompts import PUBLISHED
from ..envs.search import SearchEnv
from ..envs.session import Session
from ..envs.unwrap import search_env
from ..errors import CardError, EpisodeError
from ..llms.foreign import neutralise
from ..seeding import derive
from ..types import ToolSpec


# --- environments ---------------------------------------------------------------------------------
def one_row(env: SearchEnv, *, draws: bool = False) -> None:
    """Refuse rules that edit what a policy has read, which would need several sequences for one
    episode, and curricula that would never learn.

    Args:
        env: The environment.
        draws: True if its curriculum chooses the tasks; else a data set does.

    Raises:
        CardError: naming the rule, or a curriculum that adapts.
    """
    if env.curriculum.adapts and not draws:
        raise CardError(
            f"the curriculum {type(env.curriculum).__name__} learns from the tasks it chooses, and "
            "here the data set chooses them: take one that follows a schedule, such as "
            "'scheduled', or train with searchgym.Trainer"
        )
    rules = env.rules
    edits = {"page_stub_chars": rules.page_stub_chars is not None, "judge": rules.judge,
             "delegate": bool(rules.delegate),
             "context_tokens": rules.context_tokens is not None}  # fmt: skip
    for name, on in edits.items():
        if on:
            raise CardError(
                f"{name} edits the context, so that an episode is several sequences, and this "
                f"trainer takes one: make the environment without {name}"
            )


def native(env: SearchEnv) -> SearchEnv:
    """Return the environment in the dialect of frameworks that call tools and wrap results by
    themselves; ``instructions``, which are written for another dialect, are left out, with a
    warning where they are one's own."""
    told = env.rules.instructions
    if told is not None and told not in PUBLISHED:
        warnings.warn(
            "the environment's own instructions are not used where a framework calls its tools: "
            f"{told!r:.60}; write them into the model's system prompt, and make the environment "
            "without instructions",
            stacklevel=3,
        )
    return env.under(dialect="json_tools+native", instructions=None)


def only_row(rows: Sequence[Any], name: str, framework: str) -> Any:
    """Return the one sequence of an episode, None where it has none.

    Raises:
        EpisodeError: it has several.
    """
    if len(rows) > 1:
        raise EpisodeError(
            f"episode {name!r} became {len(rows)} sequences, and {framework} takes one: use the "
            "dialect's plain form, or train with searchgym.Trainer"
        )
    return rows[0] if rows else None


class Host:
    """An environment as a framework plays it: one growing conversation, without special tokens in
    what the environment says.

    Args:
        env: An environment, wrapped or not, its id, or a Gymnasium spec.
        tokenizer: Name or folder of the model's tokenizer; by default the special tokens of all
            common families are made harmless.

    Raises:
        CardError: rules that one growing conversation cannot follow.
    """

    def __init__(self, env: Any, tokenizer: Any = None) -> None:
        self.env, self.clean = search_env(env), harmless(tokenizer)
        one_row(self.env)

    def __deepcopy__(self, memo: Any) -> Host:
        return self  # skyrl-gym copies what it is given for each episode

    def session(self, task: str | None, seed: int = 0, *path: str | int) -> Session:
        """Begin an episode of a task, with luck of its own for each seed and path."""
        return Session(self.env, task, key=derive(seed, *path))

    def messages(self, session: Session) -> list[dict[str, str]]:
        """Return the messages that begin a conversation, without empty ones."""
        said = [{**m, "content": self.clean(m["content"])} for m in session.messages]
        return [message for message in said if message["content"]]

    def answer(self, text: str) -> str:
        """Return what the environment says to a turn."""
        return self.clean(text).strip()


def earned(session: Session) -> float:
    """Return an episode's return.

    Raises:
        EpisodeError: the engine failed, so there is none, and 0 would be a lie.
    """
    if session.reward is None:
        raise EpisodeError("the engine failed, so the episode has no reward")
    return session.reward


# --- texts ----------------------------------------------------------------------------------------
_COMMON = {
    "<": re.compile(
        r"/?s>|bos>|eos>|pad>|unk>|mask>|(?:start|end)_of_(?:turn|image)>|\|[^<>|\s]*\|>"
        r"|[|｜][^<>\s]*[|｜]>",
        re.IGNORECASE,
    ),
    "[": re.compile(
        r"/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]", re.IGNORECASE
    ),
}
"""Words after the opening mark of a special token of Llama, Gemma, Mistral, Qwen, DeepSeek and
their kin."""


def harmless(tokenizer: Any = None) -> Callable[[str], str]:
    """Return a function from foreign text to text without special tokens.

    Args:
        tokenizer: The model's, or the name or folder of one; ``None``: the common spellings, for
            a server whose clients have models of many kinds.
    """
    if tokenizer is None:
        return _without_common
    if isinstance(tokenizer, str):
        from transformers import AutoTokenizer

        from ..llms.models import resolve

        tokenizer = AutoTokenizer.from_pretrained(resolve(tokenizer), trust_remote_code=False)
    return lambda text: neutralise(text, tokenizer)


def _without_common(text: str) -> str:
    # a server does this to the whole context at every step: cutting at the mark takes a tenth of
    # the time of one expression that looks for it
    for mark, rest in _COMMON.items():
        if mark in text:
            first, *others = text.split(mark)
            safe = f"&#{ord(mark)};"
            text = first + "".join([(safe if rest.match(o) else mark) + o for o in others])
    return text


# --- tools ----------------------------------------------------------------------------------------
_TYPES: dict[str, type] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict,
}  # fmt: skip


def methods(
    tools: Sequence[ToolSpec], call: Callable[[Any, str, dict[str, Any]], str]
) -> dict[str, Callable[..., str]]:
    """Return a method for each tool, by name, with its parameters as signature and a docstring in
    Google's style, from which frameworks read the schema again.

    Args:
        tools: The tools, with JSON schemas of their arguments.
        call: Function of the object, the tool's name and its arguments, which gives the result.
    """
    return {tool.name: _method(tool, call) for tool in tools}


def _method(tool: ToolSpec, call: Callable[[Any, str, dict[str, Any]], str]) -> Callable[..., str]:
    properties = dict(tool.parameters.get("properties", {}))
    required = set(tool.parameters.get("required", ()))
    types = {name: _TYPES.get(str(schema.get("type")), str) for name, schema in properties.items()}

    def method(self: Any, **arguments: Any) -> str:
        given = {name: value for name, value in arguments.items() if value is not None}
        return call(self, tool.name, given)

    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name in sorted(properties, key=lambda name: name not in required):
        default = inspect.Parameter.empty if name in required else None
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[name]
            )
        )
    lines = [
        f"    {name}: {schema.get('description') or name.replace('_', ' ')}"
        for name, schema in properties.items()
    ]
    method.__name__ = method.__qualname__ = tool.name
    method.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    method.__annotations__ = {**types, "return": str}
    description = " ".join(tool.description.split()) or tool.name
    method.__doc__ = "\n".join(
        [description, "", *(["Args:", *lines, ""] if lines else []), "Returns:", "    The result."]
    )
    return method
