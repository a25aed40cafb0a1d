"""The thinking oracle: an agent that knows the way and precedes each action by a thought with its
reasons. Small models are trained on its texts.

Before the first search the thought lists the hops: ``+ director + birthplace``; afterwards it says
what each hop that can now be read has led to: ``+ director: Ann Bee``. Without thoughts a small
model learns to copy names but not *which* name.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..corpora.corpus import GeneratedCorpus
from ..dialects.base import get_dialect
from ..dialects.tags import TagDialect
from ..envs.search import SearchEnv
from ..errors import DialectError, TaskError
from ..types import ABSTAIN, Access, Action, Answer, Search, Segment, TurnRequest
from .eyes import Eyes, observations
from .hops import Hop, hops_of, start_of


class ThinkingOracle:
    """Answers a generated world's simple and chain questions, in the tag dialects.

    It believes only what it was shown: where a search does not show the next fact, or list a page
    to open that does, it abstains.
    ``TaskError`` for other tasks; ``DialectError`` for other dialects.
    """

    fingerprint = "thinking-oracle"

    def __init__(self, env: SearchEnv) -> None:
        if env.world is None or not isinstance(env.corpus, GeneratedCorpus):
            raise TaskError("worked examples need a generated world, e.g. corpus='encyclopedia'")
        dialect = get_dialect(env.rules.dialect)
        if not isinstance(dialect, TagDialect):
            raise DialectError(f"thoughts are written in tag dialects, not in {dialect.name!r}")
        self._dialect = dialect
        self._eyes = Eyes(env)
        self._ways: dict[str, tuple[str, tuple[Hop, ...]]] = {
            dialect.question(task.question): (
                start_of(task),
                hops_of(task, env.world, env.corpus),
            )
            for task in env.tasks
        }

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """A thought and an action per request; stateless."""
        return [self._act(request.segments) for request in requests]

    def _act(self, segments: Sequence[Segment]) -> str:
        asked = next(s for s in segments if s.kind == "question")
        question = self._dialect.question(asked.asked) if asked.asked else asked.text
        if question not in self._ways:
            raise TaskError(f"no task asks {question.strip()[:200]!r}; give the oracle its setting")
        start, hops = self._ways[question]
        eyes, observed = self._eyes, observations(segments)
        before, now = eyes.read(hops, observed[:-1]), eyes.read(hops, observed)
        if all(s.author == "env" for s in segments):
            return self._dialect.render_action(*opening(hops, start))
        if before == now:
            title = eyes.to_open(hops[now], observed)
            return self._dialect.render_action(Access(title) if title else Answer(ABSTAIN))
        action: Action = Answer(hops[-1].found)
        if now < len(hops):
            action = Search((query(hops[now], hops[now - 1].found),))
        known = [start, *(hop.found for hop in hops)][before:now]
        return self._dialect.render_action(action, findings(hops[before:now], known))


def opening(hops: Sequence[Hop], start: str) -> tuple[Search, str]:
    """Return the first search of an episode that begins from the name ``start``, and the thought
    before it."""
    return Search((query(hops[0], start),)), " ".join(hop.label for hop in hops)


def findings(hops: Sequence[Hop], known: Sequence[str]) -> str:
    """The thought that says what hops have led to, each from what was ``known`` before it."""
    pairs = zip(hops, known, strict=True)
    return "; ".join(f"{looked_up(hop, start)}: {hop.found}" for hop, start in pairs)


def looked_up(hop: Hop, known: str) -> str:
    """Return what is sought in what was found: of the page of what is known, one of its facts; but
    any page may state an inverse one, and what is known is what to look for there."""
    return f"{hop.label} {known}" if hop.label[0] == "-" else hop.label


def query(hop: Hop, known: str) -> str:
    """The page of what is known states a forward hop; an inverse one stands elsewhere."""
    return f"{hop.label[2:]} {known}" if hop.label[0] == "-" else known
