"""The laboratory's gradients are those of the code that trains."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from searchgym.errors import CardError
from searchgym.rl import Batch, SingleProcess, TrainConfig, Updater, compare, read
from searchgym_agents.lab.gradients import Bench
from searchgym_agents.lab.methods import BROKEN, methods, table_of
from searchgym_agents.lab.policy import TabularLM, skilled, true_gradient
from searchgym_agents.lab.quality import quality
from searchgym_agents.lab.tree import grow


@cache
def lm() -> TabularLM:
    return skilled(grow(), 0.4)


@cache
def teacher() -> TabularLM:
    return skilled(lm().tree, 0.95)


def bench(method: str, size: int = 4) -> Bench:
    return Bench(table_of(method, size), lm(), size, teacher())


@pytest.mark.parametrize("method", methods())
def test_every_method_has_a_gradient(method):
    steps = bench(method).steps(6, 3)
    assert np.isfinite(steps.gradient).all()
    assert np.abs(steps.gradient).max() > 0
    assert (steps.calls > 0).all()


@pytest.mark.parametrize("method", ["grpo", "search_r1_grpo", "gigpo", "cispo", "dpo", "igpo"])
def test_it_is_what_an_update_goes_by(method):
    """The trainer's own backward pass over the same groups, through a table that has gradients."""
    here = bench(method)
    draws = here.draw(1, 5)[0]
    batch = Batch.of([here._group(q, row.tolist()) for q, row in enumerate(draws)])
    here._fill(batch)
    found = here._of(batch)
    trained = TabularLM(lm().tree, lm().logits.clone().requires_grad_())
    updater = object.__new__(Updater)
    updater.cast, updater.recipe, updater.processes = trained, here.recipe, SingleProcess()
    updater.config = replace(TrainConfig.of(here.recipe), minibatches=1)
    batch = Batch.of([here._group(q, row.tolist()) for q, row in enumerate(draws)])
    here._fill(batch)
    compare(here.recipe, batch, here.coef)
    updater._prepare(batch, here.coef)
    updater._backward(batch, here.coef)
    np.testing.assert_allclose(-trained.logits.grad.numpy(), found, atol=1e-6)


@pytest.mark.parametrize("method", ["grpo", "reinforce", "igpo", "kimi"])
def test_groups_computed_together_are_those_computed_one_by_one(method):
    here = bench(method)
    assert here.apart
    draws = here.draw(5, 9)
    fast = sum(here.groups(q, draws[:, q]) for q in range(3))
    slow = np.stack([gradient for gradient, *_ in here._one_by_one(draws, 1)])
    np.testing.assert_allclose(fast, slow, atol=1e-6)


def test_what_needs_the_whole_step_is_not_taken_apart():
    """A token mean, dropped groups, whitening over the batch, pairs of the whole update."""
    assert not any(bench(m).apart for m in ("dapo", "reinforce_pp", "ppo", "dpo", BROKEN))


def test_what_is_not_the_policys_own_is_left_out() -> None:
    """Signal-to-noise of an expert's one demonstration is a division by no noise at all."""
    assert not {"sft", "saas", "adasearch"} & set(methods())
    assert {"grpo", "rft", "distillation"} <= set(methods())


def test_a_rollout_plays_by_the_table():
    """Chains that are played, not drawn, come as often as they should."""
    steps = Bench(read("sft"), lm(), 4, teacher()).steps(2, 0)
    np.testing.assert_array_equal(steps.gradient[0], steps.gradient[1])
    here = bench("remax")
    twin = here.pool[0].group.members[-1]
    assert twin.purpose == "baseline"
    _, fewer = here._costs(here.draw(1, 0))
    assert fewer > 0


def test_the_table_scores_what_it_draws():
    """Log-probabilities of played rows, by the generator and by the model that it stands for."""
    here = bench("remax")
    member = here.pool[1].group.members[-1]
    (row,) = member.rows
    first = int(np.flatnonzero(row.sampled)[0])
    last = first + int((row.turn_of_token == 0).sum())
    ids = tuple(int(i) for i in row.ids)
    generator = here.workers.policy.generator
    (scored,) = generator.score([(ids[:first], ids[first:last])])
    np.testing.assert_allclose(scored, row.logp[first:last], atol=1e-6)
    np.testing.assert_allclose(lm().logp([row])[0].numpy(), row.logp, atol=1e-6)


def test_a_perfect_critic_sees_what_is_still_to_come():
    """Advantages of λ = 1 with the exact value sum to 0 in expectation, at every place."""
    here = bench("ppo_turn")
    whole, _ = here._whole()
    value = here._values(whole)
    chance = torch.from_numpy(np.concatenate(here.odds))
    to_go = whole.token_reward().double().flip(1).cumsum(1).flip(1)
    first = (chance * (to_go[:, 0] - value[:, 0])).sum()
    assert float(first) == pytest.approx(0, abs=1e-6)


OTHER = {
    "signal": [{"use": "parts", "names": ["f1", "evidence"]}],
    "reward": {"use": "weighted", "weights": {"f1": 1.0, "evidence": 2.0}},
}
"""A reward that is not the return."""


def test_what_a_recipe_pays():
    """The return, also where turns are paid parts of it; else its own sum."""
    assert all(bench(m).paid() is None for m in ("grpo", "ppo_turn", "gigpo", "tree_grpo"))
    here = Bench({**read("dr_grpo"), **OTHER}, lm(), 4)
    for paid, scored in zip(here.paid(), here.pool, strict=True):
        own = scored.signals["f1"] + 2 * scored.signals["evidence"]
        np.testing.assert_allclose(paid, own)
    gain = bench("igpo")
    for paid, scored in zip(gain.paid(), gain.pool, strict=True):
        known = np.exp(scored.signals["gold_logp"])
        last = [row[~np.isnan(row)][-1] for row in known]
        np.testing.assert_allclose(paid, scored.signals["return"] + last - known[:, 0], atol=1e-6)


def test_pay_that_depends_on_the_group_is_its_mean():
    """TRACE ranks a group's members: pay lies between the least and the most of a kind."""
    here = bench("hypereyes")
    for paid, scored in zip(here.paid(), here.pool, strict=True):
        right = scored.signals["em"] == 1
        assert ((paid[right] >= 0.9) & (paid[right] <= 1.2)).all()
        assert (paid[~right] <= 0).all()


def test_bias_to_what_is_paid():
    """Dr. GRPO has none to its own reward, and much to the return, which is another."""
    here = Bench({**read("dr_grpo"), **OTHER}, lm(), 4)
    found = quality(here, true_gradient(lm()), "other", 0.4, steps=20, few=20)
    assert found.enumerated
    assert found.own_bias.mean == pytest.approx(0, abs=1e-5)
    assert found.bias.mean > 0.1
    plain = quality(bench("dr_grpo"), true_gradient(lm()), "dr_grpo", 0.4, steps=20, few=20)
    assert plain.own_bias is None


def test_an_unknown_method_is_named():
    with pytest.raises(CardError, match=r"unknown method 'gropo'.*grpo"):
        table_of("gropo", 4)
