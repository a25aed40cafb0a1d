"""A prompt of one's own in place of a dialect's: ``gym.make(…, instructions=…)``.

A template with ``{question}`` is the whole prompt: one message of the user's, and nothing is added.
One without replaces what the dialect says before the question (a chat model's system message).
``{name}`` is a placeholder if ``name`` is a word, ``{{name}}`` stands for the text ``{name}``, and
all other braces (JSON, TeX) stand for themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from ..errors import CardError, unknown
from ..objects import load_known, load_object
from .base import DIALECTS, Dialect, Opening, View
from .calls import listed


class Published(NamedTuple):
    """One prompt and where it stands in its authors' code."""

    text: str
    """Text with ``{question}`` where the question goes."""
    dialect: str
    """Registered dialect in which its policy writes."""
    tools: frozenset[str]
    """The tools of which it speaks."""
    question_mark: bool
    """True if a question that does not end in one gets one, as in the authors' code."""
    source: str
    """Repository, commit and file."""


SEARCH_R1 = (
    "Answer the given question. You must conduct reasoning inside <think> and </think> first every "
    "time you get new information. After reasoning, if you find you lack some knowledge, you can "
    "call a search engine by <search> query </search> and it will return the top searched results "
    "between <information> and </information>. You can search as many times as your want. If you "
    "find no further external knowledge needed, you can directly provide the answer inside "
    "<answer> and </answer>, without detailed illustrations. For example, <answer> Beijing "
    "</answer>. Question: {question}\n"
)
_SEARCH_ACCESS = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant "
    "answers it. The Assistant analyzes the given question and information in the mind, retains "
    "important relevant information, calls a search engine to find necessary information, accesses "
    "web pages with certain urls, and provides the user with the answer. The Assistant conducts "
    "search by <search> query </search>, access cerain url by <access> url </access>, and the top "
    "search results and url page will be returned between <information> and </information>.  The "
    "reasoning processes are enclosed within <think> </think>. Finally, the Assistant provides "
    "answer inside <answer> and </answer>, i.e. <answer> answer here </answer>. If there are "
    "multiple queries, ensure all answers are enclosed within <answer> </answer>, seperated with "
    "comma. "
)
_SEARCH_ONLY = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant "
    "answers it. The Assistant analyzes the given question and information in the mind, retains "
    "important relevant information, calls a search engine to find necessary information, accesses "
    "web pages with certain urls, and provides the user with the answer. The Assistant conducts "
    "search by <search> query </search> and the top search results will be returned between "
    "<information> and </information>.  The reasoning processes are enclosed within <think> "
    "</think>. Finally, the Assistant provides answer inside <answer> and </answer>, i.e. <answer> "
    "answer here </answer>. If there are multiple queries, ensure all answers are enclosed within "
    "<answer> </answer>, seperated with comma. "
)
_MAY_BE_INVALID = (
    "Note that when the Assistant finds the question is invalid, e.g. no answer could match all "
    "information in the question, the Assistant replies with '<answer> the question is invalid. "
    "</answer>'."
)
_LIKELY = "You should try to find the most likely answer. "
_REST = (
    " \n\n"
    "User: \n\n"
    "{question}. \n\n"
    "The language of your answer should align with the question. \n\n"
    "Assistant: \n"
    "<think>\n"
)
_EVALUATION = (
    " \n\n"
    "Note: the question is a valid question and you should try to find a correct answer. \n\n"
    "User: {question}\n\n"
    "Assistant: \n"
    "<think>"
)


def _asearcher(text: str, file: str, *tools: str) -> Published:
    source = f"inclusionAI/ASearcher@813e804fc3b24b661b4f5625c77343d5daa14a03 {file}"
    return Published(text, "asearcher", frozenset({"search", *tools}), False, source)


_TRAINING = "AReaL/ASearcher/train/prompts.py"
PUBLISHED: Mapping[str, Published] = {
    "search_r1": Published(
        SEARCH_R1, "search_r1", frozenset({"search"}), True,
        "PeterGriffinJin/Search-R1@a14dc3a4ffc6fe88c1e95038d9738e21ba3f7a06 "
        "scripts/data_process/nq_search.py",
    ),
    "zerosearch": Published(
        SEARCH_R1, "search_r1", frozenset({"search"}), True,
        "Alibaba-NLP/ZeroSearch@2d4cdca033ee2c11b1fcfc7fc448b902d7cf8bf5 inference.py",
    ),
    "asearcher": _asearcher(_SEARCH_ACCESS + _MAY_BE_INVALID + _REST, _TRAINING, "access"),
    "asearcher_likely": _asearcher(_SEARCH_ACCESS + _LIKELY + _REST, _TRAINING, "access"),
    "asearcher_search": _asearcher(_SEARCH_ONLY + _MAY_BE_INVALID + _REST, _TRAINING),
    "asearcher_search_likely": _asearcher(_SEARCH_ONLY + _LIKELY + _REST, _TRAINING),
    "asearcher_evaluation": _asearcher(
        _SEARCH_ACCESS.rstrip(" ") + _EVALUATION, "evaluation/utils.py", "access"
    ),
}  # fmt: skip
"""ZeroSearch took over Search-R1's. ASearcher trains with the first four: with and without pages,
and a share of the episodes (``valid_inst_ratio``) with ``_likely``, where no question counts as
invalid; it evaluates with the last. Its prompts are continued as they stand, without a chat
template (renderer ``plain``)."""


_BRACES = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}")
_NAME = re.compile(r"[\w+-]+")
_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")

PLACEHOLDERS: Mapping[str, Callable[[View], str]] = {
    "tools": lambda view: listed(view.tools),
    "tool_names": lambda view: ", ".join(tool.name for tool in view.tools),
    "k": lambda view: str(view.k),
    "max_turns": lambda view: str(view.turns_left),
    "max_queries": lambda view: "unlimited" if view.queries_left is None else str(
        view.queries_left
    ),
    "max_parallel": lambda view: str(view.max_parallel),
}  # fmt: skip
"""Placeholders of a template besides ``question`` and ``instructions`` (what the dialect itself
would say): ``tools``, a JSON signature per line; ``tool_names``, separated by commas; and the
environment's keywords."""
KNOWN = frozenset({"question", "instructions", *PLACEHOLDERS})


class _Template(NamedTuple):
    texts: tuple[str, ...]
    names: tuple[str, ...]
    """Names of the placeholders, one between each two texts."""


def opening_of(prompt: str | None, dialect: Dialect, view: View, question: str) -> Opening:
    """Return how an episode is opened: under ``prompt``, or as the dialect does.

    Args:
        prompt: A published prompt's name, a template, or ``None``.
        dialect: Whose ``question`` and ``instructions`` are used where the prompt leaves them out,
            and whose ``escape`` makes the question harmless.
        view: View of what the episode allows.
        question: Question as the task puts it.
    """
    if prompt is None:
        return Opening(dialect.instructions(view), dialect.question(question), False)
    published = PUBLISHED.get(prompt)
    template = _read(prompt if published is None else published.text)
    asked = dialect.escape(question).strip()
    if published is not None and published.question_mark and not asked.endswith("?"):
        asked += "?"
    text = template.texts[0]
    for name, after in zip(template.names, template.texts[1:], strict=True):
        if name == "question":
            text += asked
        elif name == "instructions":
            text += dialect.instructions(view)
        else:
            text += PLACEHOLDERS[name](view)
        text += after
    if "question" in template.names:
        return Opening("", text, True)
    return Opening(text, dialect.question(question), False)


def prompt_of(spec: str | None) -> str | None:
    """Return what an environment's rules record of ``instructions=``: a published prompt's name, or
    a template, also where ``spec`` names one as ``"package.module:NAME"``.

    Raises:
        CardError: A word that names no published prompt, or a path to something else than a text.
    """
    if spec is None or (isinstance(spec, str) and spec in PUBLISHED):
        return spec
    if isinstance(spec, str) and _PATH.fullmatch(spec):
        spec, path = load_object(spec), spec
        if not isinstance(spec, str):
            raise CardError(f"{path} is a {type(spec).__name__}; a prompt is a text")
    if not isinstance(spec, str):
        raise CardError(
            "instructions is a text with placeholders like {question}, or a published prompt's "
            f"name ({', '.join(PUBLISHED)}), got {type(spec).__name__}"
        )
    if _NAME.fullmatch(spec):
        raise CardError(unknown("prompt", spec, PUBLISHED) + ", or a text with {question} in it")
    _read(spec)
    return spec


def check(prompt: str, dialect: Dialect, tools: Collection[str]) -> None:
    """Check that a prompt can be filled in, and that a published one speaks of the episode's tools
    in the episode's dialect.

    Raises:
        CardError: It cannot, or does not.
    """
    published = PUBLISHED.get(prompt)
    if published is None:
        prompt_of(prompt)
        return
    if not isinstance(dialect, load_known(DIALECTS[published.dialect])):
        raise CardError(
            f"instructions={prompt!r} goes with dialect={published.dialect!r}, not {dialect.name!r}"
        )
    if getattr(dialect, "self_search", False):  # it speaks of an engine that the policy plays
        return
    if published.tools != set(tools):
        raise CardError(
            f"instructions={prompt!r} speaks of the tools {_names(published.tools)}, but this "
            f"environment has {_names(tools)}: give tools=({_names(published.tools)},) or a text "
            "of your own"
        )


def _names(tools: Collection[str]) -> str:
    return ", ".join(map(repr, sorted(tools, reverse=True))) or "none"


@lru_cache(maxsize=256)
def _read(text: str) -> _Template:
    """Cut a template at its placeholders. ``CardError`` for an unknown one."""
    texts, names = [""], []
    at = 0
    for match in _BRACES.finditer(text):
        texts[-1] += text[at : match.start()]
        at = match.end()
        literal, name = match.groups()
        if literal in KNOWN:
            raise CardError(
                f"write {{{literal}}} with one pair of braces; two pairs stand for the text itself"
            )
        if literal is not None:
            texts[-1] += f"{{{literal}}}"
        elif name in KNOWN:
            names.append(name)
            texts.append("")
        else:
            raise CardError(
                unknown("placeholder", name, KNOWN)
                + f". For the text {{{name}}} itself write {{{{{name}}}}}"
            )
    texts[-1] += text[at:]
    return _Template(tuple(texts), tuple(names))
