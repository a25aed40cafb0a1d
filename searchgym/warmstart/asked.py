"""Questions with their first search only: cheap supervision beside whole episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..corpora.corpus import GeneratedCorpus
from ..dialects.base import get_dialect
from ..envs.search import SearchEnv
from ..errors import TaskError
from ..tasks.build import build_tasks
from .hops import hops_of, start_of
from .oracle import opening
from .traces import Piece, Trace


def asked_of(made: SearchEnv, counts: Mapping[str, int], *, seed: int) -> Iterator[Trace]:
    """Further questions about a setting's world (``counts`` of the families simple and chain-2, …),
    each with the thought and the search that would follow; fixed by ``seed``. ``TaskError`` without
    a generated world."""
    world, corpus = made.world, made.corpus
    if world is None or not isinstance(corpus, GeneratedCorpus):
        raise TaskError("questions alone need a generated world, e.g. corpus='encyclopedia'")
    dialect = get_dialect(made.rules.dialect)
    tasks = build_tasks(
        world, corpus, counts=counts, seed=seed, wording_seed=seed, id_prefix="asked"
    )
    for task in tasks:
        action = dialect.render_action(*opening(hops_of(task, world, corpus), start_of(task)))
        pieces = (Piece(dialect.question(task.question), False), Piece(action, True))
        yield Trace(task.id, task.hops, pieces)
