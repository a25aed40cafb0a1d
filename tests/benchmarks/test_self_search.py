"""The measurement of self-search, at a small size: right answers count in all three ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from searchgym.core import self_search_text
from searchgym.dialects import get_dialect
from searchgym.types import Task
from tests.benchmarks import self_search
from tests.benchmarks.gpu.models import random_model, tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    random_model("tiny", torch.device("cpu"), torch.float32).save_pretrained(folder)
    tokenizer("tiny").save_pretrained(folder)
    return folder


@pytest.mark.contract
def test_a_report_has_every_way(model: Path, tmp_path: Path) -> None:
    asked = [str(model), "--envs", "SearchQA-v0", "--questions", "3", "--samples", "4",
             "--max-tokens", "48"]  # fmt: skip
    report = self_search.main([*asked, "--real-samples", "2", "--out", str(tmp_path / "x.json")])
    assert json.loads((tmp_path / "x.json").read_text()) == report
    ways = report["SearchQA-v0"]
    assert list(ways) == ["closed book", "self-search", "sim-to-real"]
    for way, ks in (("closed book", "124"), ("self-search", "124"), ("sim-to-real", "12")):
        assert list(ways[way]["pass@k"]) == list(ks)
        assert ways[way]["right"] == [0, 0, 0]


def test_texts_are_scored_as_episodes_are() -> None:
    asked = self_search.Asked("SearchQA-v0", 4, 2, 0)
    dialect: Any = get_dialect(self_search.opening(asked.env, asked.tasks[0]).config.rules.dialect)

    def right(task: Task) -> str:
        return self_search_text(task, dialect, asked.env.corpus.passage, 420)

    texts = [text for task in asked.tasks for text in (right(task), "<answer> no </answer>")]
    scores = asked.scores(texts)
    assert scores.tolist() == [[1.0, 0.0]] * 4
    assert self_search.curve(scores)["1"][0] == 0.5
    assert self_search.curve(scores)["2"][0] == 1.0
