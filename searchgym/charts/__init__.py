"""Charts: figures in two widths, their colours, and the shapes in which numbers are drawn.

``forest`` draws marks with intervals, ``panels`` small multiples over training, ``planes`` cost
against score, shares and budgets; ``figure`` writes any of them as SVG, PNG and data. Every chart
is a function of plain records that returns an Altair chart, wide or narrow.
"""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
