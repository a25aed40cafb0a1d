"""Responses of each ``/retrieve`` dialect: the shape of one item and of the whole.

A shape is chosen by looking at the request (``auto``), or fixed by route or ``--dialect`` for
clients whose request does not tell them apart. Items are encoded per passage and kept (see
``documents``), so a shape says what stands before the score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from ..errors import DialectError, unknown
from ..types import Passage

Envelope = Literal["nested", "single", "list", "rllm"]


class Shape(NamedTuple):
    """The shape in which results are written."""

    item: Callable[[Passage], dict[str, Any]]
    scored: bool
    """True if ``score`` follows in each item."""
    envelope: Envelope
    """Envelope: nested ``{"result": [[…], …]}``, single ``{"result": […]}``, list ``[…]``, rllm's
    object."""


def contents(passage: Passage) -> str:
    """Title in quotes on the first line, text below, as in wiki-18; the text alone if untitled."""
    return f'"{passage.title}"\n{passage.text}' if passage.title else passage.text


def document(passage: Passage) -> dict[str, Any]:
    """Both conventions at once: ``contents`` with the title in it, and the title by itself."""
    return {
        "id": passage.id,
        "contents": contents(passage),
        "title": passage.title,
        "text": passage.text,
        "url": passage.url,
    }


def wrapped(passage: Passage) -> dict[str, Any]:
    """The Search-R1 server's item; the score goes beside the document."""
    return {"document": document(passage)}


def flat_and_wrapped(passage: Passage) -> dict[str, Any]:
    """Write results for requests that do not say what they want: servers in use differ, this serves
    both."""
    flat = document(passage)
    return {**flat, "document": flat}


def with_docid(passage: Passage) -> dict[str, Any]:
    """BrowseComp-Plus's item."""
    return {"docid": passage.id, "document": document(passage)}


def text_only(passage: Passage) -> dict[str, Any]:
    """ZeroSearch's wiki mode."""
    return {"text": contents(passage)}


def rllm_item(passage: Passage) -> dict[str, Any]:
    """rLLM's item."""
    return {"id": passage.id, "content": contents(passage)}


SCORED = Shape(wrapped, True, "nested")
FLAT = Shape(document, False, "nested")
EITHER = Shape(flat_and_wrapped, False, "nested")
UNSCORED = Shape(wrapped, False, "nested")
GEM_SCORED = Shape(wrapped, True, "single")
GEM_FLAT = Shape(document, False, "single")
BROWSECOMP = Shape(with_docid, False, "single")
ZEROSEARCH = Shape(text_only, False, "list")
RLLM = Shape(rllm_item, True, "rllm")


def _auto(asked: Mapping[str, Any], packed: bool) -> Shape:
    scores = asked.get("return_scores")
    if packed:
        if "queries" in asked:
            return SCORED if scores else FLAT
        return GEM_SCORED if scores else GEM_FLAT
    if scores:
        return SCORED
    if "queries" in asked:
        return EITHER if scores is None else FLAT
    return BROWSECOMP if scores is None else FLAT


def _search_r1(asked: Mapping[str, Any], packed: bool) -> Shape:
    return SCORED if asked.get("return_scores") else FLAT


def _agent_lightning(asked: Mapping[str, Any], packed: bool) -> Shape:
    return UNSCORED if asked.get("return_scores") is False else SCORED


DIALECTS: Mapping[str, Callable[[Mapping[str, Any], bool], Shape]] = {
    "auto": _auto,
    "search-r1": _search_r1,
    "agent-lightning": _agent_lightning,
    "asearcher": _search_r1,
    "browsecomp-plus": lambda asked, packed: BROWSECOMP,
    "zerosearch": lambda asked, packed: ZEROSEARCH,
    "rllm": lambda asked, packed: RLLM,
}
"""Name → the shape for a request (its fields, whether it came as msgpack)."""

ONE_QUERY = frozenset({"zerosearch", "rllm", "browsecomp-plus"})
"""Dialects whose reply has room for one query only."""


def dialect(name: str) -> Callable[[Mapping[str, Any], bool], Shape]:
    """The shape chooser of a dialect; ``DialectError`` for an unknown name."""
    if name not in DIALECTS:
        raise DialectError(unknown("server dialect", name, DIALECTS))
    return DIALECTS[name]
