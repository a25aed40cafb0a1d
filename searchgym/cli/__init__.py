"""The ``searchgym`` command: one module per group of commands.

Only these modules import typer and rich, and they import the rest of the package inside the
commands, so that ``searchgym --help`` answers at once.
"""

from __future__ import annotations

from ..utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
