"""Model folders: saving a trained model as transformers and PEFT load it, and asking it again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CardError, DataError, EngineError, unknown
from ..llms.adapters import is_model
from ..llms.base import Sampling, check_sampling
from ..llms.models import resolve
from ..objects import load_known
from ..storage.files import writing
from .causal_lm import RENDERERS, CausalLMPolicy
from .note import read_note, save_note

if TYPE_CHECKING:
    from .renderer import Renderer
    from .trainable import TrainableLM

AUTO = "auto"
"""The renderer that a model's folder names, else chat where the tokenizer has a template."""
EVALUATION = Sampling(temperature=0.0)
"""Sampling of every language model unless told otherwise, trained here or not: greedy, at
most 256 tokens a turn."""


def save_model(
    lm: TrainableLM,
    folder: str | os.PathLike[str],
    *,
    adapter: bool = False,
    policy: CausalLMPolicy | None = None,
    write: bool = True,
) -> Path:
    """Save a model's trained weights, tokenizer and prompt format.

    Args:
        folder: Target folder; created if it does not exist.
        adapter: Save LoRA adapters alone, as a PEFT folder. By default they are merged into the
            weights, and the folder stands by itself.
        policy: The policy whose renderer and sampling are noted in ``searchgym.json``.
        write: True if this process writes. Of several processes with sharded weights all must
            call, and one writes.

    Returns:
        The folder.

    Raises:
        EngineError: ``adapter`` without adapters, or of a model that is in no folder.
        DataError: the folder cannot be written (disk full).
    """
    from safetensors import SafetensorError

    folder = Path(folder)
    weights = None if adapter else lm.merged()
    if adapter:
        lm.require_adapter()
    if not write:
        return folder
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if weights is None:
                lm.save_adapter(folder)
            else:
                lm.save_weights(folder, weights)
        except SafetensorError as error:  # disk full
            raise DataError(f"{folder} cannot be written: {error}") from error
        lm.tokenizer.save_pretrained(folder)
    policy = policy or lm.latest_policy
    if policy is not None:
        same = lm.latest_policy is not None and policy.renderer is lm.latest_policy.renderer
        renderer = lm.latest_renderer if same else None
        if not isinstance(renderer, str | Mapping):
            renderer = renderer_name(policy.renderer)
        save_note(folder, renderer, policy.sampling, lm.freeze)
    return folder


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
        folder: The folder, or a name of ``searchgym models``.
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
    if overflow not in ("invalid", "refuse"):
        raise CardError(unknown("overflow", str(overflow), ("invalid", "refuse")))
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
        if name not in Sampling._fields:
            raise CardError(unknown("sampling option", name, Sampling._fields))
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
