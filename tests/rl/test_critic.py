"""Critics' values are of the state before each token; they learn what returns are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from searchgym.errors import CardError, EngineError
from searchgym.policies import Lora
from searchgym.rl.critics import CRITICS, Critic, TurnCritic, ValueModel, check_critic, make_critic
from searchgym.rl.launch import Plan
from searchgym.rl.recipe import Recipe
from searchgym.rl.slots.batch import Batch, Estimate
from searchgym.rl.slots.protocols import make
from searchgym.rl.slots.records import Rewards, Scored, TaskPlan, Workers
from searchgym_agents.methods.ppo_hl_gauss import HLGaussCritic, target_histogram
from tests.rl.colours import TASKS, player, setting


def played_batch() -> Batch:
    lm, policy = player(0)
    plans = [TaskPlan(task, f"0.{i}", i) for i, task in enumerate(TASKS)]
    workers = Workers(policy, setting(), lm)
    groups = make("rollout", {"use": "chains", "size": 4}).collect(plans, workers)
    made = Batch.of([Scored(g, {}, Rewards(np.arange(4.0) / 4)) for g in groups])
    assert made is not None
    return made


def fitted_to(returns: torch.Tensor) -> Estimate:
    return Estimate(torch.zeros_like(returns), returns=returns)


def batch_and_critic(lr: float = 1e-2) -> tuple[Batch, Critic]:
    return played_batch(), Critic(player(0)[0], lr=lr)


def test_values_are_of_the_state_before_the_token() -> None:
    batch, critic = batch_and_critic()
    torch.nn.init.ones_(critic.head.weight)
    with torch.no_grad():
        found = critic.values(batch)
        critic.tokens = 1
        torch.testing.assert_close(critic.values(batch), found, atol=1e-4, rtol=1e-4)
        for line, member in zip(found, batch.members, strict=True):
            (row,) = member.rows
            at = np.flatnonzero(row.sampled)
            hidden = critic.body(torch.tensor([row.ids.tolist()])).last_hidden_state[0]
            want = critic.head(hidden)[at - 1, 0]
            torch.testing.assert_close(line[: len(at)], want, atol=1e-4, rtol=1e-4)
            assert (line[len(at) :] == 0).all()


def test_equal_rows_go_through_the_body_once() -> None:
    """And are fitted as if each had gone."""
    batch, critic = batch_and_critic()
    torch.nn.init.ones_(critic.head.weight)
    twice = batch.take([0, 1, 0, 0])
    drawn = torch.Generator().manual_seed(0)
    twice.credit = fitted_to(torch.rand(twice.mask.shape, generator=drawn))
    with torch.no_grad():
        twice.value = critic.values(twice)
        alone = torch.cat([critic.values(batch.take([i])) for i in (0, 1, 0, 0)])
    torch.testing.assert_close(twice.value, alone, atol=1e-4, rtol=1e-4)
    read: list[int] = []
    critic.body.register_forward_hook(lambda *call: read.append(len(call[2][0])))
    critic.fit(twice)
    assert read == [2]
    together = [p.grad for p in critic.parameters()]
    _, other = batch_and_critic()
    torch.nn.init.ones_(other.head.weight)
    other.tokens = 1  # each goes alone
    other.fit(twice)
    for ours, theirs in zip(together, [p.grad for p in other.parameters()], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-3)


def test_it_learns_returns() -> None:
    """The same for all: what can be said without knowing what will be drawn."""
    batch, critic = batch_and_critic()
    batch.credit = fitted_to(torch.full(batch.mask.shape, 0.7))
    with torch.no_grad():
        batch.value = critic.values(batch)
    assert (batch.value == 0).all()
    losses = []
    for _ in range(25):
        losses.append(critic.fit(batch)["critic/loss"])
    assert losses[0] == pytest.approx(0.7**2 / 2, abs=1e-6)
    with torch.no_grad():
        batch.value = critic.values(batch)
    for _ in range(25):  # the old value holds it back by clip at most
        losses.append(critic.fit(batch)["critic/loss"])
    assert losses[-1] < losses[0] / 10


def test_what_it_learns_at_once_changes_memory_and_nothing_else() -> None:
    found = []
    for tokens in (65_536, 1_000, 1):
        batch, critic = batch_and_critic()
        torch.nn.init.ones_(critic.head.weight)
        critic.tokens = tokens
        drawn = torch.Generator().manual_seed(0)
        batch.credit = fitted_to(torch.rand(batch.mask.shape, generator=drawn))
        with torch.no_grad():
            batch.value = critic.values(batch)
        events: list[str] = []
        critic.body.register_forward_hook(lambda *_, e=events: e.append("there"))
        critic.head.weight.register_hook(lambda _, e=events: e.append("back"))
        told = critic.fit(batch)
        assert events == ["there", "back"] * (len(events) // 2), "no graph waits for another"
        grads = torch.cat([p.grad.flatten() for p in critic.parameters() if p.grad is not None])
        found.append((len(events) // 2, told, grads))
    counts, metrics, slopes = zip(*found, strict=True)
    assert (counts[0], counts[-1]) == (1, len(batch))
    assert 1 < counts[1] < len(batch)
    for other in (1, 2):
        assert metrics[other] == pytest.approx(metrics[0], rel=1e-4, abs=1e-6)
        torch.testing.assert_close(slopes[other], slopes[0], atol=1e-5, rtol=1e-3)


def test_minibatches_are_an_update_each_on_a_share_of_the_trajectories() -> None:
    batch, critic = batch_and_critic()
    drawn = torch.Generator().manual_seed(0)
    batch.credit = fitted_to(torch.rand(batch.mask.shape, generator=drawn))
    batch.value = torch.zeros(batch.mask.shape)
    _, other = batch_and_critic()
    critic.minibatches = 3
    told = critic.fit(batch)
    by_hand = [other.fit(batch.take(share.tolist()))
               for share in np.array_split(range(len(batch)), 3)]  # fmt: skip
    assert told == pytest.approx(
        {name: np.mean([one[name] for one in by_hand]) for name in told}, rel=1e-5, abs=1e-7
    )
    for ours, theirs in zip(critic.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    with pytest.raises(EngineError, match="got 1 and 0"):
        Critic(player(0)[0], minibatches=0)


def test_a_recipe_says_how_its_critic_learns() -> None:
    assert Recipe.of("search_r1_ppo").critic == {"minibatches": 2}
    plan = Plan.of("search_r1_ppo", "folder", {"critic": {"lr": 1e-3}})
    assert plan.critic == {"minibatches": 2, "lr": 1e-3}
    assert Plan.of("ppo", "folder", {}).critic == {"minibatches": 4}


def ready(**options: Any) -> tuple[Batch, Critic]:
    """Something to learn, and a critic of a model that was loaded so."""
    batch, _ = batch_and_critic()
    drawn = torch.Generator().manual_seed(0)
    batch.credit = fitted_to(torch.rand(batch.mask.shape, generator=drawn))
    batch.value = torch.zeros(batch.mask.shape)
    critic = Critic(player(0, **options)[0], lr=1e-2)
    torch.nn.init.ones_(critic.head.weight)
    return batch, critic


def test_what_stands_still_in_the_model_does_so_in_its_critic() -> None:
    batch, critic = ready(freeze="*embed_tokens*")
    before = {n: p.detach().clone() for n, p in critic.body.named_parameters()}
    critic.fit(batch)
    moved = {n for n, p in critic.body.named_parameters() if not torch.equal(p, before[n])}
    assert moved == {n for n in before if "embed_tokens" not in n}
    again = Critic(player(0, freeze="*embed_tokens*")[0], lr=1e-2)
    again.load_tensors(critic.tensors())
    for one in (critic, again):
        one.fit(batch)
    for ours, theirs in zip(critic.parameters(), again.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_it_keeps_activations_as_its_model_does() -> None:
    grads, calls = [], []
    for checkpointing in (False, True):
        batch, critic = ready(gradient_checkpointing=checkpointing)
        linear = next(m for m in critic.body.modules() if isinstance(m, torch.nn.Linear))
        with torch.no_grad():
            critic.values(batch)
        calls.append(0)
        linear.register_forward_hook(lambda *_: calls.__setitem__(-1, calls[-1] + 1))
        critic.fit(batch)
        grads.append([p.grad for p in critic.parameters() if p.grad is not None])
    assert calls == [1, 2], "computed again on the way back"
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


def test_it_computes_in_the_numbers_of_its_model() -> None:
    batch, exact = ready()
    _, halved = ready(autocast="bfloat16")
    seen: list[torch.dtype] = []
    linear = next(m for m in halved.body.modules() if isinstance(m, torch.nn.Linear))
    linear.register_forward_hook(lambda *given: seen.append(given[-1].dtype))
    with torch.no_grad():
        gap = (halved.values(batch) - exact.values(batch)).abs().max()
    halved.fit(batch)
    assert set(seen) == {torch.bfloat16}
    assert 0 < gap < 0.5
    assert {p.dtype for p in halved.parameters()} == {torch.float32}


def test_it_is_a_model_of_its_own() -> None:
    lm, _ = player(0)
    before = torch.cat([p.detach().flatten() for p in lm.parameters()])
    batch, critic = batch_and_critic()
    shared = {p.data_ptr() for p in lm.parameters()} & {p.data_ptr() for p in critic.parameters()}
    assert not shared
    batch.credit = fitted_to(torch.ones(batch.mask.shape))
    batch.value = torch.zeros(batch.mask.shape)
    critic.fit(batch)
    assert torch.equal(torch.cat([p.detach().flatten() for p in lm.parameters()]), before)
    with pytest.raises(EngineError, match="has adapters"):
        Critic(player(0, lora=Lora(4))[0])


# --- kinds of critics -------------------------------------------------------------------------
@pytest.mark.parametrize("name", CRITICS)
def test_every_critic_keeps_the_contract(name: str) -> None:
    check_critic({"use": name}, played_batch(), player(0)[0])


def test_a_table_chooses_the_critic() -> None:
    lm, _ = player(0)
    assert type(make_critic({}, lm, lr=1e-3)) is Critic
    assert type(make_critic({"use": "turn"}, lm)) is TurnCritic
    mine = make_critic(
        {"use": "searchgym_agents.methods.ppo_hl_gauss:HLGaussCritic", "bins": 9}, lm
    )
    assert isinstance(mine, HLGaussCritic)
    assert mine.head.out_features == 9
    for table, message in (
        ({"use": "hl_gaus"}, "Did you mean 'hl_gauss'"),
        ({"use": "hl_gauss", "clip": 0.5}, "option of critic 'hl_gauss' 'clip'.*Known: bins"),
        ({"size": 3}, "option of critic 'scalar' 'size'"),
        ({"use": "torch:zeros"}, "is a function"),
        ({"use": "subprocess:Popen"}, "cannot be a critic"),
    ):
        with pytest.raises(CardError, match=message):
            Recipe.of({"advantage": "ppo", "loss": "ppo", "critic": table})
    with pytest.raises(CardError, match="option of critic"):
        Plan.of("ppo", "folder", {"critic": {"clp": 1.0}})
    assert Plan.of("ppo", "folder", {"critic": {"use": "turn"}}).critic["use"] == "turn"
    with pytest.raises(EngineError, match="at least 2 bins"):
        HLGaussCritic(lm, bins=1)


def test_a_critic_of_another_kind_does_not_take_the_weights() -> None:
    lm, _ = player(0)
    with pytest.raises(EngineError, match=r"not of this HLGaussCritic: head/bias, head/weight"):
        HLGaussCritic(lm).load_tensors(Critic(lm).tensors())


def test_the_target_is_a_gaussian_in_bins() -> None:
    """Worked by hand from the normal distribution's table."""
    edges = torch.arange(5.0)
    found = target_histogram(torch.tensor([1.5, 2.0, 4.0, 9.0]), edges, 0.75)
    want = [
        [0.235194, 0.506761, 0.235194, 0.022851],
        [0.088055, 0.411945, 0.411945, 0.088055],
        *[[0.000063, 0.007597, 0.174762, 0.817578]] * 2,
    ]
    torch.testing.assert_close(found, torch.tensor(want), atol=1e-5, rtol=0)


def test_the_histograms_mean_is_the_return() -> None:
    """Between the edges; at an edge half of the Gaussian is cut off, as the paper has it."""
    critic = HLGaussCritic(player(0)[0])
    goal = torch.tensor([0.0, 0.3, 1.0])
    made = target_histogram(goal, critic.edges, critic.sigma)
    torch.testing.assert_close(made @ critic.centres, goal, atol=1e-4, rtol=0)
    torch.testing.assert_close(made.sum(-1), torch.ones(3))
    assert made.max(-1).values.max() < 0.5, "a neighbour's share is not small"
    edge = target_histogram(torch.tensor(1.5), critic.edges, critic.sigma) @ critic.centres
    assert 1.45 < float(edge) < 1.49


def test_hl_gauss_learns_returns_by_cross_entropy() -> None:
    batch, critic = played_batch(), HLGaussCritic(player(0)[0], lr=1e-2)
    with torch.no_grad():
        torch.testing.assert_close(critic.values(batch), 0.5 * batch.mask)
    batch.credit = fitted_to(torch.full(batch.mask.shape, 0.7))
    losses = [critic.fit(batch)["critic/loss"] for _ in range(40)]
    assert losses[0] == pytest.approx(np.log(51), abs=1e-4)
    goal = target_histogram(torch.tensor(0.7), critic.edges, critic.sigma)
    floor = float(torch.special.entr(goal).sum())
    assert losses[-1] == pytest.approx(floor, abs=0.1)
    with torch.no_grad():
        gap = (critic.values(batch) - 0.7)[batch.mask].abs().max()
    assert gap < 0.05
    batch.credit = fitted_to(torch.where(batch.turn == 0, 0.7, 2.5))
    told = critic.fit(batch)
    share = float((batch.turn[batch.mask] > 0).float().mean())
    assert told["critic/outside"] == pytest.approx(share)


def test_a_value_per_turn_makes_gae_over_tokens_gae_over_turns() -> None:
    batch, critic = played_batch(), TurnCritic(player(0)[0])
    torch.nn.init.ones_(critic.head.weight)
    with torch.no_grad():
        value = critic.values(batch)
        plain = Critic.values(critic, batch)
    starts = (batch.turn.diff(dim=1, prepend=torch.full((len(batch), 1), -1)) > 0) & batch.mask
    torch.testing.assert_close(value[starts], plain[starts])
    assert not torch.equal(value, plain)
    for line, turn, keep in zip(value, batch.turn, batch.mask, strict=True):
        assert all(len(line[keep & (turn == k)].unique()) == 1 for k in turn[keep].unique())
    batch.value = value
    by_token, by_turn = (
        make("advantage", {"use": "ppo", "level": level}).estimate(batch, {}).adv
        for level in ("token", "turn")
    )
    torch.testing.assert_close(by_token, by_turn, atol=1e-5, rtol=1e-4)
    assert torch.equal(critic.asked(batch), starts)
    batch.credit = Estimate(by_turn, value_mask=batch.mask & ~starts)
    assert not critic.asked(batch).any(), "no place but those where values are read is fitted"


def test_third_parties_add_their_own_critic() -> None:
    check_critic({"use": f"{__name__}:Squared", "rate": 0.5}, played_batch(), player(0)[0])


class Squared(ValueModel):
    """A critic of one's own: an unclipped squared error."""

    def __init__(self, lm: Any, rate: float = 1.0, **options: Any) -> None:
        super().__init__(lm, **options)
        self.rate = rate

    def read(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs[..., 0]

    def loss(
        self, outputs: torch.Tensor, batch: Batch, mask: torch.Tensor, tokens: float
    ) -> tuple[torch.Tensor, dict[str, float]]:
        gap = (self.read(outputs) - batch.need("returns")) * mask
        return self.rate * gap.square().sum() / tokens, {}
