"""Reports: one HTML file of a run or of several, from what they have written into their folders.

``sources`` reads folders; ``training``, ``evaluations`` (with ``scores``) and ``ladders`` (with
``findings``) say what is shown of each kind; ``searchgym.charts`` draws it (Vega-Altair);
``episodes`` leads from numbers to episodes; ``page`` puts it on the shell of ``searchgym.web``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..utils import attach

_WHERE = {
    "ladders": ("figure_of", "ladder_figure"),
    "training": ("learning_figure",),
}
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .ladders import figure_of as figure_of
    from .ladders import ladder_figure as ladder_figure
    from .training import learning_figure as learning_figure

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
