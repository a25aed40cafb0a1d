"""``searchgym simulator``: from a corpus to a model that answers searches."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Cli

WORLD = ["-s", "world.entities=400", "--tasks", "16", "--words", "10", "--docs", "1"]


def test_data_train_and_measure(cli: Cli, tmp_path: Path) -> None:
    pairs, out = tmp_path / "pairs.jsonl", tmp_path / "model"
    made = cli("simulator", "data", "encyclopedia", "--out", pairs, *WORLD, "--json")
    assert made.code == 0, made.err
    rows = [json.loads(line) for line in pairs.read_text().splitlines()]
    assert made.json["useful"] + made.json["noisy"] == len(rows)
    assert {row["kind"] for row in rows} == {"useful", "noisy"}
    again = tmp_path / "again.jsonl"
    same = cli("simulator", "data", "encyclopedia", "--out", again, *WORLD, "--json")
    assert same.json["digest"] == made.json["digest"]
    two = cli("simulator", "data", "encyclopedia", "--out", again, *WORLD, "--worlds", 2, "--json")
    assert two.json["useful"] > 1.5 * made.json["useful"]

    train = ["simulator", "train", "--data", pairs, "--tiny", "--steps", 2, "--batch", 4, "--json"]
    done = cli(*train, "--out", out)
    assert done.code == 0, done.err
    assert done.json["steps"] == 2
    assert 900_000 < done.json["parameters"] < 1_300_000
    assert (out / "model.safetensors").is_file()
    finished = cli(*train, "--out", out)
    assert finished.json["loss"] is None
    assert "trained to its last step already" in finished.err
    other = cli(*train, "--out", out, "--lr", 0.001)
    assert other.code == 2
    assert "other settings (config)" in other.err

    measured = cli(
        "simulator", "measure", "encyclopedia", "--model", out, "-s", "world.entities=400",
        "--tasks", 2, "--k", 1, "--words", 10, "--temperature", 0, "--max-tokens", 60, "--json",
    )  # fmt: skip
    assert measured.code == 0, measured.err
    assert [row["kind"] for row in measured.json] == ["useful", "noisy"]
    assert all(row["failed"] == 0 for row in measured.json)


def test_environments_and_own_sets_are_sources_too(cli: Cli, tmp_path: Path) -> None:
    small = ["-s", "world.entities=400", "-s", 'tasks={"simple": 5}']
    out = tmp_path / "p.jsonl"
    made = cli("simulator", "data", "SearchQA-v0", "--out", out, *small, "--json")
    assert made.code == 0, made.err
    assert made.json["useful"] > 0
    folder = tmp_path / "notes.jsonl"
    folder.write_text(
        json.dumps({"id": "1", "contents": "Aldor\nAldor was founded by Mira Venn."}) + "\n"
        + json.dumps({"id": "2", "contents": "Osten\nOsten was founded by Tom Ray."}) + "\n"
    )  # fmt: skip
    questions = tmp_path / "q.jsonl"
    questions.write_text(
        json.dumps({"id": "q", "question": "Who founded Aldor?", "answers": ["Mira Venn"]}) + "\n"
    )
    made = cli(
        "simulator", "data", folder, "--out", out, "-s", f"tasks={questions}", "--noise", 1,
        "--json",
    )  # fmt: skip
    assert made.code == 0, made.err
    rows = {r["kind"]: r for r in map(json.loads, out.read_text().splitlines())}
    assert "Mira Venn" in rows["useful"]["completion"]
    assert "Tom Ray" in rows["noisy"]["completion"]


def test_mistakes_are_one_clear_line(cli: Cli, tmp_path: Path) -> None:
    unknown = cli("simulator", "data", "encyclopaedia", "--out", tmp_path / "x")
    assert unknown.code == 2
    assert "encyclopedia" in unknown.err
    data = tmp_path / "d.jsonl"
    data.write_text('{"prompt": "a", "completion": "b"}\n')
    for extra in ([], ["--tiny", "--model", "x"]):
        wrong = cli("simulator", "train", "--data", data, "--out", tmp_path / "m", *extra)
        assert wrong.code == 2
        assert "--tiny (from nothing) or --model NAME" in wrong.err
    absent = cli("simulator", "train", "--tiny", "--data", tmp_path / "no", "--out", tmp_path / "m")
    assert absent.code == 2
    assert "cannot read" in absent.err
