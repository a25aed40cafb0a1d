"""The speedrun: how fast an agent learns to answer held-out two-hop questions."""

from .record import BAR, HELD_OUT, Clock, check_record, held_out, records, run
from .tracks import TRACKS

__all__ = ["BAR", "HELD_OUT", "TRACKS", "Clock", "check_record", "held_out", "records", "run"]
