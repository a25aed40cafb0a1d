"""Texts that are handed to somebody else's chat template, made harmless for it.

Adapters that know the model's tokenizer take it, and nothing that it reads as a special token is
left. Where it is not known (a server, whose clients have models of many kinds), the spellings of
the common families are taken for special.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..llms.foreign import neutralise

_COMMON = re.compile(
    r"<(?=/?s>|bos>|eos>|pad>|unk>|mask>|(?:start|end)_of_(?:turn|image)>|\|[^<>|\s]*\|>"
    r"|[|｜][^<>\s]*[|｜]>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])",
    re.IGNORECASE,
)
"""Openings of special tokens of Llama, Gemma, Mistral, Qwen, DeepSeek and their kin."""


def harmless(tokenizer: Any = None) -> Callable[[str], str]:
    """Return a function from foreign text to text without special tokens.

    Args:
        tokenizer: The model's, or the name or folder of one; ``None``: the common spellings.
    """
    if tokenizer is None:
        return lambda text: _COMMON.sub(lambda mark: f"&#{ord(mark[0])};", text)
    if isinstance(tokenizer, str):
        from transformers import AutoTokenizer

        from ..llms.models import resolve

        tokenizer = AutoTokenizer.from_pretrained(resolve(tokenizer))
    return lambda text: neutralise(text, tokenizer)
