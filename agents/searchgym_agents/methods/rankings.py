"""Rewards of a query by the ranking it brings, for query rewriting in one step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from searchgym import Passage, ToolResult
from searchgym.rewards import Outcome, queries
from searchgym.scoring.evidence import ndcg_at
from searchgym.text import answer_words, normalise_answer


@dataclass(frozen=True)
class RankIncentive:
    """Pay a query by the rank r of the first gold passage in its ranking.

    r 1 to 10: (19 - r) / 9, that is 2 down to 1; 11 to 100: 10/9 - r/90, down to 0; else 0. Without
    a query ``malformed`` (ConvSearch-R1, arXiv 2505.15776; released code). Of several queries the
    best counts.
    """

    registered = "reward:rank_incentive"
    systems = ("ConvSearch-R1",)

    malformed: float = -0.1

    def final(self, outcome: Outcome) -> float:
        ranked_lists = rankings(outcome)
        if not ranked_lists:
            return self.malformed
        return max(rank_value(gold_rank(ranked, outcome.evidence)) for ranked in ranked_lists)


@dataclass(frozen=True)
class Leser:
    """Pay expansions of a query by what they bring together, and charge broken constraints.

    ``relevance`` · mean nDCG@10 + ``coverage`` · share of the gold passages that any query brought
    among its first ten - ``violation`` if there are more than ``most`` queries, one of more than
    ``words`` words, or one with a word in ``banned``, or none (LESER, of which the abstract alone
    was read: relevance and coverage measured from the engine's results, under constraints). All
    weights and constraints are ours.
    """

    registered = "reward:leser"
    systems = ("LESER",)

    relevance: float = 0.5
    coverage: float = 0.5
    violation: float = 1.0
    most: int = 5
    words: int = 32
    banned: Sequence[str] = field(default_factory=list)

    def final(self, outcome: Outcome) -> float:
        ranked_lists, gold = rankings(outcome), set(outcome.evidence)
        asked = queries(outcome)
        if not ranked_lists or self.violated(asked):
            return -self.violation
        if not gold:
            return 0.0
        ids = [[passage.id for passage in ranked] for ranked in ranked_lists]
        grades = dict.fromkeys(gold, 1)
        relevance = sum(ndcg_at(ranked, grades, 10) for ranked in ids) / len(ids)
        covered = gold.intersection(i for ranked in ids for i in ranked[:10])
        return self.relevance * relevance + self.coverage * len(covered) / len(gold)

    def violated(self, asked: Sequence[str]) -> bool:
        """Check whether queries break a constraint."""
        banned = {word.lower() for word in self.banned}
        return len(asked) > self.most or any(
            len(query.split()) > self.words or not banned.isdisjoint(query.lower().split())
            for query in asked
        )


@dataclass(frozen=True)
class QueryGain:
    """Pay a rewrite by how much nearer it is to the gold passages than the question was.

    ``scale`` · mean over the gold passages d of cos(rewrite, d) - cos(question, d); ``failure``
    without a query, or where none of them is in its ranking (TongSearch-QR, arXiv 2506.11603;
    released code, which embeds with a language model). Ours: the cosine is that of word counts,
    which needs no model; only gold passages that the rewrite brought are compared; of several
    queries the first counts.
    """

    registered = "reward:query_gain"
    systems = ("TongSearch-QR",)

    scale: float = 10.0
    failure: float = -1.0

    def final(self, outcome: Outcome) -> float:
        asked, gold = queries(outcome), set(outcome.evidence)
        gold_passages = {p.id: p for ranked in rankings(outcome) for p in ranked if p.id in gold}
        if not asked or not gold_passages:
            return self.failure
        texts = [f"{passage.title} {passage.text}" for passage in gold_passages.values()]
        gains = [cosine(asked[0], text) - cosine(outcome.question, text) for text in texts]
        return self.scale * sum(gains) / len(gains)


def rankings(outcome: Outcome) -> list[list[Passage]]:
    """The passages that each query brought, best first."""
    return [
        [hit.passage for hit in result.hits]
        for turn in outcome.turns
        for call, result in zip(turn.calls, turn.results, strict=True)
        if call.tool == "search" and isinstance(result, ToolResult)
    ]


def gold_rank(ranked: Sequence[Passage], gold: Sequence[str]) -> int | None:
    """Rank of the first gold passage, from 1."""
    return next((rank for rank, passage in enumerate(ranked, 1) if passage.id in gold), None)


def rank_value(rank: int | None) -> float:
    """The rank-incentive of a rank from 1; 0 for none and beyond 100."""
    if rank is None or rank > 100:
        return 0.0
    return (19 - rank) / 9 if rank <= 10 else 10 / 9 - rank / 90


def cosine(one: str, other: str) -> float:
    """Cosine of two texts' word counts, after SQuAD normalisation; 0 if one is empty."""
    a, b = (Counter(answer_words(normalise_answer(text))) for text in (one, other))
    product = sum(count * b[word] for word, count in a.items())
    lengths = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return product / lengths if lengths else 0.0
