"""A table of embeddings of which few rows are learnt, at the cost of those few.

Of some fifteen thousand tokens six hundred are learnt, the others given (:mod:`.lexicon`). An
optimiser that takes the whole table moves all of them, to be put back, and the gradient of each
step is a table, too: a tenth of a step's time for nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter


class Table:
    """The input and output embeddings (one table) of a model with V tokens of some width.

    Args:
        model: The table in it is what counts: :meth:`read` before, :meth:`write` after a step.
        given: (N,) rows that stay as they are; ``None``: none.
    """

    def __init__(self, model: Any, given: Tensor | None = None) -> None:
        self.whole: Parameter = model.get_input_embeddings().weight
        learnt = torch.ones(len(self.whole), dtype=torch.bool)
        if given is not None:
            learnt[given.cpu()] = False
        device = self.whole.device
        self.rows = learnt.nonzero()[:, 0].to(device)
        """(L,) those that are learnt, ascending."""
        self.learnt = Parameter(self.whole.detach()[self.rows])
        """(L, width) what an optimiser takes in place of the table."""
        self._place = torch.full((len(self.whole),), -1, device=device)
        self._place[self.rows] = torch.arange(len(self.rows), device=device)

    def of(self, tokens: Tensor) -> Tensor:
        """(C, width) the embeddings of tokens (C,); gradients reach those that are learnt."""
        place = self._place[tokens]
        mine = torch.nn.functional.embedding(place.clamp(min=0), self.learnt)
        return torch.where((place >= 0)[:, None], mine, self.whole.detach()[tokens])

    def read(self) -> None:
        """Take the learnt rows over from the model."""
        with torch.no_grad():
            self.learnt.copy_(self.whole[self.rows])

    def write(self) -> None:
        """Put the learnt rows into the model."""
        with torch.no_grad():
            self.whole[self.rows] = self.learnt
