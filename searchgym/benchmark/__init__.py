"""The transfer benchmark: a ladder from the training world to real questions, its table and
report."""

from .ladder import REAL_SETS, Rung, generated_rungs, real_rungs, rungs_of, text_rungs
from .run import oracle, transfer
from .table import Contrast, TransferTable, save_report

__all__ = [
    "REAL_SETS",
    "Contrast",
    "Rung",
    "TransferTable",
    "generated_rungs",
    "oracle",
    "real_rungs",
    "rungs_of",
    "save_report",
    "text_rungs",
    "transfer",
]
