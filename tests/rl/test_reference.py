"""A reference that moves goes where the table says, and a killed run's goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from searchgym.errors import CardError, EngineError
from searchgym.policies import Lora, TrainableLM
from searchgym.rl.launch import Plan
from searchgym.rl.recipe import MovingReference, Recipe, read
from tests.rl.colours import player
from tests.rl.trainers import trainer, weights

KL: dict[str, Any] = read("grpo_kl")


def recipe(**table: Any) -> dict[str, Any]:
    return {**KL, "reference": table} if table else KL


def reference(lm: TrainableLM) -> Tensor:
    return torch.cat([w.flatten() for w in lm.reference_state().values()])


def test_it_is_replaced_every_so_many_steps() -> None:
    run = trainer(recipe(every=2), steps=5, lm={"reference": True})
    start = reference(run.lm)
    course = [weights(run.lm).clone()]
    held = []
    for _ in run.train():
        course.append(weights(run.lm).clone())
        held.append(reference(run.lm))
    assert not torch.equal(course[0], course[2])
    for step, place in ((1, 0), (2, 2), (3, 2), (4, 4), (5, 4)):
        assert torch.equal(held[step - 1], course[place]), step
    assert torch.equal(start, course[0])


def test_it_is_an_average_of_the_policy() -> None:
    run = trainer(recipe(every=1, share=0.25), steps=4, lm={"reference": True})
    want = weights(run.lm).clone()
    for _ in run.train():
        want = 0.75 * want + 0.25 * weights(run.lm)
        torch.testing.assert_close(reference(run.lm), want, atol=1e-6, rtol=0)


def test_the_loss_reads_the_moved_one() -> None:
    """Right after each replacement the KL is 0, so that it stays smaller than to the start."""
    still, moved = (
        [m["kl/kl"] for m in trainer(table, steps=4, lm={"reference": True}).train()]
        for table in (recipe(), recipe(every=1))
    )
    assert still[0] == moved[0] == pytest.approx(0, abs=1e-6)
    assert moved[1:] == pytest.approx([0, 0, 0], abs=1e-6)
    assert min(still[1:]) > 1e-5


def test_it_resumes_to_the_bit(tmp_path: Path) -> None:
    table = recipe(every=2, share=0.5)

    def run(steps: int, out: Path) -> Any:
        made = trainer(table, steps=steps, save_every=1, lm={"reference": True}, out=out)
        list(made.train())
        return made

    whole = run(5, tmp_path / "whole")
    run(3, tmp_path / "cut")
    last = run(5, tmp_path / "cut")
    assert torch.equal(weights(last.lm), weights(whole.lm))
    assert torch.equal(reference(last.lm), reference(whole.lm))


def test_what_cannot_move_is_refused_by_name() -> None:
    for lm in ({}, {"lora": Lora(4)}):
        with pytest.raises(CardError, match=r"\[reference\] moves a copy|needs 'ref_logp'"):
            trainer(recipe(every=2), steps=1, lm=lm)
    with pytest.raises(CardError, match=r"without lora"):
        trainer(recipe(every=2), steps=1, lm={"lora": Lora(4)})
    with pytest.raises(EngineError, match="no copy of the weights"):
        player(0)[0].blend_reference(1.0)
    with pytest.raises(CardError, match="no part of it reads"):
        trainer({**read("grpo"), "reference": {"every": 2}}, steps=1)
    for wrong in ({"every": 0}, {"every": 1.5}, {"share": 0}, {"share": 1.1}, {"evry": 2}):
        with pytest.raises(CardError, match=r"\[reference\]"):
            Recipe.of(recipe(**wrong))
    with pytest.raises(CardError, match=r"leave -s lora\.… out"):
        Plan.of("grpo_kl", "folder", {"reference": {"every": 2}}, lora={"rank": 4})
    plan = Plan.of("grpo_kl", "folder", {"reference": {"every": 2}})
    assert Recipe.of(plan.table).reference == {"every": 2}
    assert MovingReference.of({}) is None
