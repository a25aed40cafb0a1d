"""Files of (prompt, completion) pairs, and the models and tokenizers they train."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..utils.files import parse_json
from .causal import load


def write_pairs(rows: Iterable[Mapping[str, Any]], path: Path) -> int:
    """JSON lines with at least ``prompt`` and ``completion``; returns how many. The file appears
    when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    count = 0
    with partial.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    os.replace(partial, path)
    return count


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """(prompt, completion) per line. ``DataError`` naming the first line that is no pair."""
    pairs: list[tuple[str, str]] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    row = parse_json(line, "it")
                    pairs.append((str(row["prompt"]), str(row["completion"])))
                except (ValueError, KeyError, TypeError) as error:
                    raise DataError(
                        f"{path}, line {number}: expected an object with 'prompt' and "
                        f"'completion' ({error!r})"
                    ) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    if not pairs:
        raise DataError(f"{path} holds no pairs")
    return pairs


def untrained(
    pairs: Iterable[tuple[str, str]], out: Path, *, vocabulary: int = 1024, width: int = 128,
    seed: int = 0,
) -> tuple[Any, Any]:  # fmt: skip
    """A small untrained model and its tokenizer: the one in ``out``, else one made of ``pairs``."""
    from .small import small_model, train_tokenizer

    if (out / "tokenizer.json").exists():
        from transformers import PreTrainedTokenizerFast

        tokenizer = PreTrainedTokenizerFast.from_pretrained(str(out))
    else:
        tokenizer = train_tokenizer((p + c for p, c in pairs), vocabulary)
    return small_model(tokenizer, width=width, seed=seed), tokenizer


def pretrained(model: str, device: str = "auto") -> tuple[Any, Any]:
    """A causal LM and its tokenizer from a folder or hub name, in float32."""
    return load(model, device, "float32")  # updates are too small for less
