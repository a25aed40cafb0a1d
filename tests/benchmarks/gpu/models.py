"""Models with random weights of published shapes, and a tokenizer that needs no download."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import torch

from searchgym.llms import train_tokenizer
from tests.benchmarks.scripted import words

from .world import passages

SIZES: dict[str, dict[str, Any]] = {
    # SmolLM2-135M
    "135m": {
        "kind": "llama", "vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    },
    # Qwen2.5-0.5B and 1.5B
    "0.5b": {
        "kind": "qwen2", "vocab_size": 151_936, "hidden_size": 896, "intermediate_size": 4864,
        "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
    },
    "1.5b": {
        "kind": "qwen2", "vocab_size": 151_936, "hidden_size": 1536, "intermediate_size": 8960,
        "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
    },
    "tiny": {
        "kind": "qwen2", "vocab_size": 2048, "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    },
}  # fmt: skip
"""Name → kind and shape."""
PIECES = 4096
"""Tokens that texts are encoded in; the others of a vocabulary are only ever drawn."""


def random_model(
    size: str, device: torch.device, dtype: torch.dtype, attention: str = "sdpa"
) -> Any:
    """A causal LM with weights drawn on the device itself."""
    import transformers

    shape = {**SIZES[size]}
    kind = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config}[shape.pop("kind")]
    config = kind(
        **shape, max_position_embeddings=8192, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus), device:
        torch.manual_seed(0)
        made = transformers.AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation=attention
        )
    return made.to(device=device, dtype=dtype).eval()


@cache
def tokenizer(size: str) -> Any:
    """A byte-level BPE whose vocabulary is as large as the model's: beside the pieces that texts
    are encoded in there are words that only a random model writes, so that decoding costs what it
    does with a real one."""
    from tokenizers import Tokenizer

    vocabulary = SIZES[size]["vocab_size"]
    made = train_tokenizer(passages(size == "tiny"), min(PIECES, vocabulary - 100))
    table = json.loads(made.backend_tokenizer.to_str())
    known = table["model"]["vocab"]
    pool = words()
    for number in range(len(made), vocabulary):
        known[f"Ġ{pool[number % len(pool)]}{number}"] = number
    made._tokenizer = Tokenizer.from_str(json.dumps(table))
    assert len(made) == vocabulary
    return made


def flops(model: Any, lengths: list[int], heads: int) -> float:
    """Floating-point operations of a forward and a backward pass over rows of these lengths.

    6 · P · T + 6 · V · d · H + 6 · L · a · Σ T_i²: P parameters of the layers (without the
    embeddings, which multiply nothing), T tokens without padding, H places at which logits are
    computed over V words of width d, and causal attention of total width a in L layers, of which
    the half that the mask hides is not counted. (Kaplan et al., arXiv 2001.08361; Chowdhery et al.,
    PaLM, arXiv 2204.02311, appendix B.)
    """
    config = model.config
    table = model.get_input_embeddings().weight.numel()
    layers = sum(p.numel() for p in model.parameters()) - table
    if model.get_output_embeddings().weight is not model.get_input_embeddings().weight:
        layers -= model.get_output_embeddings().weight.numel()
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    wide = width * config.num_attention_heads
    own = 6.0 * layers * sum(lengths) + 6.0 * config.vocab_size * config.hidden_size * heads
    return own + 6.0 * config.num_hidden_layers * wide * sum(n * n for n in lengths)
