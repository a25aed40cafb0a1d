"""The same numbers as TRL's own trainers, run as they are, on a small random language model.

TRL samples, scores, normalises and computes losses by its own code; ours gets the same rewards,
log-probabilities and masks. Losses and their gradients on all parameters are compared.
"""

import pytest
import torch
from torch.distributions import Categorical

from searchgym.rl.advantages.group_relative import (
    dr_grpo_advantages,
    grpo_advantages,
    rloo_advantages,
)
from searchgym.rl.losses.likelihood import dpo_loss
from tests.llms import tiny
from tests.rl.kernels import (
    cispo_loss,
    entropy_loss,
    gspo_loss,
    kl_loss,
    ppo_loss,
    reinforce_loss,
)

pytestmark = pytest.mark.contract

GROUP, LENGTH, BETA, BONUS = 4, 6, 0.04, 0.01
NAN = float("nan")
REWARDS = [1.0, 0.0, 0.0, 0.5, 0.2, 0.2, 0.2, 0.2, 0.3, NAN, 1.0, 0.0]
CLIP = {"clip_low": 0.2, "clip_high": 0.28}
MEAN = {"aggregate": "seq-mean-token-mean"}
NORM = {"aggregate": "seq-mean-token-sum-norm", "norm": len(REWARDS) * LENGTH}

LOSSES = {
    "grpo": ({}, lambda *x: ppo_loss(*x, **CLIP, **MEAN), MEAN),
    "dr_grpo": ({}, lambda *x: ppo_loss(*x, **CLIP, **NORM), NORM),
    "dapo": ({}, lambda *x: ppo_loss(*x, **CLIP), {}),
    "bnpo": ({}, lambda *x: ppo_loss(*x, **CLIP), {}),
    "cispo": ({"epsilon_high": 1.28}, lambda *x: cispo_loss(*x, clip_high=0.28), {}),
    "gspo": (
        {"loss_type": "grpo", "importance_sampling_level": "sequence"},
        lambda *x: gspo_loss(*x, **CLIP),
        MEAN,
    ),
}
"""Name: (TRL's settings beside loss_type, our policy loss, how our KL is aggregated)."""


def make_trainer(folder, kind, **settings):
    import trl
    from datasets import Dataset

    words = tiny.tokenizer()
    config = {"GRPO": trl.GRPOConfig, "RLOO": trl.RLOOConfig}[kind](
        output_dir=str(folder), report_to=[], use_cpu=True, bf16=False, seed=1,
        per_device_train_batch_size=len(REWARDS), per_device_eval_batch_size=len(REWARDS),
        num_generations=GROUP, max_completion_length=LENGTH, **settings,
    )  # fmt: skip
    trainer = {"GRPO": trl.GRPOTrainer, "RLOO": trl.RLOOTrainer}[kind](
        model=str(tiny.save(folder / "model")),
        reward_funcs=lambda completions, **_: [None if r != r else r for r in REWARDS],
        args=config,
        train_dataset=Dataset.from_dict({"prompt": ["a", "b", "c"]}),
        processing_class=words,
    )
    trainer.model.eval()
    prompts = [{"prompt": p} for p in ("The capital", "The river of", "née") for _ in range(GROUP)]
    return trainer, trainer._generate_and_score_completions(prompts)


def group():
    return torch.arange(len(REWARDS)) // GROUP


@pytest.mark.parametrize(
    ("kind", "settings", "ours"),
    [
        ("GRPO", {}, lambda r, g: grpo_advantages(r, g, eps=1e-4)),
        ("GRPO", {"scale_rewards": "none"}, dr_grpo_advantages),
        ("RLOO", {"beta": 0.0}, rloo_advantages),
    ],
    ids=["grpo", "dr_grpo", "rloo"],
)
def test_advantages(tmp_path, kind, settings, ours):
    """One group with a NaN, one of equal rewards."""
    _, batch = make_trainer(tmp_path, kind, **settings)
    got = ours(torch.tensor(REWARDS), group())
    torch.testing.assert_close(got, batch["advantages"], atol=1e-6, rtol=1e-6)
    assert got.abs().max() > 0.5
    assert got[4:8].tolist() == [0.0] * 4
    assert got[9] == 0


def token_logp(trainer, batch):
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    return trainer._get_per_token_logps_and_entropies(
        trainer.model, ids, attention, batch["completion_ids"].shape[1]
    )[0]


def gradients(loss, trainer):
    return torch.autograd.grad(loss, list(trainer.model.parameters()), allow_unused=True)


def assert_equal_losses(ours, theirs, trainer):
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    mine, other = gradients(ours, trainer), gradients(theirs, trainer)
    largest = 0.0
    for a, b in zip(mine, other, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, atol=2e-6, rtol=1e-4)
            largest = max(largest, float(b.abs().max()))
    assert largest > 1e-3


@pytest.mark.parametrize("name", LOSSES)
def test_losses(tmp_path, name):
    """Random old and reference log-probabilities, a mask with holes as of tool results."""
    extra, policy_loss, how = LOSSES[name]
    settings = {"loss_type": name, "epsilon": 0.2, "epsilon_high": 0.28, "beta": BETA} | extra
    # by default TRL weighs the KL with the ratio, which is not in GRPO's paper
    trainer, batch = make_trainer(tmp_path, "GRPO", use_bias_correction_kl=False, **settings)
    draw = torch.Generator().manual_seed(4)
    logp = token_logp(trainer, batch)
    noise = torch.randn(2, *logp.shape, generator=draw)
    batch["old_per_token_logps"] = logp.detach() + noise[0]
    batch["ref_per_token_logps"] = logp.detach() + 0.4 * noise[1]  # k3 < 10: no clamp
    batch["tool_mask"] = (torch.rand(logp.shape, generator=draw) > 0.3).long()
    batch["tool_mask"][:, 0] = 1  # TRL's means count fully masked rows, ours do not
    mask = batch["completion_mask"] * batch["tool_mask"]
    batch["num_items_in_batch"] = mask.sum()

    theirs = trainer._compute_loss(trainer.model, batch)
    logp = token_logp(trainer, batch)
    loss, stats = policy_loss(logp, batch["old_per_token_logps"], batch["advantages"], mask)
    assert stats["clipped"] > 0
    ours = loss + BETA * kl_loss(logp, batch["ref_per_token_logps"], mask, how="k3", **how)[0]
    assert_equal_losses(ours, theirs, trainer)


def test_entropy_bonus(tmp_path):
    trainer, batch = make_trainer(tmp_path, "GRPO", loss_type="dapo", entropy_coef=BONUS)
    batch["advantages"] = torch.zeros(len(REWARDS))
    theirs = trainer._compute_loss(trainer.model, batch)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    attention = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    width = batch["completion_ids"].shape[1]
    logits = trainer.model(ids, attention_mask=attention, logits_to_keep=width + 1).logits
    mask = batch["completion_mask"]
    loss, _ = entropy_loss(Categorical(logits=logits[:, :-1]).entropy(), mask)
    torch.testing.assert_close(BONUS * loss, theirs, atol=1e-6, rtol=1e-5)


def test_on_policy_rloo_is_reinforce_with_its_baseline(tmp_path):
    """TRL clips the ratio of whole sequences; on policy the gradient is REINFORCE's."""
    trainer, batch = make_trainer(tmp_path, "RLOO", beta=0.0)
    mask = batch["completion_mask"]
    batch["old_logps"] = (token_logp(trainer, batch) * mask).sum(1).detach()
    theirs = gradients(trainer._compute_loss(trainer.model, batch), trainer)
    adv = rloo_advantages(torch.tensor(REWARDS), group())
    ours = gradients(reinforce_loss(token_logp(trainer, batch), adv, mask)[0], trainer)
    for a, b in zip(ours, theirs, strict=True):
        if a is not None:
            torch.testing.assert_close(a, b, atol=2e-6, rtol=1e-4)


def test_dpo(tmp_path):
    """Pairs of different lengths; the trained model has moved away from its reference."""
    import trl
    from datasets import Dataset

    rows = {
        "prompt": ["The capital of", "The river"],
        "chosen": [" Paris is blue", " of Tarsis is 1912 née 37"],
        "rejected": [" Quendale", " is a small town 東京"],
    }
    trainer = trl.DPOTrainer(
        model=str(tiny.save(tmp_path / "model")),
        args=trl.DPOConfig(
            output_dir=str(tmp_path), report_to=[], use_cpu=True, bf16=False, beta=0.3,
            per_device_train_batch_size=2, gradient_checkpointing=False,
        ),
        train_dataset=Dataset.from_dict(rows),
        processing_class=tiny.tokenizer(),
    )  # fmt: skip
    model = trainer.model.eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.02 * torch.randn(weight.shape, generator=draw)
    batch = next(iter(trainer.get_train_dataloader()))
    theirs = trainer.compute_loss(model, batch)

    def token_logp(lm):
        logits = lm(batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, :-1]
        return logits.log_softmax(-1).gather(2, batch["input_ids"][:, 1:, None])[..., 0]

    with torch.no_grad():
        ref = token_logp(trainer.ref_model)
    pairs = torch.tensor([[0, 2], [1, 3]])  # TRL's batch: the chosen ones, then the rejected
    ours, stats = dpo_loss(token_logp(model), ref, batch["completion_mask"][:, 1:], pairs, beta=0.3)
    assert abs(stats["margin"]) > 0.01
    assert_equal_losses(ours, theirs, trainer)
