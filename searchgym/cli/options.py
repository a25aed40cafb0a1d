"""Options of commands: those that several share, and those made from the fields of a dataclass."""

from __future__ import annotations

import ast
import copy
import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

from ..errors import CardError

Made = TypeVar("Made", bound=Callable[..., Any])

EnvId = Annotated[
    str, typer.Argument(metavar="ENV", help="An environment's id, module:id or card folder.")
]
CorpusName = Annotated[
    str, typer.Argument(metavar="CORPUS", help="A corpus card's name, a passage file, a folder.")
]
Split = Annotated[str | None, typer.Option(help="Split (default: train; real sets: public).")]
Least1 = Annotated[int, typer.Option(min=1)]
Maybe1 = Annotated[int | None, typer.Option(min=1)]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run code that the files read here name by import path. Without it, they may name "
        "registered items only.",
    ),
]
DataDir = Annotated[
    Path | None, typer.Option(help="Folder of real sets (default: SEARCHGYM_DATA or the cache).")
]
Seconds = Annotated[
    float | None,
    typer.Option(
        min=1, help="Stop training after so many seconds. Runs are reproducible only without it."
    ),
]


def set_option(about: str) -> Any:
    """The option ``--set`` of a command, for ``Annotated[Settings, set_option(…)]``."""
    return typer.Option("--set", "-s", metavar="KEY=VALUE", help=f"{about} Repeatable.")


Settings = list[str] | None
Overrides = Annotated[
    Settings, set_option("Override an environment option; dots nest: world.entities=2000.")
]


# --- KEY=VALUE ------------------------------------------------------------------------------------
_NUMBER = re.compile(r"[-+]?(\d++(?:\.\d*+)?|\.\d++)(e[-+]?\d++)?", re.IGNORECASE)


def overrides(settings: Sequence[str] | None, example: str = "max_turns=4") -> dict[str, Any]:
    """``["k=5", "world.entities=2000"]`` as keywords. Values are JSON where they can be."""
    out: dict[str, Any] = {}
    for setting in settings or ():
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise CardError(f"--set takes KEY=VALUE, got {setting!r}; for example --set {example}")
        value = _value(text)
        *path, last = key.split(".")
        into = out
        for part in path:
            into = into.setdefault(part, {})
            if not isinstance(into, dict):
                raise CardError(f"--set {key}: {part!r} is set twice, to a value and to a table")
        into[last] = value
    return out


def settings_of(settings: Sequence[str] | None, *items: str) -> tuple[list[str], ...]:
    """Divide settings: those of no item first, then those that begin with each item's name,
    ``agent.temperature=0.7``, without it."""
    rest = list(settings or ())
    parts = []
    for item in items:
        own = [text for text in rest if text.startswith(f"{item}.")]
        parts.append([text.removeprefix(f"{item}.") for text in own])
        rest = [text for text in rest if text not in own]
    return (rest, *parts)


def json_or_text(text: Any) -> Any:
    """A JSON object where it is one, else the text."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise CardError(f"{text!r} is no JSON object: {error}") from None


def _value(text: str) -> Any:
    """JSON or an inline value of TOML (``[{id = "NQ-v0", weight = 1}]``) where it is some; ``.28``
    and ``5.`` are numbers, too."""
    try:
        return json.loads(text)
    except ValueError:
        if text[:1] in ("[", "{"):
            with suppress(tomllib.TOMLDecodeError):
                return tomllib.loads(f"value = {text}")["value"]
        if text[:1] == "{" and text[-1:] == "}" and re.search(r"[:=]", text):
            raise CardError(
                f'{text:.80} is no table: write {{name=5}}, or {{"name": 5}}, in single quotes'
            ) from None
        return float(text) if _NUMBER.fullmatch(text) else text


# --- options of dataclasses -----------------------------------------------------------------------
def fills(
    parameter: str, kind: Any, names: Mapping[str, str] | None = None, leave: Sequence[str] = ()
) -> Callable[[Made], Made]:
    """Give a command an option for each field of a dataclass or named tuple, in place of the one
    parameter that gets it. Types and defaults are those of the fields, help is the text below each.

    Args:
        parameter: The command's parameter.
        kind: The dataclass.
        names: Field → the option's name, where it is not the field's.
        leave: Fields that get no option.
    """
    tuples = {n for n, hint in get_type_hints(kind).items() if get_origin(hint) is tuple}
    called = {n: (names or {}).get(n, n) for n in _defaults(kind) if n not in leave}
    own = {name: _option(kind, name, option) for name, option in called.items()}

    def mark(command: Made) -> Made:
        signature = inspect.signature(command, eval_str=True)
        kept = [p for p in signature.parameters.values() if p.name != parameter]
        at = list(signature.parameters).index(parameter)
        keyword = inspect.Parameter.KEYWORD_ONLY
        every = [p.replace(kind=keyword) for p in (*kept[:at], *own.values(), *kept[at:])]

        @wraps(command)
        def run(**given: Any) -> Any:
            values = {name: given.pop(p.name, p.default) for name, p in own.items()}
            values |= {name: tuple(values[name] or ()) for name in values if name in tuples}
            return command(**given, **{parameter: kind(**values)})

        run.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in every}
        return run  # type: ignore[return-value]

    return mark


def _option(kind: Any, field: str, name: str) -> inspect.Parameter:
    """The parameter ``name`` of a command, with the option that fills a field."""
    hint, default = get_type_hints(kind, include_extras=True)[field], _defaults(kind)[field]
    option: OptionInfo = typer.Option()
    if get_origin(hint) is Annotated:
        hint, option = get_args(hint)[:2]
    elif hint is bool and default is False:  # a flag without an opposite
        option = typer.Option(f"--{name.replace('_', '-')}")
    elif get_origin(hint) is tuple:
        hint, default = list[str] | None, None
    elif hint is Any or len({*get_args(hint)} - {type(None)}) > 1:  # several types, as text
        hint = str | None
    option = copy.copy(option)
    option.help = _texts(kind).get(field)
    annotation: Any = Annotated[hint, option]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=annotation)


def _defaults(kind: Any) -> dict[str, Any]:
    if hasattr(kind, "_fields"):  # a named tuple
        return dict(kind._field_defaults)
    return {
        f.name: f.default_factory() if f.default_factory is not MISSING else f.default
        for f in fields(kind)
        if f.init
    }


@cache
def _texts(kind: Any) -> dict[str, str]:
    """Field → the text below it."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    found: dict[str, str] = {}
    for base in kind.__bases__:
        if hasattr(base, "__dataclass_fields__"):
            found |= _texts(base)
    for field, text in zip(node.body, node.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(said))):
                found[name] = " ".join(said.split()).replace("``", "")
    return found


def refuse_options(context: typer.Context, known: Collection[str], why: str) -> None:
    """``CardError`` for options that were typed and are none of the known ones."""
    for option in context.command.params:
        source = context.get_parameter_source(str(option.name))  # of typer's own click
        if option.name not in known and source is not None and source.name == "COMMANDLINE":
            raise CardError(f"{option.opts[0]} {why}")
