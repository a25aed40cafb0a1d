"""An agent that knows the way and says why: each action follows a thought that quotes what it rests
on. What it writes is what a small model is taught.

Before the first search the thought lists the hops; afterwards it takes notes of the page
(:mod:`.notes`) and says what each hop that can now be read has led to. Without quotes a small model
learns to copy names but not *which* name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..corpora.corpus import GeneratedCorpus
from ..dialects.base import get_dialect
from ..dialects.tags import TagDialect
from ..envs.setting import Setting
from ..errors import DialectError, TaskError
from ..types import ABSTAIN, Action, Answer, Search, Segment, TurnRequest
from .hops import Hop, hops_of, start_of
from .notes import NoteTaker


class ThinkingOracle:
    """Answers a generated world's simple and chain questions, in the tag dialects.

    It believes only what it was shown: where a search does not show the next fact it abstains.
    ``TaskError`` for other tasks; ``DialectError`` for other dialects.
    """

    fingerprint = "thinking-oracle"

    def __init__(self, setting: Setting) -> None:
        if setting.world is None or not isinstance(setting.corpus, GeneratedCorpus):
            raise TaskError("worked examples need a generated world, e.g. corpus='encyclopedia'")
        dialect = get_dialect(setting.rules.dialect)
        if not isinstance(dialect, TagDialect):
            raise DialectError(f"thoughts are written in tag dialects, not in {dialect.name!r}")
        self._dialect = dialect
        self._notes = NoteTaker(setting.world, setting.corpus)
        self._ways: dict[str, tuple[str, tuple[Hop, ...]]] = {
            dialect.question(task.question): (
                start_of(task),
                hops_of(task, setting.world, setting.corpus),
            )
            for task in setting.tasks
        }

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """A thought and an action per request; stateless."""
        return [self._act(request.segments) for request in requests]

    def _act(self, segments: Sequence[Segment]) -> str:
        question = next(s.text for s in segments if s.kind == "question")
        if question not in self._ways:
            raise TaskError(f"no task asks {question.strip()[:200]!r}; give the oracle its setting")
        start, hops = self._ways[question]
        observed = [s for s in segments if s.hits]
        before, now = read(hops, observed[:-1]), read(hops, observed)
        action: Action
        if all(s.author == "env" for s in segments):
            before = now = 0
            thought = " ".join(hop.label for hop in hops)
        else:
            if before == now:
                return self._dialect.render_action(Answer(ABSTAIN))
            thought = self._notes.thought(hops[before:now], lengths(observed))
        if now == len(hops):
            action = Answer(hops[-1].found)
        else:
            action = Search((query(hops[now], hops[now - 1].found if now else start),))
        return self._dialect.render_action(action, thought)


def read(hops: Sequence[Hop], segments: Sequence[Segment]) -> int:
    """How many hops, from the first, can be read off what the segments show."""
    shown = lengths(segments)
    return next((i for i, h in enumerate(hops) if shown.get(h.passage, -1) < h.end), len(hops))


def lengths(segments: Sequence[Segment]) -> Mapping[str, int]:
    """Characters shown of each passage, by its id."""
    return {hit.passage.id: len(hit.passage.text) for s in segments for hit in s.hits}


def query(hop: Hop, known: str) -> str:
    """The page of what is known states a forward hop; an inverse one stands elsewhere."""
    return f"{hop.label[2:]} {known}" if hop.label[0] == "-" else known
