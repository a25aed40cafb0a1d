"""An agent that takes notes, or does without: what the tool ``memory`` is worth in a small context.

It knows a question's gold queries and the sentences that state its facts, and believes only what it
still sees of them: passages in its context, and the notes that it reads again at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from searchgym.corpora.corpus import GeneratedCorpus
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.errors import TaskError
from searchgym.text import normalise_answer
from searchgym.types import ABSTAIN, Action, Answer, Call, Search, Task, TurnRequest

from .quoting_oracle import facts_of

NOTHING = Call("memory", {"action": "read", "text": "nothing of the kind"})
"""A turn in which nothing is written."""


class NoteTaker:
    """Asks the gold queries in order, then answers if it still sees all that the answer rests on.

    Args:
        env: Environment over a generated world whose questions will be asked, with the tools
            ``search`` and ``memory``.
        notes: Write after each search the sentences that were sought and found, and read all notes
            before the answer. False reads no note in these turns, so that both play as many.

    Raises:
        TaskError: another corpus, or a question without facts.
    """

    def __init__(self, env: SearchEnv, notes: bool = True) -> None:
        if not isinstance(env.corpus, GeneratedCorpus):
            raise TaskError("notes are taken in a generated world, e.g. corpus='encyclopedia'")
        self.notes = notes
        self.fingerprint = f"note-taker{'' if notes else ' without notes'}"
        dialect = get_dialect(env.rules.dialect)
        self._ways: dict[str, tuple[Task, dict[str, list[str]]]] = {}
        for task in env.tasks:
            quotes: dict[str, list[str]] = {}
            for fact in facts_of(task, env.corpus):
                quotes.setdefault(fact.passage, []).append(" ".join(fact.quote.split()))
            self._ways[dialect.question(task.question)] = task, quotes

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """One action per request; what was done is told by the number of the turn."""
        return [get_dialect(r.dialect).render_action(self._choose(r)) for r in requests]

    def _choose(self, request: TurnRequest) -> Action:
        asked = next(s for s in request.segments if s.kind == "question").text
        task, quotes = self._ways[asked]
        place, noting = divmod(request.turn, 2)
        seen = {hit.passage.id for s in request.segments for hit in s.hits}
        if place < len(task.evidence):
            page = task.evidence[place]
            if not noting:
                return Search((task.queries[place],))
            if not self.notes or page not in seen or page not in quotes:
                return NOTHING
            text = " ".join(dict.fromkeys(quotes[page]))
            return Call("memory", {"action": "write", "text": text[:1000]})
        if not noting:
            return Call("memory", {"action": "read"}) if self.notes else NOTHING
        text = normalise_answer(request.segments[-1].text)  # a dialect may write \" for "
        known = all(
            page in seen or all(normalise_answer(quote) in text for quote in said)
            for page, said in quotes.items()
        )
        return Answer(task.answers[0] if known else ABSTAIN)
