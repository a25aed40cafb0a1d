"""An embedding table of which few rows are trained, at the cost of those few.

Of some fifteen thousand tokens six hundred are learnt, the others given (:mod:`.lexicon`). An
optimiser that takes the whole table moves all of them, to be put back, and the gradient of each
step is a table, too: a tenth of a step's time for nothing. What is learnt of the words is how their
vectors are projected to the model's width: one matrix, which moves words that were never read along
with those that were.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.functional import embedding, linear, normalize


class TokenMeanings(NamedTuple):
    """N tokens with a meaning, and how their embeddings are made of it."""

    tokens: Tensor
    """(N,)"""
    vectors: Tensor
    """(N, D) meanings of the words; unit vectors."""
    capital: Tensor
    """(N, 1) the last number of each embedding, before it gets its length."""
    projection: Tensor
    """(width - 1, D) matrix to begin with."""
    length: float
    """Length of each embedding."""


class Given(NamedTuple):
    """Tokens whose embeddings are not learnt one by one."""

    still: Tensor
    """(S,) tokens that stay as they are."""
    words: TokenMeanings | None = None


def projected(vectors: Tensor, capital: Tensor, projection: Tensor, length: float) -> Tensor:
    """(N, width) the embeddings of N words."""
    meaning = normalize(linear(vectors, projection).float(), dim=1)
    return normalize(torch.cat([meaning, capital], dim=1), dim=1) * length


class EmbeddingTable:
    """The input and output embeddings (one table) of a model with V tokens of some width.

    Args:
        model: The table in it is what counts: :meth:`read` before a step, :meth:`write` after it,
            and :meth:`write_words` before the table is read elsewhere.
        given: Rows that are not learnt; ``None``: all are.
    """

    def __init__(self, model: Any, given: Given | None = None) -> None:
        self.whole: Parameter = model.get_input_embeddings().weight
        size, device = len(self.whole), self.whole.device
        words = None if given is None else given.words
        learnt = torch.ones(size, dtype=torch.bool)
        if given is not None:
            learnt[given.still.cpu()] = False
        if words is not None:
            learnt[words.tokens.cpu()] = False
            words = words._replace(
                vectors=words.vectors.to(device), capital=words.capital.to(device)
            )
        self._words = words
        self.projection = None if words is None else Parameter(words.projection.to(device).clone())
        """(width - 1, D) gradient of all words together, for an optimiser."""
        self.rows = learnt.nonzero()[:, 0].to(device)
        """(L,) tokens that are learnt one by one, ascending."""
        self.learnt = Parameter(self.whole.detach()[self.rows])
        """(L, width) matrix that an optimiser takes in place of the table."""
        self._place = _places(self.rows, size)
        self._word = _places(self.rows[:0] if words is None else words.tokens.to(device), size)

    def of(self, tokens: Tensor) -> Tensor:
        """(C, width) the embeddings of tokens (C,); gradients reach what is learnt."""
        vectors = self.whole.detach()[tokens]
        place, word = self._place[tokens], self._word[tokens]
        mine, named = (place >= 0).nonzero()[:, 0], (word >= 0).nonzero()[:, 0]
        vectors = vectors.index_copy(0, mine, embedding(place[mine], self.learnt))
        if self.projection is None:
            return vectors
        return vectors.index_copy(0, named, self._projected(word[named]))

    def read(self) -> None:
        """Take the learnt rows over from the model."""
        with torch.no_grad():
            self.learnt.copy_(self.whole[self.rows])

    def write(self) -> None:
        """Put the learnt rows into the model."""
        with torch.no_grad():
            self.whole[self.rows] = self.learnt

    def write_words(self) -> None:
        """Put all words into the model: too many to do it after each step."""
        if self._words is not None:
            with torch.no_grad():
                self.whole[self._words.tokens] = self._projected(slice(None))

    def _projected(self, which: Tensor | slice) -> Tensor:
        assert self._words is not None and self.projection is not None  # noqa: PT018
        _, vectors, capital, _, length = self._words
        return projected(vectors[which], capital[which], self.projection, length)


def _places(tokens: Tensor, size: int) -> Tensor:
    """(size,) place of each token among those given; -1 for others."""
    places = torch.full((size,), -1, device=tokens.device)
    places[tokens] = torch.arange(len(tokens), device=tokens.device)
    return places
