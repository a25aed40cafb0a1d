"""A reference that moves: a recipe's table ``[reference]``.

Without one the reference is the model as it was before training. TR-DPO (arXiv 2404.09656) moves it
softly (a share of the policy at each update) or hard (replaces it now and then); a method that
compares with the policy of an earlier time does the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import CardError
from ..objects import build, is_number

if TYPE_CHECKING:
    from ..policies.trainable import TrainableLM


class MovingReference:
    """Moves the reference after every ``every``-th training step: θ_ref ← θ_ref + ``share`` ·
    (θ - θ_ref).

    With ``every`` 1 the reference is an exponential moving average of the policy; with ``share`` 1
    it is the policy of up to ``every`` steps ago. In several processes each moves its own copy, of
    the same weights.

    Args:
        every: Training steps from one move to the next.
        share: Share of the policy, in (0, 1].

    Raises:
        ValueError: one of them is out of its range.
    """

    def __init__(self, every: int = 1, share: float = 1.0) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"every is a number of steps, at least 1, got {every!r}")
        if not is_number(share) or not 0 < share <= 1:
            raise ValueError(f"share is in (0, 1], got {share!r}")
        self.every, self.share = every, float(share)

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> MovingReference | None:
        """Make one from a recipe's table; None from an empty one.

        Raises:
            CardError: an unknown option, or one out of its range.
        """
        made: MovingReference | None = build("[reference]", cls, table) if table else None
        return made

    def require_copy(self, lm: TrainableLM) -> None:
        """``CardError`` unless ``lm`` keeps a copy of its weights that can move."""
        if not lm.has_copy:
            raise CardError(
                "the recipe's [reference] moves a copy of the weights, and none is kept: "
                "TrainableLM(…, reference=True) without lora; the reference of adapters is the "
                "model without them, which stands still"
            )

    def after(self, steps: int, lm: TrainableLM) -> None:
        """Move the reference if it is due when ``steps`` steps are done."""
        if steps % self.every == 0:
            lm.blend_reference(self.share)
