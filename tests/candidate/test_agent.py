"""The candidate agent: stateless, keyed, saved without pickle."""

import numpy as np
import pytest
import torch

from searchgym.agents import make_state
from searchgym.errors import DataError
from searchgym.types import Passage
from searchgym_agents.candidate.agent import CandidateAgent, inverse_cdf
from searchgym_agents.candidate.features import FEATURE_NAMES, FeatureBuilder
from searchgym_agents.candidate.scorer import (
    CandidateScorer,
    Dropout,
    save_scorer,
    segment_log_softmax,
    stack,
)

PASSAGE = Passage("p", "Velda Morrin", "Velda Morrin was born in Tarsk. She is a drummer.", "u")


def states():
    out = []
    for i, question in enumerate(("Where was Velda born?", "Is Velda a drummer?", "Who is Hask?")):
        out.append(make_state(question, ["x"] * i, [(PASSAGE, 0, 0)] * min(i, 1), 3 - i, None))
    return out


def test_logits_do_not_depend_on_who_shares_the_batch():
    builder = FeatureBuilder(None)
    torch.manual_seed(0)
    model = CandidateScorer().eval()
    scored = [builder(s).features for s in states()]
    rows, state, starts = stack(scored)
    whole = segment_log_softmax(model(rows, state, 3), state, 3).detach()
    for start, features in zip(starts, scored, strict=True):
        alone, one, _ = stack([features])
        got = segment_log_softmax(model(alone, one, 1), one, 1).detach()
        torch.testing.assert_close(got, whole[start : start + len(features)], atol=1e-5, rtol=1e-4)
        assert float(got.exp().sum()) == pytest.approx(1, abs=1e-5)


def test_saved_agent_decides_alike(tmp_path):
    agent = CandidateAgent.untrained(FeatureBuilder(None), seed=5)
    file = tmp_path / "agent.safetensors"
    agent.save(file, recipe="test")
    again = CandidateAgent.load(file, None)
    assert agent.choose(states(), [None] * 3)[1] == again.choose(states(), [None] * 3)[1]


def test_other_features_are_refused(tmp_path, monkeypatch):
    file = tmp_path / "agent.safetensors"
    save_scorer(CandidateScorer(), file, {})
    monkeypatch.setattr("searchgym_agents.candidate.scorer.FEATURE_VERSION", -1)
    with pytest.raises(DataError, match="train again"):
        CandidateAgent.load(file, None)
    with pytest.raises(DataError, match="no such file"):
        CandidateAgent.load(tmp_path / "absent", None)


def test_a_network_of_another_shape_is_refused(tmp_path):
    file = tmp_path / "agent.safetensors"
    model = CandidateScorer(members=2)
    model.config["members"] = 3
    save_scorer(model, file, {})
    with pytest.raises(DataError, match=r"another shape.*train again"):
        CandidateAgent.load(file, None)
    del model.config["members"], model.config["width"]
    model.config["wide"] = 64
    save_scorer(model, file, {})
    with pytest.raises(DataError, match="train again"):
        CandidateAgent.load(file, None)


@pytest.mark.parametrize(("p", "shape"), [(0.1, (4000, 50)), (0.5, (333, 7)), (0.9, (20_001,))])
def test_dropout_drops_the_share_it_is_told_and_keeps_the_mean(p, shape):
    drop, theirs = Dropout(p), torch.nn.Dropout(p)
    ones = torch.ones(shape, requires_grad=True)
    torch.manual_seed(3)
    out = drop(ones)
    torch.manual_seed(3)
    assert torch.equal(out, drop(ones)), "the seed decides"
    values = sorted(set(out.flatten().tolist()))
    assert values == pytest.approx(sorted(set(theirs(ones).flatten().tolist())))
    share = float((out == 0).float().mean())
    assert share == pytest.approx(p, abs=5 * (p * (1 - p) / ones.numel()) ** 0.5)
    (gradient,) = torch.autograd.grad(out.sum(), ones)
    assert torch.equal(gradient, out.detach())
    assert drop.eval()(ones) is ones
    assert Dropout(0.0)(ones) is ones


def test_the_logits_are_the_mean_of_the_members():
    builder = FeatureBuilder(None)
    rows, state, _ = stack([builder(s).features for s in states()])
    model = CandidateScorer(members=2).eval()
    each = model.each(rows, state, 3)
    assert each.shape == (2, len(rows))
    assert not torch.allclose(each[0], each[1])
    torch.testing.assert_close(model(rows, state, 3), each.mean(0))


def test_untrained_agents_differ_by_seed_and_leave_torch_alone():
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    a = CandidateAgent.untrained(FeatureBuilder(None), seed=0).model
    b = CandidateAgent.untrained(FeatureBuilder(None), seed=1).model
    c = CandidateAgent.untrained(FeatureBuilder(None), seed=0).model
    assert torch.equal(torch.rand(2), expected)
    assert torch.equal(a.members[0].rows.weight, c.members[0].rows.weight)
    assert not torch.equal(a.members[0].rows.weight, b.members[0].rows.weight)


def test_sampling_follows_the_distribution():
    logp = np.log(np.array([0.2, 0.5, 0.3], dtype=np.float32))
    draws = np.random.default_rng(0).random(4000)
    picks = np.bincount([inverse_cdf(logp, d) for d in draws], minlength=3) / 4000
    np.testing.assert_allclose(picks, [0.2, 0.5, 0.3], atol=0.03)
    assert inverse_cdf(logp, 1 - 1e-17) == 2


def test_features_are_finite_named_and_pure():
    first, second = FeatureBuilder(None), FeatureBuilder(None)
    for state in states():
        a, b = first(state), second(state)
        assert a.features.shape == (len(a.candidates), len(FEATURE_NAMES))
        assert np.isfinite(a.features).all()
        assert np.array_equal(a.features, b.features)
        assert a.candidates == b.candidates
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES)
