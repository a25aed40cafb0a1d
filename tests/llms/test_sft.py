"""Supervised training: it learns, and goes on after a kill to the same weights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from searchgym.errors import CardError, DataError, EngineError
from searchgym.llms.base import GenRequest, Sampling
from searchgym.llms.batches import padded
from searchgym.llms.optimizers import Muon, orthogonal
from searchgym.llms.prompts import Codec
from searchgym.llms.sft import (
    LOG,
    STATE,
    Progress,
    SftConfig,
    SftTrainer,
    train,
)
from searchgym.llms.sft_data import (
    Example,
    encode,
    pretrained,
    read_pairs,
    untrained,
    write_pairs,
)
from searchgym.llms.small import END, small_model, train_tokenizer
from searchgym.llms.transformers_generator import TransformersGenerator

ROOT = Path(__file__).resolve().parents[2]
COLOURS = ("red", "blue", "green", "grey", "white", "black")
PAIRS = [
    (f"The {thing} of {name} is\n", f"{COLOURS[(i * 5 + j) % 6]} {thing}")
    for i, thing in enumerate(("flag", "house", "river"))
    for j, name in enumerate(("Ann", "Bo", "Cid", "Dora"))
]
CONFIG = SftConfig(steps=12, batch=4, warmup=2, max_tokens=64)


def made(config: SftConfig = CONFIG, width: int = 32) -> tuple[SftTrainer, Any]:
    words = train_tokenizer((p + c for p, c in PAIRS), 300)
    model = small_model(words, width=width)
    return SftTrainer(model, encode(words, PAIRS, config.max_tokens), config), words


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(str(folder / STATE)))


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_a_small_model_learns_what_it_is_shown(tmp_path: Path) -> None:
    seen: list[Progress] = []
    trainer, words = made(SftConfig(steps=90, batch=12, warmup=5, max_tokens=64))
    train(trainer, words, tmp_path, report=seen.append, log_every=7)
    assert [p.step for p in seen] == list(range(1, 91))
    assert seen[0].loss > 3
    assert seen[-1].loss < 0.3
    assert seen[-1].accuracy == 1.0
    rows = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert [row["step"] for row in rows] == [*range(7, 90, 7), 90]
    generator = TransformersGenerator(str(tmp_path), device="cpu")
    batch = [GenRequest(p, Sampling(16, 0.0)) for p, _ in PAIRS]
    assert [c.text for c in generator.run(batch)] == [c for _, c in PAIRS]  # type: ignore[union-attr]
    assert {c.finish for c in generator.run(batch)} == {"eos"}  # type: ignore[union-attr]


def test_a_slow_run_loses_minutes_and_not_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = iter(range(0, 60_000, 120))  # two a step
    monkeypatch.setattr("searchgym.llms.sft.monotonic", lambda: next(minutes))
    trainer, words = made()

    def stop(progress: Progress) -> None:
        if progress.step == 8:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(trainer, words, tmp_path, save_every=100, report=stop)
    again, words = made()
    started = []
    train(again, words, tmp_path, save_every=100, report=lambda now: started.append(now.step))
    assert 5 <= started[0] <= 8


def test_a_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    train(*made(), whole, save_every=5)
    trainer, words = made()

    class Stop(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.step == 8:
            raise Stop

    with pytest.raises(Stop):
        train(trainer, words, part, save_every=5, log_every=1, report=stop)
    again, words = made()
    train(again, words, part, save_every=5, log_every=1)
    assert same(weights(whole), weights(part))
    steps = [json.loads(line)["step"] for line in (part / LOG).read_text().splitlines()]
    assert steps == list(range(1, 13))
    torch.testing.assert_close(
        load_file(str(whole / "model.safetensors")), load_file(str(part / "model.safetensors")),
        rtol=0, atol=0,
    )  # fmt: skip
    finished, words = made()
    train(finished, words, part)
    assert finished.step == 12


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_the_step_under_way(tmp_path: Path, number: signal.Signals) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    train(*made(), whole)
    trainer, words = made()
    before = signal.getsignal(number)

    def interrupt(progress: Progress) -> None:
        if progress.step == 3:
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt):
        train(trainer, words, part, report=interrupt)
    assert signal.getsignal(number) is before
    again, words = made()
    seen: list[int] = []
    train(again, words, part, report=lambda p: seen.append(p.step))
    assert seen == list(range(5, 13)), "the fourth step was done when it stopped"
    assert same(weights(whole), weights(part))


RUN = """
import sys
from pathlib import Path
from searchgym.llms.sft import train
from tests.llms.test_sft import made
print("ready", flush=True)
train(*made(), Path(sys.argv[1]), save_every=1, report=lambda p: print(p.step, flush=True))
"""


@pytest.mark.contract
def test_kill_9_loses_at_most_what_was_not_saved(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    train(*made(), whole, save_every=1)
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(killed)], cwd=ROOT, env=env,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "5":
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    trainer, words = made()
    seen: list[int] = []
    train(trainer, words, killed, save_every=1, report=lambda p: seen.append(p.step))
    assert seen == list(range(seen[0], 13))
    assert 5 <= seen[0] <= 11  # step 5 was done; at most it was not saved
    one = torch.get_num_threads() == 1
    for name, tensor in weights(whole).items():  # sums differ with the number of threads
        torch.testing.assert_close(
            tensor, weights(killed)[name], rtol=0 if one else 1e-3, atol=0 if one else 1e-4
        )


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    train(*made(), tmp_path, about={"data": "a"})
    trainer, words = made(replace(CONFIG, lr=1e-3))
    with pytest.raises(DataError, match=r"other settings \(config, data\)"):
        train(trainer, words, tmp_path, about={"data": "b"})
    (tmp_path / STATE).write_bytes(b"not safetensors")
    with pytest.raises(DataError, match="not a checkpoint"):
        train(*made(), tmp_path, about={"data": "a"})


def test_weights_never_go_on_under_another_tokenizer(tmp_path: Path) -> None:
    """Made of other texts it may have as many tokens, which then mean something else."""
    train(*made(), tmp_path)
    trainer, _ = made()
    other = train_tokenizer(["Questions that nobody asked, in words nobody used."] * 3, 300)
    with pytest.raises(DataError, match="made of other texts"):
        train(trainer, other, tmp_path)


def test_only_completions_count_fully_and_padding_not_at_all() -> None:
    trainer, words = made()
    rows = sorted(trainer.examples, key=lambda e: len(e.ids))
    short, long = rows[0], rows[-1]
    assert len(short.ids) < len(long.ids)
    trainer.model.eval()
    both = trainer._loss([short, long])
    alone = [trainer._loss([row]) for row in (short, long)]
    sizes = [int(row.own.sum()) for row in (short, long)]
    mean = sum(a[1] * n for a, n in zip(alone, sizes, strict=True)) / sum(sizes)
    assert both[1] == pytest.approx(mean, rel=1e-5)
    assert short.ids[-1] == words.eos_token_id
    weight = [0.1 * (len(row.ids) - n - 1) + n for row, n in zip((short, long), sizes, strict=True)]
    total = sum(float(a[0].detach()) * w for a, w in zip(alone, weight, strict=True)) / sum(weight)
    assert float(both[0].detach()) == pytest.approx(total, rel=1e-5)


def test_what_is_told_is_of_completions_whatever_prompts_weigh() -> None:
    told = [made(replace(CONFIG, prompt_weight=weight))[0].advance() for weight in (0.0, 0.5, 1.0)]
    assert len({(p.loss, p.accuracy) for p in told}) == 1


def test_every_example_is_seen_once_per_epoch() -> None:
    trainer, _ = made(replace(CONFIG, batch=3))
    for epoch in range(2):
        seen = [i for step in range(4) for i in trainer._batch(4 * epoch + step)]
        assert sorted(seen) == list(range(12))
    assert trainer._batch(0) != trainer._batch(4)


@pytest.mark.parametrize(
    ("count", "batch"), [(100, 32), (60, 32), (250, 16), (511, 32), (1000, 32), (5, 8)]
)
@pytest.mark.parametrize("tokens", [0, 4096])
def test_every_length_is_seen_and_batches_are_mixed(count: int, batch: int, tokens: int) -> None:
    """Whatever the sizes: each example once an epoch, and other batches in the next one."""
    trainer, _ = made(replace(CONFIG, batch=batch, tokens=tokens))
    trainer.examples = [Example(np.arange(3 + i), np.arange(3 + i) >= 1) for i in range(count)]
    steps = -(-count // batch)
    epochs = []
    for epoch in range(3):
        batches = [trainer._batch(epoch * steps + step) for step in range(steps)]
        assert sorted(i for b in batches for i in b) == list(range(count))
        assert max(map(len, batches)) <= batch
        epochs.append({frozenset(b) for b in batches})
    if steps > 1:
        assert not epochs[0] & epochs[1] & epochs[2]


def test_pairs_are_read_as_they_are_when_the_model_is_used() -> None:
    """A page that spells the end of a text does not become one, and is read as a generator does."""
    _, words = made()
    page = f"A page says {words.eos_token} here."
    (row,) = encode(words, [(page, page)], 200)
    asked = Codec(words).encode(GenRequest(page))
    assert tuple(row.ids[~row.own]) == asked
    assert words.eos_token_id not in row.ids[:-1]
    assert row.ids[-1] == words.eos_token_id


def test_learning_rates_rise_stay_and_fall() -> None:
    trainer, _ = made(SftConfig(steps=100, warmup=10, cooldown=0.3))
    shares = [trainer._share(i) for i in range(100)]
    assert shares[:2] == pytest.approx([0.1, 0.2])
    assert shares[9:70] == pytest.approx([1.0] * 61)
    assert shares[85] == pytest.approx(0.5)
    assert shares[99] == pytest.approx(1 / 30)


def test_muon_moves_along_an_orthogonal_matrix() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for shape in ((3, 16, 16), (2, 8, 32), (2, 32, 8)):
            # the quintic iteration brings singular values near 1, not to 1
            values = torch.linalg.svdvals(orthogonal(torch.randn(shape), 10))
            assert ((values > 0.5) & (values < 1.3)).all()
        matrix = torch.nn.Parameter(torch.zeros(4, 4))
        muon = Muon([matrix], lr=0.1)
        gradient = torch.randn(4, 4)
        matrix.grad = gradient.clone()
        muon.step()
        u, _, v = torch.linalg.svd(gradient)
        assert torch.nn.functional.cosine_similarity(
            matrix.detach().flatten(), -(u @ v).flatten(), dim=0
        ) > 0.95  # fmt: skip
    with pytest.raises(ValueError, match="matrices only"):
        Muon([torch.nn.Parameter(torch.zeros(3))])


def test_muon_computes_in_half_precision_under_autocast() -> None:
    drawn = torch.randn(4, 16, 32, generator=torch.Generator().manual_seed(0))
    exact = orthogonal(drawn)
    with torch.autocast("cpu", torch.bfloat16):
        halved = orthogonal(drawn)
    assert halved.dtype == torch.float32
    assert 0 < (halved - exact).norm() / exact.norm() < 0.05


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon came with 2.9")
def test_muon_is_torchs_up_to_its_bfloat16() -> None:
    draws = torch.Generator().manual_seed(0)
    start = [torch.randn(*shape, generator=draws) for shape in ((24, 24), (64, 24), (24, 64))]
    ours, theirs = ([torch.nn.Parameter(m.clone()) for m in start] for _ in range(2))
    optimizers = [
        Muon(ours, lr=0.1),
        torch.optim.Muon(theirs, lr=0.1, weight_decay=0.0, momentum=0.95),
    ]
    for _ in range(5):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape, generator=draws)
            b.grad = a.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for old, a, b in zip(start, ours, theirs, strict=True):
        moved = (a - old).norm()
        assert moved > 0.2
        assert 0 < (a - b).norm() < 0.03 * moved


def test_muon_takes_the_matrices_within_layers_only() -> None:
    trainer, _ = made()
    names = {id(p): n for n, p in trainer.model.named_parameters()}
    adamw, muon = [
        {names[id(p)] for g in o.param_groups for p in g["params"]} for o in trainer.optimizers
    ]
    assert len(adamw | muon) == len(names)
    assert not adamw & muon
    assert "model.embed_tokens.weight" in adamw
    assert all("layers" in n for n in muon)
    plain, _ = made(replace(CONFIG, muon_lr=0.0))
    assert len(plain.optimizers) == 1


def test_tokenizers_round_trip_and_split_numbers() -> None:
    words = train_tokenizer((p + c for p, c in PAIRS), 300)
    for text in ("The flag of Łódź 東京\n 1912, x", "  two  blanks", "née"):
        assert words.decode(words(text)["input_ids"]) == text
    assert len(words(" 64165")["input_ids"]) == 6
    assert words.eos_token == END


def test_files_of_pairs(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "pairs.jsonl"
    rows = [{"prompt": p, "completion": c, "kind": "x"} for p, c in PAIRS]
    assert write_pairs(rows, path) == 12
    assert read_pairs(path) == PAIRS
    path.write_text('{"prompt": "a"}\n')
    with pytest.raises(DataError, match="line 1: expected an object with 'prompt'"):
        read_pairs(path)
    path.write_text("")
    with pytest.raises(DataError, match="holds no pairs"):
        read_pairs(path)
    with pytest.raises(DataError, match="cannot read"):
        read_pairs(tmp_path / "none")


def test_a_pretrained_model_is_tuned_and_a_tokenizer_kept(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    train(*made(), first)
    model, words = pretrained(str(first), device="cpu")
    examples = encode(words, PAIRS, 64)
    tuned = SftTrainer(model, examples, SftConfig(steps=3, batch=4, lr=1e-3, muon_lr=0.0))
    train(tuned, words, second)
    assert not same(weights(first), weights(second))
    _, kept = untrained([("other", "words")], first, width=32)
    assert kept.get_vocab() == words.get_vocab()
    with pytest.raises(EngineError, match="cannot load a causal LM"):
        pretrained(str(tmp_path / "absent"))


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(CardError, match="steps must be a whole number of at least 1, got 0"):
        SftConfig(steps=0)
    words = train_tokenizer((p + c for p, c in PAIRS), 300)
    with pytest.raises(DataError, match="none of 12 examples has at most 2 tokens"):
        encode(words, PAIRS, 2)


def test_parts_of_a_batch_add_up_to_its_gradient() -> None:
    """Micro-batches of any size, and logits at trained places only, change rounding alone."""

    def step(tokens: int, prompt_weight: float) -> tuple[float, float, list[torch.Tensor]]:
        trainer, _ = made(replace(CONFIG, batch=12, tokens=tokens, prompt_weight=prompt_weight))
        shown, right = trainer._backward(trainer.examples)
        grads = [p.grad.clone() for p in trainer.model.parameters() if p.grad is not None]
        return shown, right, grads

    for prompt_weight in (0.0, 0.1):
        loss, right, whole = step(0, prompt_weight)
        for tokens in (40, 100, 10_000):
            shown, hits, parts = step(tokens, prompt_weight)
            assert (shown, hits) == pytest.approx((loss, right), rel=1e-5)
            torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)


def test_the_loss_is_that_of_all_logits() -> None:
    trainer, _ = made(replace(CONFIG, prompt_weight=0.1))
    rows = trainer.examples[:5]
    loss, nats, right = trainer._loss(rows)
    ids, own, real = padded(rows)
    logits = trainer.model(input_ids=ids).logits[:, :-1].log_softmax(-1)
    each = -logits.gather(-1, ids[:, 1:, None])[..., 0]
    weight = torch.where(own[:, 1:], 1.0, 0.1) * real[:, 1:]
    torch.testing.assert_close(loss, (each * weight).sum() / weight.sum())
    assert nats == pytest.approx(float(each.detach()[own[:, 1:]].mean()), rel=1e-5)
    assert right == pytest.approx(
        float((logits.argmax(-1) == ids[:, 1:])[own[:, 1:]].float().mean()), rel=1e-5
    )


def test_frozen_weights_stand_still_and_parts_keep_within_their_tokens() -> None:
    trainer, _ = made()
    frozen = trainer.model.get_input_embeddings().weight
    frozen.requires_grad_(False)
    trainer = SftTrainer(trainer.model, trainer.examples, replace(CONFIG, tokens=30))
    before, other = frozen.clone(), next(p for p in trainer.model.parameters() if p.requires_grad)
    moved = other.detach().clone()
    widths: list[tuple[int, int]] = []
    inner = trainer.model.forward
    trainer.model.forward = lambda input_ids, **rest: (
        widths.append(tuple(input_ids.shape)) or inner(input_ids=input_ids, **rest)
    )
    trainer.advance()
    assert torch.equal(before, frozen)
    assert not torch.equal(moved, other)
    assert len(widths) > 1
    assert all(rows == 1 or rows * width <= 30 for rows, width in widths)
    assert sum(rows for rows, _ in widths) == CONFIG.batch
