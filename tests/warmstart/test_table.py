"""A table of which few rows are learnt: the same gradients as if all were."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from searchgym.llms.sft import SftConfig
from searchgym.llms.small import small_model
from searchgym.warmstart.mixture import Mixture, Stage
from searchgym.warmstart.reading import encode_traces, reader_tokenizer
from searchgym.warmstart.table import Table
from searchgym.warmstart.traces import Trace
from searchgym.warmstart.training import TraceTrainer


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
    trainer = TraceTrainer(model, mixture, SftConfig(prompt_weight=0), given=given)
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
    table = Table(model, torch.tensor([1, 3]))
    assert table.rows.tolist() == [0, 2, *range(4, len(whole))]
    with torch.no_grad():
        whole.fill_(1.0)
        table.read()
        table.learnt.mul_(2.0)
    assert (table.of(torch.tensor([2, 3]))[:, 0]).tolist() == [2.0, 1.0]
    assert (whole == 1.0).all()
    table.write()
    assert whole[:5, 0].tolist() == [2.0, 1.0, 2.0, 1.0, 2.0]
