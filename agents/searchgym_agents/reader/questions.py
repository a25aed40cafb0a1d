"""Questions with their first search only: cheap supervision beside whole episodes.

Some are asked as an environment asks them. Others are clozes: a page's own sentence with its object
blanked. Questions and pages say one thing in different words, and a model that has read "penned by"
only on pages does not know it in a question; clozes put the pages' words into questions (in the
spirit of Lewis et al., 2019, Unsupervised Question Answering by Cloze Translation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from searchgym.corpora.corpus import GeneratedCorpus
from searchgym.dialects.base import get_dialect
from searchgym.envs.search import SearchEnv
from searchgym.errors import TaskError
from searchgym.tasks.build import build_tasks
from searchgym.worlds.world import World

from ..experts.hops import hop_of, hops_of, start_of
from ..experts.thinking_oracle import opening
from .traces import Piece, Trace

_SENTENCE = re.compile(r"(?<=[.!?]) (?=[^a-z0-9])")
BLANK = "what"


def generated(made: SearchEnv, what: str) -> tuple[World, GeneratedCorpus]:
    """Return a setting's world and corpus; ``TaskError`` where no generated world stands behind it,
    which ``what`` needs."""
    if made.world is None or not isinstance(made.corpus, GeneratedCorpus):
        raise TaskError(f"{what} need a generated world, e.g. corpus='encyclopedia'")
    return made.world, made.corpus


def asked_of(made: SearchEnv, counts: Mapping[str, int], *, seed: int) -> Iterator[Trace]:
    """Further questions about a setting's world (``counts`` of the families simple and chain-2, …),
    each with the thought and the search that would follow; fixed by ``seed``. ``TaskError`` without
    a generated world."""
    world, corpus = generated(made, "questions alone")
    dialect = get_dialect(made.rules.dialect)
    tasks = build_tasks(
        world, corpus, counts=counts, seed=seed, wording_seed=seed, id_prefix="asked"
    )
    for task in tasks:
        action = dialect.render_action(*opening(hops_of(task, world, corpus), start_of(task)))
        pieces = (Piece(dialect.question(task.question), False), Piece(action, True))
        yield Trace(task.id, task.hops, pieces)


def clozes_of(made: SearchEnv) -> Iterator[Trace]:
    """Make a cloze of every fact that its subject's page states: the sentence as a question, the
    thought and the search that would follow. ``TaskError`` without a generated world."""
    world, corpus = generated(made, "cloze questions")
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
