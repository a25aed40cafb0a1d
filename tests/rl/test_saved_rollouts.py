"""Saved rollouts: the tokens, masks, log-probabilities and advantages that a step trained on, and
nothing about the training changes by saving them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.core import read_jsonl
from searchgym.errors import CardError
from searchgym.rl.log import LOG
from searchgym.rl.run_folder import ROLLOUTS
from searchgym.rl.trainer import TrainConfig
from searchgym.viewer import Filter, Index, listing
from tests.rl.trainers import rows, trainer, weights

RECIPE = {"rollout": {"use": "chains", "size": 3}, "advantage": "grpo", "loss": "ppo"}


def run(out: Path, steps: int, **options: Any) -> Any:
    made = trainer(RECIPE, 3, steps=steps, tasks=2, save_every=2, out=out, **options)
    for _ in made.train():
        pass
    return made


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    run(out, 4, save_rollouts=4)
    return out


def test_saving_changes_no_number(whole: Path, tmp_path: Path) -> None:
    plain = run(tmp_path, 4)
    assert rows(tmp_path) == rows(whole)
    assert not (tmp_path / ROLLOUTS).exists()
    again = trainer(RECIPE, 3, steps=4, tasks=2, save_every=2, out=whole)
    assert torch.equal(weights(plain.lm), weights(again.lm))


def test_a_resumed_run_saves_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    run(tmp_path, 2, save_rollouts=4)
    file = tmp_path / ROLLOUTS
    ahead = (whole / ROLLOUTS).read_bytes()[file.stat().st_size :]
    with file.open("ab") as more:  # a kill after the checkpoint: a step more, and half a line
        more.write(ahead[: len(ahead) * 3 // 4])
    run(tmp_path, 4, save_rollouts=4)
    assert file.read_bytes() == (whole / ROLLOUTS).read_bytes()
    assert (tmp_path / LOG).read_text().count("\n") == 4


def test_what_is_saved_is_what_was_trained_on(whole: Path) -> None:
    found = list(read_jsonl(whole / ROLLOUTS))
    assert [t.training["step"] for t in found] == [s for s in range(4) for _ in range(4)]
    groups: dict[Any, list[Any]] = {}
    for t in found:
        episode = t.replay()
        (row,) = t.training["rows"]
        written = "".join(
            text for text, turn in zip(row["text"], row["turn"], strict=True) if turn is not None
        )
        for turn in episode.turns:
            assert turn.text in written
        sampled = [p for p in row["logp"] if p is not None]
        assert all(p <= 0 for p in sampled)
        assert len(sampled) == sum(n is not None for n in row["turn"])
        for turn, trained, advantage in zip(
            row["turn"], row["trained"], row["advantage"], strict=True
        ):
            assert (advantage is None) == (not trained)
            assert not trained or turn is not None
        assert t.training["reward"] == pytest.approx(t.ret, abs=1e-6)
        groups.setdefault((t.training["step"], t.training["group"]), []).append(t)
    # GRPO's advantages: within a complete group they have the sign of reward minus mean
    for members in (g for g in groups.values() if len(g) == 3):
        rewards = np.array([m.training["reward"] for m in members])
        for member, gap in zip(members, rewards - rewards.mean(), strict=True):
            for advantage in member.training["advantages"].values():
                assert np.sign(np.round(advantage, 6)) == np.sign(np.round(gap, 6))


def test_the_viewer_reads_them(whole: Path) -> None:
    index = Index(whole)
    found = listing(index, Filter(step="2"))
    assert found.total == 4
    record = index.record(found.rows[0]["key"])
    assert record is not None
    assert record.step == 2
    assert record.tokens
    assert all(t.advantage is not None for t in record.turns)
    trained = [t for t in record.tokens[0] if t.trained]
    assert trained
    assert all(t.logp is not None and t.advantage is not None for t in trained)


def test_fewer_than_none_is_refused() -> None:
    with pytest.raises(CardError, match=r"save_rollouts must be .* at least 0, got -1"):
        TrainConfig(save_rollouts=-1)
