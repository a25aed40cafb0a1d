"""The speedrun: its clock, runs at a small size, and records that are forged."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from searchgym.errors import CardError, EvaluationError
from searchgym_agents.speedrun import Clock, check_record, record, records, run
from searchgym_agents.speedrun.tracks import Plan
from tests.cli.conftest import Cli, cli

__all__ = ["cli"]
SMALL = {**record.HELD_OUT, "world": {"entities": 400}, "tasks": {"chain-2": 8}}
"""Seven questions: the world holds no eighth."""
QUICK = (
    'env={world={entities=300},tasks={"chain-2"=20}}', "worlds=[0]", "encoder={none=true}",
    "config={episodes=30,questions=10,members=1}",
)  # fmt: skip
TAUGHT = (
    "demonstrations.seeds=[0,1]", "demonstrations.variants=[{}]", "sft.steps=2", "sft.batch=2",
    "sft.max_tokens=9000", "sft.tokens=9000",
    "demonstrations.env.world.entities=300", "demonstrations.env.tasks.simple=4", "turn_tokens=4",
    "freeze=[]", "renderer=plain", 'demonstrations.env.tasks.chain-2=2',
)  # fmt: skip


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "HELD_OUT", SMALL)
    monkeypatch.setattr(record, "SCREEN", 4)


def test_the_clock_stands_still_while_it_is_stopped() -> None:
    clock = Clock()
    with clock.stopped() as before:
        time.sleep(0.2)
        sum(range(10**6))
    after = clock.seconds()
    assert before[0] <= after[0] < before[0] + 0.1
    assert after[1] - before[1] < 0.02


def test_a_run_ends_where_the_bar_is_reached_and_its_record_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setattr(record, "BAR", 0.0)
    made = run("scorer", Plan(0, tmp_path, QUICK), every=1)
    assert (made["reached"], len(made["curve"]), len(made["actions"])) == (True, 1, 7)
    assert 0 < made["wall_s"] < 60
    assert made["parameters"] > 1000
    path = tmp_path / "record.json"
    assert check_record(path) == (json.loads(path.read_text()), [])
    assert cli("speedrun", "--verify", path).code == 0
    assert "ok" in cli("verify", tmp_path / "final.json").out
    with pytest.raises(EvaluationError, match="holds a record"):
        run("scorer", Plan(0, tmp_path, QUICK))
    forgeries: dict[str, Any] = {
        "em": made["em"] + 0.125, "reached": False, "questions": "of another world",
        "wall_s": made["wall_s"] / 2,
        "actions": {key: ["<answer> nobody </answer>"] for key in made["actions"]},
        "curve": [made["curve"][0] | {"updates": 9, "em": 0.5}, *made["curve"]],
    }  # fmt: skip
    if made["em"] == 0.0:
        del forgeries["actions"]
    for key, value in forgeries.items():
        path.write_text(json.dumps({**made, key: value}))
        assert cli("speedrun", "--verify", path).code == 1, key
    for point in ({"wall_s": 0.0, "processor_s": 0.0}, {"wall_s": 10**400}):
        path.write_text(json.dumps(made | point | {"curve": [made["curve"][-1] | point]}))
        assert cli("speedrun", "--verify", path).code == 1, point
    for change in ({"curve": []}, {"em": 10**400}, {"parameters": "1"}, {"curve": [[1]]}):
        path.write_text(json.dumps(made | change))
        assert "is no record" in cli("speedrun", "--verify", path).err
    path.write_text("{}")
    assert cli("speedrun", "--verify", path).code == 2


def test_a_bar_that_is_not_reached_is_recorded_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "BAR", 1.5)
    seen: list[Any] = []
    made = run("scorer", Plan(0, tmp_path, QUICK), every=1, report=seen.append)
    assert [point["updates"] for point in made["curve"]] == [1, 2, 3]
    assert [point["questions"] for point in made["curve"]] == [7, 4, 7]
    assert (made["reached"], len(seen)) == (False, 3)
    assert check_record(tmp_path / "record.json")[1] == []
    short = run("scorer", Plan(0, tmp_path / "short", QUICK), every=1, seconds=1e-9)
    assert [point["questions"] for point in short["curve"]] == [7]
    assert not short["reached"]


def test_a_language_model_runs_on_the_track_of_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from searchgym.llms import small_model, train_tokenizer

    monkeypatch.setattr(record, "BAR", 1.5)
    tokenizer = train_tokenizer(["search answer Who is it?"] * 9, 300)
    small_model(tokenizer, width=32, context=9000).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    plan = Plan(0, tmp_path / "run", TAUGHT, str(tmp_path / "model"))
    with pytest.raises(CardError, match="300 to 700 million"):
        run("0.5b", plan, every=1)
    made = run("135m", plan, every=1)
    assert [point["updates"] for point in made["curve"]] == [1, 2]
    assert check_record(tmp_path / "run" / "record.json")[1] == []


def test_what_cannot_run_says_what_to_type(cli: Cli) -> None:
    assert "--model" in cli("speedrun", "0.5b").err
    assert "Known: 0.5b, 135m, scorer" in cli("speedrun", "1b").err


@pytest.mark.contract
@pytest.mark.parametrize("kept", records(), ids=lambda kept: f"{kept['track']}-{kept['date']}")
def test_kept_records_are_true(
    kept: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    path = tmp_path / "record.json"
    path.write_text(json.dumps(kept))
    assert check_record(path)[1] == []
