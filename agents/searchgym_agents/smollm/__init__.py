"""Fine-tunes a pretrained language model to search, by demonstrations from generated worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from searchgym.utils import attach

_WHERE = {
    "recipe": ("FinetuneRecipe",),
    "run": ("Taught", "finish", "rewarded", "teach"),
}
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .recipe import FinetuneRecipe as FinetuneRecipe
    from .run import Taught as Taught
    from .run import finish as finish
    from .run import rewarded as rewarded
    from .run import teach as teach

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
