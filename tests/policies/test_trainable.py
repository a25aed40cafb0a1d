"""The trainer's log-probabilities against the sampler's, and against plain forward passes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import searchgym.policies.trainable
from searchgym.core import run_episodes
from searchgym.errors import EngineError
from searchgym.llms import Sampling, fast_dtype, micro_batches
from searchgym.policies.rows import TrainingRow
from searchgym.policies.scoring import TOKEN_MEASURES, TOP, sampled_ids
from searchgym.policies.trainable import Lora, TrainableLM
from searchgym.seeding import stream
from tests.llms import tiny
from tests.policies.players import KINDS, WORDS, Tools, model
from tests.small import TASKS, episode

SAMPLING = Sampling(max_tokens=15)


def lm(kind: str = "qwen2", seed: int = 0, **options: Any) -> TrainableLM:
    return TrainableLM(model(kind, seed), WORDS, **options)


def played(trained: TrainableLM, episodes: int = 4, **options: Any) -> list[TrainingRow]:
    """Rows of episodes of several lengths: three random turns each, or fewer."""
    policy = trained.policy(sampling=SAMPLING, **options)
    made = [episode(TASKS[i % 2], seed=i, max_turns=1 + i % 3) for i in range(episodes)]
    run_episodes(made, policy, Tools())  # type: ignore[arg-type]
    rows = [row for e in made for row in policy.rows(e)]
    assert len({len(r) for r in rows}) > 2
    return rows


@cache
def rows_by(kind: str = "qwen2") -> list[TrainingRow]:
    """What the untrained model of a kind has played, for tests that need some rows."""
    return played(lm(kind))


def plain(model: Any, row: TrainingRow) -> torch.Tensor:
    """(N, V): log-probabilities of each next token by one forward pass over the row alone."""
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([row.ids.tolist()])).logits[0]
    return logits.float().log_softmax(-1)


@pytest.mark.parametrize("kind", KINDS)
def test_logp_is_the_behaviours_and_a_plain_forwards(kind: str) -> None:
    trained = lm(kind)
    rows = played(trained)
    scored = trained.score(rows, entropy=True)
    assert scored.entropy is not None
    assert scored.logp.shape == (len(rows), max(map(len, rows)))
    for i, row in enumerate(rows):
        got, n = scored.logp[i].detach().numpy(), len(row)
        np.testing.assert_allclose(got[:n][row.sampled], row.logp[row.sampled], atol=1e-4)
        assert (got[:n][~row.sampled] == 0).all()
        assert (got[n:] == 0).all()
        wide = plain(trained.model, row)
        at = np.flatnonzero(row.sampled)
        np.testing.assert_allclose(got[at], wide[at - 1, row.ids[at]], atol=1e-4)
        entropy = -(wide.exp() * wide).sum(-1)[at - 1]
        np.testing.assert_allclose(scored.entropy[i].detach()[at], entropy, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_measures_are_those_of_a_plain_forward(kind: str) -> None:
    """Of the distribution that each token was drawn from; nothing where none was."""
    trained = lm(kind)
    rows = rows_by(kind)
    found = trained.score(rows, measures=TOKEN_MEASURES).measures
    assert set(found) == set(TOKEN_MEASURES)
    ids_of = sampled_ids(rows)
    assert ids_of == sorted({int(i) for row in rows for i in row.ids[row.sampled]})
    some = trained.score(rows, measures=["logit_gradient"], among=ids_of[1:]).measures
    np.testing.assert_array_equal(some["logit_gradient"], found["logit_gradient"][..., 1:])
    for i, row in enumerate(rows):
        at = np.flatnonzero(row.sampled)
        wide = plain(trained.model, row)[at - 1]
        with torch.no_grad():
            ids = torch.tensor([row.ids.tolist()])
            states = trained.model(ids, output_hidden_states=True).hidden_states[-1][0]
        wanted = {
            "old_entropy": -(wide.exp() * wide).sum(-1),
            "sum_pi_sq": (wide.exp() ** 2).sum(-1),
            "self_certainty": -wide.mean(-1) - np.log(wide.shape[1]),
            "top_logp": wide.sort(-1, descending=True).values[:, :TOP],
            "hidden": states[at - 1].float(),
            "logit_gradient": torch.eye(wide.shape[1])[row.ids[at]][:, ids_of]
            - wide[:, ids_of].exp(),
        }
        for name, values in wanted.items():
            np.testing.assert_allclose(found[name][i][at], values, atol=1e-3, err_msg=name)
            blank = np.setdiff1d(np.arange(found[name].shape[1]), at)
            assert not found[name][i][blank].any()
        assert not found["hidden"].requires_grad


def test_an_unknown_measure_is_named() -> None:
    trained = lm()
    with pytest.raises(EngineError, match=r"unknown measure of tokens 'hiden'.*hidden"):
        trained.score(rows_by(), measures=["hiden"])


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("qwen2", {}),
        ("lfm2", {}),
        ("lfm2", {"gradient_checkpointing": True}),
        ("qwen2", {"lora": Lora(4)}),
    ],
)
def test_gradients_do_not_depend_on_the_split(kind: str, options: dict[str, Any]) -> None:
    """One pass, passes of a few tokens, and one backward per micro-batch: the same gradient."""
    trained = lm(kind, **options)
    rows = rows_by(kind)

    def gradient(tokens: int, together: bool = True) -> list[torch.Tensor]:
        trained.tokens = tokens
        for p in trained.parameters():
            p.grad = None
        parts = [list(range(len(rows)))]
        if not together:
            parts = list(micro_batches([len(r) for r in rows], tokens))
            assert len(parts) > 1
        for part in parts:
            trained.logp([rows[i] for i in part]).sum().backward()  # type: ignore[no-untyped-call]
        return [p.grad.clone() for p in trained.parameters() if p.grad is not None]

    whole = gradient(100_000)
    assert whole
    assert sum(float(g.abs().sum()) for g in whole) > 0
    for other in (gradient(1), gradient(700), gradient(700, together=False)):
        for a, b in zip(whole, other, strict=True):
            torch.testing.assert_close(a, b, atol=2e-3, rtol=1e-3)
    if options.get("gradient_checkpointing"):
        unchecked = lm(kind)
        unchecked.logp(rows).sum().backward()  # type: ignore[no-untyped-call]
        for a, b in zip(whole, (p.grad for p in unchecked.parameters()), strict=True):
            torch.testing.assert_close(a, b, atol=2e-3, rtol=1e-3)
        calls: list[int] = []
        linear = next(m for m in trained.model.modules() if isinstance(m, torch.nn.Linear))
        linear.register_forward_hook(lambda *_: calls.append(1))
        trained.tokens = 100_000
        trained.logp(rows).sum().backward()  # type: ignore[no-untyped-call]
        assert len(calls) == 2, "computed again on the way back"


def nudge(trained: TrainableLM, seed: int = 0) -> None:
    """Some training: every trained weight moves."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in trained.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=draw))


@pytest.mark.parametrize("options", [{"lora": Lora(4, 8)}, {"reference": True}])
def test_the_reference_stays_where_training_began(options: dict[str, Any]) -> None:
    trained = lm(**options)
    rows = played(trained)
    before = trained.logp(rows).detach()
    torch.testing.assert_close(trained.reference_logp(rows), before, atol=1e-5, rtol=0)
    nudge(trained)
    torch.testing.assert_close(trained.reference_logp(rows), before, atol=1e-5, rtol=0)
    after = trained.logp(rows)
    assert float((after - before).detach().abs().max()) > 0.05, "the adapters are on again"
    assert after.requires_grad
    assert not trained.reference_logp(rows).requires_grad
    # what samples now is what was trained
    again = played(trained)
    for row, logp in zip(again, trained.logp(again).detach().numpy(), strict=True):
        np.testing.assert_allclose(logp[: len(row)][row.sampled], row.logp[row.sampled], atol=1e-4)


def test_no_reference_without_being_asked() -> None:
    trained = lm()
    with pytest.raises(EngineError, match="reference=True"):
        trained.reference_logp(rows_by())


@pytest.mark.parametrize("kind", KINDS)
def test_adapters_are_small_sample_exactly_and_can_be_merged(kind: str) -> None:
    trained = lm(kind, lora=Lora(2, 4))
    small = sum(p.numel() for p in trained.parameters())
    assert 0 < small < 0.1 * sum(p.numel() for p in trained.model.parameters())
    assert all(".lora_" in name for name in trained.state_dict())
    nudge(trained)
    rows = played(trained)  # left-padded batches through adapters
    logp = trained.logp(rows).detach()
    for row, got in zip(rows, logp.numpy(), strict=True):
        np.testing.assert_allclose(got[: len(row)][row.sampled], row.logp[row.sampled], atol=1e-4)
    bare = model(kind, seed=1)
    bare.load_state_dict(trained.merged())
    torch.testing.assert_close(TrainableLM(bare, WORDS).logp(rows), logp, atol=1e-4, rtol=0)
    other = lm(kind, lora=Lora(2, 4), seed=0)
    other.load_state_dict(trained.state_dict())
    torch.testing.assert_close(other.logp(rows).detach(), logp, atol=1e-5, rtol=0)
    with pytest.raises(EngineError, match="do not fit"):
        lm(kind, lora=Lora(3)).load_state_dict(trained.state_dict())


@pytest.mark.parametrize("lora", [None, Lora(2, 4)])
def test_a_whole_state_dict_is_gathered_onto_the_cpu(
    lora: Lora | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tensor after the other: shards, put together all at once, might not fit their device."""
    trained = lm(lora=lora)
    moves: list[Any] = []

    class Gathered(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func in (torch.Tensor.to, torch.Tensor.clone):
                moves.append((func.__name__, args[1:2], kwargs))
            return super().__torch_function__(func, types, args, kwargs or {})

    monkeypatch.setattr(
        searchgym.policies.trainable, "full_tensor", lambda value: value.as_subclass(Gathered)
    )
    made = trained.merged()
    assert len(moves) >= len(made)
    assert all(m == ("to", ("cpu",), {"copy": True}) for m in moves if m[1] != (torch.float32,))
    own = {p.untyped_storage().data_ptr() for p in trained.model.parameters()}
    assert not own & {value.untyped_storage().data_ptr() for value in made.values()}


def test_full_weights_round_trip() -> None:
    trained, other = lm(), lm(seed=1)
    rows = rows_by()
    other.load_state_dict(trained.state_dict())
    torch.testing.assert_close(other.logp(rows), trained.logp(rows), atol=1e-5, rtol=0)
    with pytest.raises(EngineError, match="do not fit"):
        other.load_state_dict({"lm_head.weight": torch.zeros(1)})


def test_a_temperature_sharpens_what_is_sampled_and_what_is_trained() -> None:
    cool, warm = lm(temperature=0.5), lm()
    rows = played(cool)
    got = cool.logp(rows).detach().numpy()
    for row, mine in zip(rows, got, strict=True):
        at = np.flatnonzero(row.sampled)
        np.testing.assert_allclose(mine[at], row.logp[at], atol=1e-4)
        wide = (2 * plain(warm.model, row)).log_softmax(-1)
        np.testing.assert_allclose(mine[at], wide[at - 1, row.ids[at]], atol=1e-4)
    assert cool.merged().keys() == warm.merged().keys()
    assert all(torch.equal(value, warm.merged()[name]) for name, value in cool.merged().items())
    with pytest.raises(EngineError, match="temperature must be above 0, got 0"):
        lm(temperature=0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_computed_where_tokens_were_sampled(kind: str) -> None:
    """Of what was read nobody looks at them, and a large vocabulary makes them half of the work."""
    trained = lm(kind)
    rows = rows_by(kind)
    shapes: list[tuple[int, ...]] = []
    head = trained.model.get_output_embeddings()
    watch = head.register_forward_hook(lambda m, given, out: shapes.append(tuple(out.shape)))
    wanted = trained.score(rows, entropy=True)
    watch.remove()
    assert [shape[:2] for shape in shapes] == [(1, sum(int(r.sampled.sum()) for r in rows))]

    def secret() -> Any:
        raise NotImplementedError

    for answer in (lambda: None, secret, trained.model.get_input_embeddings):
        trained.model.get_output_embeddings = answer  # there are models that say so
        got = trained.score(rows, entropy=True)
        torch.testing.assert_close(got.logp, wanted.logp, atol=1e-5, rtol=0)
        torch.testing.assert_close(got.entropy, wanted.entropy, atol=1e-5, rtol=0)


def test_autocast_trains_in_half_precision_and_samples_as_before() -> None:
    exact, half = lm(), lm(autocast="bfloat16")
    rows = played(exact)
    assert [r.ids.tolist() for r in played(half)] == [r.ids.tolist() for r in rows]
    logp = half.logp(rows)
    off = (logp - exact.logp(rows)).detach().abs()[logp != 0]
    assert 0 < off.mean() < 0.03  # of nats between 2 and 4; bfloat16 has three digits
    (-logp.sum()).backward()  # type: ignore[no-untyped-call]
    assert {p.grad.dtype for p in half.parameters() if p.grad is not None} == {torch.float32}
    assert (exact.dtype, half.dtype) == (torch.float32, torch.bfloat16)
    with pytest.raises(
        EngineError, match="autocast is 'auto', 'bfloat16' or nothing, got 'float16'"
    ):
        lm(autocast="float16")
    assert lm(autocast="auto").dtype == fast_dtype()


def test_frozen_parameters_stand_still() -> None:
    free, held = lm(), lm(freeze="*embed_tokens*")
    table = "model.embed_tokens.weight"
    assert set(free.state_dict()) - set(held.state_dict()) == {table}
    before = held.merged()
    optimizer = torch.optim.AdamW(held.parameters(), lr=0.1, weight_decay=0.1)
    (-held.logp(rows_by()).sum()).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    moved = {name for name, value in held.merged().items() if not torch.equal(value, before[name])}
    assert table not in moved
    assert moved >= {name for name in before if "proj.weight" in name}
    with pytest.raises(EngineError, match=r"'\*wte\*' fits no parameter; there are .*embed_tokens"):
        lm(freeze=("*norm*", "*wte*"))
    with pytest.raises(EngineError, match="leaves nothing to train"):
        lm(freeze="*")


def test_adapters_begin_by_seed_and_touch_no_global_generator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    plain_model, fork = model("qwen2", 0), torch.random.fork_rng
    touched: list[Any] = []

    def forked(devices: Any = None) -> Any:
        touched.append(devices)
        return fork(devices=devices)

    with monkeypatch.context() as patch:  # GPUs that the model is not on are not even started
        patch.setattr(torch.random, "fork_rng", forked)
        patch.setattr(torch.cuda, "manual_seed_all", touched.append)
        first = TrainableLM(plain_model, WORDS, lora=Lora(4)).state_dict()
    assert touched == [[]]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    for name, value in lm(lora=Lora(4)).state_dict().items():
        assert torch.equal(value, first[name])
    for wrong in (16, {"rank": 16}):
        with pytest.raises(EngineError, match=r"lora must be a Lora such as Lora\(rank=16\), got"):
            lm(lora=wrong)
    with pytest.raises(EngineError, match="adapters cannot be added"):
        lm(lora=Lora(4, targets=("nothing_like_it",)))


def test_dropout_is_off_even_while_training() -> None:
    dropping = model("qwen2", attention_dropout=0.5)
    trained = TrainableLM(dropping, WORDS, gradient_checkpointing=True)
    rows = played(trained)
    logp = trained.logp(rows)
    assert trained.model.training, "checkpointing needs it"
    for row, got in zip(rows, logp.detach().numpy(), strict=True):
        np.testing.assert_allclose(got[: len(row)][row.sampled], row.logp[row.sampled], atol=1e-4)


def test_from_a_folder_in_bfloat16(tmp_path: Path) -> None:
    folder = tiny.save(tmp_path / "m", max_position_embeddings=4096)
    half = TrainableLM(folder, dtype="bfloat16", device="cpu", lora=Lora(4))
    assert half.model.lm_head.weight.dtype == torch.bfloat16
    assert {p.dtype for p in half.parameters()} == {torch.float32}
    rows = played(half)
    logp = half.logp(rows)
    assert logp.dtype == torch.float32
    gaps = [
        np.abs(got[: len(row)][row.sampled] - row.logp[row.sampled])
        for row, got in zip(rows, logp.detach().numpy(), strict=True)
    ]
    assert np.concatenate(gaps).mean() < 0.1, "bfloat16 rounds, but means the same"
    logp.sum().backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is not None for p in half.parameters())
    with pytest.raises(EngineError, match="needs its tokenizer"):
        TrainableLM(half.model)


def test_micro_batches_keep_the_budget() -> None:
    draw = stream(3, "lengths")
    for _ in range(50):
        lengths = draw.integers(1, 60, draw.integers(1, 30)).tolist()
        budget = int(draw.integers(1, 200))
        parts = list(micro_batches(lengths, budget))
        assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
        for part in parts:
            assert len(part) == 1 or len(part) * max(lengths[i] for i in part) <= budget
    with pytest.raises(EngineError, match="at least 1"):
        list(micro_batches([3], 0))


def test_a_prompt_may_be_one_token() -> None:
    trained = lm()
    rows = rows_by()
    row = rows[0]
    at = int(row.sampled.argmax()) - 1
    short = TrainingRow(
        "e", ("e/0",), 0, "g", row.ids[at:], row.sampled[at:], row.loss_mask[at:], row.logp[at:],
        row.version[at:], row.turn_of_token[at:],
    )  # fmt: skip
    got = trained.logp([short, rows[1]])[0].detach()[: len(short)]
    wide = plain(trained.model, short)
    where = np.flatnonzero(short.sampled)
    np.testing.assert_allclose(got[where], wide[where - 1, short.ids[where]], atol=1e-4)


def test_rows_that_cannot_be_scored() -> None:
    trained = lm()
    with pytest.raises(EngineError, match="no rows"):
        trained.logp([])
    row = rows_by()[0]
    blind = TrainingRow(
        "e", ("e/0",), 0, "g", row.ids, np.ones_like(row.sampled), row.loss_mask, row.logp,
        row.version, row.turn_of_token,
    )  # fmt: skip
    with pytest.raises(EngineError, match="begin with a prompt"):
        trained.logp([blind])
