"""Tiny language models, made in the test: a BPE tokenizer trained here and untrained weights.

The weights are drawn wide, so that distributions are far from flat and log-probabilities differ
visibly when positions, masks or caches are wrong.
"""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

END, USER, MARK = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LINES = tuple(
    f"The {a} of {b} is {c}. <search>{b} {a}</search> <answer>{c}</answer> née Łódź 東京 {i * 37}"
    for i, (a, b, c) in enumerate(
        (a, b, c)
        for a in ("capital", "river", "founder", "mayor")
        for b in ("Paris", "Velmora", "Tarsis", "Quendale")
        for c in ("Ana Bell", "blue", "1912", "a small town")
    )
)


def tokenizer(size: int = 400) -> Any:
    """A byte-level BPE like Qwen2's: any text round-trips."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(
        LINES,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[END, USER, MARK],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=END)
    wrapped.chat_template = CHAT
    return wrapped


def model(kind: str = "qwen2", vocabulary: int = 400, seed: int = 0, **changes: Any) -> Any:
    """An untrained causal LM of a published architecture, in evaluation mode; a copy of one that
    was made before, where there is one."""
    return copy.deepcopy(_made(kind, vocabulary, seed, json.dumps(changes)))


@cache
def _made(kind: str, vocabulary: int, seed: int, changes: str) -> Any:
    import torch
    import transformers

    shape: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.15,
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
        **json.loads(changes),
    }
    if kind == "lfm2":
        shape |= {"layer_types": ["conv", "full_attention"], "conv_L_cache": 4}
    config = {
        "qwen2": transformers.Qwen2Config,
        "llama": transformers.LlamaConfig,
        "lfm2": transformers.Lfm2Config,
    }[kind](**shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = transformers.AutoModelForCausalLM.from_config(config)
    return made.eval()


SMALL: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 256, "sliding_window": 8,
    "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 256, "initializer_range": 0.2,
    "bos_token_id": None, "eos_token_id": 0, "pad_token_id": 0, "num_experts": 4,
    "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "decoder_sparse_step": 1, "n_group": 1, "topk_group": 1,
    "shared_expert_intermediate_size": 32, "first_k_dense_replace": 0, "q_lora_rank": 16,
    "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 16,
}  # fmt: skip
"""Sizes under all names that architectures give them."""


def architecture(kind: str, vocabulary: int = 400, **changes: Any) -> Any:
    """An untrained causal LM of any architecture of transformers that small sizes make up."""
    import inspect

    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[kind]
    known = {*inspect.signature(config.__init__).parameters, *config.attribute_map}
    for parent in config.__mro__:
        known |= set(getattr(parent, "__annotations__", {}))
    sizes = {"vocab_size": vocabulary, **SMALL, **changes}
    made = config(**{name: value for name, value in sizes.items() if name in known})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(made).eval()


def save(
    folder: Path, kind: str = "qwen2", seed: int = 0, sampling: bool = False, **changes: Any
) -> Path:
    """A model folder as published ones are: config, safetensors weights, tokenizer. ``sampling``:
    its generation config says that it samples, as chat models' do."""
    words = tokenizer()
    made = model(kind, len(words), seed, **changes)
    made.generation_config.do_sample = sampling
    made.save_pretrained(folder)
    words.save_pretrained(folder)
    # transformers of other versions know this class, too
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(settings))
    return folder
