"""A causal LM small enough to train from nothing on a CPU: stock LFM2 and a tokenizer of its own.

The shape is the one that learned to copy fastest of those tried: gated short convolutions between
attention layers put a name's neighbourhood into each position, and wide initial weights help.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import DataError, MissingExtraError

END = "<|end|>"
LAYERS = ("conv", "full_attention", "conv", "full_attention", "full_attention")


def train_tokenizer(texts: Iterable[str], size: int = 2048) -> Any:
    """Train a byte-level BPE tokenizer on ``texts``; return a ``PreTrainedTokenizerFast``.

    Any text round-trips. Digits stand alone, so that numbers are copied digit by digit.
    """
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise MissingExtraError("training a language model", "llm") from error
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END)


def check_width(width: int) -> None:
    """``DataError`` for a width that four heads of even size do not fill."""
    if width < 8 or width % 8:
        raise DataError(f"width is a multiple of eight (four heads of even size), got {width}")


def small_model(tokenizer: Any, *, width: int = 128, context: int = 2048, seed: int = 0) -> Any:
    """Make an untrained LFM2 for a tokenizer, without touching PyTorch's global generator.

    It has five layers, and about a million parameters at width 128 and 1,024 tokens. It has four
    heads at any width: with fewer, a narrow model learns to copy much later.
    """
    import torch
    from transformers import AutoModelForCausalLM, Lfm2Config

    check_width(width)
    config = Lfm2Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        block_auto_adjust_ff_dim=False,
        num_hidden_layers=len(LAYERS),
        layer_types=list(LAYERS),
        num_attention_heads=4,
        num_key_value_heads=4,
        conv_L_cache=4,
        conv_bias=False,
        max_position_embeddings=context,
        initializer_range=0.05,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed GPUs, too
        return AutoModelForCausalLM.from_config(config)
