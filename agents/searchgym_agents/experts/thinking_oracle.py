"""The thinking oracle: an agent that knows the way and precedes each action by a thought with its
reasons. Small models are trained on its texts.

Before the first search the thought lists the hops: ``+ director + birthplace``; afterwards it says
what each hop that can now be read has led to: ``+ director: Ann Bee``. Without thoughts a small
model learns to copy names but not *which* name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from searchgym.corpora.corpus import GeneratedCorpus
from searchgym.envs.search import SearchEnv
from searchgym.errors import TaskError
from searchgym.types import ABSTAIN, Access, Action, Answer, Search, Task, TurnRequest

from .base import TagExpert
from .hops import Eyes, Hop, hops_of, observations, query, start_of


class ThinkingOracle(TagExpert[tuple[str, tuple[Hop, ...]]]):
    """Answers a generated world's simple and chain questions, in the tag dialects.

    It believes only what it was shown: where a search does not show the next fact, or list a page
    to open that does, it abstains.
    ``TaskError`` for other tasks; ``DialectError`` for other dialects.
    """

    registered = "expert:thinking"
    fingerprint = "thinking-oracle"

    def __init__(self, env: SearchEnv) -> None:
        self._eyes = Eyes(env)
        super().__init__(env)

    def _known(self, env: SearchEnv) -> Iterator[tuple[Task, tuple[str, tuple[Hop, ...]]]]:
        if env.world is None or not isinstance(env.corpus, GeneratedCorpus):
            raise TaskError("worked examples need a generated world, e.g. corpus='encyclopedia'")
        for task in env.tasks:
            yield task, (start_of(task), hops_of(task, env.world, env.corpus))

    def _act(self, request: TurnRequest) -> str:
        segments = request.segments
        start, hops = self._way(segments)
        eyes, observed = self._eyes, observations(segments)
        before, now = eyes.read(hops, observed[:-1]), eyes.read(hops, observed)
        if all(s.author == "env" for s in segments):
            return self._dialect.render_action(*opening(hops, start))
        if before == now:
            title = eyes.to_open(hops[now], observed)
            return self._dialect.render_action(Access(title) if title else Answer(ABSTAIN))
        action: Action = Answer(hops[-1].found)
        if now < len(hops):
            action = Search((query(hops[now].label, hops[now - 1].found),))
        known = [start, *(hop.found for hop in hops)][before:now]
        return self._dialect.render_action(action, findings(hops[before:now], known))


def opening(hops: Sequence[Hop], start: str) -> tuple[Search, str]:
    """Return the first search of an episode that begins from the name ``start``, and the thought
    before it."""
    return Search((query(hops[0].label, start),)), " ".join(hop.label for hop in hops)


def findings(hops: Sequence[Hop], known: Sequence[str]) -> str:
    """The thought that says what hops have led to, each from what was ``known`` before it."""
    pairs = zip(hops, known, strict=True)
    return "; ".join(f"{looked_up(hop, start)}: {hop.found}" for hop, start in pairs)


def looked_up(hop: Hop, known: str) -> str:
    """Return what is sought in what was found: of the page of what is known, one of its facts; but
    any page may state an inverse one, and what is known is what to look for there."""
    return f"{hop.label} {known}" if hop.label[0] == "-" else hop.label
