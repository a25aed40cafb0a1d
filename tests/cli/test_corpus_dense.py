"""``corpus index --engine dense``: built, continued, inspected, refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.engines.tiny import tiny_encoder


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    path = tmp_path / "passages.jsonl"
    words = "red blue green fox house river".split()
    rows = [
        {"id": f"p{i:03}", "title": f"T{i}", "text": f"{words[i % 6]} {words[i // 6 % 6]} {i}."}
        for i in range(120)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_build_continue_inspect(cli: Cli, passages: Path, tmp_path: Path) -> None:
    out = tmp_path / "index"
    options = ["-s", f"model={tiny_encoder()}", "-s", "device=cpu", "-s", "shard=50"]
    build = ["corpus", "index", passages, "--engine", "dense", "--index", "hnsw", "--out", out]
    made = cli(*build, *options, "-s", "links=8", "--json").json
    assert (made["kind"], made["passages"], made["numbers"]["links"]) == ("hnsw", 120, 8)
    assert 0.9 < made["recall@10 against flat"] <= 1
    assert made["queries measured"] == 120
    times = {f: f.stat().st_mtime_ns for f in out.rglob("*.npy")}
    assert len(times) == 3
    shown = cli(*build, *options, "-s", "links=8")
    assert "recall@10 against flat" in shown.out
    assert {f: f.stat().st_mtime_ns for f in out.rglob("*.npy")} == times
    asked = ["corpus", "inspect", passages, "--index", out, "-q", "red fox 3.", "--json"]
    assert len(cli(*asked).json["found"]["red fox 3."]) == 3


def test_mistakes_are_one_line(cli: Cli, passages: Path, tmp_path: Path) -> None:
    build = ["corpus", "index", passages, "--out", tmp_path / "i"]
    for more, message in (
        (["--index", "hnsw"], "--index hnsw needs --engine dense"),
        (["--engine", "dens"], "Did you mean 'dense'"),
        (["--engine", "dense", "-s", f"model={tiny_encoder()}", "-s", "size=3"], "size"),
        (["--engine", "dense", "--index", "hnws", "-s", f"model={tiny_encoder()}"], "'hnsw'"),
        (["--engine", "dense", "-s", "model=/no/such/model"], "cannot load the encoder"),
    ):
        done = cli(*build, *more)
        assert done.code == 2
        assert message in done.err.replace("\n", " ")
