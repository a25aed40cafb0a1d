"""A prompt of one's own in place of a dialect's: ``gym.make(…, instructions=…)``.

A template with ``{question}`` is the whole prompt: one message of the user's, and nothing is added.
One without replaces what the dialect says before the question (a chat model's system message).
``{name}`` is a placeholder if ``name`` is a word, ``{{name}}`` stands for the text ``{name}``, and
all other braces (JSON, TeX) stand for themselves.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path
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


with Path(__file__).with_name("published.toml").open("rb") as _file:
    PUBLISHED: Mapping[str, Published] = {
        name: Published(**{**prompt, "tools": frozenset(prompt["tools"])})
        for name, prompt in tomllib.load(_file).items()
    }
"""ZeroSearch took over Search-R1's. ASearcher trains with the first four: with and without pages,
and a share of the episodes (``valid_inst_ratio``) with ``_likely``, where no question counts as
invalid; it evaluates with the last. Its prompts are continued as they stand, without a chat
template (renderer ``plain``)."""
SEARCH_R1 = PUBLISHED["search_r1"].text


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
"""Placeholders of a template besides ``question``, ``instructions`` (what the dialect itself would
say) and ``usage`` (that without its first sentence, which asks for an answer of a few words):
``tools``, a JSON signature per line; ``tool_names``, separated by commas; and the environment's
keywords."""
KNOWN = frozenset({"question", "instructions", "usage", *PLACEHOLDERS})


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
        elif name == "usage":
            text += dialect.instructions(view._replace(prompt=" ")).lstrip()
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
