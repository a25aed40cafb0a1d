"""Running a transformer so that a text's result does not depend on what else is in the batch.

A text is padded to a width that follows from its own length alone (the next multiple of 8), and
only texts of equal width share a forward pass. Then attention and normalisation sum over the same
places in the same order, alone or in a batch; what is left is how matrix products are cut up when
there are more rows.

On CPUs that differs between processors and between numbers of threads (``rows``). So a pass runs in
one thread, passes of few tokens are filled up with copies, and several passes run side by side; a
pass alone has all threads where the bits are those of one. In a head behind the pooling there is
one row per *text*: such models take one text at a time.

On accelerators kernels are chosen by shape: every pass of one width has the same number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.hardware import in_turn, side_by_side
from .rows import ENOUGH_ROWS, STEP, Rows

Progress = Callable[[int, int], None]
"""Function called with (done, to do)."""
WIDTH = 8
_TOKENISED_AT_ONCE = 2048


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
    rows: Rows | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """One row (D,) per text, in order: tokenised, padded, grouped by width, computed.

    ``tokenise`` gives unpadded lists under "input_ids" (and perhaps "token_type_ids");
    ``compute`` turns tensors (B, W) into (B, D) on the CPU; ``head``: with matrix products that
    have one row per text; ``rows``: what ``rows.rows_of`` found on a CPU.
    """
    out = np.empty((len(texts), dim), dtype=np.float32)
    left = getattr(tokenizer, "padding_side", "right") == "left"
    on_cpu = device.type == "cpu"
    rows = rows or Rows()
    done = 0
    for start in range(0, len(texts), _TOKENISED_AT_ONCE):
        tokenised = tokenise(texts[start : start + _TOKENISED_AT_ONCE])
        lengths = np.array([len(ids) for ids in tokenised["input_ids"]])
        widths = np.minimum(np.maximum(-(-lengths // WIDTH), 1) * WIDTH, max_length)
        passes = []
        for width in np.unique(widths).tolist():
            same = np.flatnonzero(widths == width)
            size = 1 if head and on_cpu else max(1, batch_tokens // width)
            # other numbers of rows than multiples of this were not looked at
            least = rows.least if width % STEP == 0 else ENOUGH_ROWS
            filled_to = -(-least // width) if on_cpu and not head else size
            for lo in range(0, len(same), size):
                these = same[lo : lo + size]
                filled = np.resize(these, max(len(these), filled_to))
                passes.append((these, _pad(tokenised, filled, width, tokenizer, left)))
        run = partial(_run, compute, device)
        alone = len(passes) == 1 and not head and rows.together(passes[0][1]["input_ids"].size)
        with side_by_side(len(passes)) if on_cpu and not alone else in_turn() as mapped:
            for these, values in mapped(run, passes):
                out[start + these] = values
                done += len(these)
                if progress:
                    progress(done, len(texts))
    return out


_Pass = tuple[NDArray[np.int64], dict[str, NDArray[np.int64]]]


def _run(
    compute: Callable[[dict[str, Any]], NDArray[np.float32]], device: Any, given: _Pass
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    import torch

    rows, arrays = given
    features = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    with torch.inference_mode():  # of this thread alone
        return rows, compute(features)[: len(rows)]


def _pad(
    tokenised: Any, rows: NDArray[np.int64], width: int, tokenizer: Any, left: bool
) -> dict[str, NDArray[np.int64]]:
    ids = np.full((len(rows), width), tokenizer.pad_token_id or 0, dtype=np.int64)
    mask = np.zeros_like(ids)
    kinds = np.zeros_like(ids) if "token_type_ids" in tokenised else None
    for i, row in enumerate(rows.tolist()):
        n = len(tokenised["input_ids"][row])
        where = slice(width - n, width) if left else slice(0, n)
        ids[i, where] = tokenised["input_ids"][row]
        mask[i, where] = 1
        if kinds is not None:
            kinds[i, where] = tokenised["token_type_ids"][row]
    padded = {"input_ids": ids, "attention_mask": mask}
    return padded if kinds is None else {**padded, "token_type_ids": kinds}


def pick_device(device: str) -> Any:
    """A torch device from its name; "auto" is CUDA where there is a GPU, else the CPU."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)
