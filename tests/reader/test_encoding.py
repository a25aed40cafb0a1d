"""What a small model reads, writes and is trained on."""

from __future__ import annotations

from typing import Any

import pytest

from searchgym.core import run_episodes
from searchgym.envs import SearchEnv
from searchgym.errors import DataError
from searchgym.evaluation import episode_for
from searchgym.llms import SftConfig, small_model
from searchgym.policies import BareRenderer, Renderer
from searchgym.types import TurnRequest
from searchgym_agents.experts.thinking_oracle import ThinkingOracle
from searchgym_agents.reader.encoding import (
    MARKS,
    PAGE_MARKS,
    encode_traces,
    reader_tokenizer,
)
from searchgym_agents.reader.mixture import Mixture, Stage
from searchgym_agents.reader.slots import Names, NamesRenderer, lettering, slots
from searchgym_agents.reader.traces import Trace, traces_of
from searchgym_agents.reader.trainer import READ, TraceTrainer

COMMON = ("the", "The", "of", "in", "was", "is", "by", "Which", "Who", "film", "director", "author")


@pytest.fixture(scope="module")
def tokenizer(traces: list[Trace]) -> Any:
    return reader_tokenizer(traces, 1024)


def test_masks_cover_exactly_what_the_policy_wrote(tokenizer: Any, traces: list[Trace]) -> None:
    for trace, row in zip(traces, encode_traces(tokenizer, traces, 4_000), strict=True):
        assert len(row.ids) == len(row.own)
        for own in (True, False):
            ids = [i for i, mine in zip(row.ids, row.own, strict=True) if mine == own]
            assert tokenizer.decode(ids) == "".join(p.text for p in trace.pieces if p.own == own)
        runs = [mine for mine, before in zip(row.own, (None, *row.own), strict=False)
                if mine != before]  # fmt: skip
        joined = [p.own for p, before in zip(trace.pieces, (None, *trace.pieces), strict=False)
                  if before is None or p.own != before.own]  # fmt: skip
        assert runs == joined


def test_marks_are_single_tokens(tokenizer: Any, traces: list[Trace]) -> None:
    text = "".join(piece.text for trace in traces for piece in trace.pieces)
    opens = PAGE_MARKS[0] in text
    for mark in (*MARKS, *PAGE_MARKS) if opens else MARKS:
        if "Doc 3" not in mark:
            assert mark in text, f"{mark!r} occurs in no trace"
        ids = tokenizer(f"a{mark} b", add_special_tokens=False)["input_ids"]
        assert len(ids) == 3
        assert tokenizer.decode(ids) == f"a{mark} b"


@pytest.mark.parametrize("slotted", [False, True])
def test_rows_are_what_the_policy_would_read(
    world: SearchEnv, traces: list[Trace], tokenizer: Any, slotted: bool
) -> None:
    """The prompt of every turn, through the policy's own renderer, begins the training row."""
    renderer: Renderer = BareRenderer(tokenizer)
    if slotted:
        tokenizer = reader_tokenizer(traces, 600, COMMON)
        renderer = NamesRenderer(tokenizer)
    asked: list[TurnRequest] = []

    class Watched(ThinkingOracle):
        def act(self, requests: Any, /) -> list[str]:
            asked.extend(requests)
            return super().act(requests)

    oracle = Watched(world)
    some = list(world.tasks)[:12] + list(world.tasks)[-12:]
    run_episodes([episode_for(world, t, 0) for t in some], oracle, world.toolbox)
    rows = {trace.task_id: row for trace in traces_of(world)
            for row in encode_traces(tokenizer, [trace], 4_000)}  # fmt: skip
    checked = 0
    ids_of = {episode_for(world, task, 0).config.episode_id: task.id for task in some}
    for request in asked:
        row = rows.get(ids_of[request.episode_id])
        if row is None:
            continue
        written = {
            s.id: renderer.spell(request.segments[:i], s.text).ids
            for i, s in enumerate(request.segments)
            if s.author == "policy"
        }
        prompt = [i for piece in renderer.render(request, written) for i in piece]
        assert list(row.ids[: len(prompt)]) == prompt
        assert row.own[len(prompt)], "the policy's turn begins where the prompt ends"
        checked += 1
    assert checked > 24


def test_names_are_a_token_a_word(traces: list[Trace]) -> None:
    tokenizer = reader_tokenizer(traces, 600, COMMON)
    known = lettering(tokenizer)
    places = set(tokenizer.convert_tokens_to_ids(list(slots())))
    shorter = 0
    for trace, row in zip(traces, encode_traces(tokenizer, traces, 4_000), strict=True):
        names = Names(known, trace.pieces[0].text)
        written = "".join(names.write(piece.text) for piece in trace.pieces)
        assert tokenizer.decode(row.ids) == written
        assert names.read(written)[0] == "".join(piece.text for piece in trace.pieces)
        answer = names.write(f" {trace.pieces[-1].text.split('<answer> ')[1].split(' </')[0]}")
        shorter += all(i in places for i in tokenizer(answer)["input_ids"])
    assert shorter > len(traces) / 3


def test_too_long_rows_are_left_out(tokenizer: Any, traces: list[Trace]) -> None:
    lengths = [len(row.ids) for row in encode_traces(tokenizer, traces)]
    limit = sorted(lengths)[len(lengths) // 2]
    with pytest.warns(UserWarning, match=rf"have more than {limit} tokens and are left out"):
        rows = encode_traces(tokenizer, traces, limit)
    assert len(rows) == sum(n <= limit for n in lengths)
    with pytest.raises(DataError, match="at most 3 tokens"):
        encode_traces(tokenizer, traces, 3)


def test_only_weighted_tokens_move_the_loss(tokenizer: Any, traces: list[Trace]) -> None:
    """By hand: the weighted mean of each token's surprise, padding and weights included."""
    import torch

    rows = encode_traces(tokenizer, traces)[:3]
    model = small_model(tokenizer, width=32)
    mixture = Mixture({"trace": rows}, [Stage(5, {"trace": 1.0})])
    for weight in (0.1, 0.0):
        trainer = TraceTrainer(model, mixture, SftConfig(prompt_weight=weight))
        loss, shown, _ = trainer._loss(rows)
        own = torch.zeros(len(rows), max(len(row.ids) for row in rows), dtype=torch.bool)
        real = own.clone()
        for i, row in enumerate(rows):
            own[i, : len(row.own)] = torch.tensor(row.own)
            real[i, : len(row.own)] = True
        counted = trainer._counted(own[:, 1:], real[:, 1:])
        total = count = own_total = own_count = read = 0.0
        for row, chosen in zip(rows, counted.tolist(), strict=True):
            ids = torch.tensor([row.ids])
            with torch.no_grad():
                logp = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
            nats = -logp.gather(-1, ids[0, 1:, None])[:, 0]
            for value, mine, taken in zip(nats.tolist(), row.own[1:], chosen, strict=False):
                assert taken or not mine
                share = 1.0 if mine else weight / READ * taken
                total += value * share
                count += share
                own_total += value * mine
                own_count += mine
                read += taken and not mine
        assert loss.item() == pytest.approx(total / count, rel=1e-4)
        assert shown == pytest.approx(own_total / own_count, rel=1e-4)
        others = sum(not mine for row in rows for mine in row.own[1:])
        assert (0.5 < read / others / READ < 2.0) if weight else read == 0


def test_tokens_that_are_not_compared_are_stood_for_by_others(
    tokenizer: Any, traces: list[Trace]
) -> None:
    """The sampled softmax: whatever is in the batch, and on average the whole sum."""
    import torch

    rows = encode_traces(tokenizer, traces)[:2]
    model = small_model(tokenizer, width=32)
    mixture = Mixture({"trace": rows}, [Stage(400, {"trace": 1.0})])
    ids = torch.tensor([row.ids[:150] for row in rows])
    every = TraceTrainer(model, mixture, SftConfig())
    tokens, stands_for = every._compared(ids)
    assert torch.equal(tokens, torch.arange(len(tokenizer)))
    assert not stands_for.any()
    some = TraceTrainer(model, mixture, SftConfig(), others=64)
    with torch.no_grad():
        hidden = model.model(input_ids=ids).last_hidden_state[0, -1]
        logits = model.lm_head(hidden)
    sums = []
    for some.step in range(400):
        tokens, stands_for = some._compared(ids)
        assert set(ids.flatten().tolist()) < set(tokens.tolist())
        assert len(tokens) == len(ids.unique()) + 64
        assert stands_for.exp().sum() == pytest.approx(len(tokenizer), rel=1e-4)
        sums.append((logits[tokens] + stands_for).exp().sum())
    assert torch.stack(sums).mean() == pytest.approx(float(logits.exp().sum()), rel=0.01)
    again = some._compared(ids)
    assert torch.equal(again[0], tokens)
    shown, told = some._loss(rows)[1], every._loss(rows)[1]
    assert shown == pytest.approx(told, rel=0.05)
    assert shown != told


def test_half_precision_is_close_and_leaves_the_weights_as_they_are(
    tokenizer: Any, traces: list[Trace]
) -> None:
    import torch

    rows = encode_traces(tokenizer, traces)[:40]
    mixture = Mixture({"trace": rows}, [Stage(3, {"trace": 1.0})])
    losses = {}
    for dtype in (torch.float32, torch.bfloat16):
        model = small_model(tokenizer, width=32)
        trainer = TraceTrainer(model, mixture, SftConfig(steps=3), dtype)
        losses[dtype] = [trainer.advance().loss for _ in range(3)]
        assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert losses[torch.bfloat16] == pytest.approx(losses[torch.float32], rel=0.02)
    assert losses[torch.bfloat16] != losses[torch.float32]
