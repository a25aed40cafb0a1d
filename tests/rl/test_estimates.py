"""Estimates beside advantages: a mask, and factors on the clip range."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from searchgym.errors import CardError
from searchgym.rl.advantages.group_relative import DrGRPO
from searchgym.rl.losses.likelihood import DPOLoss
from searchgym.rl.slots.batch import Batch, Estimate, Output
from searchgym.rl.slots.contracts import check_estimator
from searchgym.rl.slots.protocols import make
from searchgym.rl.slots.samples import group_of, sample_batch
from tests.rl.kernels import cispo_loss, gspo_loss, stratified
from tests.rl.trainers import trainer, weights


class Told(DrGRPO):
    """Dr.GRPO, with whatever else is said."""

    def __init__(self, *, keep: bool | None = None, scale: float | None = None) -> None:
        self.keep, self.scale = keep, scale

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        made = super().estimate(batch, coef)
        like = torch.ones(batch.mask.shape)
        return Estimate(
            made.adv,
            None if self.scale is None else self.scale * like,
            None if self.keep is None else like.bool() & self.keep,
        )


def test_what_an_estimator_masks_no_loss_sees() -> None:
    """An advantage of 0 would leave the entropy bonus, and the divisor, as they are."""

    def moved(advantage: Told) -> bool:
        run = trainer({"advantage": advantage, "loss": ["ppo", "entropy"]}, steps=1, tasks=2)
        before = weights(run.lm).clone()
        list(run.train())
        return not torch.equal(weights(run.lm), before)

    assert moved(Told())
    assert moved(Told(keep=True))
    assert not moved(Told(keep=False))


def test_advantages_alone_are_no_estimate() -> None:
    """What an estimator of one's own returns is named, not unpacked by chance."""

    class Old(DrGRPO):
        def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
            return super().estimate(batch, coef).adv, None  # type: ignore[return-value]

    run = trainer({"advantage": Old(), "loss": "ppo"}, steps=1, tasks=2)
    with pytest.raises(CardError, match=r"Old.estimate gave a tuple.*return Estimate"):
        list(run.train())


def test_a_batch_is_narrowed_within_what_is_trained_on() -> None:
    batch = sample_batch(0)
    was, first = batch.mask.clone(), batch.turn == 0
    batch.narrow(first)
    assert torch.equal(batch.mask, was & first)
    assert batch.totals.tokens == int((was & first).sum()) == int(batch.length.sum())


@pytest.mark.parametrize("loss", ["gspo", {"use": "cispo", "clip_high": 0.2}, "ppo", "decoupled"])
def test_losses_that_clip_are_told_how_far(loss: object) -> None:
    run = trainer({"advantage": Told(scale=1.0), "loss": loss}, steps=1, tasks=2)
    list(run.train())


@pytest.mark.parametrize("loss", ["reinforce", "kimi"])
def test_factors_that_no_loss_reads_are_an_error(loss: object) -> None:
    """Said of its class or not: never ignored."""
    run = trainer({"advantage": Told(scale=1.0), "loss": loss}, steps=1, tasks=2)
    with pytest.raises(CardError, match=r"Told gives factors on the clip range.*gspo"):
        list(run.train())
    says = type("Says", (Told,), {"provides": frozenset({"clip_scale"})})
    with pytest.raises(CardError, match=r"advantage \(Says\) gives factors on the clip range"):
        trainer({"advantage": says(scale=1.0), "loss": loss}, steps=1, tasks=2)


def test_a_turns_factor_widens_its_clip_range() -> None:
    """A²TGPO (arXiv 2605.06200): one ratio per turn, clipped at ε times the turn's own factor."""
    logp = torch.tensor([[1.3, 1.3, 1.3, 1.3]]).log().requires_grad_()
    turn = torch.tensor([[0, 0, 1, 1]])
    scale = torch.tensor([[1.0, 1.0, 2.0, 2.0]])
    loss, stats = gspo_loss(
        logp, torch.zeros(1, 4), torch.ones(1), torch.ones(1, 4, dtype=torch.bool),
        clip_low=0.2, clip_high=0.2, clip_scale=scale, turn=turn, turns=True,
    )  # fmt: skip
    (grad,) = torch.autograd.grad(loss, logp)
    assert (grad != 0).tolist() == [[False, False, True, True]]
    assert loss.item() == pytest.approx(-(1.2 + 1.3) / 2)
    assert stats["clipped"] == pytest.approx(0.5)


def test_a_factor_moves_where_cispo_cuts() -> None:
    logp = torch.tensor([[1.5, 1.5]]).log().requires_grad_()
    loss, _ = cispo_loss(
        logp, torch.zeros(1, 2), torch.ones(1), torch.ones(1, 2, dtype=torch.bool),
        clip_high=0.2, clip_scale=torch.tensor([[1.0, 2.0]]), aggregate="token-mean",
    )  # fmt: skip
    (grad,) = torch.autograd.grad(loss, logp)
    torch.testing.assert_close(grad, torch.tensor([[-1.2 / 2, -1.4 / 2]]))


@pytest.mark.parametrize(
    ("slot", "spec", "message"),
    [
        ("loss", {"use": "kimi", "tau": 0}, "tau must be positive"),
        ("loss", {"use": "opmd", "tau": -1}, "tau must not be negative"),
        ("loss", {"use": "gspo", "clip_low": -1}, "clip_low"),
        ("loss", {"use": "cispo", "clip_high": -1}, "clip_high"),
        ("loss", {"use": "ppo", "dual_clip": 1}, "dual_clip"),
        ("loss", {"use": "decoupled", "cap": float("inf")}, "cap is positive"),
        ("loss", {"use": "dpo", "label_smoothing": 0.5}, "label_smoothing"),
        (
            "loss",
            {"use": "kl", "weight": float("nan")},
            "'weight' of loss 'kl' is a number, got nan",
        ),
        ("advantage", {"use": "mt_grpo", "std": "x"}, "std is"),
        ("advantage", {"use": "ppo", "gamma": 2}, r"gamma is in \[0, 1\]"),
    ],
)
def test_impossible_options_fail_before_anything_is_played(
    slot: str, spec: dict[str, object], message: str
) -> None:
    with pytest.raises(CardError, match=message):
        make(slot, spec)  # type: ignore[arg-type]


@pytest.mark.parametrize("lr", [float("nan"), float("inf"), 0.0])
def test_an_impossible_rate_is_refused(lr: float) -> None:
    with pytest.raises(CardError, match="lr"):
        trainer("grpo", lr=lr)


def test_advice_names_who_provides_what_is_missing() -> None:
    for recipe, advice in (
        ({"advantage": "mt_grpo", "loss": "ppo"}, "reward 'information_gain' or reward 'per_turn'"),
        ({"advantage": "grpo", "loss": ["ppo", "kl_cov"]}, "add advantage 'kl_cov', which provid"),
        ({"advantage": "gigpo", "loss": "ppo"}, "add signal 'anchor'"),
        ({"advantage": {"use": "stratified", "stratum": "mood"}, "loss": "ppo"}, "'turn_parts'"),
    ):
        with pytest.raises(CardError, match=advice):
            trainer(recipe)


def test_dpo_is_a_mean_over_pairs() -> None:
    """A group of four of eight has sixteen pairs, one of one of eight seven; a third has none.
    Every pair counts once, in one piece and in parts."""
    scores = [1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    n = len(scores)
    draw = torch.Generator().manual_seed(0)
    group = torch.tensor([0] * 8 + [1] * 8 + [2] * 2)
    logp, ref = (-torch.rand(n, 3, generator=draw) for _ in range(2))
    mask = torch.ones(n, 3, dtype=torch.bool)
    reward = torch.tensor(scores, dtype=torch.float32)
    batch = Batch(
        list(group_of(n).members), mask, torch.zeros(n, 3, dtype=torch.long), group, reward,
        logp, torch.zeros(n, dtype=torch.bool), torch.zeros(n, dtype=torch.bool),
        ref_logp=ref,
    )  # fmt: skip
    delta = (logp - ref).sum(1)
    margins = [
        0.1 * (delta[i] - delta[j]) for i in range(n) for j in range(n)
        if group[i] == group[j] and scores[i] == 1 and scores[j] == 0
    ]  # fmt: skip
    assert len(margins) == 16 + 7
    wanted = torch.stack([-torch.nn.functional.logsigmoid(m) for m in margins]).mean()
    loss = DPOLoss(beta=0.1)
    batch.notes |= loss.prepare(batch, None, {})
    whole, _ = loss(Output(logp), batch, batch.totals, {})
    assert torch.isclose(whole, wanted)
    parts = [batch.take([i for i in range(n) if group[i] == g]) for g in range(3)]
    found = [loss(Output(p.sampled_logp), p, batch.totals, {})[0] for p in parts]
    assert torch.isclose(torch.stack(found).sum(), wanted)


def test_strata_by_number_and_placement_of_searches() -> None:
    """Two signals, one of them by turn: only members that agree in both, in all turns, are
    compared; with one signal as before."""
    reward = torch.tensor([1.0, 0.0, 0.5, 0.0, 1.0, 0.0])
    group = torch.zeros(6, dtype=torch.long)
    searches = torch.tensor([1.0, 1, 1, 1, 2, 2])
    found = torch.tensor([[1, 0], [1, 0], [0, 1], [0, float("nan")], [1, 1], [1, 1]])
    both = torch.cat([searches[:, None], found], 1)
    adv = stratified(reward, group, both, alpha=1.0)
    assert torch.allclose(adv, torch.tensor([1.0, -1, 0, 0, 1, -1]), atol=1e-5)
    one = stratified(reward, group, searches, alpha=1.0)
    assert one[2] != 0
    batch = sample_batch(0, signals=["searches", "turn_found"])
    made = make("advantage", {"use": "stratified", "stratum": ["searches", "turn_found"]})
    assert made.requires == {"searches", "turn_found"}
    alone = make("advantage", "stratified").estimate(batch, {}).adv
    assert not torch.equal(made.estimate(batch, {}).adv, alone)
    check_estimator({"use": "stratified", "stratum": ["searches", "turn_found"]})
