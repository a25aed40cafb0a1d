"""SubSearch's rewards of steps: sub-queries that their documents answer, and that split well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from searchgym import Episode, Passage, ToolResult
from searchgym.engines.dense.encoder import BUNDLED, SentenceEncoder
from searchgym.rewards import in_form, stands_in_results
from searchgym.rl import Coef, Floats, Group, Rewards, RewardTransform, Signals
from searchgym.text import answer_words, normalise_answer

Step = tuple[tuple[str, tuple[Passage, ...]], ...]
"""A search: its sub-queries, and the best passages that each has brought."""
KEPT = 20_000
"""Texts whose vectors are kept: a group's members ask for the same passages."""


class SubSearch(RewardTransform):
    """Pays the answer, and a wrong one for its searches: R = EM + β r (1 - EM), r = ``answerable``
    · answerability + (1 - ``answerable``) · decomposition, then the form (SubSearch, arXiv
    2604.07415; released ``qa_em.py``, whose numbers are the defaults).

    Answerability: mean cosine of a sub-query and its first ``documents`` passages, over
    sub-queries, then searches. Decomposition of a search: of one sub-query max(0, 1 - \\|c - s\\| /
    (1 - s)), c its cosine with the question and s = ``same``; of several ``coverage`` · the
    question's cosine with their mean + (1 - ``coverage``) · mean of c_i (1 - mean cosine with the
    others). Form is Search-R1's: R > 0 is paid as it is in form, ``retrieval`` more (at most 1 in
    all) if an accepted answer stands in a result, and less ``structure`` out of form; R ≤ 0 pays
    ``structure`` (and ``retrieval``) in form, ``answered`` out of it. No answer: 0.

    β is the coefficient ``subsearch``, moved by at most ``most`` for each member, in [``least``,
    ``beta``], by a mean of earlier EMs (decay ``ema``): towards ``beta`` where it is below
    ``target`` and moves by no more than ``flat``, towards ``least`` where it is above and rises.

    Args:
        beta: β where no schedule gives the coefficient, and its largest value.
        encoder: A sentence-transformers model; the released code trains with all-MiniLM-L12-v2.
            None: cosines of word counts, which need no model (ours).
    """

    registered = "outcome:subsearch"
    remembers = ("mean",)
    requires = frozenset({"em"})
    reads = frozenset({"subsearch"})

    def __init__(
        self,
        beta: float = 0.2,
        encoder: str | None = BUNDLED,
        documents: int = 3,
        answerable: float = 0.5,
        same: float = 0.85,
        coverage: float = 0.5,
        structure: float = 0.2,
        answered: float = 0.1,
        retrieval: float = 0.1,
        target: float = 0.65,
        ema: float = 0.98,
        flat: float = 5e-4,
        rate: float = 0.2,
        most: float = 0.01,
        least: float = 0.02,
    ) -> None:
        if not 0 <= least <= beta <= 1 or documents < 1 or not 0 <= same < 1:
            raise ValueError(
                f"0 ≤ least ≤ beta ≤ 1, documents ≥ 1 and 0 ≤ same < 1, got {least}, {beta}, "
                f"{documents}, {same}"
            )
        self.beta, self.encoder, self.documents = beta, encoder, documents
        self.answerable, self.same, self.coverage = answerable, same, coverage
        self.structure, self.answered, self.retrieval = structure, answered, retrieval
        self.target, self.decay, self.flat = target, ema, flat
        self.rate, self.most, self.least = rate, most, least
        self.mean: float | None = None
        self._loaded: SentenceEncoder | None = None
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def apply(self, group: Group, signals: Signals, rewards: Rewards, coef: Coef) -> Rewards:
        worths = self.worths([m.episode for m in group.members])
        paid = np.array(rewards.outcome, float)
        for i, (member, worth) in enumerate(zip(group.members, worths, strict=True)):
            right = signals["em"][i] == 1.0
            beta = self.gated(coef.get("subsearch", self.beta), float(right))
            paid[i] += self.formed(member.episode, 1.0 if right else beta * worth)
        return Rewards(paid, rewards.turns)

    def worths(self, episodes: Sequence[Episode]) -> list[float]:
        """Worth r of each episode's searches; 0 of one without any."""
        found = [searches(episode, self.documents) for episode in episodes]
        texts: dict[str, int] = {}

        def at(text: str) -> int:
            return texts.setdefault(text, len(texts))

        numbered = [
            (
                at(episode.config.task.question),
                [
                    [(at(query), [at(f"{p.title}\n{p.text}") for p in shown]) for query, shown in s]
                    for s in steps
                ],
            )
            for episode, steps in zip(episodes, found, strict=True)
        ]
        if not any(found):
            return [0.0] * len(episodes)
        table = self.alike(list(texts))
        return [
            self.answerable * answerability(table, steps)
            + (1 - self.answerable)
            * decomposition(
                table, question, [[q for q, _ in s] for s in steps], self.same, self.coverage
            )
            for question, steps in numbered
        ]

    def alike(self, texts: Sequence[str]) -> Floats:
        """(N, N) cosines of texts, by the encoder or by their words."""
        if self.encoder is None:
            vectors = _counted(texts)
            return np.asarray(vectors @ vectors.T)
        if self._loaded is None:
            self._loaded = SentenceEncoder(self.encoder, preset="plain")
        if new := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            if len(self._vectors) + len(new) > KEPT:
                self._vectors, new = {}, list(dict.fromkeys(texts))
            self._vectors |= zip(new, self._loaded.queries(new), strict=True)
        vectors = np.stack([self._vectors[text] for text in texts]).astype(float)
        return np.asarray(vectors @ vectors.T)

    def gated(self, beta: float, em: float) -> float:
        """β for a member of this EM, which the mean takes in."""
        before = self.mean
        mean = em if before is None else self.decay * before + (1 - self.decay) * em
        rise = 0.0 if before is None else mean - before
        self.mean = mean
        gap, moved = self.target - mean, 0.0
        if gap > 0 and abs(rise) <= self.flat:
            moved = self.rate * gap * (self.beta - beta)
        elif gap < 0 and rise > self.flat:
            moved = self.rate * gap * (beta - self.least)
        moved = min(max(moved, -self.most), self.most)
        return min(max(beta + moved, self.least), self.beta)

    def formed(self, episode: Episode, reward: float) -> float:
        """Values of R in form and out of it."""
        outcome = episode.outcome()
        if outcome is None or not outcome.answered:
            return 0.0
        if not in_form(outcome):
            return max(0.0, reward - self.structure) if reward > 0 else self.answered
        found = self.retrieval if stands_in_results(outcome, outcome.answers) else 0.0
        return min(1.0, reward + found) if reward > 0 else self.structure + found


def _counted(texts: Sequence[str]) -> Floats:
    """(N, V) unit vectors of texts' word counts, after SQuAD normalisation; 0 of one without."""
    counts = [Counter(answer_words(normalise_answer(text))) for text in texts]
    number = {word: i for i, word in enumerate(dict.fromkeys(w for c in counts for w in c))}
    vectors = np.zeros((len(texts), len(number)))
    for row, count in zip(vectors, counts, strict=True):
        row[[number[word] for word in count]] = [*count.values()]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    made: Floats = vectors / np.where(lengths > 0, lengths, 1.0)
    return made


def searches(episode: Episode, documents: int) -> list[Step]:
    """An episode's searches, with the first passages of each sub-query."""
    steps: list[Step] = []
    for turn in episode.turns:
        step = tuple(
            (str(call.args["query"]), tuple(hit.passage for hit in result.hits[:documents]))
            for call, result in zip(turn.calls, turn.results, strict=True)
            if call.tool == "search" and isinstance(result, ToolResult)
        )
        steps += [step] if step else []
    return steps


def answerability(table: Floats, steps: Sequence[Sequence[tuple[int, Sequence[int]]]]) -> float:
    """Mean cosine of sub-queries and their documents, over sub-queries, then searches.

    Args:
        table: (N, N) cosines of texts.
        steps: Of each search, (sub-query, its documents) by their numbers.
    """
    means = [np.mean([table[q, ids].mean() if ids else 0.0 for q, ids in step]) for step in steps]
    return float(np.mean(means)) if means else 0.0


def decomposition(
    table: Floats, question: int, steps: Sequence[Sequence[int]],
    same: float = 0.85, coverage: float = 0.5,
) -> float:  # fmt: skip
    """Mean over searches of how well their sub-queries split the question.

    Args:
        table: (N, N) cosines of texts.
        question, steps: The question and each search's sub-queries, by their numbers.
    """
    scores = [_split(table, question, list(step), same, coverage) for step in steps]
    return float(np.mean(scores)) if scores else 0.0


def _split(table: Floats, question: int, parts: list[int], same: float, share: float) -> float:
    near = table[question, parts]
    if len(parts) == 1:
        return max(0.0, 1.0 - abs(float(near[0]) - same) / (1.0 - same))
    between = table[np.ix_(parts, parts)]
    length = float(np.sqrt(max(between.sum(), 0.0)))  # of the sum of the parts' unit vectors
    covered = float(near.sum()) / length if length > 0 else 0.0
    others = (between.sum(1) - np.diag(between)) / (len(parts) - 1)
    return share * covered + (1 - share) * float(np.mean(near * (1 - others)))
