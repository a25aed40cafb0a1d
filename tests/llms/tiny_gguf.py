"""A random Llama or Qwen2 of a few thousand parameters, as a GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny(context: int = 128, layers: int = 2, kind: str = "llama") -> Any:
    """A random model with grouped heads, in numbers that bfloat16 holds exactly."""
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(
            kind, vocab_size=260, hidden_size=32, intermediate_size=48, num_hidden_layers=layers,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=context,
            tie_word_embeddings=True, rope_theta=10_000.0, rms_norm_eps=1e-5,
            bos_token_id=258, eos_token_id=259, pad_token_id=259,
        )
    )  # fmt: skip
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias"):  # they begin at 0
                p.normal_()
            p.copy_(p.bfloat16().float())
    return model.eval()


def byte_tokens() -> list[str]:
    """The 256 bytes as GPT-2 spells them."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelt = {b: chr(b) for b in shown}
    others = [b for b in range(256) if b not in spelt]
    spelt |= {b: chr(256 + i) for i, b in enumerate(others)}
    return [spelt[b] for b in range(256)]


def rotated(weight: torch.Tensor, heads: int) -> np.ndarray[Any, Any]:
    """A query or key matrix with its rows as llama.cpp orders them: halves interleaved."""
    out, width = weight.shape
    halves = weight.reshape(heads, 2, out // heads // 2, width)
    return halves.swapaxes(1, 2).reshape(out, width).numpy()


def write_gguf(
    path: Path, context: int = 128, layers: int = 2, kinds: tuple[str, ...] = ("F32",),
    output: np.ndarray[Any, Any] | None = None, kind: str = "llama",
) -> Path:  # fmt: skip
    """Write :func:`tiny`, with a byte tokenizer and a chat template, as llama.cpp keeps it.

    ``kinds``: quantisation of the embedding and, if there are two, of an output matrix written
    beside it: ``output``, else the embedding again."""
    import gguf

    model = tiny(context, layers, kind)
    config = model.config
    writer = gguf.GGUFWriter(str(path), kind)
    writer.add_block_count(layers)
    writer.add_context_length(context)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(260)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([*byte_tokens(), "Ġt", "<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    writer.add_token_types([1] * 257 + [3] * 3)
    writer.add_token_merges(["Ġ t"])
    writer.add_bos_token_id(258)
    writer.add_eos_token_id(259)
    writer.add_pad_token_id(259)
    writer.add_unk_token_id(257)
    writer.add_chat_template(TEMPLATE)
    names = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    with torch.no_grad():
        embedding = model.model.embed_tokens.weight.numpy()
        for name, stored in zip(("token_embd", "output"), kinds, strict=False):
            array = embedding if output is None or name == "token_embd" else output
            how = gguf.GGMLQuantizationType[stored]
            writer.add_tensor(f"{name}.weight", gguf.quants.quantize(array, how), raw_dtype=how)
        writer.add_tensor("output_norm.weight", model.model.norm.weight.numpy())
        for i, layer in enumerate(model.model.layers):
            parts = dict(layer.named_parameters())
            for ours, theirs in names.items():
                weight = parts[f"{ours}.weight"]
                if f"{ours}.bias" in parts:
                    writer.add_tensor(f"blk.{i}.{theirs}.bias", parts[f"{ours}.bias"].numpy())
                if kind == "llama" and ours.endswith("q_proj"):
                    array = rotated(weight, config.num_attention_heads)
                elif kind == "llama" and ours.endswith("k_proj"):
                    array = rotated(weight, config.num_key_value_heads)
                else:
                    array = weight.numpy()
                writer.add_tensor(f"blk.{i}.{theirs}.weight", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
