"""Critics by name: what a recipe's table ``[critic]`` means."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import CardError, unknown
from ...objects import build, check_fits, load_known, load_object
from ...plugins import Registry

if TYPE_CHECKING:
    from ...policies.trainable import TrainableLM
    from .base import ValueModel

DEFAULT = "scalar"
"""The critic of a table that names none."""


CRITICS = Registry("critic", package="searchgym.rl.critics")
"""Name → import path of every registered critic."""


def check_critic_table(table: Mapping[str, Any]) -> None:
    """Check a table's name and options, without a model.

    Raises:
        CardError: an unknown name or option, or what is no critic.
    """
    _found(table)


def make_critic(table: Mapping[str, Any], lm: TrainableLM, **defaults: Any) -> ValueModel:
    """Make a critic of a policy's model.

    Args:
        table: ``use``, a name of :data:`CRITICS` (default: ``scalar``) or
            ``"package.module:Class"``, and options.
        lm: The model whose body is copied.
        defaults: Options that the table may change, such as ``lr``.

    Raises:
        CardError: an unknown name or option, or what is no critic.
        EngineError: the model has adapters, or an option is out of its range.
    """
    use, kind, options = _found(table)
    made: ValueModel = build(f"critic {use!r}", kind, {**defaults, **options}, lm)
    return made


def _found(table: Mapping[str, Any]) -> tuple[str, Any, dict[str, Any]]:
    """The name, the class and the options."""
    options = dict(table)
    use = options.pop("use", DEFAULT)
    if not isinstance(use, str) or (use not in CRITICS and ":" not in use):
        raise CardError(unknown("critic", str(use), CRITICS) + ", or 'package.module:Class'")
    kind = load_known(CRITICS[use]) if use in CRITICS else load_object(use)
    check_fits("critic", use, kind, ("values", "fit", "tensors", "load_tensors"))
    if not inspect.isclass(kind):
        raise CardError(f"{use!r} is no class: a critic is made of the model that it is given")
    names = _options(kind)
    for name in options:
        if name not in names:
            raise CardError(unknown(f"option of critic {use!r}", name, names))
    return use, kind, options


def _options(kind: type) -> list[str]:
    """Options of a class: those that its constructor, and what that hands the rest on to, take by
    name."""
    names: list[str] = []
    for base in kind.__mro__:
        if (own := vars(base).get("__init__")) is None or not inspect.isfunction(own):
            continue
        parameters = list(inspect.signature(own).parameters.values())[2:]  # itself, the model
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names += [p.name for p in parameters if p.kind in named]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return [name for name in dict.fromkeys(names) if name != "size"]
