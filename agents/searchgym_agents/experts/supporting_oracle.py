"""The supporting oracle: demonstrates how labelled questions of a real set are answered.

Real sets say which passages support an answer, but not which sentences. The oracle first searches
for the question as it stands; then it quotes one sentence of each supporting passage that was
shown, under the page's title, and searches for the titles of those still missing, as far as they
have been read by then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from searchgym.envs.search import SearchEnv
from searchgym.errors import TaskError
from searchgym.text import covers, normalise_answer
from searchgym.types import ABSTAIN, Action, Answer, Passage, Search, Segment, Task, TurnRequest

from .base import TagExpert
from .quoting_oracle import as_written, sentence_around

_QUALIFIER = re.compile(r"(?<!\s)\s*+\([^()]*+\)$")
"""The "(film)" of a title, which no text writes."""


class _Labelled(NamedTuple):
    task: Task
    titles: dict[str, str]
    """Titles of the supporting passages, by id."""

    def quotes(self, results: Sequence[Segment]) -> dict[str, str]:
        """A sentence of each supporting passage that was shown: one with an answer, else one with
        the title of another supporting passage, else the first."""
        shown = _shown(results)
        quoted = {}
        for passage, title in self.titles.items():
            if passage in shown:
                others = [other for other in self.titles.values() if other != title]
                sought = [*self.task.answers, *(_QUALIFIER.sub("", other) for other in others)]
                text = shown[passage].text
                place = next((text.find(s) for s in sought if s in text), 0)
                start, end = sentence_around(text, place, place + 1)
                quoted[passage] = f"{title}: {text[start:end]}"
        return quoted


class SupportingOracle(TagExpert[_Labelled]):
    """Answers a set's questions whose supporting passages are labelled, in the tag dialects.

    It writes nothing that a reader could not know: it abstains where the title of a missing
    passage, or an answer other than "yes" and "no", stands neither in the question nor in what was
    shown.

    Raises:
        TaskError: no question of the environment has supporting passages.
        DialectError: the dialect is no tag dialect.
    """

    registered = "expert:supporting"
    fingerprint = "supporting-oracle"

    def __init__(self, env: SearchEnv) -> None:
        super().__init__(env)
        if not self._ways:
            raise TaskError(f"no question of {env.corpus.name!r} names the passages it rests on")

    def _known(self, env: SearchEnv) -> Iterator[tuple[Task, _Labelled]]:
        for task in env.tasks:
            if task.evidence:
                titles = {e: env.corpus[env.corpus.position(e)].title for e in task.evidence}
                yield task, _Labelled(task, titles)

    def _act(self, request: TurnRequest) -> str:
        way = self._ways.get(self._asked(request.segments))
        if way is None:
            return self._dialect.render_action(Answer(ABSTAIN))
        results = [s for s in request.segments if s.hits]
        if not any(s.author == "policy" for s in request.segments):
            return self._dialect.render_action(Search((way.task.question,)))
        before, now = way.quotes(results[:-1]), way.quotes(results)
        thought = " ".join(quote for passage, quote in now.items() if passage not in before)
        return self._dialect.render_action(self._choose(request, way, results), thought)

    def _choose(self, request: TurnRequest, way: _Labelled, results: Sequence[Segment]) -> Action:
        shown = _shown(results)
        missing = [title for passage, title in way.titles.items() if passage not in shown]
        texts = [way.task.question, *(f"{p.title} {p.text}" for p in shown.values())]
        if not missing:
            answer = as_written(way.task.answers, results)
            known = answer in ("yes", "no") or any(answer in text for text in texts)
            return Answer(answer if known else ABSTAIN)
        if request.turns_left > 1 and request.queries_left != 0:
            tried = self._tried(request)
            for title in missing:
                search = self._dialect.canonical(Search((title,)))
                if search not in tried and any(_names(text, title) for text in texts):
                    return search
        return Answer(ABSTAIN)


def _shown(results: Sequence[Segment]) -> dict[str, Passage]:
    return {hit.passage.id: hit.passage for segment in results for hit in segment.hits}


def _names(text: str, title: str) -> bool:
    """Return whether a text names a title, with or without its qualifier."""
    words = normalise_answer(_QUALIFIER.sub("", title))
    return bool(words) and covers(normalise_answer(text), words)
