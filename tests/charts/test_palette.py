"""Colours that everybody can tell apart, on both backgrounds."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from searchgym.charts.palette import SCHEMES, SERIES, Scheme, css, resolved

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB
SEEN: dict[str, Any] = {
    "all": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def linear(colour: str) -> np.ndarray:
    c = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    m = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
         [0.0193339, 0.1191920, 0.9503041]]  # fmt: skip
    xyz = np.array(m) @ np.clip(rgb, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_and_distance(scheme: Scheme) -> None:
    colours = SCHEMES[scheme]
    weights = np.array([0.2126, 0.7152, 0.0722])
    paper = linear(colours["chart-paper"]) @ weights
    for name, value in colours.items():
        light = linear(value) @ weights
        contrast = (max(light, paper) + 0.05) / (min(light, paper) + 0.05)
        if name.startswith("c") and name[1:].isdigit():
            assert contrast >= 3, name
        elif name in ("chart-ink", "chart-muted"):
            assert contrast >= 4.5, name
    series = [v for k, v in colours.items() if k[1:].isdigit()]
    assert len(series) == len(SERIES) + 1
    for seen, matrix in SEEN.items():
        for a, b in combinations(series, 2):
            far = np.linalg.norm(lab(matrix @ linear(a)) - lab(matrix @ linear(b)))
            assert far > 10, (seen, a, b)


def test_variables_are_given_values_everywhere() -> None:
    spec = {"a": ["var(--c0)", 1, {"b": "x var(--chart-ink)"}], "c": None}
    assert resolved(spec, "light") == {
        "a": [SCHEMES["light"]["c0"], 1, {"b": f"x {SCHEMES['light']['chart-ink']}"}], "c": None,
    }  # fmt: skip
    with pytest.raises(KeyError):
        resolved("var(--nothing)", "dark")
    assert f"--c0: light-dark({SCHEMES['light']['c0']}, {SCHEMES['dark']['c0']});" in css()
