"""Sums, maxima and log-probabilities over runs of rows, against PyTorch's own, gradients too."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from searchgym_agents.candidate.scorer import Segments


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(0, 5))
def test_values_and_gradients_are_pytorchs(sizes, seed):
    state = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(len(state), 4, generator=generator, dtype=torch.float64)
    weight = torch.randn(len(sizes), 4, generator=generator, dtype=torch.float64)
    segments = Segments(state, len(sizes))
    index = state[:, None].expand_as(rows)

    def theirs(x):
        zero = torch.zeros(len(sizes), 4, dtype=torch.float64)
        total = zero.index_add(0, state, x)
        top = zero.scatter_reduce(0, index, x, "amax", include_self=False)
        return total, top, (total + top)[state]

    def ours(x):
        total, top = segments.sum(x), segments.top(x)
        return total, top, segments.spread(total + top)

    found = []
    for make in (theirs, ours):
        x = rows.clone().requires_grad_()
        total, top, spread = make(x)
        ((total + top) * weight).sum().backward(retain_graph=True)
        (spread.square()).sum().backward()
        found.append((total, top, spread, x.grad))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_log_softmax_is_pytorchs_on_each_segment(sizes):
    parts = [torch.randn(n, dtype=torch.float64, requires_grad=True) for n in sizes]
    state = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    logits = torch.cat(parts)
    got = Segments(state, len(sizes)).log_softmax(logits)
    torch.testing.assert_close(got, torch.cat([p.log_softmax(0) for p in parts]))
    (mine,) = torch.autograd.grad((got**2).sum(), logits, retain_graph=True)
    whole = torch.cat([p.log_softmax(0) for p in parts])
    theirs = torch.autograd.grad((whole**2).sum(), parts)
    torch.testing.assert_close(mine, torch.cat(theirs))


def test_very_large_logits_do_not_overflow():
    state = torch.tensor([0, 0, 1])
    got = Segments(state, 2).log_softmax(torch.tensor([1000.0, 0.0, -1000.0]))
    assert got.tolist() == pytest.approx([0.0, -1000.0, 0.0])
