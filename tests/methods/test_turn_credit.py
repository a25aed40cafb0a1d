"""Worked numbers of methods that give credit to turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from searchgym.envs import Session
from searchgym.rl import (
    Batch,
    Group,
    Rewards,
    Scored,
    TaskPlan,
    Workers,
    grpo_advantages,
    make,
    sample_batch,
    standardized,
    turn_returns,
)
from searchgym_agents.methods.a2tgpo import clip_factor, per_root
from searchgym_agents.methods.answer_rewards import NamedCall
from searchgym_agents.methods.decs import redundant_turns
from searchgym_agents.methods.infopo import Influence, gate
from searchgym_agents.methods.matchtir import greedy, optimal, similarity, transport
from searchgym_agents.methods.noisy_grpo import gain
from searchgym_agents.methods.salt import Edge
from searchgym_agents.methods.spa_rl import TurnProgress
from searchgym_agents.methods.ss_grpo import stage_advantages, stages
from searchgym_agents.methods.thr import influence
from searchgym_agents.methods.verl_rank import effective_rank, entropy_rank, shaped
from tests.methods.trees import close, estimate, turns
from tests.rl.colours import TASKS, player, setting
from tests.rl.kernels import otb

# --- turn_mix: MatchTIR, MAPO, UI-S1 ----------------------------------------------------------
PAID = [[0.5, 1.0, 0.8], [0.0, 0.2]]


def test_matchtirs_two_levels() -> None:
    batch = turns(PAID)
    _, later = turn_returns(batch.token_reward(), batch.turn, batch.mask, 0.9)
    close(later, [2.048, 1.72, 0.8, 0.18, 0.2])
    got = estimate({"use": "turn_mix", "gamma": 0.9, "alone": "raw", "eps": 0}, batch)
    close(got, [[0.70711, 0.70711, 0.75355], [-0.70711, -0.70711, 0]])
    left = estimate({"use": "turn_mix", "gamma": 0.9, "eps": 0}, batch)
    close(left[0, 2], 0.5 * 0.70711), "nobody else got that far"


def test_mapo_between_its_two_ends() -> None:
    batch = turns(PAID)
    mix = {"use": "turn_mix", "trajectory": 0.0, "gamma": 0.9}
    by_turn = estimate({**mix, "turn": 1.0, "batch": 0.0}, batch)
    everywhere = estimate({**mix, "turn": 0.0, "batch": 1.0}, batch)
    close(by_turn[:, :2], [[0.7071, 0.7071], [-0.7071, -0.7071]])
    _, later = turn_returns(batch.token_reward(), batch.turn, batch.mask, 0.9)
    close(everywhere[batch.mask], (later - later.mean()) / later.std())
    half = estimate({**mix, "turn": 0.5, "batch": 0.5}, batch)
    close(half, (by_turn + everywhere) / 2)
    one = turns([[1.0], [0.0], [0.0], [0.0]])
    for share in (0.0, 0.3, 1.0):  # a prompt of one turn is GRPO, whatever is mixed
        got = estimate({**mix, "turn": share, "batch": 1 - share}, one)
        close(got[:, 0], [1.5, -0.5, -0.5, -0.5])


# --- A²TGPO -----------------------------------------------------------------------------------
def test_a2tgpo_sums_and_clips() -> None:
    ones = torch.ones(1, 3)
    close(per_root(ones, ones > 0), [[1.7321, 1.4142, 1.0]])
    close(clip_factor(torch.tensor([0.0, 1, -1])), [1, 1.1386, 0.8614])
    wide = clip_factor(torch.linspace(-50, 50, 11))
    assert wide.min() >= 0.7
    assert wide.max() <= 1.3
    draw = torch.Generator().manual_seed(0)
    scores = torch.randn(20_000, 4, generator=draw)
    spread = per_root(scores, torch.ones_like(scores) > 0).std(0)
    close(spread, torch.ones(4), 0.05)


def test_a2tgpo_pays_the_outcome_and_gains_apart() -> None:
    batch = turns([[0.3, 0.0, 0.0], [0.1, 0.0, 0.0]])
    batch = replace(batch, outcome=torch.tensor([0.0, 1.0]), reward=torch.tensor([0.3, 1.1]))
    made = make("advantage", {"use": "a2tgpo", "eps": 0}).estimate(batch, {})
    # first turns: gains of .3 and .1, two turns to come; last turns: the outcome alone
    first = 0.3 * 0.7071 / 2**0.5
    close(made.adv[:, 0], [-0.7071 + first, 0.7071 - first])
    close(made.adv[:, 2], [-0.7071, 0.7071])
    assert made.clip_scale is not None
    close(made.clip_scale[:, 0], clip_factor(torch.tensor([0.7071, -0.7071])))
    close(made.clip_scale[:, 2], [1, 1])
    none = make("advantage", {"use": "a2tgpo", "alpha": 0, "beta": 0}).estimate(batch, {})
    close(none.adv, grpo_advantages(batch.outcome, batch.group)[:, None].expand(2, 3))
    assert bool((none.clip_scale == 1).all())


# --- SALT -------------------------------------------------------------------------------------
def test_salt_shares_what_is_shared() -> None:
    batch = turns([[0.0, 1.0], [0.0, 0.0]], edge=[[0.0, 1.0], [0.0, 2.0]])
    spec = {"use": "salt", "base": {"use": "grpo", "eps": 0}}
    close(estimate(spec, batch), [[0, 0.7071], [0, -0.7071]])
    apart = replace(batch, signals={"edge": torch.arange(4.0).view(2, 2)})
    base = estimate({"use": "grpo", "eps": 0}, batch)
    close(estimate(spec, apart), base)
    uneven = turns([[0, 0, 1.0], [0.5], [0.0, 0]], edge=[[0.0, 1, 0], [1, 9, 9], [0, 1, 9]])
    whole = estimate({"use": "grpo"}, uneven)
    close(estimate({"use": "salt"}, uneven).sum(), whole.sum(), 1e-5)


# --- SS-GRPO ----------------------------------------------------------------------------------
def test_ss_grpos_two_ends_and_causality() -> None:
    score = torch.tensor([[0.2, 0.9, 1.0], [0.6, 0.1, 0.0], [0.7, 0.5, 0.0], [0.1, 0.3, 0.5]])
    there, group = torch.ones(4, 3, dtype=torch.bool), torch.zeros(4, dtype=torch.long)
    alone = stage_advantages(score, there, group, torch.eye(3))
    for k in range(3):
        close(alone[:, k], grpo_advantages(score[:, k], group), 1e-6)
    last = torch.zeros(3, 3)
    last[:, 2] = 1
    broadcast = stage_advantages(score, there, group, last)
    close(broadcast, grpo_advantages(score[:, 2], group)[:, None].expand(4, 3), 1e-6)
    changed = score.clone()
    changed[0, 1] = 5.0  # stage 1 does not reach back to what came later
    weights = torch.tensor([[1, 0.5, 0.25], [0, 1, 0.5], [0, 0, 1.0]])
    before, after = (stage_advantages(s, there, group, weights) for s in (score, changed))
    close(after[:, 2], before[:, 2], 0)
    assert not torch.equal(after[:, 0], before[:, 0])
    with pytest.raises(Exception, match="below the diagonal"):
        make("advantage", {"use": "ss_grpo", "weights": [[1, 0], [1, 1]]})


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["search: box", "answer: red"], [0, 2]),
        (["search: box", "no words of the dialect"], [0, 2]),
        (["no words of the dialect", "search: box"], [0, 2]),
        (["answer: red"], [2]),
    ],
)
def test_the_last_turn_is_the_stage_of_answers_whatever_it_says(
    said: list[str], expected: list[int]
) -> None:
    """Beside other turns without an answer, it would cost nothing to give none."""
    session = Session(setting(), TASKS[0].id)
    for text in said:
        session.step(text)
    assert session.done
    assert stages(session.episode) == expected


# --- PRL, BN-GSPO, OTB ------------------------------------------------------------------------
def test_prl_pays_each_turn_its_kl() -> None:
    batch = turns([[0.0, 1.0], [0.0, 0.0]])
    old, ref = torch.tensor([[-1.0, -0.5], [-2.0, -1.0]]), torch.full((2, 2), -1.5)
    got = estimate({"use": "prl", "beta": 0.1}, replace(batch, old_logp=old, ref_logp=ref))
    close(got, [[0.5 - 0.15, 0.5 - 0.1], [-0.5 + 0.05 - 0.05, -0.5 - 0.05]])
    close(got[:, 0], torch.tensor([0.5, -0.5]) - 0.1 * (old - ref).sum(1))  # R - β Σ k1


def test_batch_norm_is_standard() -> None:
    batch = sample_batch(3)
    adv = make("advantage", {"use": "batch_norm", "eps": 0}).estimate(batch, {}).adv
    known = adv[~batch.reward.isnan() & (batch.length > 0)]
    close(known.mean(), 0.0, 1e-6)
    close(known.std(), 1.0, 1e-5)
    base = make("advantage", "grpo").estimate(batch, {}).adv
    equal = batch.group == 2
    assert bool((base[equal] == 0).all())
    assert float(adv[equal].abs().max()) < 0.2


def test_otb_against_a_loop() -> None:
    draw = torch.Generator().manual_seed(1)
    n, width = 6, 5
    mask = torch.rand(n, width, generator=draw) < 0.8
    group = torch.tensor([0, 0, 0, 1, 1, 2])
    reward, square = (torch.rand(n, width, generator=draw) for _ in range(2))
    logp = -torch.rand(n, width, generator=draw)
    square = torch.maximum(square, (2 * logp.exp() - 1))  # Σ π² is at least what makes W ≥ 0
    got = otb(reward, logp, square, group, mask)
    lines = []
    for i in range(n):
        at = [t for t in range(width) if mask[i, t]]
        weights = np.cumsum([float(1 - 2 * logp[i, t].exp() + square[i, t]) for t in at])
        lines.append([(t, float(sum(reward[i, s] for s in at[k:])), weights[k])
                      for k, t in enumerate(at)])  # fmt: skip
    for i, line in enumerate(lines):
        for k, (t, to_go, _) in enumerate(line):
            mates = [lines[j][k] for j in range(n) if group[j] == group[i] and len(lines[j]) > k]
            want = 0.0
            if len(mates) > 1:
                want = to_go - sum(g * w for _, g, w in mates) / sum(w for *_, w in mates)
            assert float(got[i, t]) == pytest.approx(want, abs=1e-5)
    assert not got[~mask].any()


def test_otb_of_equal_weights_is_the_mean() -> None:
    reward = torch.tensor([[1.0], [0], [0], [0]])
    ones = torch.ones(4, 1)
    got = otb(reward, ones.log() - 1, ones * 0.5, torch.zeros(4), ones)
    close(got[:, 0], [0.75, -0.25, -0.25, -0.25])


# --- NoisyGRPO, DECS, InfoPO, VERL ------------------------------------------------------------
def test_noisy_grpos_gain() -> None:
    close(gain(torch.tensor([0.0, 0.5])), [0.9091, 0.7407])
    reward, noise = torch.tensor([1.0, 0, 0, 1]), torch.tensor([0.0, 0.3, 0.6, 0.9])
    batch = turns([[float(r)] for r in reward])
    batch = replace(batch, signals={"noise": noise})
    zero = torch.zeros(4)
    score, prior = grpo_advantages(reward, zero, eps=0), grpo_advantages(1 - noise, zero, eps=0)
    k = float(gain(reward.std()))
    want = grpo_advantages(score + k * (prior - score), zero, eps=0)
    close(estimate({"use": "noisy_grpo", "eps": 0}, batch)[:, 0], want)


def test_decs_tells_needed_from_redundant() -> None:
    shown = [[0.0, 1.0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    batch = turns([[0, 0, 0, 1.0], [0, 0, 0, 0.0], [0, 1.0]], turn_answer_shown=shown)
    over = redundant_turns(batch.signal("turn_answer_shown"), batch.turn, batch.mask)
    assert over.tolist() == [
        [False, False, True, False], [False, True, True, False], [False] * 4,
    ]  # fmt: skip
    got = estimate({"use": "decs", "penalty": 0.4}, batch)
    base = estimate("grpo", batch)
    close(got[0], [*base[0, :2], -0.4, base[0, 3]])
    close(got[1], [base[1, 0], -0.4, -0.4, base[1, 3]])
    close(got[2], base[2])
    right = estimate({"use": "decs", "penalty": 0.4, "right_only": True}, batch)
    close(right[0], got[0])
    close(right[1:], base[1:])


def test_infopos_gate_and_scale() -> None:
    close(gate(torch.tensor([0.0, 0.5])), [0.5, 4.5398e-5], 1e-8)
    influence = [[0.4, 0.0], [0.2, 0.0]]
    equal = turns([[0.0, 0.0], [0.0, 0.0]], influence=influence)
    got = estimate({"use": "infopo", "eps": 1e-9}, equal)
    close(got, [[0.1 * 0.5 * 0.7071, 0], [-0.1 * 0.5 * 0.7071, 0]])
    apart = turns([[0.0, 1.0], [0.0, 0.0]], influence=influence)
    close(estimate("infopo", apart), estimate("grpo", apart), 1e-4)


def test_effective_rank() -> None:
    assert entropy_rank(torch.tensor([2.0, 1, 1])) == pytest.approx(2.8284, abs=1e-4)
    assert effective_rank(torch.ones(5, 3)) == 0
    centred = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    assert effective_rank(centred) == pytest.approx(2)
    adv, bonus = torch.tensor([1.0, -1, 0.5, -2]), torch.tensor([5.0, 5, -1, 0.1])
    got = shaped(adv, bonus)
    close(got, [1.5, -0.5, 0.5, -1.9])
    assert bool((got.sign() == adv.sign()).all())
    made, batch = make("advantage", {"use": "effective_rank", "stride": 2}), sample_batch(0)
    first, second = made.estimate(batch, {}).adv, made.estimate(sample_batch(1), {}).adv
    close(first, estimate("grpo", batch)), "nothing to compare with yet"
    assert not torch.equal(second, estimate("grpo", sample_batch(1)))


# --- matching ---------------------------------------------------------------------------------
def two_words(said: list[list[int]], reward: list[float]) -> Batch:
    """One group whose trajectories say 0 or 1 at even odds, from a single hidden state."""
    n, width = len(said), len(said[0])
    own = torch.nn.functional.one_hot(torch.tensor(said), 2)
    mask = torch.ones(n, width, dtype=torch.bool)
    return replace(
        sample_batch(0).take(range(n)), mask=mask, group=torch.zeros(n, dtype=torch.long),
        turn=torch.zeros(n, width, dtype=torch.long),
        reward=torch.tensor(reward), outcome=torch.tensor(reward), turn_reward=None,
        measures={
            "hidden": torch.ones(n, width, 1),
            "logit_gradient": own - torch.full((n, width, 2), 0.5),
        },
    )  # fmt: skip


def test_thr_tells_what_makes_right_answers_likelier() -> None:
    """g = ±(.5, -.5): s of a token is ½ where it agrees with the right answer's, else -½."""
    batch = two_words([[0], [1]], [1.0, 0.0])
    base = estimate("grpo", batch)
    close(estimate({"use": "thr", "p": 0.2, "beta": 0.0}, batch), 1.2 * base)
    close(estimate({"use": "thr", "p": -0.2, "beta": 0.0}, batch), 0.8 * base)
    # the wrong answer says the right one's word, too: to move away from it hurts that one
    alike = two_words([[0, 0], [0, 1]], [1.0, 0.0])
    base = estimate("grpo", alike)
    factor = torch.tensor([[1.2, 1.2], [0.8, 1.2]])
    close(estimate({"use": "thr", "p": 0.2, "beta": 0.0}, alike), factor * base)
    close(estimate({"use": "thr", "p": 0.0, "beta": 0.0}, alike), base)
    close(estimate({"use": "thr", "p": 0.2, "beta": 1.0}, alike), base), "none above the mean"
    none = make("advantage", {"use": "thr", "others": "masked"}).estimate(alike, {})
    assert not none.mask.any()


def test_nthr_spares_what_right_answers_hold_too() -> None:
    """s = 1 for word 0, -1 for word 1; τ = 1 · beta."""
    alike = two_words([[0, 0], [0, 1]], [1.0, 0.0])
    base = estimate("grpo", alike)
    close(estimate("nthr", alike), base), "not above τ"
    got = estimate({"use": "nthr", "beta": 0.9}, alike)
    close(got, torch.tensor([[1.0, 1.0], [0.0, 1.0]]) * base), "half are right: η 0"
    one = two_words([[0, 0], [0, 1], [1, 1], [1, 1]], [1.0, 0.0, 0.0, 0.0])
    got = estimate({"use": "nthr", "beta": 0.9}, one)
    factor = torch.ones(4, 2)
    factor[1, 0] = 0.5  # a quarter are right
    close(got, factor * estimate("grpo", one))


def test_influence_is_the_gradient_of_right_answers() -> None:
    """Of Σ log p of the right tokens by one token's own step on the output layer."""
    draw = torch.Generator().manual_seed(0)
    layer = torch.randn(5, 3, generator=draw, dtype=torch.float64, requires_grad=True)
    hidden = torch.randn(6, 3, generator=draw, dtype=torch.float64)
    ids, right = torch.tensor([0, 1, 2, 0, 4, 1]), torch.tensor([1, 1, 0, 0, 1, 0]) > 0
    logp = (hidden @ layer.T).log_softmax(-1)
    own = logp.gather(1, ids[:, None])[:, 0]
    good = torch.autograd.grad(own[right].sum(), layer, retain_graph=True)[0]
    each = [torch.autograd.grad(x, layer, retain_graph=True)[0] for x in own]
    g = torch.nn.functional.one_hot(ids, 5) - logp.exp()
    want = torch.stack([(good * e).sum() for e in each])
    torch.testing.assert_close(influence(g, hidden, right), want)


def test_matching() -> None:
    gold = NamedCall("search", {"query": "a", "k": "3"})
    assert similarity(NamedCall("search", {"query": "A ", "k": "5"}), gold) == 0.75
    assert similarity(NamedCall("open", {"query": "a", "k": "3"}), gold) == 0
    table = np.array([[0.9, 0.8], [0.8, 0.0]])
    assert greedy(table).sum() == pytest.approx(0.9)
    assert optimal(table).sum() == pytest.approx(1.6)
    found = transport(np.eye(3), reg=0.01)
    np.testing.assert_allclose(found, [1 / 3] * 3, atol=1e-6)
    assert optimal(np.ones((3, 1))).tolist() == [1, 0, 0]


# --- signals of real episodes -----------------------------------------------------------------
@pytest.fixture(scope="module")
def workers() -> Workers:
    lm, policy = player(4)
    return Workers(policy, setting(), lm)


@pytest.fixture(scope="module")
def group(workers: Workers) -> Group:
    plan = TaskPlan(TASKS[0], "turns", 0)
    made: list[Group] = make("rollout", {"use": "chains", "size": 6}).collect([plan], workers)
    return made[0]


def test_influence_is_0_where_nothing_was_learnt(group: Group, workers: Workers) -> None:
    (found,) = Influence().measure([group], workers)
    values = found["influence"]
    assert np.nanmax(np.abs(values)) > 0.01
    for member, line in zip(group.members, values, strict=True):
        assert line[len(member.episode.turns) - 1] == 0, "nothing follows the last turn"
    # the very text that was read as placeholder: nothing changes
    member = next(m for m in group.members if len(m.episode.turns) == 2)
    (row,) = member.rows
    begin = int(np.flatnonzero(row.turn_of_token == 0)[-1]) + 1
    end = int(np.flatnonzero(row.turn_of_token == 1)[0])

    class Same:
        """Spells every text as what was read."""

        def spell(self, segments: Any, text: str) -> Any:
            return type("Spelt", (), {"ids": row.ids[begin:end].tolist()})

    class Reader:
        renderer = Same()

    alone = Group(group.plan, (member,))
    told = replace(workers, policy=Reader())  # type: ignore[arg-type]
    (again,) = Influence().measure([alone], told)
    assert again["influence"].tolist() == [[0.0, 0.0]]


def test_edges_are_steps(group: Group, workers: Workers) -> None:
    (found,) = Edge().measure([group], workers)
    for a, left in enumerate(group.members):
        for b, right in enumerate(group.members[:a]):
            for k, (one, two) in enumerate(zip(left.episode.turns, right.episode.turns,
                                               strict=False)):  # fmt: skip
                same = found["edge"][a, k] == found["edge"][b, k]
                if same:
                    assert repr(one.action) == repr(two.action)


def test_progress_adds_up_to_the_outcome(group: Group, workers: Workers) -> None:
    signal = TurnProgress(lr=0.2, epochs=2000)
    (first,) = signal.measure([group], workers)
    shares = first["turn_progress"]
    assert set(np.unique(shares[~np.isnan(shares)])) <= {0.0, 0.5}, "the head begins at 0"
    outcome = np.array([float(m.episode.answer == TASKS[0].answers[0]) for m in group.members])
    metrics = signal.fit([Scored(group, first, Rewards(outcome))])
    (fitted,) = TurnProgress.measure(signal, [group], workers)
    sums = np.nansum(fitted["turn_progress"] - np.nan_to_num(shares), 1)
    assert metrics["progress/loss"] < 0.05
    np.testing.assert_allclose(sums, outcome, atol=0.3)
    again = TurnProgress()
    again.load_state_dict(signal.state_dict())
    again.load_tensors(signal.tensors())
    (same,) = again.measure([group], workers)
    np.testing.assert_array_equal(same["turn_progress"], fitted["turn_progress"])


def test_alone_or_equal_is_nothing() -> None:
    values, key = torch.tensor([2.0, 1, 1, float("nan")]), torch.tensor([0, 1, 1, 1])
    assert standardized(values, key).tolist() == [0, 0, 0, 0]
    assert standardized(values, key, alone="raw").tolist() == [2, 0, 0, 0]
    with pytest.raises(Exception, match="alone is"):
        make("advantage", {"use": "turn_mix", "alone": "some"})
