"""The transfer benchmark: a ladder from the training world to real questions, its table and
report."""

from .run import oracle, transfer
from .rungs import Rung, generated_rungs, real_rungs, rungs_of, smoke_rung
from .table import Contrast, TransferTable

__all__ = [
    "Contrast",
    "Rung",
    "TransferTable",
    "generated_rungs",
    "oracle",
    "real_rungs",
    "rungs_of",
    "smoke_rung",
    "transfer",
]
