"""Causes of a collapse: each is found by its signs, once, and not in a sound training."""

from __future__ import annotations

import json
from typing import Any

import pytest

from searchgym.rl.collapse import CAUSES, CollapseMonitor, diagnose

SOUND = {
    "reward": 0.3, "em": 0.3, "searches": 1.5, "entropy": 0.8, "completion_length": 50.0,
    "truncated": 0.05, "truncated_gain": -0.2, "repetition": 0.05, "em_correlation": 0.9,
    "search_gain": 0.1, "length_gain": -0.1, "advantage": -0.1,
    "foreign_tokens": 0.0, "trained_share": 0.4, "kl": 0.01, "approx_kl": 0.001, "invalid": 0.05,
    "importance_sampling_ratio/kl": 0.001, "sampling_logp_difference/mean": 0.001,
    "grad_norm": 1.0, "frac_reward_zero_std": 0.2,
}  # fmt: skip
SICK: dict[str, list[dict[str, float]]] = {
    "no_signal": [{"frac_reward_zero_std": 1.0, "em": 0.0}, {"grad_norm": 0.0, "em": 0.0}],
    "all_invalid": [{"invalid": 1.0}],
    "no_search": [
        {"search_gain": -0.8}, {"searches": 0.05}, {"searches": 0.9, "reward": 0.6},
    ],
    "entropy_collapse": [{"entropy": 0.001, "em": 0.8}, {"entropy": 0.1}],
    "format_hacking": [{"reward": 0.8, "em_correlation": 0.2}],
    "length_blow_up": [
        {"completion_length": 200.0}, {"completion_length": 80.0, "reward": 0.4},
        {"completion_length": 58.0, "length_gain": 0.4},
        {"truncated": 0.9},
    ],
    "likelihood_displacement": [{"advantage": -0.9}, {"entropy": 2.0, "em": 0.1}],
    "search_addiction": [{"searches": 4.0, "reward": 0.9, "em": 0.2}],
    "repetition": [{"repetition": 0.6}, {"repetition": 0.1, "reward": 0.4}],
    "off_policy": [
        {"importance_sampling_ratio/kl": 0.5}, {"sampling_logp_difference/mean": 0.3},
        {"approx_kl": 0.5},
    ],
    "kl_blow_up": [{"kl": 5.0}],
    "noisy_reward": [{"em_correlation": 0.1}],
    "observation_tokens": [{"foreign_tokens": 0.5}, {"trained_share": 1.0}],
    "truncated_rewarded": [{"truncated": 0.7, "truncated_gain": 0.2}],
}  # fmt: skip


def drifting(changes: dict[str, float], steps: int = 30) -> list[dict[str, Any]]:
    """Sound metrics that drift to others from the seventh update to the seventeenth."""
    rows = []
    for step in range(steps):
        share = min(max(step - 6, 0) / 10, 1.0)
        now = {k: v + share * (changes.get(k, v) - v) for k, v in SOUND.items()}
        rows.append({"step": step, **now})
    return rows


def test_every_cause_has_a_case() -> None:
    assert SICK.keys() == CAUSES.keys()
    assert all(len(SICK[name]) <= len(cause.signs) for name, cause in CAUSES.items())


@pytest.mark.parametrize(
    ("name", "changes"), [(name, one) for name, cases in SICK.items() for one in cases]
)
def test_a_cause_is_found_by_its_signs(name: str, changes: dict[str, float]) -> None:
    found = diagnose(drifting(changes), compares_groups=True).findings
    assert name in [finding.cause for finding in found]
    (finding,) = [f for f in found if f.cause == name]
    assert 6 < finding.update < 29
    assert finding.metric in finding.text
    assert CAUSES[name].remedy in finding.text
    assert json.loads(json.dumps(finding.row()))["page"] == f"collapse.md#{name}"


def test_a_sound_training_has_no_finding() -> None:
    assert diagnose(drifting({}), compares_groups=True).warned == []
    better = {"reward": 0.9, "em": 0.9, "searches": 1.0, "entropy": 0.2, "completion_length": 90.0}
    assert diagnose(drifting(better), compares_groups=True).warned == []
    done = {**better, "em": 0.98, "frac_reward_zero_std": 1.0, "entropy": 0.001}
    assert diagnose(drifting(done), compares_groups=True).warned == [], "it has learnt all there is"


def test_what_is_not_logged_is_not_judged() -> None:
    rows = [{k: row[k] for k in ("reward", "kl")} for row in drifting({"kl": 5.0})]
    monitor = diagnose(rows)
    assert monitor.warned == ["kl_blow_up"]
    assert monitor.judged() == ["kl_blow_up"]


def test_a_monitor_of_an_older_version_begins_anew() -> None:
    monitor = CollapseMonitor(warn=False)
    monitor.load_state_dict({"seen": 4, "start": {}, "average": {}, "warned": []})
    for row in drifting({"entropy": 0.001}):
        monitor.update(row)
    assert monitor.warned == ["entropy_collapse"]
