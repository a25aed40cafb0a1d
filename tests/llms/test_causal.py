"""Models of transformers where they differ, refused by name or done without; draws follow the
distribution asked for, and their log-probabilities and entropies are untempered."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from searchgym.errors import DataError, EngineError
from searchgym.llms.base import Sampling
from searchgym.llms.causal import Running, continues, draw, follows_the_longest, load, score_rows
from searchgym.llms.optimizers import optimizers_of
from searchgym.llms.small import small_model, train_tokenizer
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.policies import TrainableLM
from searchgym.seeding import stream

WORDS = train_tokenizer(["one two three"], 300)


def test_keys_are_kept_only_where_reading_anew_would_give_them() -> None:
    neo = transformers.GPTNeoConfig(attention_types=[[["global", "local"], 1]], num_layers=2)
    assert not continues(neo)
    long = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    assert not continues(transformers.LlamaConfig(rope_parameters=long))
    layered = {"rope_parameters": {"full_attention": long}, "max_position_embeddings": 8}
    assert not continues(SimpleNamespace(**layered))
    assert continues(transformers.LlamaConfig())
    assert continues(transformers.Qwen2Config())
    assert continues(transformers.GPT2Config())


def test_a_local_window_is_read_anew_each_turn() -> None:
    config = transformers.GPTNeoConfig(
        vocab_size=50, hidden_size=16, num_layers=2, num_heads=2, window_size=6,
        attention_types=[[["global", "local"], 1]], max_position_embeddings=64,
    )  # fmt: skip
    running = Running(transformers.GPTNeoForCausalLM(config).eval(), [(1, 2, 3), (4,)], 0)
    assert running.past(0) is None


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_rows_that_would_turn_their_neighbours_are_refused_by_name(kind: str) -> None:
    """Up to the trained length, batched and alone agree; beyond it they would not."""
    more = {"longrope": {"short_factor": [1.0] * 4, "long_factor": [3.0] * 4}}.get(kind, {})
    rope = {"rope_type": kind, "rope_theta": 1e4, "factor": 2.0, **more}
    if kind == "longrope":
        rope["original_max_position_embeddings"] = 12
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS), hidden_size=32, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, rope_parameters=rope,
        max_position_embeddings=12 if kind == "dynamic" else 24,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    assert follows_the_longest(config) == 12
    rows = [tuple(range(1, 9)), (5, 6)]
    with torch.inference_mode():
        running = Running(model, rows, 0)
        for _ in range(4):
            running.step(torch.tensor([3, 4]))
        alone = Running(model, [(*rows[1], 4, 4, 4, 4)], 0)
        assert torch.allclose(running.logits[1], alone.logits[0], atol=1e-4)
        with pytest.raises(EngineError, match=r"LlamaForCausalLM turns .* beyond 12 .* has 13"):
            running.step(torch.tensor([3, 4]))
        with pytest.raises(EngineError, match="has 20"):
            Running(model, [tuple(range(1, 21)), (1, 2)], 0)
        with pytest.raises(EngineError, match="has 13"):
            score_rows(model, [((1,) * 10, (2,) * 3), ((1,), (2,))], 0)
        assert len(score_rows(model, [((1,) * 10, (2,) * 2), ((1,), (2,))], 0)) == 2
    assert TransformersGenerator(model, WORDS).context == 12, "asked for no more than that"
    plain = transformers.LlamaConfig(rope_parameters={"rope_type": "yarn", "factor": 2.0})
    assert follows_the_longest(plain) is None


def test_a_model_without_a_cache_is_refused_by_name() -> None:
    class NoCacheLM(torch.nn.Module):
        config, device = SimpleNamespace(), torch.device("cpu")

        def forward(self, input_ids: Any, attention_mask: Any, **_: Any) -> Any:
            return SimpleNamespace(logits=torch.zeros(*input_ids.shape, 5))

    with pytest.raises(EngineError, match=r"NoCacheLM hands no \w+ back"):
        Running(NoCacheLM(), [(1, 2)], 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model")
    small_model(WORDS, width=8).save_pretrained(out)
    WORDS.save_pretrained(out)
    return out


@pytest.mark.parametrize("options", [{"dtype": "fp32"}, {"gradient_checkpoint": True}])
def test_an_option_that_nothing_knows_is_said_beside_the_model(
    folder: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(EngineError, match=rf"cannot load .*{next(iter(options))}="):
        load(str(folder), **options)


def test_a_device_that_is_not_there_and_weights_cut_short(folder: Path, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        with pytest.raises(EngineError, match="device='cuda'"):
            load(str(folder), device="cuda")
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(EngineError, match="cannot load a causal LM"):
        load(str(tmp_path))


@pytest.mark.parametrize("width", [0, 4, 12, 100])
def test_a_width_that_heads_do_not_fill_is_refused(width: int) -> None:
    with pytest.raises(DataError, match="multiple of eight"):
        small_model(WORDS, width=width)


def test_muon_takes_no_tables() -> None:
    config = transformers.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    names = {id(p): name for name, p in model.named_parameters()}
    muon = optimizers_of(model, 1e-3, 0.02)[1]
    taken = {names[id(p)] for group in muon.param_groups for p in group["params"]}
    assert taken
    assert not {n for n in taken if "wte" in n or "wpe" in n}


def test_dropout_that_is_a_function_call_is_off_too() -> None:
    config = transformers.OPTConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, ffn_dim=32, dropout=0.5,
        num_attention_heads=2, max_position_embeddings=32, word_embed_proj_dim=16,
        pad_token_id=0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = transformers.OPTForCausalLM(config)
    TrainableLM(model, WORDS)
    model.train()
    ids = torch.tensor([[1, 2, 3, 4]])
    assert torch.equal(model(input_ids=ids).logits, model(input_ids=ids).logits)


def test_the_trained_length_is_the_original_one_wherever_a_config_keeps_it() -> None:
    long = {"rope_type": "longrope"}
    outside = SimpleNamespace(
        rope_parameters=long, original_max_position_embeddings=40, max_position_embeddings=400
    )
    assert follows_the_longest(outside) == 40
    inside = {"rope_parameters": {**long, "original_max_position_embeddings": 30}}
    assert follows_the_longest(SimpleNamespace(**inside, max_position_embeddings=400)) == 30
    assert follows_the_longest(SimpleNamespace(rope_parameters=None)) is None


def test_what_is_trained_is_refused_beyond_it_too(folder: Path) -> None:
    lm = TrainableLM(str(folder), reference=True)
    lm.model.config.rope_parameters = {"rope_type": "dynamic"}
    lm.model.config.max_position_embeddings = 3
    rows: Any = [[1, 2, 3, 4]]
    for asked in (lm.logp, lm.reference_logp):
        with pytest.raises(EngineError, match=r"beyond 3 .* has 4"):
            asked(rows)


LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, -torch.inf])


def frequencies(sampling: Sampling, n: int = 40_000) -> np.ndarray:
    u = stream(0, "test").random(n)
    ids = draw(LOGITS.expand(n, -1), [sampling] * n, u.tolist()).ids
    return np.bincount(ids.numpy(), minlength=6) / n


def expected(sampling: Sampling) -> np.ndarray:
    """The textbook definition, one token at a time."""
    x = LOGITS.double().numpy() / sampling.temperature
    order = np.argsort(-x, kind="stable")
    keep = set(order[: sampling.top_k or len(x)].tolist())
    p = np.array([np.exp(v) if i in keep else 0.0 for i, v in enumerate(x)])
    p /= p.sum()
    mass, nucleus = 0.0, set()
    for i in order:
        if mass >= sampling.top_p:
            break
        nucleus.add(int(i))
        mass += p[i]
    p = np.array([v if i in nucleus else 0.0 for i, v in enumerate(p)])
    return np.asarray(p / p.sum())


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.5),
        Sampling(temperature=3.0),
        Sampling(top_k=2),
        Sampling(top_p=0.8),
        Sampling(top_p=1e-9),
        Sampling(temperature=0.7, top_k=3, top_p=0.9),
    ],
)
def test_frequencies(sampling: Sampling) -> None:
    got, want = frequencies(sampling), expected(sampling)
    assert got[want == 0].sum() == 0, "outside the allowed set"
    assert np.abs(got - want).max() < 4 * np.sqrt(0.25 / 40_000)


def test_log_probabilities_and_entropy_are_untempered() -> None:
    drawn = draw(LOGITS[None], [Sampling(temperature=0.1, top_k=1)], [0.3])
    logp = LOGITS.double().log_softmax(-1)
    assert drawn.logp[0].item() == pytest.approx(logp[0].item(), abs=1e-6)
    want = -sum(p.exp() * p for p in logp[:5]).item()  # type: ignore[attr-defined]
    assert drawn.entropy[0].item() == pytest.approx(want, abs=1e-6)


def test_every_row_by_its_own_settings() -> None:
    sampling = [Sampling(temperature=0.0), Sampling(), Sampling(top_k=1), Sampling(temperature=2.0)]
    u = [0.99, 0.6, 0.999, 0.97]
    together = draw(LOGITS.expand(4, -1), sampling, u).ids.tolist()
    alone = [draw(LOGITS[None], [s], [x]).ids.item() for s, x in zip(sampling, u, strict=True)]
    assert together == alone
    assert (together[0], together[2]) == (0, 0)
    assert len(set(together)) > 1


@pytest.mark.parametrize("u", [0.0, 1.0 - 2**-53, 1.0])
def test_the_ends_of_the_unit_interval_never_reach_an_impossible_token(u: float) -> None:
    logits = torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]])
    assert draw(logits, [Sampling()], [u]).ids.item() in (1, 2)


@pytest.mark.parametrize("row", [[0.0, torch.nan], [torch.inf, 0.0], [-torch.inf, -torch.inf]])
def test_what_is_no_distribution_is_an_error(row: list[float]) -> None:
    logits = torch.tensor([[0.0, 1.0], row])
    for sampling in (Sampling(), Sampling(temperature=0.0)):
        with pytest.raises(EngineError, match="NaN or infinite logits"):
            draw(logits, [sampling] * 2, [0.5, 0.5])
