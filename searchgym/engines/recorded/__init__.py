"""Record, replay, or replay-or-ask-live: any engine or page source made reproducible."""

from .engine import RecordedEngine, RecordedPages, RecordedService, make

__all__ = ["RecordedEngine", "RecordedPages", "RecordedService", "make"]
