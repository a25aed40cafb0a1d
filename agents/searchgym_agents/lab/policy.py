"""A softmax policy as a table: one number for each word that may come next at each place.

A place is everything that was read and written so far. The words that may come next are those by
which some candidate of the decision goes on (a trie), so the probability of a trajectory is the
product of its words', as with a language model, and every trajectory can be enumerated. The table
stands where a language model stands in a training: it samples, and it scores rows of tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from searchgym.errors import CardError
from searchgym.llms.base import Completion, GenRequest, Ids
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.policies.rows import TrainingRow
from searchgym.policies.scoring import TokenScores, measured
from searchgym.seeding import stream

from .tree import END, TaskTree, counts, written

FLOOR = -7.0
"""Log-probability of a word that no candidate goes on with: of a gold answer, say, that is no
candidate where it is asked for."""
KEPT = 4096
"""Rows whose places are kept."""
Floats64 = NDArray[np.float64]


class TabularLM:
    """The table over a tree's words.

    Args:
        logits: (P,) one for each word that has an alternative, by place.
    """

    def __init__(self, tree: TaskTree, logits: Tensor | None = None) -> None:
        self.tree = tree
        self.place: dict[Ids, int] = {}
        """Ids so far → number of the place."""
        self.words: list[list[int]] = []
        """Words that may come next, place by place."""
        for decision in tree.decisions:
            for candidate in decision.candidates:
                for i, word in enumerate(candidate.ids):
                    known = self._words_at((*decision.prompt, *candidate.ids[:i]))
                    if word not in known:
                        known.append(word)
        self.start = np.cumsum([0, *(len(w) for w in self.words)])
        """First logit of each place."""
        size = int(self.start[-1])
        sizes = torch.tensor([len(w) for w in self.words])
        self.owner = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        """(P,) the place of each logit."""
        self.logits = torch.zeros(size, dtype=torch.float64) if logits is None else logits
        self._index: dict[int, tuple[TrainingRow, NDArray[np.int64]]] = {}

    def _words_at(self, ids: Ids) -> list[int]:
        number = self.place.setdefault(ids, len(self.words))
        if number == len(self.words):
            self.words.append([])
        return self.words[number]

    def table(self, logits: Tensor | None = None) -> Tensor:
        """(P,) log-probabilities, those of each place's words summing to one."""
        logits = self.logits if logits is None else logits
        owner, places = self.owner, len(self.words)
        most = torch.full((places,), -torch.inf, dtype=logits.dtype)
        most = most.scatter_reduce(0, owner, logits.detach(), "amax")
        shifted = logits - most[owner]
        zero = torch.zeros(places, dtype=logits.dtype)
        return shifted - zero.index_add(0, owner, shifted.exp()).log()[owner]

    def index(self, row: TrainingRow) -> NDArray[np.int64]:
        """(T,) place in the table of each sampled token of a row; -1 for words that cannot be."""
        known = self._index.get(id(row))  # the tree's rows are asked for again and again
        if known is not None and known[0] is row:
            return known[1]
        ids = tuple(int(i) for i in row.ids)
        index = np.full(len(ids), -1)
        for t in np.flatnonzero(row.sampled):
            place = self.place.get(ids[:t])
            if place is not None and ids[t] in self.words[place]:
                index[t] = self.start[place] + self.words[place].index(ids[t])
        if len(self._index) < KEPT:
            self._index[id(row)] = (row, index)
        return index

    # --- as a trained model -------------------------------------------------------------------
    def logp(self, rows: Sequence[TrainingRow]) -> Tensor:
        """(B, T) log-probabilities of the rows' sampled tokens, 0 elsewhere."""
        return self.score(rows).logp

    def score(
        self, rows: Sequence[TrainingRow], *, entropy: bool = False, measures: Collection[str] = ()
    ) -> TokenScores:
        """Compute :meth:`logp`, with entropies if wanted, and measures of the distributions that
        tokens were drawn from (``policies.scoring.TOKEN_MEASURES``; a table has no hidden
        states)."""
        width = max(map(len, rows))
        index = np.full((len(rows), width), -1)
        sampled = np.zeros((len(rows), width), np.bool_)
        for i, row in enumerate(rows):
            index[i, : len(row)], sampled[i, : len(row)] = self.index(row), row.sampled
        at = torch.from_numpy(index)
        table = self.table()
        known = torch.where(at >= 0, table[at.clamp_min(0)], torch.full((), FLOOR).double())
        logp = torch.where(torch.from_numpy(sampled), known, torch.zeros(()).double())
        spread = None
        if entropy:
            by_place = self.entropies()[self.owner[at.clamp_min(0)]]
            spread = torch.where(at >= 0, by_place, torch.zeros(()).double())
        places = self.owner[at.clamp_min(0)]
        by_measure = {
            name: torch.where(
                (at >= 0).reshape(*at.shape, *(1,) * (values.ndim - 1)), values[places], 0.0
            )
            for name, values in ((name, self._measured(name)) for name in measures)
        }
        return TokenScores(logp, spread, by_measure)

    def _measured(self, name: str) -> Tensor:
        """A measure of each place's distribution."""
        table = self.table()
        wide = torch.full((len(self.words), max(map(len, self.words))), -torch.inf).double()
        for place, words in enumerate(self.words):
            wide[place, : len(words)] = table[self.start[place] : self.start[place + 1]]
        return measured(name, wide)

    def entropies(self) -> Tensor:
        """Entropy of the next word at each place, in nats."""
        table = self.table()
        zero = torch.zeros(len(self.words), dtype=table.dtype)
        return zero.index_add(0, self.owner, -(table.exp() * table))

    # --- as a policy that plays ---------------------------------------------------------------
    def policy(self, seed: int = 0) -> CausalLMPolicy:
        """A policy that draws from the table."""
        return CausalLMPolicy(TabularGenerator(self), self.tree.renderer, seed=seed)


class TabularGenerator:
    """The table as a text generator."""

    needs_task = False
    capabilities = frozenset({"ids", "logp", "score", "seed"})
    context = None

    def __init__(self, lm: TabularLM) -> None:
        self.lm = lm
        self.version = 0
        self.codec = SimpleNamespace(tokenizer=SimpleNamespace(eos_token_id=END))
        self.eos = (END,)

    @property
    def fingerprint(self) -> str:
        """Version of the table, on which alone it depends what is drawn."""
        return f"lab table {self.version}"

    def cache_key(self, request: GenRequest) -> bytes | None:
        return None

    def run(self, batch: Sequence[GenRequest]) -> list[Completion]:
        """Draw a candidate word by word; at temperature 0 the likeliest words."""
        table = self.lm.table().detach().numpy()
        return [self._continue(request, table) for request in batch]

    def score(self, batch: Sequence[tuple[Ids, Ids]]) -> list[Any]:
        """Log-probabilities of each (context, continuation) pair's continuation, (N,) each."""
        scores = []
        for context, ids in batch:
            row = np.full(len(context) + len(ids), 0)
            row[:] = [*context, *ids]
            sampled = np.arange(len(row)) >= len(context)
            zeros, ones = np.zeros(len(row), np.float32), np.where(sampled, 0, -1)
            asked = TrainingRow("", ("/0",), 0, "", row, sampled, sampled, zeros, ones, ones)
            scores.append(self.lm.logp([asked])[0][sampled].detach().numpy().astype(np.float32))
        return scores

    def _continue(self, request: GenRequest, table: Floats64) -> Completion:
        draw = stream(request.key, "lab")
        ids = tuple(request.prompt)
        new: list[int] = []
        logp: list[float] = []
        while not new or new[-1] != END:
            place = self.lm.place[(*ids, *new)]  # type: ignore[arg-type]
            words = self.lm.words[place]
            values = table[self.lm.start[place] : self.lm.start[place] + len(words)]
            if request.sampling.temperature == 0:
                chosen = int(values.argmax())
            else:
                chosen = int((values + draw.gumbel(size=len(words))).argmax())
            new.append(words[chosen])
            logp.append(float(values[chosen]))
        renderer = self.lm.tree.renderer
        return written(renderer, renderer.text(new), tuple(new), logp)


# --- policies of a wanted skill -----------------------------------------------------------------
TASTE = {"due": 0.0, "lucky": -3.0, "wrong": 0.0, "other": 0.0}
"""Log-odds of a candidate by its kind, before skill: right answers that nothing was read of are
rare."""


def skilled(tree: TaskTree, success: float, seed: int = 0) -> TabularLM:
    """A policy whose exact match, averaged over the questions, is ``success``.

    Its odds are random, and raised for what is due by as much as that takes.
    """
    lm = TabularLM(tree)
    draw = stream(seed, "lab", "skill")
    noise = [draw.normal(0, 0.5, len(d.candidates)) for d in tree.decisions]
    low, high, reached = -8.0, 12.0, 0.0
    for _ in range(60):
        middle = (low + high) / 2
        lm.logits = torch.from_numpy(_logits(lm, middle, noise))
        reached = float(np.mean([p @ em for p, em in zip(odds(lm), counts(tree)["em"],
                                                         strict=True)]))  # fmt: skip
        low, high = (middle, high) if reached < success else (low, middle)
    if abs(reached - success) > 1e-6:
        raise CardError(f"no skill gives an exact match of {success}; the nearest is {reached:.3f}")
    return lm


def _logits(lm: TabularLM, skill: float, noise: Sequence[Floats64]) -> Floats64:
    """Logits by which each candidate has odds exp(taste + noise + skill · [it is due])."""
    mass = np.zeros(int(lm.start[-1]))
    for decision, extra in zip(lm.tree.decisions, noise, strict=True):
        for candidate, value in zip(decision.candidates, extra, strict=True):
            weight = np.exp(TASTE[candidate.kind] + value + skill * (candidate.kind == "due"))
            for i, word in enumerate(candidate.ids):
                place = lm.place[(*decision.prompt, *candidate.ids[:i])]
                mass[lm.start[place] + lm.words[place].index(word)] += weight
    made: Floats64 = np.log(mass)
    return made


def odds(lm: TabularLM) -> list[Floats64]:
    """Return the probability of each trajectory, question by question."""
    table = lm.table().detach()
    by_question = []
    for leaves in lm.tree.leaves:
        parts = [[table[lm.index(row)][row.sampled].sum() for row in m.rows] for m in leaves]
        by_question.append(np.exp(np.array([float(sum(p)) for p in parts])))
    return by_question


def expected_return(
    lm: TabularLM, logits: Tensor, paid: Sequence[Floats64] | None = None
) -> Tensor:
    """The exact expected return, mean over questions: a differentiable function of the logits.

    Args:
        paid: What each trajectory is paid, question by question, in place of its return.
    """
    table = lm.table(logits)
    total = torch.zeros((), dtype=logits.dtype)
    for leaves, earned in zip(lm.tree.leaves, paid or counts(lm.tree)["return"], strict=True):
        for leaf, reward in zip(leaves, earned, strict=True):
            logp = sum(table[lm.index(row)][row.sampled].sum() for row in leaf.rows)
            total = total + float(reward) * torch.exp(torch.as_tensor(logp))
    return total / lm.tree.questions


def true_gradient(lm: TabularLM, paid: Sequence[Floats64] | None = None) -> Any:
    """(P,) the exact gradient of :func:`expected_return`, as an array."""
    logits = lm.logits.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(expected_return(lm, logits, paid), logits)
    return gradient.numpy()
