"""Rows that go through a model together: padding on the right, equal ones once."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .rows import TrainingRow

if TYPE_CHECKING:
    from torch import Tensor


def distinct(rows: Sequence[TrainingRow]) -> tuple[list[TrainingRow], list[int]]:
    """Return the first of all rows of equal ids, and the place of each row's equal among them.

    Members of a group often write the same, the more so the surer a policy is; what a model says of
    a row does not depend on the rows beside it, so that it need not be asked twice.
    """
    unique: list[TrainingRow] = []
    places: dict[bytes, int] = {}
    index: list[int] = []
    for row in rows:
        place = places.setdefault(row.ids.tobytes(), len(unique))
        if place == len(unique):
            unique.append(row)
        index.append(place)
    return unique, index


def right_padded(model: Any, rows: Sequence[TrainingRow], pad: int) -> dict[str, Tensor]:
    """Arguments of ``model.forward`` for R rows: ``input_ids``, (R, T), and ``position_ids`` if it
    takes them.

    Padding is on the right, where neither causal attention nor convolution looks, so it needs no
    mask, and attention may take its fast causal path.
    """
    import torch

    width = max(map(len, rows))
    ids = np.full((len(rows), width), pad, np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row.ids
    made = {"input_ids": torch.from_numpy(ids).to(model.device)}
    if "position_ids" in inspect.signature(model.forward).parameters:
        made["position_ids"] = torch.arange(width, device=model.device).expand(len(rows), width)
    return made
