"""A viewer of trajectories: an index beside a run, and pages over it.

``record`` is what every page shows, whatever wrote the file; ``formats`` finds and reads the files;
``index`` finds episodes among many without holding them; ``app`` serves, ``export`` writes a file.
"""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
