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

_COMMON = {
    "<": re.compile(
        r"/?s>|bos>|eos>|pad>|unk>|mask>|(?:start|end)_of_(?:turn|image)>|\|[^<>|\s]*\|>"
        r"|[|｜][^<>\s]*[|｜]>",
        re.IGNORECASE,
    ),
    "[": re.compile(
        r"/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]", re.IGNORECASE
    ),
}
"""Words after the opening mark of a special token of Llama, Gemma, Mistral, Qwen, DeepSeek and
their kin."""


def _without_common(text: str) -> str:
    # a server does this to the whole context at every step: cutting at the mark takes a tenth of
    # the time of one expression that looks for it
    for mark, rest in _COMMON.items():
        if mark in text:
            first, *others = text.split(mark)
            safe = f"&#{ord(mark)};"
            text = first + "".join([(safe if rest.match(o) else mark) + o for o in others])
    return text


def harmless(tokenizer: Any = None) -> Callable[[str], str]:
    """Return a function from foreign text to text without special tokens.

    Args:
        tokenizer: The model's, or the name or folder of one; ``None``: the common spellings.
    """
    if tokenizer is None:
        return _without_common
    if isinstance(tokenizer, str):
        from transformers import AutoTokenizer

        from ..llms.models import resolve

        tokenizer = AutoTokenizer.from_pretrained(resolve(tokenizer), trust_remote_code=False)
    return lambda text: neutralise(text, tokenizer)
