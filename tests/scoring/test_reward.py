"""Rewards from what cards and commands say."""

from __future__ import annotations

from typing import Any

import pytest

from searchgym.errors import CardError
from searchgym.rewards import Reward


def test_a_name_weights_or_a_spec() -> None:
    assert Reward.of("f1").weights == {"f1": 1.0}
    spec = Reward.of({"em": 1, "search": -0.02})
    assert spec.weights == {"em": 1.0, "search": -0.02}
    assert Reward.of(spec) is spec
    assert spec.effective({"w_search": 0, "noise": 1}) == {"em": 1.0, "search": 0.0}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"emm": 1.0}, "unknown reward part 'emm'"),
        ({"em": "much"}, "weight of reward part 'em' is a number, got 'much'"),
        ({"em": None}, "got None"),
        ({"em": True}, "got True"),
        ({"em": float("nan")}, "got nan"),
        ({"em": float("inf")}, "got inf"),
        (3, "a part's name or a table of weights, got 3"),
    ],
)
def test_mistakes_are_named(said: Any, message: str) -> None:
    with pytest.raises(CardError, match=message):
        Reward.of(said)
