"""Diagnoses of trainings by logs of ours, TRL, verl and Search-R1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from searchgym.errors import DataError
from searchgym.reports.diagnosis import NAMES, diagnosis, read_rows
from searchgym.rl import CAUSES, Log
from searchgym.scoring import RL


def falling(step: int) -> float:
    """Nothing changes for six updates, then it falls to a hundredth."""
    return max(0.01, 1.0 - max(step - 6, 0) / 6)


def own(folder: Path, **fixed: float) -> Path:
    log = Log(folder / "rl.jsonl")
    for step in range(24):
        log.write(
            {"step": float(step), "reward": 0.3, "em": 0.3, "entropy": falling(step), **fixed}
        )
    return folder


def trl(folder: Path) -> Path:
    rows = [
        {"step": s + 1, "reward": 0.3, "entropy": falling(s), "completions/mean_length": 80.0,
         "frac_reward_zero_std": 0.2, "kl": float("nan")}
        for s in range(24)
    ]  # fmt: skip
    place = folder / "checkpoint-24"
    place.mkdir()
    state = {"global_step": 24, "log_history": [*rows, {"step": 24, "train_runtime": 3.0}]}
    (place / "trainer_state.json").write_text(json.dumps(state))
    return folder


def console(folder: Path, numpy: bool = False) -> Path:
    path = folder / "train.log"
    lines = ["loading weights: 100%", "{'not': json}"]
    for s in range(24):
        value = f"np.float64({falling(s)})" if numpy else f"{falling(s):.3f}"
        lines.append(
            f"\x1b[36m(main_task pid=7)\x1b[0m step:{s} - actor/entropy_loss:{value} - "
            f"critic/score/mean:0.300 - env/number_of_valid_search:1.2 - env/finish_ratio:0.9 - "
            f"response_length/mean:200.0"
        )
    path.write_text("\n".join(lines))
    return path


def json_lines(folder: Path) -> Path:
    path = folder / "verl.jsonl"
    rows = [
        {"step": s, "data": {"actor/entropy": falling(s), "critic/score/mean": 0.3}}
        for s in range(24)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("write", [own, trl, console, json_lines])
def test_a_collapse_is_found_in_every_trainers_log(write: Any, tmp_path: Path) -> None:
    found = diagnosis(write(tmp_path))
    assert [f["cause"] for f in found["findings"]] == ["entropy_collapse"]
    (finding,) = found["findings"]
    assert 10 <= finding["update"] <= 24
    assert finding["metric"] == "entropy"
    assert finding["start"] == pytest.approx(1.0)
    assert finding["value"] < 0.3
    assert finding["page"].endswith("#entropy_collapse")
    assert "all_invalid" in found["not_judged"], "no log here says how many turns were invalid"


LOGS: dict[str, dict[str, str]] = {
    "trl": {
        "reward": "reward", "entropy": "entropy", "completion_length": "completions/mean_length",
        "truncated": "completions/clipped_ratio", "searches": "tools/call_frequency", "kl": "kl",
        "frac_reward_zero_std": "frac_reward_zero_std", "grad_norm": "grad_norm",
        "em": "searchgym/em",
    },
    "verl": {
        "reward": "critic/score/mean", "entropy": "actor/entropy", "kl": "actor/kl_loss",
        "completion_length": "response_length/mean", "truncated": "response_length/clip_ratio",
        "searches": "tool_call_counts/mean", "grad_norm": "actor/grad_norm",
        "approx_kl": "actor/ppo_kl", "advantage": "critic/advantages/mean",
        "em": "val/test_score/nq",
    },
    "search-r1": {
        "reward": "critic/score/mean", "entropy": "actor/entropy_loss", "kl": "critic/kl",
        "completion_length": "response_length/mean", "searches": "env/number_of_valid_search",
        "grad_norm": "actor/grad_norm", "trained_share": "state_tokens/coverage",
        "approx_kl": "actor/ppo_kl", "advantage": "critic/advantages/mean",
    },
}  # fmt: skip
"""Our names → those of TRL 1.16, verl and Search-R1, as their trainers log them."""
BEFORE = {
    "reward": 0.3, "em": 0.3, "entropy": 0.8, "completion_length": 300.0, "truncated": 0.02,
    "searches": 1.5, "kl": 0.01, "frac_reward_zero_std": 0.3, "grad_norm": 0.4,
    "approx_kl": 0.001, "advantage": -0.05, "trained_share": 0.4,
}  # fmt: skip
AFTER: dict[str, dict[str, float]] = {
    "": {"reward": 0.6, "em": 0.6, "entropy": 0.4, "completion_length": 400.0, "kl": 0.2},
    "entropy_collapse": {"entropy": 0.01}, "length_blow_up": {"completion_length": 1500.0},
    "kl_blow_up": {"kl": 4.0}, "no_search": {"searches": 0.02},
    "likelihood_displacement": {"advantage": -0.9}, "off_policy": {"approx_kl": 0.4},
    "format_hacking": {"reward": 0.9, "em": 0.3},
    "no_signal": {"frac_reward_zero_std": 1.0, "em": 0.0},
    "observation_tokens": {"trained_share": 1.0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (kind, cause)
        for kind, names in LOGS.items()
        for cause, after in AFTER.items()
        if not cause or after.keys() <= names.keys()
    ],
)
def test_every_form_of_log_tells_collapses_apart(kind: str, cause: str, tmp_path: Path) -> None:
    names, after = LOGS[kind], AFTER[cause]
    rows = []
    for step in range(40):
        share = min(max(step - 8, 0) / 10, 1.0)
        now = {k: v + share * (after.get(k, v) - v) for k, v in BEFORE.items()}
        rows.append({"step": step} | {names[k]: v for k, v in now.items() if k in names})
    path = tmp_path / ("trainer_state.json" if kind == "trl" else "train.log")
    if kind == "trl":
        path.write_text(json.dumps({"log_history": rows}))
    else:
        path.write_text("\n".join(" - ".join(f"{k}:{v}" for k, v in row.items()) for row in rows))
    assert [f["cause"] for f in diagnosis(path)["findings"]] == [cause] * bool(cause)


def test_names_are_translated_and_shares_turned_round(tmp_path: Path) -> None:
    source, rows = read_rows(console(tmp_path, numpy=True))
    assert source == "verl"
    assert rows[3] == {
        "step": 3, "entropy": 1.0, "reward": 0.3, "searches": 1.2, "completion_length": 200.0,
        **{name: value for name, value in rows[3].items() if "/" in name},
        "truncated": pytest.approx(0.1),
    }  # fmt: skip
    assert len(rows) == 24


def test_every_metric_that_is_read_is_logged_by_somebody() -> None:
    ours = {name.removeprefix("1 - ") for name in NAMES.values()}
    known = {name.removesuffix("/*") for name in RL}
    for name, cause in CAUSES.items():
        for metric in cause.metrics:
            assert metric.partition("/")[0] in known or metric in ours, f"{name} reads {metric}"
    for foreign, metric in NAMES.items():
        metric = metric.removeprefix("1 - ")
        read = any(metric in cause.metrics for cause in CAUSES.values())
        assert read or metric.partition("/")[0] in known, f"{foreign} is nothing of ours: {metric}"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("trainer_state.json", '{"a": 1}', "has no 'log_history'"),
        ("trainer_state.json", "[" * 100_000, "nested too deeply"),
        ("train.log", "step:x - reward:y\n{\n", "no step with a reward"),
        ("train.log", "step:1e400 - critic/score/mean:1\n", "no step with a reward"),
    ],
)
def test_what_is_no_log_is_refused(name: str, text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=says):
        diagnosis(tmp_path / name)
    with pytest.raises(DataError, match="does not exist"):
        diagnosis(tmp_path / "nowhere")


WRONG: dict[str, Any] = {
    "step": ["x", [1], None, 1.5, 10**400], "reward": ["x", [1], 10**400],
    "warnings": [5, "no_signal", [["a"]]], "entropy": [{}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_what_no_training_writes_is_refused(name: str, value: Any, tmp_path: Path) -> None:
    row = {"step": 0, "reward": 0.3, "entropy": 1.0}
    rows = [row, row | {"step": 1, "warnings": ["entropy_collapse"], name: value}]
    (tmp_path / "rl.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"line 2: .*(no training writes|an integer)"):
        diagnosis(tmp_path)


@pytest.mark.parametrize("name", ["step", "data"])
def test_a_number_that_no_float_holds_is_passed_over(name: str, tmp_path: Path) -> None:
    path, row = json_lines(tmp_path), {"step": 24, "data": {"critic/score/mean": 10**400}}
    path.write_text(
        path.read_text() + json.dumps(row | ({"step": 10**400} if name == "step" else {}))
    )
    assert [f["cause"] for f in diagnosis(path)["findings"]] == ["entropy_collapse"]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no log that can be read"):
        diagnosis(tmp_path)


def test_warnings_of_our_trainer_are_kept(tmp_path: Path) -> None:
    """Whether equal groups teach nothing depends on the method: the trainer says so."""
    log = Log(tmp_path / "rl.jsonl")
    for step in range(8):
        row = {"step": float(step), "reward": 0.0, "em": 0.0, "frac_reward_zero_std": 1.0}
        log.write(row, ["no_signal"] if step == 4 else [])
    (finding,) = diagnosis(tmp_path)["findings"]
    assert (finding["cause"], finding["update"], finding["value"]) == ("no_signal", 4, 1.0)
