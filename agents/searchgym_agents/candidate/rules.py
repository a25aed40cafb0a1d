"""Agents that learn nothing but read candidates and their features: the harder bars.

All are stateless: what they do depends on the request (and, for ``RandomAgent``, on a key made of
its seed, the episode's id and the turn), never on earlier calls or on batching.
"""

from __future__ import annotations

from collections.abc import Callable

from searchgym.agents.simple import Scripted, State
from searchgym.seeding import derive
from searchgym.text import bare_title, normalise_answer
from searchgym.types import ABSTAIN, Action, Answer, Search, TurnRequest

from .actions import Candidate
from .features import FEATURE_NAMES, FeatureBuilder, ScoredActions
from .question import read_question


class RandomAgent(Scripted):
    """Draws uniformly from the legal candidate actions."""

    def __init__(self, seed: int = 0, *, builder: FeatureBuilder | None = None) -> None:
        self.seed = seed
        self._builder = builder or FeatureBuilder(None)

    def decide(self, state: State, request: TurnRequest) -> Action:
        candidates = self._builder.candidates(state)
        key = derive(self.seed, "random-agent", request.episode_id, request.turn, request.context)
        return candidates[key % len(candidates)].action


_COLUMN = {name: i for i, name in enumerate(FEATURE_NAMES)}


class BestSentenceAgent(Scripted):
    """Searches the question, then answers with the name or value nearest to the question's words:
    best coverage of the question by its sentence and window, not itself in the question."""

    def __init__(self, builder: FeatureBuilder | None = None) -> None:
        self._builder = builder or FeatureBuilder(None)

    def decide(self, state: State, request: TurnRequest) -> Action:
        if state.can_search and not state.queries:
            return Search((state.question,))
        best = _best(self._builder(state), lambda c: True)
        return Answer(best.text if best else ABSTAIN)


def _best(scored: ScoredActions, keep: Callable[[Candidate], bool]) -> Candidate | None:
    """The answer span with the best lexical evidence (ties: the first)."""
    top, best = 0.0, None
    for row, c in zip(scored.features, scored.candidates, strict=True):
        if c.form != "span" or row[_COLUMN["in_question"]] or not keep(c):
            continue
        score = float(row[_COLUMN["sent_all_lex"]] + row[_COLUMN["near_rel_lex"]])
        if best is None or score > top:
            top, best = score, c
    return best


class RulesAgent(Scripted):
    """Hand-written rules, the harder bar: one search, then

    * "yes" for polar questions,
    * for "A or B" the alternative whose page ranks first,
    * for "when" and "how many" the date or number with the best lexical evidence,
    * else the first retrieved title that is not named in the question.
    """

    def __init__(self, builder: FeatureBuilder | None = None) -> None:
        self._builder = builder or FeatureBuilder(None)

    def decide(self, state: State, request: TurnRequest) -> Action:
        if state.can_search and not state.queries:
            return Search((state.question,))
        q = read_question(state.question)
        titles = [bare_title(p.title) for p, _, _ in state.found]
        if q.polar:
            return Answer("yes")
        if q.alternatives:
            for title in titles:
                norm = normalise_answer(title)
                for side in q.alternatives:
                    named = normalise_answer(side)
                    if norm and (f" {norm} " in f" {named} " or f" {named} " in f" {norm} "):
                        return Answer(side)
            return Answer(q.alternatives[0])
        if q.type in ("date", "year", "number"):
            numeric = "date_wanted" if q.type == "date" else f"{q.type}_wanted"
            scored = self._builder(state)
            fitting = {
                c.norm
                for row, c in zip(scored.features, scored.candidates, strict=True)
                if row[_COLUMN[numeric]]
            }
            best = _best(scored, lambda c: c.norm in fitting)
            if best is not None:
                return Answer(best.text)
        for title in titles:
            norm = normalise_answer(title)
            if norm and f" {norm} " not in f" {q.norm} ":
                return Answer(title)
        return Answer(titles[0] if titles else ABSTAIN)
