"""Reports: one HTML file of a run or of several, from what they have written into their folders.

``sources`` reads folders; ``training``, ``evaluations`` (with ``scores``) and ``ladders`` (with
``findings``) say what is shown of each kind; ``searchgym.charts`` draws it (Vega-Altair);
``report`` holds its parts; ``page`` puts it on the shell of ``searchgym.web``.
"""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
