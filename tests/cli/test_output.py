"""How values are shown in tables."""

from __future__ import annotations

from typing import Any

import pytest

from searchgym.cli.output import cell


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (True, "yes"),
        (12345, "12,345"),
        (0.25, "0.250"),
        (0.0, "0.000"),
        (1e-6, "1e-06"),  # a learning rate, not nothing
        (["ppo", {"use": "entropy", "weight": 1e-3}], "ppo, {use=entropy, weight=0.001}"),
        ({"use": "kl", "base": {"use": "ppo", "lam": 1.0}}, "use=kl, base={use=ppo, lam=1}"),
        ([], "–"),
        ((1, 2, 3), "1, 2, 3"),
    ],
)
def test_a_value_as_a_table_shows_it(value: Any, shown: str) -> None:
    assert cell(value) == shown
