"""What transformers' models differ in: refused by name, or done without."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers

from searchgym.errors import DataError, EngineError
from searchgym.llms.causal import Running, continues, follows_the_longest, load, score_rows
from searchgym.llms.optimizers import optimizers_of
from searchgym.llms.small import small_model, train_tokenizer
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.policies.trainable import TrainableLM

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
