"""Running a transformer so that a text's result does not depend on what else is in the batch.

A text is padded to a width that follows from its own length alone (the next multiple of 8), and
only texts of equal width share a forward pass. Then attention and normalisation sum over the same
places in the same order, alone or in a batch; what is left is how matrix products are cut up when
there are more rows. On CPUs, PyTorch's products of a transformer's body (at least eight rows: one
per token) add up a row in the same order whatever the number of rows; the tests compare bits. Its
products with one row per *text*, in a head behind the pooling, do not, nor does anything on
accelerators, where kernels are chosen by shape. There every pass of one width has the same number
of rows: short batches are filled up with copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Progress = Callable[[int, int], None]
"""Called with (done, to do)."""
WIDTH = 8
_TOKENISED_AT_ONCE = 2048
_HEAD_ROWS = 8


def clean(text: str) -> str:
    """The text without lone surrogates, which tokenizers refuse."""
    return text.encode("utf-8", "replace").decode()


def forward(
    texts: Sequence[Any],
    tokenise: Callable[[Sequence[Any]], Any],
    compute: Callable[[dict[str, Any]], NDArray[np.float32]],
    *,
    tokenizer: Any,
    device: Any,
    batch_tokens: int,
    max_length: int,
    dim: int,
    head: bool = False,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """One row (D,) per text, in order: tokenised, padded, grouped by width, computed.

    ``tokenise`` gives unpadded lists under "input_ids" (and perhaps "token_type_ids");
    ``compute`` turns tensors (B, W) into (B, D) on the CPU; ``head``: with matrix products that
    have one row per text.
    """
    import torch

    out = np.empty((len(texts), dim), dtype=np.float32)
    left = getattr(tokenizer, "padding_side", "right") == "left"
    on_cpu = device.type == "cpu"
    done = 0
    for start in range(0, len(texts), _TOKENISED_AT_ONCE):
        found = tokenise(texts[start : start + _TOKENISED_AT_ONCE])
        lengths = np.array([len(ids) for ids in found["input_ids"]])
        widths = np.minimum(np.maximum(-(-lengths // WIDTH), 1) * WIDTH, max_length)
        for width in np.unique(widths).tolist():
            same = np.flatnonzero(widths == width)
            size = _HEAD_ROWS if head and on_cpu else max(1, batch_tokens // width)
            for lo in range(0, len(same), size):
                rows = same[lo : lo + size]
                filled = np.resize(rows, size) if head or not on_cpu else rows
                features = {
                    name: torch.from_numpy(array).to(device)
                    for name, array in _pad(found, filled, width, tokenizer, left).items()
                }
                with torch.inference_mode():
                    out[start + rows] = compute(features)[: len(rows)]
                done += len(rows)
                if progress:
                    progress(done, len(texts))
    return out


def _pad(
    found: Any, rows: NDArray[np.int64], width: int, tokenizer: Any, left: bool
) -> dict[str, NDArray[np.int64]]:
    ids = np.full((len(rows), width), tokenizer.pad_token_id or 0, dtype=np.int64)
    mask = np.zeros_like(ids)
    kinds = np.zeros_like(ids) if "token_type_ids" in found else None
    for i, row in enumerate(rows.tolist()):
        n = len(found["input_ids"][row])
        where = slice(width - n, width) if left else slice(0, n)
        ids[i, where] = found["input_ids"][row]
        mask[i, where] = 1
        if kinds is not None:
            kinds[i, where] = found["token_type_ids"][row]
    padded = {"input_ids": ids, "attention_mask": mask}
    return padded if kinds is None else {**padded, "token_type_ids": kinds}


def pick_device(device: str) -> Any:
    """A torch device from its name; "auto" is CUDA where there is a GPU, else the CPU."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)
