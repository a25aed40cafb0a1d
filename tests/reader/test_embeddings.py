"""A table of which few rows are learnt: the same gradients as if all were."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from searchgym.llms import SftConfig, small_model
from searchgym_agents.reader.embeddings import EmbeddingTable, Given, TokenMeanings
from searchgym_agents.reader.encoding import encode_traces, reader_tokenizer
from searchgym_agents.reader.mixture import Mixture, Stage
from searchgym_agents.reader.traces import Trace
from searchgym_agents.reader.trainer import TraceTrainer


@pytest.fixture(scope="module")
def tokenizer(traces: list[Trace]) -> Any:
    return reader_tokenizer(traces, 512)


@pytest.mark.parametrize("given", [None, torch.arange(40, 300)], ids=["all", "few"])
def test_gradients_are_those_of_the_whole_table(
    tokenizer: Any, traces: list[Trace], given: torch.Tensor | None
) -> None:
    rows = encode_traces(tokenizer, traces[:3], 4096)
    model = small_model(tokenizer, width=32)
    mixture = Mixture({"trace": rows}, [Stage(1, {"trace": 1.0})])
    still = None if given is None else Given(given)
    trainer = TraceTrainer(model, mixture, SftConfig(prompt_weight=0), given=still)
    loss, _, _ = trainer._loss(rows)
    loss.backward()
    table = model.get_input_embeddings().weight
    assert table.grad is None
    learnt = [p for g in trainer.optimizers[0].param_groups for p in g["params"]]
    part = next(p for p in learnt if p.shape[1:] == table.shape[1:] and p.ndim == 2)
    inner = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    nats, count = torch.zeros(()), 0
    for row in rows:
        ids = torch.tensor([row.ids])
        surprise = -model(input_ids=ids).logits[0, :-1].log_softmax(-1)
        own = torch.tensor(row.own[1:])
        nats = nats + surprise.gather(-1, ids[0, 1:, None])[:, 0][own].sum()
        count += int(own.sum())
    (nats / count).backward()
    stays = set() if given is None else set(given.tolist())
    which = [i for i in range(len(table)) if i not in stays]
    torch.testing.assert_close(part.grad, table.grad[which], rtol=1e-3, atol=1e-6)
    assert inner
    for name, grad in inner.items():
        torch.testing.assert_close(grad, model.get_parameter(name).grad, rtol=1e-3, atol=1e-5)


def test_the_model_is_what_counts_before_a_step_and_after_it(tokenizer: Any) -> None:
    model = small_model(tokenizer, width=32)
    whole = model.get_input_embeddings().weight
    table = EmbeddingTable(model, Given(torch.tensor([1, 3])))
    assert table.rows.tolist() == [0, 2, *range(4, len(whole))]
    with torch.no_grad():
        whole.fill_(1.0)
        table.read()
        table.learnt.mul_(2.0)
    assert (table.of(torch.tensor([2, 3]))[:, 0]).tolist() == [2.0, 1.0]
    assert (whole == 1.0).all()
    table.write()
    assert whole[:5, 0].tolist() == [2.0, 1.0, 2.0, 1.0, 2.0]


def words(tokens: list[int], width: int, dims: int = 5) -> TokenMeanings:
    draw = torch.Generator().manual_seed(0)
    return TokenMeanings(
        torch.tensor(tokens),
        torch.nn.functional.normalize(torch.randn(len(tokens), dims, generator=draw), dim=1),
        torch.zeros(len(tokens), 1),
        torch.randn(width - 1, dims, generator=draw),
        2.0,
    )


def test_words_move_together_by_their_projection(tokenizer: Any) -> None:
    model = small_model(tokenizer, width=32)
    table = EmbeddingTable(model, Given(torch.tensor([1]), words([2, 4, 7], 32)))
    assert table.rows.tolist() == [0, 3, 5, 6, *range(8, len(table.whole))]
    assert table.projection is not None
    found = table.of(torch.tensor([1, 4, 5, 7]))
    assert found[[1, 3]].norm(dim=1).tolist() == pytest.approx([2.0, 2.0])
    found[1, 0].backward()  # one word's embedding
    assert table.projection.grad is not None
    assert table.projection.grad.abs().sum() > 0
    assert table.learnt.grad is None or not table.learnt.grad.abs().sum()
    before = table.of(torch.tensor([7])).detach()
    with torch.no_grad():
        table.projection -= 0.1 * table.projection.grad
    assert not torch.equal(table.of(torch.tensor([7])), before)  # and the others move, too


def test_words_reach_the_model_when_they_are_written(tokenizer: Any) -> None:
    model = small_model(tokenizer, width=32)
    table = EmbeddingTable(model, Given(torch.tensor([1]), words([2, 4], 32)))
    before = table.whole.detach().clone()
    table.write()
    assert torch.equal(table.whole, before)
    table.write_words()
    moved = (table.whole.detach() - before).abs().sum(1).nonzero()[:, 0]
    assert moved.tolist() == [2, 4]
    assert torch.equal(table.whole.detach()[[2, 4]], table.of(torch.tensor([2, 4])).detach())
