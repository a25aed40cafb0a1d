"""Pages of a world that a language model words anew.

A rewritten page is kept only where the page's names and every fact are found again, as values and
dates are written, and where it has no name and no number that the page has not; beside a fact, in a
sentence that the page has not, none but the facts'. Two facts of one kind that change places are
not noticed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ..batching import retried
from ..errors import WorldError
from ..llms.base import Generator, GenRequest, Message, Sampling
from ..types import Failure, Service
from ..worlds.values import value_answers
from ..worlds.world import World
from .corpus import GeneratedCorpus

ASK = """{text}

Rewrite this page about {title} in other, natural words, as one paragraph. Keep every name, number \
and date as it is written. Add nothing.
Rewritten:"""
_BATCH = 16
_RETRIES = 2
_LONGEST = 5
"""Most characters that are read, as a multiple of a page's, which counts as 1,000 at least."""
_WORD = re.compile(r"\w+")
_SIGN = re.compile(r"[^\w\s.,;:!?'\"’“”()–—-]")
"""Markup, the tags of an agent's calls among it."""
_SENTENCE = re.compile(r"\S.*?(?:[.!?][\"')\]]*(?=\s)|$)")
_BEGINS = re.compile(r"(?:^|[.!?][\"')\]]*\s+)[\"'(\[]*$")
_Spans = dict[int, tuple[int, int]]
"""Places where a page states its facts, by their numbers."""


class Rewritten(NamedTuple):
    """Pages some of which are rewritten, how many, and why the others are not."""

    corpus: GeneratedCorpus
    kept: int
    refused: Counter[str]


def rewritten(
    corpus: GeneratedCorpus, world: World, writer: Generator, *,
    progress: Callable[[int], object] = lambda n: None,
) -> Rewritten:  # fmt: skip
    """Let ``writer`` word every entity's page anew, and keep what states the same.

    ``progress`` is told how many pages are done. Behind a generator with a cache
    (:func:`searchgym.llms.registry.build_generator`) a run that broke off goes on where it was, and
    the same pages come again.

    Raises ``WorldError`` where the writer fails.
    """
    entity = {int(page): e for e, page in enumerate(corpus.page_of)}
    passages, refused = list(corpus), Counter[str]()
    found: list[tuple[int, int, int, int]] = []
    for lo in range(0, len(passages), _BATCH):
        batch = range(lo, min(lo + _BATCH, len(passages)))
        texts = iter(_told(writer, [passages[at] for at in batch if at in entity]))
        for at in batch:
            said = corpus.stated_in(at)
            spans: _Spans = {s.fact: (s.start, s.end) for s in said}
            if at in entity:
                text = next(texts)
                again, fault = _found(world, entity[at], passages[at].text, text, spans)
                refused[fault] += bool(fault)
                if not fault:
                    passages[at], spans = passages[at]._replace(text=text), again
            found += [(fact, at, *span) for fact, span in spans.items()]
        progress(len(batch))
    fact, where, start, end = np.array(found, np.int64).reshape(-1, 4).T
    made = GeneratedCorpus(
        corpus.name, passages, fact=fact, passage=where, start=start.astype(np.int32),
        end=end.astype(np.int32), page_of=corpus.page_of,
    )  # fmt: skip
    return Rewritten(made, len(entity) - refused.total(), +refused)


def _told(writer: Generator, pages: Sequence[Any]) -> list[str]:
    """The writer's pages, each in one line."""
    chat = "chat" in writer.capabilities
    requests = []
    for page in pages:
        prompt = ASK.format(text=page.text, title=page.title)
        sampling = Sampling(64 + 3 * page.text.count(" "), temperature=0.0, stop=("\n\n",))
        requests.append(GenRequest((Message("user", prompt),) if chat else prompt, sampling))
    texts = []
    for told in retried(cast("Service[Any, Any]", writer), requests, _RETRIES):
        if isinstance(told, Failure):
            raise WorldError(f"the writer could not be asked: {told.kind}: {told.message}")
        texts.append(" ".join(told.text.split()))
    return texts


def _found(
    world: World, entity: int, before: str, text: str, spans: _Spans
) -> tuple[_Spans, str]:  # fmt: skip
    """Places where a rewritten page states the facts of the one before, and its fault."""
    if not text or text == before:
        return {}, "says nothing else"
    if len(text) > _LONGEST * max(len(before), 1000):
        return {}, "is far longer"
    if {*_SIGN.findall(text)} - {*before}:
        return {}, "has signs that are no prose"
    names = (world.names[entity], world.alias_of[entity])
    if not all(_places(text, name) for name in names if name):
        return {}, "lacks the page's name"
    again: _Spans = {}
    proved: list[str] = [*names]
    # Longest first: the year of a date is no other fact's
    for number, (start, end) in sorted(spans.items(), key=lambda s: s[1][0] - s[1][1]):
        fact, written = world.fact(number), before[start:end]
        p = world.prop(fact)
        forms = (written,) if p.is_relation else (written, *value_answers(p, fact.object))
        taken = again.values()
        places = [
            place for form in forms for place in _places(text, form)
            if not any(a < place[1] and place[0] < b for a, b in taken)
        ]  # fmt: skip
        if not places:
            return {}, "lacks a fact"
        again[number] = places[0]
        proved += forms
    of_facts = {*_WORD.findall(" ".join(proved).lower())}
    allowed = of_facts | {*_WORD.findall(before.lower())}
    for sentence in _SENTENCE.finditer(text):
        mixed = sentence[0] not in before and any(form in sentence[0] for form in proved[2:])
        for match in _WORD.finditer(text, *sentence.span()):
            word = match[0]
            named = word[0].isupper() and not _BEGINS.search(text[: match.start()])
            if not named and not word[0].isdigit():
                continue
            if word.lower() not in allowed:
                return {}, "names what the page does not"
            if mixed and word.lower() not in of_facts:
                return {}, "puts another name or number beside a fact"
    return again, ""


def _places(text: str, words: str) -> list[tuple[int, int]]:
    """Places where words stand in a text, with an edge on either side."""
    edges = re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", text)
    return [match.span() for match in edges]
