"""Rungs that need something running: our own server on loopback, a recording, a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from searchgym import FirstHitAgent
from searchgym.benchmark import transfer
from searchgym.benchmark.ladder import Engines, choose, full_ladder
from searchgym.corpora import load_set
from searchgym.evaluation import EvalResult
from searchgym.llms import Sampling, small_model, train_tokenizer
from searchgym.policies import save_note
from tests.benchmark.small_world import SMALL as WORLD
from tests.cli.conftest import SMALL, Cli, cli  # noqa: F401
from tests.engines.served import running


def _rows(result: EvalResult) -> list[tuple[Any, ...]]:
    return [(r.task_id, r.answer, r.f1, r.searches, r.end) for r in result.rows]


def test_a_server_and_its_recording_answer_alike(data_dir: Path, tmp_path: Path) -> None:
    corpus, _ = load_set("popqa", data_dir=data_dir)
    tape = tmp_path / "calls.sqlite"
    options: dict[str, Any] = {"data_dir": data_dir, "sets": ["popqa"], "cap": 25}
    with running("search-r1", corpus) as url:
        engines = Engines(remote=f"{url}/retrieve", recording=tape)
        rungs = choose(full_ladder(WORLD, engines=engines, **options), ["popqa", "remote"]).rungs
        table = transfer({"first": FirstHitAgent()}, rungs)
    (here,), (there,) = (table.results[rung.name, "first"] for rung in rungs)
    assert [r.name for r in rungs] == ["popqa", "remote engine: popqa"]
    assert _rows(here) == _rows(there)
    (drop,) = table.drops()
    assert (drop.rung, drop.paired, drop.drop.mean) == ("remote engine: popqa", True, 0)
    # the server is gone; what it said is not
    replay = Engines(recording=tape)
    (rung,) = choose(full_ladder(WORLD, engines=replay, **options), ["remote"]).rungs
    assert rung.name == "recorded engine: popqa"
    again = transfer({"first": FirstHitAgent()}, [rung])
    assert _rows(again.results[rung.name, "first"][0]) == _rows(there)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two untrained language models of one kind, as ``searchgym warmstart`` leaves them."""
    folder = tmp_path_factory.mktemp("models")
    words = train_tokenizer(["who wrote the book of the town and the river <search>"] * 4)
    made = []
    for seed in (0, 1):
        place = folder / f"seed-{seed}"
        small_model(words, width=32, seed=seed).save_pretrained(place)
        words.save_pretrained(place)
        save_note(place, "bare", Sampling(max_tokens=6))
        made.append(place)
    return made


@pytest.mark.slow  # untrained models write to the last token
def test_language_models_climb_by_their_folders(
    cli: Cli,  # noqa: F811
    models: list[Path],
    tmp_path: Path,
) -> None:
    arguments = (
        "transfer", f"reader={models[0]},{models[1]}", "--env", "SimpleQA-v0", *SMALL, "-n", 3,
        "-s", "max_turns=2",  # of 256 tokens each: these models do not know how to end
        "--rungs", "world,wording", "--data-dir", tmp_path, "--out", tmp_path / "t", "--json",
    )  # fmt: skip
    done = cli(*arguments)
    assert done.code == 0, done.err
    found = {(r["rung"], r["agent"], r["metric"]): r for r in done.json["table"]}
    assert found["held-out world", "reader", "f1"]["seeds"] == 2
    assert found["held-out world", "rules", "f1"]["questions"] == 3
    (base,) = set(done.json["baselines"].values())
    assert base in ("first-hit", "best-sentence", "rules")
    assert [g["ratio"] for g in done.json["gains"]] == [None], "it has learnt nothing"
    assert "undefined" not in done.out
    shown = cli(*arguments[:-1], "--full")
    assert "undefined" in shown.out
    assert "reader" in shown.out
