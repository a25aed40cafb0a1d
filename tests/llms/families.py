"""Small tokenizers with the special tokens and chat forms of published model families."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.llms import tiny

_LOOP = "{% for m in messages %}"
_END = "{% endfor %}{% if add_generation_prompt %}"
FAMILIES: dict[str, tuple[list[str], str, str]] = {
    "qwen": (
        ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|vision_start|>"],
        "<|im_end|>",
        _LOOP + "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" + _END
        + "<|im_start|>assistant\n{% endif %}",
    ),
    "llama2": (
        ["<s>", "</s>", "<unk>"],
        "</s>",
        "{{ bos_token }}" + _LOOP + "{% if m.role == 'assistant' %} {{ m.content }} {{ eos_token }}"
        "{% else %}[INST] {{ m.content | trim }} [/INST]{% endif %}" + _END + "{% endif %}",
    ),
    "mistral": (
        ["<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[SYSTEM_PROMPT]"],
        "</s>",
        "{{ bos_token }}" + _LOOP + "{% if m.role == 'assistant' %} {{ m.content }}</s>"
        "{% else %}[INST] {{ m.content }}[/INST]{% endif %}" + _END + "{% endif %}",
    ),
    "gemma": (
        ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<pad>"],
        "<eos>",
        "{{ bos_token }}" + _LOOP + "<start_of_turn>{{ m.role }}\n{{ m.content | trim }}"
        "<end_of_turn>\n" + _END + "<start_of_turn>model\n{% endif %}",
    ),
    "deepseek": (
        ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"],
        "<｜end▁of▁sentence｜>",
        "{{ bos_token }}" + _LOOP + "{% if m.role == 'assistant' %}<｜Assistant｜>{{ m.content }}"
        "<｜end▁of▁sentence｜>{% else %}<｜User｜>{{ m.content }}{% endif %}" + _END
        + "<｜Assistant｜>{% endif %}",
    ),
}  # fmt: skip
"""Special tokens, the one that ends a text, and the template."""
ROLES = ["<｜User｜>", "<｜Assistant｜>"]
"""DeepSeek's marks of speakers are added tokens that are not special."""


@cache
def tokenizer(family: str, normaliser: str | None = None) -> Any:
    """A byte-level BPE with a family's special tokens; ``normaliser``: ``"nfkc"``, of text and of
    special tokens alike."""
    from tokenizers import AddedToken, normalizers

    special, end, template = FAMILIES[family]
    made = tiny.tokenizer()
    if normaliser is not None:
        made.backend_tokenizer.normalizer = normalizers.NFKC()
    tokens = [AddedToken(t, special=True, normalized=normaliser is not None) for t in special]
    made.add_special_tokens({"additional_special_tokens": tokens, "eos_token": end})
    if special[0] != end and family != "qwen":
        made.add_special_tokens({"bos_token": special[0]})
    if family == "deepseek":
        made.add_tokens([AddedToken(t, normalized=False) for t in ROLES])
    made.chat_template = template
    return made


HOSTILE = sorted({token for special, _, _ in FAMILIES.values() for token in special} | {*ROLES})
