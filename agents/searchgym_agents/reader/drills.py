"""Reading drills: one search, then several facts of the page looked up.

An oracle's episode looks up one fact per passage; a drill as many as the passage states, which is
several times as many examples for the same tokens read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from searchgym.core.rollout import run_episodes
from searchgym.dialects.base import Dialect, get_dialect
from searchgym.dialects.tags import TagDialect
from searchgym.envs.search import SearchEnv
from searchgym.errors import DialectError
from searchgym.evaluation.run import episode_for
from searchgym.seeding import stream
from searchgym.types import ABSTAIN, Access, Answer, Search, Task, TurnRequest

from ..experts.hops import Eyes, Hop, hop_of, observations, query
from ..experts.thinking_oracle import findings
from .questions import generated
from .traces import Trace, pieces_of

MOST = 8
"""Facts per drill."""


class Drill(NamedTuple):
    """A query, and the facts that are then looked up."""

    query: str
    hops: tuple[Hop, ...]
    known: str
    """The name that all of them begin from."""


class DrillReader:
    """Searches for its task's query, looks up what it was asked for, and answers with the last."""

    fingerprint = "drill-reader"

    def __init__(self, drills: Sequence[Drill], dialect: Dialect, eyes: Eyes) -> None:
        self._dialect, self._eyes = dialect, eyes
        self._drills = {dialect.question(_name(i)): d for i, d in enumerate(drills)}

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """A thought and an action per request."""
        return [self._act(request) for request in requests]

    def _act(self, request: TurnRequest) -> str:
        segments = request.segments
        drill = self._drills[next(s.text for s in segments if s.kind == "question")]
        render = self._dialect.render_action
        observed = observations(segments)
        if not observed:
            return render(Search((drill.query,)), " ".join(h.label for h in drill.hops))
        shown = [h for h in drill.hops if self._eyes.read((h,), observed)]
        if not shown:
            title = self._eyes.to_open(drill.hops[0], observed)
            return render(Access(title) if title else Answer(ABSTAIN))
        return render(Answer(shown[-1].found), findings(shown, [drill.known] * len(shown)))


def _name(i: int) -> str:
    return f"drill {i}"


def drills_of(made: SearchEnv, *, seed: int = 0, backward: float = 0.25) -> Iterator[Trace]:
    """A drill for every page of a generated world that states facts; and for a share ``backward``
    of the relations stated, one that finds the page from the other end.

    ``TaskError`` where no generated world stands behind the setting; ``DialectError`` for dialects
    without tags.
    """
    world, corpus = generated(made, "drills")
    dialect = get_dialect(made.rules.dialect)
    if not isinstance(dialect, TagDialect):
        raise DialectError(f"drills are written in tag dialects, not in {dialect.name!r}")
    draw = stream(seed, "drills")
    drills: list[Drill] = []
    for place, passage in enumerate(corpus):
        hops: list[Hop] = []
        for statement in corpus.stated_in(place):
            fact = world.fact(statement.fact)
            if corpus.page_of[fact.subject] != place:
                continue
            if len(world.objects(fact.subject, fact.property)) == 1:
                hops.append(hop_of(fact.id, passage.id, False, world, corpus))
            relation = world.prop(fact).target is not None
            if relation and draw.random() < backward:
                back = hop_of(fact.id, passage.id, True, world, corpus)
                known = world.names[fact.object]
                drills.append(Drill(query(back.label, known), (back,), known))
        if hops:
            order = draw.permutation(len(hops))[:MOST]
            asked = tuple(hops[int(i)] for i in order)
            drills.append(Drill(passage.title, asked, passage.title))
    tasks = [Task(f"drill-{i}", _name(i), ("",)) for i in range(len(drills))]
    episodes = [episode_for(made, task, seed) for task in tasks]
    for episode in run_episodes(episodes, DrillReader(drills, dialect, Eyes(made)), made.toolbox):
        seen = [s for s in episode.contexts.visible(0) if s.kind != "question"]
        first, *rest = pieces_of(seen)
        if not rest or rest[-1].text.startswith("<answer>"):
            continue  # the search did not show what it was for
        # which facts a drill asks for is chance: nothing a model could learn
        yield Trace(episode.config.task.id, 0, (first._replace(own=False), *rest))
