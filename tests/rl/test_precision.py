"""Half precision is not trained unasked, weights stand still where a folder says so, and generators
that disagree with the trainer are refused."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from searchgym.errors import CardError, EngineError
from searchgym.llms import Sampling, TransformersGenerator
from searchgym.policies import CausalLMPolicy, TrainableLM, read_note, save_note
from searchgym.rl.diagnostics import EXACT, ROUNDED, disagree, tolerance
from searchgym.rl.launch import Plan, build
from searchgym.rl.trainer import TrainConfig, Trainer
from tests.rl.colours import SAMPLING, player, setting, tokenizer
from tests.rl.trainers import weights

TABLE = {"advantage": {"use": "reinforce", "baseline": -1.0}, "loss": "reinforce",
         "rollout": {"use": "chains", "size": 2}}  # fmt: skip


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in bfloat16, as most are."""
    folder = tmp_path_factory.mktemp("half")
    lm, _ = player()
    lm.model.to(torch.bfloat16).save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    return folder


def plan(folder: Path, **more: Any) -> Plan:
    train = {"steps": 1, "tasks": 2, "lr": 1e-6}
    sampling = {"max_tokens": 6, "stop": ["\n"]}
    given = {"device": "cpu", "renderer": "plain", "sampling": sampling, "train": train, **more}
    return Plan("mine", TABLE, str(folder), **given)


def test_a_small_step_moves_the_weights_of_a_half_precision_checkpoint(
    half: Path, tmp_path: Path
) -> None:
    trainer = build(plan(half), setting(), tmp_path)
    before = {n: p.detach().clone() for n, p in trainer.lm.model.named_parameters()}
    list(trainer.train())
    after = dict(trainer.lm.model.named_parameters())
    assert {p.dtype for p in after.values()} == {torch.float32}
    moved = sum(int((after[n] != p).sum()) for n, p in before.items())
    assert moved > 0.9 * sum(p.numel() for p in before.values())


def test_a_copy_in_half_precision_plays_and_follows_the_weights(half: Path, tmp_path: Path) -> None:
    def run(folder: Path, steps: int) -> Trainer:
        train = {"steps": steps, "tasks": 2, "lr": 1e-2, "save_every": 1}
        made = build(
            plan(half, train=train, load={"play_dtype": "bfloat16"}), setting(), tmp_path / folder
        )
        list(made.train())
        return made

    whole, cut = run(Path("whole"), 3), run(Path("cut"), 1)
    resumed = run(Path("cut"), 3)
    generator: Any = resumed.policy.generator
    assert {p.dtype for p in resumed.lm.parameters()} == {torch.float32}
    for played, trained in zip(
        generator.model.parameters(), resumed.lm.model.parameters(), strict=True
    ):
        assert torch.equal(played, trained.detach().to(torch.bfloat16))
    assert torch.equal(weights(resumed.lm), weights(whole.lm))
    assert not torch.equal(weights(resumed.lm), weights(cut.lm))
    with pytest.raises(EngineError, match="play_dtype is bfloat16 or another of torch, got 'bf16'"):
        player(play_dtype="bf16")


def test_adapters_keep_the_checkpoint_as_it_is(half: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        trainer = build(plan(half, lora={"rank": 2}), setting(), tmp_path)
    assert {p.dtype for p in trainer.lm.parameters()} == {torch.float32}
    assert trainer.lm.model.lm_head.weight.dtype == torch.bfloat16


def test_whoever_asks_for_it_is_warned(half: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"are bfloat16: most updates of lr=1e-06 are rounded"):
        asked = build(plan(half, dtype="bfloat16"), setting(), tmp_path)
    assert asked.lm.model.dtype == torch.bfloat16
    lm = TrainableLM(half, device="cpu")
    with pytest.warns(UserWarning, match="dtype='float32'"):
        Trainer(setting(), lm, TABLE, TrainConfig(tasks=2), policy=lm.policy("plain"))


def test_float32_is_no_cause_for_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        lm, policy = player()
        Trainer(setting(), lm, TABLE, TrainConfig(tasks=2), policy=policy)


HELD = "*embed_tokens*"


@pytest.fixture
def noted(tmp_path: Path) -> Path:
    folder = tmp_path / "start"
    lm, _ = player()
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    save_note(folder, "plain", Sampling(), [HELD])
    return folder


def trained(folder: Path, out: Path, **more: Any) -> tuple[Any, set[str]]:
    """The trainer after its steps, and the names of the parameters that moved."""
    trainer = build(plan(folder, **more), setting(), out)
    before = {n: p.detach().clone() for n, p in trainer.lm.model.named_parameters()}
    list(trainer.train())
    after = trainer.lm.model.named_parameters()
    return trainer, {n for n, p in after if not torch.equal(p, before[n])}


def test_it_stands_still_and_the_note_goes_on(noted: Path, tmp_path: Path) -> None:
    trainer, moved = trained(noted, tmp_path / "run")
    assert moved
    assert not any("embed_tokens" in name for name in moved)
    assert read_note(trainer.save(tmp_path / "model"))["freeze"] == [HELD]


def test_whoever_says_so_trains_everything(noted: Path, tmp_path: Path) -> None:
    trainer, moved = trained(noted, tmp_path / "run", load={"freeze": []})
    assert any("embed_tokens" in name for name in moved)
    assert "freeze" not in read_note(trainer.save(tmp_path / "model"))


def test_adapters_leave_it_alone_anyway(noted: Path, tmp_path: Path) -> None:
    trainer, moved = trained(noted, tmp_path / "run", lora={"rank": 2})
    assert moved
    assert all(".lora_" in name for name in moved)
    assert trainer.lm.freeze == ()


class Forgetful(TransformersGenerator):
    """Says that it has taken over weights."""

    def update_weights(self, weights: Any) -> int:
        self.version += 1
        return self.version


GAP = "sampling_logp_difference/max"


def run(kind: Any, recipe: str = "grpo", **options: Any) -> Trainer:
    lm, _ = player(0)
    generator = kind(copy.deepcopy(lm.model), tokenizer())
    policy = CausalLMPolicy(generator, sampling=SAMPLING, seed=0)
    config = TrainConfig(steps=3, tasks=4, lr=1e-2, **options)
    return Trainer(setting(), lm, recipe, config, policy=policy)


def test_a_copy_gives_the_same_run() -> None:
    copied = run(TransformersGenerator)
    seen = list(copied.train())
    assert max(m[GAP] for m in seen) < 1e-5
    lm, policy = player(0)
    shared = Trainer(setting(), lm, "grpo", TrainConfig(steps=3, tasks=4, lr=1e-2), policy=policy)
    assert GAP not in list(shared.train())[-1]
    torch.testing.assert_close(weights(copied.lm), weights(lm), atol=1e-6, rtol=1e-5)


def test_old_weights_are_found_out() -> None:
    trainer = run(Forgetful)
    assert trainer.advance()[GAP] < 1e-5
    with pytest.raises(
        EngineError, match=r"Forgetful and the trainer disagree on LlamaForCausalLM"
    ):
        trainer.advance()
    lenient = run(Forgetful, agreement=100.0)
    assert [m[GAP] > EXACT for m in lenient.train()] == [False, True, True]


def test_rounding_to_half_precision_is_no_disagreement() -> None:
    """The trainer multiplies in bfloat16, the copy that plays in float32."""
    trainer = run(TransformersGenerator)
    trainer.lm.autocast = "bfloat16"
    gaps = [m[GAP] for m in trainer.train()]
    assert all(EXACT < gap < ROUNDED for gap in gaps)


def test_a_generator_in_half_precision_rounds_too() -> None:
    """The trainer multiplies in float32, the copy that plays in bfloat16."""
    lm, _ = player(0)
    assert lm.dtype == torch.float32
    generator = TransformersGenerator(copy.deepcopy(lm.model).to(torch.bfloat16), tokenizer())
    policy = CausalLMPolicy(generator, sampling=SAMPLING, seed=0)
    trainer = Trainer(setting(), lm, "grpo", TrainConfig(steps=3, tasks=4, lr=1e-2), policy=policy)
    assert all(EXACT < m[GAP] < ROUNDED for m in trainer.train())


def test_one_unlikely_token_of_many_ends_no_training() -> None:
    gaps = torch.full((1000,), 0.003)
    gaps[:10] = 0.62
    assert not disagree(gaps, ROUNDED)
    gaps[10] = 0.62
    assert disagree(gaps, ROUNDED)
    gaps[:] = 0
    gaps[3] = float("nan")
    assert disagree(gaps, ROUNDED)


def test_what_nobody_drew_is_not_compared() -> None:
    """Demonstrations have no log-probabilities."""
    assert all(GAP not in m for m in run(TransformersGenerator, "sft").train())


def test_limits() -> None:
    assert tolerance(torch.float32) == EXACT < tolerance(torch.bfloat16) == ROUNDED
    half, single = SimpleNamespace(dtype=torch.bfloat16), SimpleNamespace(dtype=torch.float32)
    assert tolerance(torch.float32, half) == tolerance(torch.bfloat16, single) == ROUNDED
    assert tolerance(torch.float32, single) == tolerance(torch.float64, single) == EXACT
    assert tolerance(torch.float32, SimpleNamespace(model=half)) == ROUNDED
    assert tolerance(torch.float32, object()) == EXACT, "not known: as the trainer's"
    with pytest.raises(CardError, match=r"agreement must be a number above 0 or None, got 0\.0"):
        TrainConfig(agreement=0.0)
