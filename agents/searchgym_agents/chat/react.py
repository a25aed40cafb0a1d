"""ReAct: a chat model that writes its thought and its action as text (Yao et al., arXiv
2210.03629). The wording is our own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from searchgym.dialects.base import View
from searchgym.dialects.calls import call_specs, listed, read_call, write_call
from searchgym.dialects.escape import without_thoughts
from searchgym.dialects.instructions import NO_SEARCH, limits, opening
from searchgym.llms.openai_chat import Said
from searchgym.types import Access, Action, Answer, Call, Invalid, Search, TurnRequest

from .chat import ChatAgent, ChatStep, question_of

STOP = "\nObservation:"
_LINE = re.compile(
    r"^[ \t]*+Action(?:[ \t]++\d++)?+[ \t]*+:[ \t]*+(.*+)$", re.IGNORECASE | re.MULTILINE
)
_CALL = re.compile(r"(?<![A-Za-z_])([A-Za-z_]++)[ \t]*+\[(.*)\][ \t.]*")
_INPUT = re.compile(r"\s*+Action Input(?:[ \t]++\d++)?+[ \t]*+:[ \t]*+(.*+)", re.IGNORECASE)
_FINAL = re.compile(r"^[ \t]*+Final Answer[ \t]*+:[ \t]*(.++)$", re.IGNORECASE | re.MULTILINE)
_THOUGHT = re.compile(
    r"^[ \t]*+Thought(?:[ \t]++\d++)?+[ \t]*+:[ \t]*+", re.IGNORECASE | re.MULTILINE
)
_WORDS = {
    "search": "search", "open": "open", "access": "open", "call": "call", "finish": "finish",
    "answer": "finish",
}  # fmt: skip


class ReActAgent(ChatAgent):
    """Thought, action, observation. Of a reply the first action counts: ``search[…]``,
    ``open[…]``, ``call[…]`` or ``finish[…]`` after ``Action:``; also read are ``Action Input:``
    lines and ``Final Answer:``, which models have learnt elsewhere."""

    def fields(self, request: TurnRequest) -> Mapping[str, Any]:
        return {"stop": [STOP]}

    def messages(
        self, request: TurnRequest, view: View, steps: Sequence[ChatStep]
    ) -> list[dict[str, Any]]:
        chat = [
            {"role": "system", "content": instructions(view)},
            {"role": "user", "content": question_of(request)},
        ]
        for step in steps:
            chat += [
                {"role": "assistant", "content": written(step)},
                {"role": "user", "content": f"Observation: {step.seen}"},
            ]
        return chat

    def read(self, said: Said, request: TurnRequest) -> tuple[Action, str]:
        return parse(said.text)


def instructions(view: View) -> str:
    """Write the instructions for the model."""
    names = {tool.name for tool in view.tools}
    asking = view.queries_left != 0
    said = [opening(view), *limits(view, parallel=False)]
    said.append("In every turn write two lines and then stop:")
    lines = ["Thought: what you know, what is missing, what to do next", "Action: one of"]
    if "search" in names and asking:
        lines.append("  search[query] shows the passages that fit best")
    if "access" in names:
        lines.append("  open[url] shows a page")
    specs = call_specs(view.tools) if asking else []
    if specs:
        lines.append('  call[{"name": …, "arguments": {…}}] uses one of the tools listed below')
    lines.append("  finish[answer] ends with the answer alone")
    told = "The next message is what came of it, after the word Observation."
    if not specs and not ("search" in names and asking):
        told = NO_SEARCH
    text = " ".join(said) + "\n" + "\n".join(lines) + f"\n{told}"
    return f"{text}\nTools:\n{listed(specs)}" if specs else text


def written(step: ChatStep) -> str:
    """A turn as the model would have written it."""
    match step.action:
        case Search(queries):
            action = f"search[{'; '.join(queries)}]"
        case Access(url):
            action = f"open[{url}]"
        case Call(tool, args):
            action = f"call[{write_call(tool, args)}]"
        case Answer(text):
            action = f"finish[{text}]"
        case _:
            return step.text.strip() or "(nothing)"
    thought = f"Thought: {step.thought}\n" if step.thought else ""
    return f"{thought}Action: {action}"


def parse(text: str) -> tuple[Action, str]:
    """(action, thought) of a reply; what follows an invented observation does not count, nor does
    what a reasoning model wrote for itself."""
    text = without_thoughts(text).split(STOP, 1)[0]
    final = _FINAL.search(text)
    line = _LINE.search(text)
    if line is None or (final is not None and final.start() < line.start()):
        if final is None:
            return Invalid("no_action"), text
        return Answer(final[1].strip()), _thought(text[: final.start()])
    thought = _thought(text[: line.start()])
    match = _CALL.fullmatch(line[1].strip())
    if match is not None:
        word, content = match[1].lower(), match[2].strip()
    else:
        given = _INPUT.match(text, line.end())
        if given is None:
            return Invalid("no_action"), text
        word, content = line[1].strip().lower(), given[1].strip().strip('"')
    kind = _WORDS.get(word)
    if kind is None or not content:
        return Invalid("unknown_action" if kind is None else "empty_action"), text
    if kind == "search":
        return Search((content,)), thought
    if kind == "open":
        return Access(content), thought
    if kind == "finish":
        return Answer(content), thought
    call = read_call(content)
    return (Invalid("broken_call"), text) if isinstance(call, Invalid) else (call, thought)


def _thought(text: str) -> str:
    return _THOUGHT.sub("", text).strip()
