"""Formats episodes for a small model: its tokenizer, its prompts, its training rows."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from searchgym.errors import DataError
from searchgym.llms.sft_data import Example
from searchgym.llms.small import train_tokenizer

from .slots import Lettering, Names, has_slots, lettering, slots
from .traces import Trace

MARKS = (
    "<think>", "</think>\n<search>", "</think>\n<answer>", " </search>", " </answer>",
    "\n\n<information>Doc 1(Title:", "\nDoc 2(Title:", "\nDoc 3(Title:", "</information>\n\n",
)  # fmt: skip
"""Fixed strings of the dialect ``search_r1`` that are one token each: a third of a short trace
would else be punctuation."""
PAGE_MARKS = (
    "<access>", " </access>", "\n\n<information>Page(Title:", " https://world.example/wiki/",
    " (part 1 of 1)\n",
)  # fmt: skip
"""The same, where pages are opened."""


MANY = 0.1
"""Share of traces that may be left out without a word."""


def reader_tokenizer(
    traces: Iterable[Trace], size: int = 2048, words: Collection[str] | None = None
) -> Any:
    """A byte-pair tokenizer of the traces' texts, of ``size`` tokens besides ``MARKS``, and
    ``PAGE_MARKS`` if the traces open pages. ``words``: all others are slots
    (:mod:`.slots`), for a tokenizer to which these are then added."""
    from tokenizers import AddedToken

    used: set[str] = set()
    known = None if words is None else Lettering(words, ())

    def texts() -> Iterable[str]:
        for trace in traces:
            text = "".join(piece.text for piece in trace.pieces)
            for mark in (*MARKS, *PAGE_MARKS):
                if mark in text:
                    used.add(mark)
                    text = text.replace(mark, "\n")
            yield text if known is None else _SLOTTED.sub("\n", Names(known, "").write(text))

    tokenizer = train_tokenizer(texts(), size)
    marks = (*MARKS, *(mark for mark in PAGE_MARKS if mark in used))
    marks = marks if words is None else (*marks, *slots())
    tokenizer.add_tokens([AddedToken(m, normalized=False, special=False) for m in marks])
    return tokenizer


_SLOTTED = re.compile(f"[{''.join(slots())}]+")


def _slotted(trace: Trace, known: Lettering) -> Trace:
    names = Names(known, trace.pieces[0].text)
    return trace._replace(pieces=tuple(p._replace(text=names.write(p.text)) for p in trace.pieces))


def encode_traces(tokenizer: Any, traces: Sequence[Trace], max_tokens: int = 1024) -> list[Example]:
    """Encode traces as rows of the ids that a policy would have read and written, with
    :class:`BareRenderer`, or :class:`NamesRenderer` if the tokenizer has slots; longer ones are
    left out, with a warning if they are many. ``DataError`` if nothing is left."""
    if has_slots(tokenizer):
        known = lettering(tokenizer)
        traces = [_slotted(trace, known) for trace in traces]
    texts = [piece.text for trace in traces for piece in trace.pieces]
    # all at once, as BareRenderer encodes each: the tokenizer works on many texts in parallel
    options = {"add_special_tokens": False, "split_special_tokens": True}
    parts = iter(tokenizer(texts, **options)["input_ids"] if texts else ())
    rows: list[Example] = []
    for trace in traces:
        ids: list[int] = []
        own: list[bool] = []
        for piece in trace.pieces:
            part = next(parts)
            ids += part
            own += [piece.own] * len(part)
        if len(ids) <= max_tokens:
            rows.append(Example(np.array(ids), np.array(own)))
    if not rows:
        raise DataError(f"none of {len(traces)} traces has at most {max_tokens} tokens")
    if (left := len(traces) - len(rows)) > MANY * len(traces):
        warnings.warn(
            f"{left} of {len(traces)} traces have more than {max_tokens} tokens and are left out: "
            "raise max_tokens, or make shorter ones",
            stacklevel=2,
        )
    return rows
