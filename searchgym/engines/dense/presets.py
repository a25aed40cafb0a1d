"""Presets of known families of encoders: prefixes, instruction, pooling, length.

Each family's own model card says it (E5: arXiv 2212.03533; E5-instruct: arXiv 2401.00368; BGE:
arXiv 2309.07597). A wrong prefix costs recall without any error, hence the names.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ...errors import EngineError, unknown

Pooling = Literal["mean", "cls", "last"]
POOLINGS: tuple[Pooling, ...] = ("mean", "cls", "last")


class Preset(NamedTuple):
    """Prefixes of texts, and the pooling of token vectors into one."""

    query_prefix: str = ""
    """``{instruction}`` in it is replaced by ``instruction``."""
    passage_prefix: str = ""
    instruction: str = ""
    pooling: Pooling | None = None
    """Pooling of token vectors; ``None``: as the model's own modules say."""
    max_length: int | None = None
    """Tokens kept of a text; ``None``: as the model's own settings say."""


_E5_TASK = "Given a web search query, retrieve relevant passages that answer the query"
_E5_INSTRUCT = "Instruct: {instruction}\nQuery: "

PRESETS: dict[str, Preset] = {
    "plain": Preset(),
    "minilm": Preset(pooling="mean", max_length=256),
    "e5": Preset("query: ", "passage: ", pooling="mean", max_length=512),
    "e5-instruct": Preset(_E5_INSTRUCT, "", _E5_TASK, "mean", 512),
    "e5-mistral": Preset(_E5_INSTRUCT, "", _E5_TASK, "last", 4096),
    "bge": Preset(
        "{instruction}", "", "Represent this sentence for searching relevant passages: ", "cls", 512
    ),
    "bge-zh": Preset("{instruction}", "", "为这个句子生成表示以用于检索相关文章：", "cls", 512),
    "bge-m3": Preset(pooling="cls", max_length=8192),
}
"""Name → how the family wants its texts. "plain" takes the model as it comes."""

KNOWN_ENCODERS = frozenset(
    f"{owner}/{name}"
    for owner, names in {
        "sentence-transformers": ("all-MiniLM-L6-v2",),
        "intfloat": (
            "e5-small-v2", "e5-base-v2", "e5-large-v2", "multilingual-e5-small",
            "multilingual-e5-base", "multilingual-e5-large", "multilingual-e5-large-instruct",
            "e5-mistral-7b-instruct",
        ),
        "BAAI": (
            "bge-small-en-v1.5", "bge-base-en-v1.5", "bge-large-en-v1.5", "bge-small-zh-v1.5",
            "bge-base-zh-v1.5", "bge-large-zh-v1.5", "bge-m3",
        ),
    }.items()
    for name in names
)  # fmt: skip
"""Hub names that an index folder may name by itself, besides the bundled model."""

_BY_NAME = (
    (r"e5-mistral", "e5-mistral"),
    (r"e5.*instruct", "e5-instruct"),
    (r"(^|[-_])e5([-_]|$)", "e5"),
    (r"bge-m3", "bge-m3"),
    (r"bge-.*zh", "bge-zh"),
    (r"bge-", "bge"),
    (r"minilm", "minilm"),
)


def preset(name: str, model: str) -> tuple[str, Preset]:
    """The preset's name and values; "auto" reads the family off the last part of a model's name.

    Raises:
        EngineError: there is no preset of this name.
    """
    if name == "auto":
        last = model.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1].lower()
        name = next((family for pattern, family in _BY_NAME if re.search(pattern, last)), "plain")
    if name not in PRESETS:
        raise EngineError(unknown("encoder preset", name, [*PRESETS, "auto"]))
    return name, PRESETS[name]
