"""A language model of some twenty thousand parameters, and the same one taught some pairs."""

from __future__ import annotations

from typing import Any

import torch

from searchgym.llms import SftConfig, SftTrainer, encode


def llama(tokenizer: Any, heads: int) -> Any:
    """Untrained, one layer of width 32."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=heads, num_key_value_heads=heads, max_position_embeddings=512,
        initializer_range=0.1, bos_token_id=None, eos_token_id=0, pad_token_id=0,
        tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(config).eval()


def taught(
    model: Any, tokenizer: Any, pairs: list[tuple[str, str]], config: SftConfig
) -> dict[str, torch.Tensor]:
    """The model's weights after ``config.steps`` steps on (read, written) pairs."""
    trainer = SftTrainer(model, encode(tokenizer, pairs, 500), config)
    for _ in range(config.steps):
        trainer.advance()
    return {k: v.detach().clone() for k, v in model.state_dict().items()}
