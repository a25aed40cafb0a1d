"""What a folder holds, and what is said of folders that hold something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from searchgym.errors import DataError, EvaluationError, SearchGymError
from searchgym.reports.sources import (
    CANDIDATE,
    EVALUATION,
    LADDER,
    RL,
    SFT,
    read_run,
    read_runs,
)
from tests.reports.conftest import STEPS


def test_each_kind_is_known(trained: list[Path], evaluated: Path, climbed: Path) -> None:
    run = read_run(trained[1])
    assert (run.kind, run.curves[0].seed, len(run.curves[0].rows)) == (RL, 1, STEPS)
    assert run.machine["cores"] >= 1
    assert run.machine["versions"]["python"]
    run = read_run(evaluated)
    assert run.kind == EVALUATION
    assert sorted(r.agent for r in run.results) == ["first-hit", "oracle", "rules", "rules"]
    assert read_run(evaluated / "oracle.json").results[0].means["em"].mean == 1.0
    assert read_run(climbed).kind == LADDER


def test_a_candidate_that_was_trained(tmp_path: Path) -> None:
    from searchgym_agents.candidate.scorer import CandidateScorer, save_scorer

    (tmp_path / "agents").mkdir()
    curve = [{"episodes": n, "f1": n / 4000, "em": 0.1, "searches": 1.0} for n in (0, 1000)]
    meta = {"curve": curve, "seed": 4, "episodes": 1000, "recipe": "x", "seconds": 2.0}
    save_scorer(CandidateScorer(), tmp_path / "agents" / "seed-4.safetensors", meta)
    (tmp_path / "agents" / "seed-5.checkpoint.safetensors").write_bytes(b"in the making")
    run = read_run(tmp_path)
    assert run.kind == CANDIDATE
    assert [(c.seed, list(c.rows)) for c in run.curves] == [(4, curve)]
    save_scorer(CandidateScorer(), tmp_path / "agents" / "seed-4.safetensors", {})
    with pytest.raises(DataError, match="no learning curve"):
        read_run(tmp_path)


def test_training_on_examples(tmp_path: Path) -> None:
    (tmp_path / "sft.jsonl").write_text('{"step": 10, "loss": 2.5, "accuracy": 0.5}\n')
    run = read_run(tmp_path)
    assert (run.kind, run.curves[0].rows[0]["loss"]) == (SFT, 2.5)
    (tmp_path / "trainer.safetensors").write_bytes(b"half")
    with pytest.raises(DataError, match=r"trainer\.safetensors: not written by SearchGym"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("rl.jsonl", "", "is empty: no step was finished yet"),
        ("rl.jsonl", '{"step": 0}\nnonsense\n{"step": 2}\n', "line 2"),
        ("rl.jsonl", '[1]\n{"step": 1}\n', "line 1: expected a JSON object with 'step'"),
        ("transfer.json", "{", "cannot be read"),
        ("transfer.json", "[]", "is no transfer table"),
        ("transfer.json", '{"rungs": [], "table": []}', "no agent has finished"),
        ("x.json", '{"schema_version": 0, "rows": [], "columns": []}', "schema version 0"),
        ("x.json", "{", "cannot be read"),
        ("notes.txt", "x", "holds no run that can be reported: looked for rl.jsonl"),
    ],
)
def test_what_is_broken_is_named(tmp_path: Path, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(SearchGymError, match=told) as caught:
        read_run(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_half_written_last_line_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "rl.jsonl").write_text('{"step": 0, "reward": 1.0}\n{"step": 1, "rew')
    assert len(read_run(tmp_path).curves[0].rows) == 1


def test_a_result_of_another_version(evaluated: Path, tmp_path: Path) -> None:
    data = json.loads((evaluated / "rules.json").read_text(encoding="utf-8"))
    (tmp_path / "old.json").write_text(json.dumps({**data, "schema_version": 1}))
    with pytest.raises(EvaluationError, match=r"old\.json.*schema version 1"):
        read_run(tmp_path)


def test_an_evaluation_without_a_finished_question_is_one_line(
    evaluated: Path, tmp_path: Path
) -> None:
    data = json.loads((evaluated / "rules.json").read_text(encoding="utf-8"))
    data |= {"rows": [], "complete": False}
    (tmp_path / "rules.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(DataError, match=r"rules.json: no question was played to its end yet"):
        read_run(tmp_path)


def test_kinds_are_not_mixed(trained: list[Path], evaluated: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"different kinds.*training by reinforcement.*evaluation"):
        read_runs([trained[0], evaluated])
    with pytest.raises(DataError, match="named twice"):
        read_runs([evaluated, evaluated / ".." / evaluated.name])
    with pytest.raises(DataError, match="does not exist"):
        read_runs([tmp_path / "nothing"])
    with pytest.raises(DataError, match="no run was named"):
        read_runs([])
