"""Cloze questions: a page's own sentence with its object blanked, and the search for it.

Questions and pages say one thing in different words. A model that has read "penned by" only on
pages does not know it in a question; clozes put the pages' words into questions (in the spirit of
Lewis et al., 2019, Unsupervised Question Answering by Cloze Translation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..corpora.corpus import GeneratedCorpus
from ..dialects.base import get_dialect
from ..envs.search import SearchEnv
from ..errors import TaskError
from .hops import hop_of
from .oracle import opening
from .traces import Piece, Trace

_SENTENCE = re.compile(r"(?<=[.!?]) (?=[^a-z0-9])")
BLANK = "what"


def clozes_of(made: SearchEnv) -> Iterator[Trace]:
    """Make a cloze of every fact that its subject's page states: the sentence as a question, the
    thought and the search that would follow. ``TaskError`` without a generated world."""
    world, corpus = made.world, made.corpus
    if world is None or not isinstance(corpus, GeneratedCorpus):
        raise TaskError("cloze questions need a generated world, e.g. corpus='encyclopedia'")
    dialect = get_dialect(made.rules.dialect)
    for place, passage in enumerate(corpus):
        for statement in corpus.stated_in(place):
            fact = world.fact(statement.fact)
            if corpus.page_of[fact.subject] != place:
                continue
            if len(world.objects(fact.subject, fact.property)) > 1:
                continue
            hop = hop_of(fact.id, passage.id, False, world, corpus)
            name = world.names[fact.subject]
            asked = _cloze(passage.text, statement.start, statement.end, name)
            action = dialect.render_action(*opening((hop,), name))
            pieces = (Piece(dialect.question(asked), False), Piece(action, True))
            yield Trace(f"cloze-{fact.id}", 0, pieces)


def _cloze(text: str, start: int, end: int, name: str) -> str:
    """The sentence around ``text[start:end]``, that stretch blanked, ``name`` in front where the
    sentence does not have it."""
    opening = max((m.end() for m in _SENTENCE.finditer(text, 0, start)), default=0)
    closing = next((m.start() for m in _SENTENCE.finditer(text, end)), len(text))
    sentence = f"{text[opening:start]}{BLANK}{text[end:closing]}".rstrip(".!? ")
    return f"{sentence}?" if name in sentence else f"{name}: {sentence}?"
