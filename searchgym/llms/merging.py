"""Merging models: the weights of several folders become one's, as an average or by RAM."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CardError, DataError, EngineError, MissingExtraError
from ..storage.files import read_json, writing
from .adapters import is_adapter, is_model
from .models import resolve

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS = "model.safetensors"
INDEX = WEIGHTS + ".index.json"
HOWS: Mapping[str, str] = {how: f"{__name__}:{how}" for how in ("average", "ram")}
"""Name → import path of each way of merging."""


def average(tensors: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    """Σ share · weights of (…) tensors of one shape."""
    made = shares[0] * tensors[0]
    for share, tensor in zip(shares[1:], tensors[1:], strict=True):
        made = made + share * tensor
    return made


def ram(
    base: Tensor, tensors: Sequence[Tensor], scales: Sequence[float], threshold: float = 1e-5
) -> Tensor:
    """RAM (arXiv 2601.13572): θ_0 + Δ, where Δ is the mean of the changes θ_j - θ_0 of those models
    that changed a number by more than ``threshold``, if there are several; that of the only one,
    times its scale; or 0."""
    import torch

    changes = torch.stack([tensor - base for tensor in tensors])
    moved = changes.abs() > threshold
    changes = torch.where(moved, changes, torch.zeros_like(changes))
    count = moved.sum(0)
    scale = torch.tensor(list(scales), dtype=changes.dtype).view(-1, *(1,) * base.ndim)
    alone = (scale * changes).sum(0)
    return base + torch.where(count > 1, changes.sum(0) / count.clamp_min(1), alone)


ram.systems = ("RAM",)  # type: ignore[attr-defined]  # read by rl.systems


def overlaps(
    base: Tensor, tensors: Sequence[Tensor], threshold: float = 1e-5
) -> list[tuple[int, int]]:
    """Count, for each model, the numbers that it changed, and those of them that another one
    changed, too."""
    import torch

    moved = torch.stack([(tensor - base).abs() > threshold for tensor in tensors])
    shared = moved.sum(0) > 1
    return [(int(own.sum()), int((own & shared).sum())) for own in moved]


def merge_models(
    folders: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    how: str = "average",
    shares: Sequence[float] | None = None,
    base: str | os.PathLike[str] | None = None,
    rescale: float = 1.1,
    threshold: float = 1e-5,
) -> Path:
    """Merge models of one architecture and vocabulary into a folder that stands by itself.

    Weights are read from safetensors, one tensor at a time, computed in float32, and written in the
    first folder's precision; everything else (configuration, tokenizer, prompt format) is the first
    folder's. The merged model is held in memory.

    Args:
        folders: Folders or names of ``searchgym models``, two or more.
        out: Folder to write; must not hold a model.
        how: ``"average"``: Σ share · weights (Wortsman et al., Model soups, arXiv 2203.05482).
            ``"ram"``: :func:`ram`, for models that were trained from ``base`` for different tasks.
        shares: Weights of the average, which add up to 1; default: all equal.
        base: The model that all were trained from (``ram`` only).
        rescale: What a change that only one model made is scaled by, r: 1 + (r - 1) · the share of
            that model's changes that others made, too (``ram`` only; paper 1.1).
        threshold: Smallest change that counts as one (``ram`` only).

    Raises:
        CardError: an impossible option.
        DataError: a folder holds no whole model in safetensors, or ``out`` holds one.
        EngineError: tensors or vocabularies differ.
    """
    shares = _checked(folders, how, shares, base)
    out = Path(out)
    if is_model(out):
        raise DataError(f"{out} holds a model already: merge into another folder")
    try:
        import torch
        from safetensors.torch import save_file
    except ImportError as error:
        raise MissingExtraError("merging models", "llm") from error
    paths = [Path(resolve(f)) for f in (*folders, *([base] if base is not None else []))]
    _require_one_vocabulary(paths)
    with ExitStack() as stack:
        models = [_Weights(path, stack) for path in paths]
        names = _common(models)
        scales = [1.0] * len(folders)
        if how == "ram":
            weights = [n for n in names if models[0].dtype(n).is_floating_point]
            overlap_counts = [
                overlaps(*_split([m.read(n) for m in models]), threshold) for n in weights
            ]
            for j in range(len(folders)):
                changed, shared = (sum(counts[j][i] for counts in overlap_counts) for i in (0, 1))
                scales[j] = 1 + (rescale - 1) * (shared / changed if changed else 0.0)
        made: dict[str, Tensor] = {}
        for name in names:
            tensors = [model.read(name) for model in models]
            kind = models[0].dtype(name)
            if not kind.is_floating_point:
                if any(not torch.equal(tensors[0], other) for other in tensors[1:]):
                    raise EngineError(f"{name} is no weight ({kind}) and differs between models")
                merged = tensors[0]
            elif how == "ram":
                merged = ram(*_split(tensors), scales, threshold)
            else:
                merged = average(tensors, shares)
            made[name] = merged.to(kind).contiguous()
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        for path in paths[0].iterdir():
            if path.is_file() and not _holds_weights(path):
                shutil.copyfile(path, out / path.name)
        save_file(made, str(out / WEIGHTS), metadata={"format": "pt"})
    return out


def _checked(
    folders: Sequence[Any], how: str, shares: Sequence[float] | None, base: Any
) -> Sequence[float]:
    """The shares of an average."""
    if how not in HOWS:
        raise CardError(f"how is 'average' or 'ram', got {how!r}")
    if isinstance(folders, str | os.PathLike) or len(folders) < 2:
        raise CardError(f"merging takes two models or more, got {folders!r}")
    if (how == "ram") != (base is not None):
        raise CardError("'ram' needs base=, the model that all were trained from; 'average' none")
    if how == "ram" and shares is not None:
        raise CardError("shares are of how='average'; 'ram' takes none")
    shares = [1 / len(folders)] * len(folders) if shares is None else list(shares)
    if len(shares) != len(folders) or abs(sum(shares) - 1) > 1e-6:
        raise CardError(
            f"shares are one number for each of the {len(folders)} models and add up to 1, got "
            f"{shares}"
        )
    return shares


class _Weights:
    """Tensors of a model's folder, read when they are asked for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        from safetensors import safe_open

        self.folder = folder
        self._files: dict[str, Any] = {}
        for path in _files(folder):
            file = stack.enter_context(safe_open(str(path), framework="pt"))
            self._files |= dict.fromkeys(file.keys(), file)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {n: tuple(f.get_slice(n).get_shape()) for n, f in self._files.items()}

    def dtype(self, name: str) -> Any:
        return self._files[name].get_tensor(name).dtype

    def read(self, name: str) -> Tensor:
        """A tensor, in float32 if it is a weight."""
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor.float() if tensor.dtype.is_floating_point else tensor


def _files(folder: Path) -> list[Path]:
    """The folder's safetensors.

    Raises:
        DataError: there are none, or it holds an adapter or no model.
    """
    if is_adapter(folder):
        raise DataError(f"{folder} holds an adapter: save the whole model, or merge it first")
    if not is_model(folder):
        raise DataError(f"{folder} holds no model (no config.json)")
    if (folder / INDEX).is_file():
        index = read_json(folder / INDEX)
        return [folder / Path(name).name for name in sorted(set(index["weight_map"].values()))]
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    raise DataError(f"{folder} holds no {WEIGHTS}: models are merged from safetensors only")


def _common(models: Sequence[_Weights]) -> list[str]:
    """Names of all tensors; ``EngineError`` where names or shapes differ."""
    first = models[0].shapes()
    for model in models[1:]:
        other = model.shapes()
        wrong = sorted(n for n in {*first, *other} if first.get(n) != other.get(n))
        if wrong:
            raise EngineError(
                f"{model.folder} and {models[0].folder} are not of one architecture: "
                f"{', '.join(wrong[:5])} differ"
            )
    return sorted(first)


def _require_one_vocabulary(folders: Sequence[Path]) -> None:
    """``EngineError`` for tokenizers whose ids mean different tokens."""
    known: list[tuple[Path, Any]] = []
    for folder in folders:
        path = folder / "tokenizer.json"
        if path.is_file():
            table: Mapping[str, Any] = read_json(path)
            added = {t["id"]: t["content"] for t in table.get("added_tokens", ())}
            known.append((folder, (table.get("model", {}).get("vocab"), added)))
    for folder, vocabulary in known[1:]:
        if vocabulary != known[0][1]:
            raise EngineError(f"{folder} and {known[0][0]} have different tokenizers")


def _split(tensors: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """The base, which comes last, and the models."""
    return tensors[-1], list(tensors[:-1])


def _holds_weights(path: Path) -> bool:
    return path.suffix in (".safetensors", ".bin", ".pt", ".pth", ".gguf") or path.name == INDEX
