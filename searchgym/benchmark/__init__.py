"""From the world an agent was trained in to real questions: the ladder, the table, the report."""

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
