"""Signals and rewards of turns; KL in the reward; the tokens that use up entropy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.core import Episode
from searchgym.dialects import get_dialect
from searchgym.errors import CheckError
from searchgym.policies import TrainableLM
from searchgym.rl.ops.ratios import kl
from searchgym.rl.ops.tokens import whiten
from searchgym.rl.ops.turns import token_gae
from searchgym.rl.recipe import Recipe
from searchgym.rl.rewards import added
from searchgym.rl.slots.batch import Batch, Output
from searchgym.rl.slots.contracts import check_reward
from searchgym.rl.slots.protocols import RewardTransform, make
from searchgym.rl.slots.records import Floats, Group, Played, Rewards, Scored, TaskPlan, Workers
from searchgym.rl.slots.samples import sample_batch
from searchgym.rl.update import Updater
from searchgym_agents.methods.clip_cov import covariance
from tests.policies.players import TEXTS, Watched
from tests.rl.colours import TASKS, player, setting
from tests.small import episode

PLANS = [TaskPlan(task, f"turns.{i}", i) for i, task in enumerate(TASKS[:3])]
NAN = float("nan")


@pytest.fixture(scope="module")
def workers() -> Workers:
    lm, policy = player(6)
    return Workers(policy, setting(), lm)


@pytest.fixture(scope="module")
def groups(workers: Workers) -> list[Group]:
    return list(make("rollout", {"use": "chains", "size": 6}).collect(PLANS, workers))


def measured(name: Any, groups: list[Group], workers: Workers) -> list[dict[str, Floats]]:
    return [dict(s) for s in make("signal", name).measure(groups, workers)]


# --- signals ----------------------------------------------------------------------------------
def test_turn_returns_add_up_to_the_return(groups: list[Group], workers: Workers) -> None:
    by_turn = measured("turn_returns", groups, workers)
    whole = measured("return", groups, workers)
    for group, turns, returns in zip(groups, by_turn, whole, strict=True):
        values = turns["turn_return"]
        assert np.nansum(values, 1) == pytest.approx(returns["return"])
        counts = [len(m.episode.turns) for m in group.members]
        assert (~np.isnan(values)).sum(1).tolist() == counts


def test_searches_are_counted(groups: list[Group], workers: Workers) -> None:
    for group, found in zip(groups, measured("searches", groups, workers), strict=True):
        calls = [sum(len(t.calls) for t in m.episode.turns) for m in group.members]
        assert found["searches"].tolist() == calls
        assert max(calls) == 1


def test_equal_states_have_equal_numbers(groups: list[Group], workers: Workers) -> None:
    """A turn's state is what was shown last: told here from the texts of the episode."""
    for of in ("news", "context"):
        found = measured({"use": "anchor", "of": of}, groups, workers)
        for group, signals in zip(groups, found, strict=True):
            states: dict[str, set[float]] = {}
            for member, numbers in zip(group.members, signals["anchor"], strict=True):
                for turn, number in zip(member.episode.turns, numbers, strict=False):
                    states.setdefault(shown(member.episode, turn.number, of), set()).add(number)
            assert all(len(numbers) == 1 for numbers in states.values())
            assert len({n for numbers in states.values() for n in numbers}) == len(states)
            assert len(states) > 1
            first = signals["anchor"][:, 0]
            assert (first == first[0]).all(), "all begin with the same question"


def shown(episode: Episode, number: int, of: str) -> str:
    """By replaying: the observation before a turn, or all that was visible."""
    again = Episode(episode.config)
    for turn in episode.turns[:number]:
        if again.act(turn.text):
            again.receive(turn.results)
    return again.delta if of == "news" and number else again.observation()


def test_the_gold_answer_is_teacher_forced(groups: list[Group], workers: Workers) -> None:
    """As one forward pass per turn over text that is put together here."""
    found = measured("gold_logp", groups, workers)
    policy, lm = workers.policy, workers.lm
    for group, signals in zip(groups, found, strict=True):
        answer = group.plan.task.answers[0]
        bridge, target = get_dialect("plain").force_answer(answer)
        ids = list(policy.renderer.encode(bridge + target))
        texts = [policy.generator.codec.decode(ids[:i]) for i in range(len(ids) + 1)]  # type: ignore[attr-defined]
        inside = [len(texts[i + 1]) > len(bridge) for i in range(len(ids))]
        for member, row in zip(group.members, signals["gold_logp"], strict=True):
            (tokens,) = member.rows
            for number in range(len(member.episode.turns)):
                start = int(np.flatnonzero(tokens.turn_of_token == number)[0])
                want = forced(lm, tokens.ids[:start].tolist(), ids, inside)
                assert row[number] == pytest.approx(want, abs=1e-4)


def test_no_answer_is_forced_where_there_is_no_room_for_it(
    groups: list[Group], workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge, target = get_dialect("plain").force_answer("blue")
    answer = len(workers.policy.renderer.encode(bridge + target))
    prompts = [int(np.flatnonzero(m.rows[0].turn_of_token == len(m.episode.turns) - 1)[0])
               for group in groups for m in group.members]  # fmt: skip
    whole = measured("gold_logp", groups, workers)
    for room in (max(prompts) + answer, max(prompts) + answer - 1, 1):
        monkeypatch.setattr(workers.policy, "context", room)
        left = iter(prompts)
        for group, before, now in zip(
            groups, whole, measured("gold_logp", groups, workers), strict=True
        ):
            for m, was, row in zip(
                group.members, before["gold_logp"], now["gold_logp"], strict=True
            ):
                last, at = len(m.episode.turns) - 1, next(left)
                if at + answer <= room:
                    np.testing.assert_allclose(row, was, atol=1e-5)
                else:
                    assert np.isnan(row[last])
                    assert np.isnan(row[:last]).all() == (room == 1 or last == 0)


def forced(lm: TrainableLM, prompt: list[int], ids: list[int], inside: list[bool]) -> float:
    with torch.no_grad():
        logits = lm.model(input_ids=torch.tensor([prompt + ids])).logits[0]
    logp = logits[len(prompt) - 1 : -1].log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
    return float(logp[torch.tensor(inside)].mean())


# --- rewards ----------------------------------------------------------------------------------
def test_information_gain_telescopes(groups: list[Group], workers: Workers) -> None:
    for group, signals in zip(groups, measured("gold_logp", groups, workers), strict=True):
        paid = make("reward", "information_gain").apply(
            group, signals, Rewards(np.zeros(len(group.members))), {}
        )
        p = np.exp(signals["gold_logp"])
        for line, known, member in zip(paid.turns, p, group.members, strict=True):
            turns = len(member.episode.turns)
            assert np.nansum(line) == pytest.approx(known[turns - 1] - known[0])
            assert np.isnan(line[turns - 1 :]).all(), "the last turn is paid by the outcome"


def test_turn_rewards_of_several_transforms_add_up() -> None:
    two, three = np.array([[1.0, NAN]]), np.array([[1.0, 2.0, NAN]])
    assert added(None, two) is two
    np.testing.assert_array_equal(added(two, three), [[2.0, 2.0, NAN]])
    np.testing.assert_array_equal(added(three, two), [[2.0, 2.0, NAN]])


def scored(groups: list[Group], turns: list[Floats | None]) -> list[Scored]:
    return [
        Scored(g, {"n": np.arange(6.0)}, Rewards(np.full(6, 10.0), t))
        for g, t in zip(groups, turns, strict=True)
    ]


def test_rewards_are_paid_where_they_were_earned(groups: list[Group]) -> None:
    width = max(len(m.episode.turns) for m in groups[0].members)
    turns = np.full((6, width), NAN)
    for line, member in zip(turns, groups[0].members, strict=True):
        line[: len(member.episode.turns)] = 1 + np.arange(len(member.episode.turns))
    batch = Batch.of(scored(groups[:2], [turns, None]))
    assert batch is not None
    paid = batch.token_reward()
    torch.testing.assert_close(paid.sum(1), batch.reward)
    for i, member in enumerate(batch.members):
        last = int(torch.nonzero(batch.mask[i])[-1])
        assert paid[i, last] >= 10
        for number in range(len(member.episode.turns)):
            at = int(torch.nonzero(batch.mask[i] & (batch.turn[i] == number))[-1])
            extra = (1 + number if i < 6 else 0) + (10 if at == last else 0)
            assert float(paid[i, at]) == extra
    assert float(paid[:6].count_nonzero()) == (~np.isnan(turns)).sum()
    assert batch.signal("n").tolist() == [*range(6), *range(6)]
    assert batch.take([7, 2]).signal("n").tolist() == [1, 2]
    with pytest.raises(ValueError, match="no signal m"):
        batch.signal("m")


def test_turns_without_trained_tokens_are_paid_before() -> None:
    """A turn whose text is masked out, and one before all that is trained on."""
    from searchgym.rl.slots.batch import _turn_rewards

    turn = torch.tensor([[0, 0, 1, 1, 2, 2]])
    rewards = np.array([[5.0, 7.0, 1.0]])
    for mask, want in (
        ([1, 1, 0, 0, 1, 1], [0, 12, 0, 0, 0, 1]),
        ([0, 0, 0, 1, 1, 1], [0, 0, 0, 7, 0, 1]),  # the 5 is lost here: token_reward finds it
    ):
        got = _turn_rewards([rewards[0]], turn, torch.tensor([mask]) > 0, [0])
        assert got is not None
        assert got.tolist() == [want]
    batch = replace(
        sample_batch(0).take([0]), mask=torch.tensor([[0, 0, 0, 1, 1, 1, 0]]) > 0,
        reward=torch.tensor([13.0]), turn_reward=torch.tensor([[0.0, 0, 0, 7, 0, 1, 0]]),
    )  # fmt: skip
    assert batch.token_reward().tolist() == [[0, 0, 0, 7, 0, 6, 0]]


# --- estimators over others -------------------------------------------------------------------
def test_kl_in_the_reward_reaches_tokens_and_totals() -> None:
    batch = replace(sample_batch(3), reward=torch.arange(15.0))
    old, ref = batch.need("old_logp"), batch.need("ref_logp")
    price = 0.1 * torch.where(batch.mask, old - ref, 0.0)
    spec = {"use": "kl_in_reward", "beta": 0.1}
    made = make("advantage", {**spec, "base": "ppo"}).estimate(batch, {})
    want, returns = token_gae(batch.token_reward() - price, batch.need("value"), batch.mask)
    torch.testing.assert_close(made.adv, whiten(want, batch.mask))
    torch.testing.assert_close(made.returns, returns)
    got = make("advantage", {**spec, "base": "rloo"}).estimate(batch, {}).adv
    left = replace(batch, reward=batch.reward - price.sum(1))
    torch.testing.assert_close(got, make("advantage", "rloo").estimate(left, {})[0])
    more = make("advantage", {**spec, "base": "rloo"}).estimate(batch, {"beta": 0.2}).adv
    assert not torch.allclose(more, got)


@pytest.mark.parametrize("how", ["k1", "k2", "k3"])
def test_every_estimate_of_the_kl_can_be_charged(how: str) -> None:
    batch = sample_batch(4)
    spec = {"use": "kl_in_reward", "base": {"use": "reinforce", "baseline": 0.0}, "how": how}
    got = make("advantage", {**spec, "beta": 1.0}).estimate(batch, {}).adv
    old, ref = batch.need("old_logp"), batch.need("ref_logp")
    price = torch.where(batch.mask, kl(old, ref, how), 0.0).sum(1)  # type: ignore[arg-type]
    torch.testing.assert_close(got, torch.nan_to_num(batch.reward - price))


def test_kl_cov_picks_the_tokens_of_highest_covariance() -> None:
    batch = sample_batch(5)
    made = make("advantage", {"use": "kl_cov", "share": 0.1}).estimate(batch, {})
    adv, picked = made.adv, made.notes["picked"]
    batch = replace(batch, notes=dict(made.notes))
    known = batch.mask & ~batch.reward.isnan()[:, None]
    cov = covariance(adv, batch.need("old_logp"), known)[known]
    count = int(0.1 * int(known.sum()))
    assert int(picked.sum()) == count
    assert set(cov.topk(count).values.tolist()) == set(
        covariance(adv, batch.need("old_logp"), known)[picked].tolist()
    )
    logp = batch.need("old_logp").clone().requires_grad_()
    moved = logp + 0.1
    loss, _ = make("loss", "kl_cov")(Output(moved), batch, batch.totals, {})
    assert float(loss.detach()) == pytest.approx(0.1 * count / int(batch.mask.sum()), rel=1e-4)
    loss.backward()
    assert logp.grad is not None
    assert torch.equal(logp.grad != 0, picked)


def test_a_broken_episode_is_nobodys_measure_of_length() -> None:
    shorter = make("reward", "shorter")
    group = Group(PLANS[0], ())
    length, em = np.array([100.0, 200.0]), np.array([1.0, 1.0])
    alone = shorter.apply(group, {"length": length, "em": em}, Rewards(np.ones(2)), {})
    signals = {"length": np.array([10.0, *length]), "em": np.array([NAN, *em])}
    beside = shorter.apply(group, signals, Rewards(np.array([NAN, 1.0, 1.0])), {})
    assert np.isnan(beside.outcome[0])
    assert beside.outcome[1:].tolist() == alone.outcome.tolist() == [1.5, 0.5]


def test_what_gates_must_say_so_and_must_gate() -> None:
    class Gated(RewardTransform):
        gates = True
        factor = 0.0

        def apply(
            self, group: Group, signals: Any, rewards: Rewards, coef: Mapping[str, float]
        ) -> Rewards:
            if rewards.turns is None:
                return rewards
            factor = np.where(np.arange(len(rewards.turns)) % 2, self.factor, 1.0)
            return Rewards(rewards.outcome, rewards.turns * factor[:, None])

    class Silent(Gated):
        gates = False

    class Adds(Gated):
        def apply(self, group, signals, rewards, coef):  # type: ignore[no-untyped-def]
            return Rewards(rewards.outcome, added(rewards.turns, np.full((5, 1), 0.1)))

    check_reward(Gated())
    with pytest.raises(CheckError, match="handed on, or gates"):
        check_reward(Silent())
    with pytest.raises(CheckError, match="pays nothing where there are none"):
        check_reward(Adds())


def played(name: str) -> Played:
    watched = Watched([TEXTS[1]])
    e = watched.play(episode())
    return Played(e, tuple(watched.policy.rows(e)), "baseline" if name == "twin" else "train")


def batch(outcomes: list[float], turns: list[float], *, twins: list[float] | None = None) -> Batch:
    """One group of two-turn episodes; ``turns``: what the first turn of each was paid."""
    twins = twins or []
    members = [played("") for _ in outcomes] + [played("twin") for _ in twins]
    paid = np.array([[t, 0.0] for t in [*turns, *(0.0 for _ in twins)]])
    rewards = Rewards(np.array([*outcomes, *twins]), paid)
    made = Batch.of([Scored(Group(TaskPlan(TASKS[0], "0", 1), tuple(members)), {}, rewards)])
    assert made is not None
    made.old_logp = made.sampled_logp.clone()
    made.ref_logp = made.sampled_logp - 0.1
    return made


def last_turn(b: Batch, adv: torch.Tensor) -> list[float]:
    """The advantage of each trajectory's last trained token."""
    return [float(row[mask][-1]) for row, mask in zip(adv, b.mask, strict=True)]


def test_equal_outcomes_give_the_answer_no_advantage_at_all() -> None:
    """Not even of rounding, whatever the turns earned."""
    for wide in range(1, 40, 4):
        b = batch([0.3] * 4, [wide / 3, 1 / 3, 2 / 3, wide / 7])
        adv = make("advantage", "mt_grpo").estimate(b, {}).adv
        assert last_turn(b, adv) == [0.0] * 4


def test_a_price_on_tokens_leaves_the_outcome_where_it_is() -> None:
    free, priced = (batch([1.0, 0.0, 0.0], [0.0, 1.0, 0.5]) for _ in range(2))
    plain = make("advantage", "mt_grpo").estimate(free, {}).adv
    over = make("advantage", {"use": "kl_in_reward", "base": "mt_grpo", "beta": 1e-9})
    adv = over.estimate(priced, {}).adv
    torch.testing.assert_close(adv, plain, atol=1e-5, rtol=1e-5)
    assert last_turn(priced, adv)[0] > 1


def test_what_a_base_provides_is_provided() -> None:
    for over in ("kl_in_reward", "m2po_areal"):
        advantage = {"use": over, "base": "kl_cov"}
        Recipe.of({"advantage": advantage, "loss": ["ppo", "kl_cov"]})
        assert "picked" in make("advantage", advantage).provides


def test_a_scheduled_price_needs_a_reference_before_anything_is_played() -> None:
    schedule = {"use": "adaptive_kl", "name": "beta"}
    priced = {"use": "reinforce_pp", "beta": 0.001}
    assert "ref_logp" in make("advantage", priced).requires
    assert Recipe.of({"advantage": priced, "loss": "ppo", "schedule": schedule}).needs("ref_logp")
    b = batch([1.0, 0.0], [0.0, 0.0])
    without = make("advantage", "reinforce_pp").estimate(b, {"beta": 5.0})[0]
    torch.testing.assert_close(without, make("advantage", "reinforce_pp").estimate(b, {})[0])


@pytest.mark.parametrize("twins", [[0.5], [float("nan")]])
def test_a_twin_that_broke_off_is_still_a_comparison(twins: list[float]) -> None:
    b = batch([1.0, 0.0], [0.0, 0.0], twins=twins)
    assert b.baseline is not None
    adv = make("advantage", "remax").estimate(b, {}).adv
    want = [0.5, -0.5] if twins == [0.5] else [0.0, 0.0]
    assert torch.nan_to_num(adv).reshape(2, -1)[:, 0].tolist() == want


def test_a_trajectory_without_tokens_does_not_go_through_the_model() -> None:
    """Nor at all: it has nothing to learn from."""
    b = batch([1.0, 0.0], [0.0, 0.0])
    empty = Played(b.members[0].episode, ())
    b.members = [empty, b.members[0], b.members[1]]
    updater: Any = SimpleNamespace(
        processes=SimpleNamespace(shard=list), config=SimpleNamespace(tokens=1),
        _units=lambda batch: [[0], [1], [2]],
    )  # fmt: skip
    parts = list(Updater._micro_batches(updater, b))
    assert sorted(parts) == [[1], [2]]
