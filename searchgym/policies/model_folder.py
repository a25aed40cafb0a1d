"""Model folders: the prompt format beside the weights, and asking a model as it was trained."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CardError, DataError, EngineError, check_known, unknown
from ..llms.adapters import is_model
from ..llms.base import Sampling, check_sampling
from ..llms.models import resolve
from ..objects import load_known
from ..storage.files import read_json, write_whole
from ..utils.trust import check_allowed, refuse, registered_only
from .causal_lm import RENDERERS, CausalLMPolicy, renderer_parts

if TYPE_CHECKING:
    from .renderer import Renderer


NOTE = "searchgym.json"


def save_note(
    folder: str | os.PathLike[str],
    renderer: str | Mapping[str, Any] | None,
    sampling: Sampling,
    freeze: Sequence[str] = (),
) -> None:
    """Write ``searchgym.json`` into a model's folder.

    Args:
        renderer: Prompt format, by name or as a table; None: one that has no name.
        sampling: Sampling of the model in training. Its stop strings belong to the format, the
            rest is a record (``load_policy(as_trained=True)`` applies it).
        freeze: Patterns of parameters to freeze when the model is trained on, as ``TrainableLM``
            takes them.
    """
    note: dict[str, Any] = {"sampling": sampling._asdict()}
    if renderer is not None:
        note["renderer"] = renderer if isinstance(renderer, str) else dict(renderer)
    if freeze:
        note["freeze"] = list(freeze)
    write_whole(Path(folder) / NOTE, json.dumps(note, indent=1))


def read_note(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read ``{"renderer": …, "sampling": {…}, "freeze": […]}``; empty for other models.

    Raises:
        DataError: the file cannot be read, or holds something else.
        CardError: it names a renderer of somebody's own, or an option of a renderer that is no
            switch or number, and is not trusted.
    """
    path = Path(folder) / NOTE
    try:
        note = read_json(path)
    except FileNotFoundError:
        return {}
    if not isinstance(note, dict):
        raise DataError(f"{path} holds a {type(note).__name__}, expected a table")
    freeze = note.get("freeze", [])
    if not isinstance(note.get("sampling", {}), dict) or not (
        isinstance(freeze, list) and all(isinstance(pattern, str) for pattern in freeze)
    ):
        raise DataError(f"{path}: 'sampling' is a table and 'freeze' a list of patterns")
    if (renderer := note.get("renderer")) is not None:
        with registered_only(path):
            _check_renderer(path, renderer)
    return note


def _check_renderer(path: Path, renderer: Any) -> None:
    if not isinstance(renderer, str | dict):
        raise DataError(f"{path}: 'renderer' is a name or a table, got {renderer!r:.80}")
    try:
        use, options = renderer_parts(renderer)
    except EngineError as error:
        raise DataError(f"{path}: {error}") from error
    if use not in RENDERERS:
        check_allowed(use)
    for name, value in options.items():
        if not (value is None or isinstance(value, bool | int | float) or name == "unstable"):
            refuse(f"the option {name!r} of a renderer")  # such as another chat template


AUTO = "auto"
"""The renderer that a model's folder names, else chat where the tokenizer has a template."""
EVALUATION = Sampling(temperature=0.0)
"""Sampling of every language model unless told otherwise, trained here or not: greedy, at
most 256 tokens a turn."""


def _maker(folder: Path) -> str:
    """Return the command that writes a model into a folder: the card's whose agent reads it, else
    those that make one."""
    from ..cards import cards

    for card in cards("agents").values():
        if "train" in card.body and card.body.get("kwargs", {}).get("folder") == str(folder):
            return f"'searchgym train {card.id}' makes it"
    return (
        f"'searchgym warmstart --out {folder}' makes a small one, 'searchgym train RECIPE --model "
        "NAME' trains one ('searchgym train smollm' a pretrained one)"
    )


def load_policy(
    folder: str | os.PathLike[str],
    *,
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    stop: str | Sequence[str] | None = None,
    renderer: Renderer | Mapping[str, Any] | str = AUTO,
    overflow: str = "invalid",
    as_trained: bool = False,
    reuse_tokens: int = 0,
    seed: int = 0,
    device: str = "auto",
    dtype: str = "auto",
) -> CausalLMPolicy:
    """Load a model's folder, or an adapter's, as an agent.

    Models that were trained here and others are asked alike: greedily, with at most 256 tokens a
    turn, in the prompt format (renderer and stop strings) that the folder's ``searchgym.json``
    names, else in the tokenizer's chat template, else as plain text.

    Args:
        folder: The folder, a GGUF file, or a name of ``searchgym models``.
        max_tokens, temperature, top_p, top_k: Sampling of each turn, see
            :class:`~searchgym.llms.base.Sampling`.
        stop: Strings that end a turn, besides the dialect's.
        renderer: ``"auto"``, or as of :class:`CausalLMPolicy`.
        overflow: Handling of a prompt that leaves no room in the model's context: ``"invalid"``
            counts an empty turn, ``"refuse"`` is an error.
        as_trained: Start from the sampling that the folder was trained with.
        reuse_tokens: Tokens whose keys and values are kept from turn to turn, so that a turn reads
            only what is new; takes memory (23 KB a token of smollm2-135m).
        seed: Fixes what is drawn at temperatures above 0.
        device, dtype: As of :class:`~searchgym.policies.trainable.TrainableLM`.

    Raises:
        CardError: an option of the wrong kind or out of range, or ``as_trained`` of a model that
            was not trained here.
        EngineError: the model cannot be loaded.
        DataError: the folder holds no model, or its note cannot be read.
    """
    folder = Path(resolve(folder))
    if not is_model(folder):
        raise DataError(f"{folder} holds no model. {_maker(folder)}")
    note = read_note(folder)
    given = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "top_k": top_k,
             "stop": stop}  # fmt: skip
    noted = note.get("sampling", {})
    if as_trained and not noted:
        raise CardError(f"{folder} does not say how it was trained: leave out as_trained")
    start = dict(noted) if as_trained else {"stop": noted.get("stop", ())}
    base = EVALUATION._replace(**sampling_options(start))
    sampling = base._replace(
        **sampling_options({name: value for name, value in given.items() if value is not None})
    )
    require_renderer(renderer)
    check_known("overflow", ("invalid", "refuse"), overflow)
    for name, value in (("seed", seed), ("reuse_tokens", reuse_tokens)):
        if not isinstance(value, int):
            raise CardError(f"{name} must be a whole number, got {value!r}")

    from ..llms.transformers_generator import TransformersGenerator

    generator = TransformersGenerator(
        str(folder), device=device, dtype=dtype, reuse_tokens=reuse_tokens
    )
    if renderer == AUTO:
        renderer = note.get("renderer") or default_renderer(generator.tokenizer)
    asked: Any = {"renderer": renderer, "overflow": overflow}  # checked above
    return CausalLMPolicy(generator, sampling=sampling, seed=seed, **asked)


def sampling_of(options: Mapping[str, Any]) -> Sampling:
    """Build ``Sampling`` from JSON values; ``CardError`` for what it cannot be."""
    return Sampling()._replace(**sampling_options(options))


def sampling_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Check sampling options that come as JSON values; a single stop string becomes a tuple.

    Raises:
        CardError: an unknown option, or a value of the wrong kind or out of range.
    """
    checked: dict[str, Any] = {}
    for name, value in options.items():
        check_known("sampling option", Sampling._fields, name)
        if name == "stop":
            value = (value,) if isinstance(value, str) else value
            if not isinstance(value, Sequence) or not all(isinstance(s, str) for s in value):
                raise CardError(f"stop must be a string or a list of strings, got {value!r}")
            checked[name] = tuple(value)
            continue
        whole = name in ("max_tokens", "top_k")
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            kind = "a whole number" if whole else "a number"
            raise CardError(f"{name} must be {kind}, got {value!r}")
        checked[name] = value
    try:
        check_sampling(Sampling()._replace(**checked))
    except EngineError as error:
        raise CardError(str(error)) from error
    return checked


def require_renderer(renderer: Any) -> None:
    """``CardError`` for a name of no renderer; import paths are left to the policy."""
    name = renderer.get("use") if isinstance(renderer, Mapping) else renderer
    if isinstance(name, str) and ":" not in name and name not in (AUTO, *RENDERERS):
        raise CardError(unknown("renderer", name, (AUTO, *RENDERERS)))


def renderer_name(renderer: Any) -> str | None:
    """Name of a built-in renderer; None for others."""
    return next((n for n, kind in RENDERERS.items() if type(renderer) is load_known(kind)), None)


def default_renderer(tokenizer: Any) -> str:
    """``"chat"`` where the tokenizer has a template, else ``"plain"``."""
    return "chat" if getattr(tokenizer, "chat_template", None) else "plain"
