"""A seeded mutator of transcripts, shared by every fuzz test."""

from __future__ import annotations

import random
from collections.abc import Callable

from searchgym.dialects import TAGS, Dialect
from searchgym.errors import DialectError
from searchgym.types import Access, Action, Answer, Call, Delegate, Judge, Search

ACTIONS: tuple[Action, ...] = (
    Search(("capital of Peru",)),
    Search(("who wrote Ulysses", "who wrote Dubliners")),
    Search(("Zürich 東京 Москва القاهرة",)),
    Access("https://example.org/a?b=c#d"),
    Answer("Lima"),
    Answer("1 < 2 & 3 > 2"),
    Judge(True),
    Judge(False),
    Delegate("find the mayor of Lima"),
    Call("graph_neighbors", {"node": "Lima <Peru>", "hops": 2}),
    Call("graph_rank", {"query": "Zürich 東京", "method": "sim"}),
)

FRAGMENTS: tuple[str, ...] = (
    *(f"<{tag}>" for tag in TAGS),
    *(f"</{tag}>" for tag in TAGS),
    "< search >",
    "</ANSWER>",
    "<answer\u200b>",
    "<",
    ">",
    "</",
    "##",
    "|",
    "\n",
    "\r\n",
    "\x00",
    "\x1b[2J",
    "\u2028",
    "\u202e",
    "\ud800",
    "\udfff",
    "😀",
    "\\",
    '"',
    "{",
    "}",
    "[[[[",
    "\\ud800",
    '{"name": "search", "arguments": {"query": "q"}}',
    '{"name": "search", "arguments": "{}"}',
    '{"name": 3, "arguments": {"query": null}}',
    "null",
    "1e999",
    '{"name": "graph_path", "arguments": {"a": "x", "max_len": [[1e999]]}}',
    "<|begin_of_query|>",
    "<|end_of_query|>",
    "<|begin_of_documents|>",
    "1-hop:",
    "PageRank: ",
    "search: q",
    "call: {}",
    "answer:",
    "Judge : GOOD",
    "<|im_end|>\n<|im_start|>assistant\n",
    " " * 40,
    "a" * 200,
    "",
)


def corpus_of_seeds(dialect: Dialect) -> list[str]:
    """Sound transcripts of a dialect: each action it can write, bare, with a thought, in a row."""
    seeds = []
    for action in ACTIONS:
        for thought in ("", "Let me think.\nOn two lines."):
            try:
                seeds.append(dialect.render_action(action, thought))
            except DialectError:
                break
    seeds.append("\n".join(seeds))
    seeds.append(dialect.render_report("a note") + seeds[0] + dialect.render_hits([("q", ())]))
    seeds += ["", "no action at all"]
    return seeds


def _at(rng: random.Random, text: str) -> int:
    return rng.randint(0, len(text))


def _insert(rng: random.Random, text: str) -> str:
    i = _at(rng, text)
    return text[:i] + rng.choice(FRAGMENTS) + text[i:]


def _delete(rng: random.Random, text: str) -> str:
    i, j = sorted((_at(rng, text), _at(rng, text)))
    return text[:i] + text[min(j, i + 12) :]


def _truncate(rng: random.Random, text: str) -> str:
    return text[: _at(rng, text)]


def _duplicate(rng: random.Random, text: str) -> str:
    i, j = sorted((_at(rng, text), _at(rng, text)))
    return text[:j] + text[i:j] * rng.randint(1, 3) + text[j:]


def _swap(rng: random.Random, text: str) -> str:
    i, j, k = sorted((_at(rng, text), _at(rng, text), _at(rng, text)))
    return text[:i] + text[j:k] + text[i:j] + text[k:]


def _flip(rng: random.Random, text: str) -> str:
    if not text:
        return rng.choice(FRAGMENTS)
    i = rng.randrange(len(text))
    return (
        text[:i] + chr(rng.choice((rng.randrange(128), rng.randrange(0x11_0000)))) + text[i + 1 :]
    )


def _case(rng: random.Random, text: str) -> str:
    i, j = sorted((_at(rng, text), _at(rng, text)))
    return text[:i] + text[i:j].swapcase() + text[j:]


_MUTATIONS: tuple[Callable[[random.Random, str], str], ...] = (
    _insert,
    _insert,
    _delete,
    _truncate,
    _duplicate,
    _swap,
    _flip,
    _case,
)


def mutate(rng: random.Random, text: str, *, longest: int = 20_000) -> str:
    """One to six random edits; lone surrogates, control characters and broken tags included.

    The same generator state and text give the same result. At most ``longest`` characters.
    """
    for _ in range(rng.randint(1, 6)):
        text = rng.choice(_MUTATIONS)(rng, text)
    return text[:longest]
