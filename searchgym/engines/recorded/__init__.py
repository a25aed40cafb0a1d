"""Record, replay, or replay-or-ask-live: any engine, page source or tool made reproducible.

Answers lie in one SQLite file, keyed by a digest of (the service's fingerprint, the request in
canonical form), so recordings of several services or versions share a file and never mix. What was
answered is on disk: a killed process loses nothing that it handed out.

Degrade what was recorded, never record what was degraded: noise belongs to one episode, a recording
to all. After DeepTravel's cached sandbox (``CachedBackend``) and SenseNova-MARS's cache.
"""

from .engine import RecordedEngine, RecordedPages, RecordedService, make

__all__ = ["RecordedEngine", "RecordedPages", "RecordedService", "make"]
