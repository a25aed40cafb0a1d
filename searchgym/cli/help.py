"""Layout of help pages: commands in panels, no type beside flags, examples a line each."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

PANELS = {
    "Look": ("list", "show", "play", "search", "view", "watch", "world", "corpus", "graph"),
    "Measure": ("eval", "compare", "transfer", "report", "leaderboard", "verify", "score",
                "retrieve", "audit", "check", "certify", "lab", "law"),
    "Train": ("quickstart", "train", "warmstart", "knower", "simulator"),
    "Data and servers": ("data", "models", "export", "serve", "cache"),
}  # fmt: skip
"""Panel of the help page → its commands, in this order."""
_LAST = (len(PANELS) * 100, "More")
_WORDS = {"int": "N", "float": "X", "Path": "PATH"}


class PlainCommand(TyperCommand):
    """A command whose help shows what an option takes, and nothing beside a flag."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = _flowing(self.help)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, --help among them."""
        return _plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands, shown likewise."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = _flowing(self.help)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, --help among them."""
        return _plain(super().get_params(ctx))


def _flowing(text: str | None) -> str | None:
    """Each paragraph in one line, so that it breaks where the terminal ends rather than also where
    the source does; indented ones stay as they are."""
    if text is None:
        return None
    paragraphs = cleandoc(text).split("\n\n")
    return "\n\n".join(
        p if any(line.startswith((" ", "-")) for line in p.splitlines()) else p.replace("\n", " ")
        for p in paragraphs
    )


def _plain(params: list[Any]) -> list[Any]:
    for param in params:
        if param.param_type_name == "argument":
            param.display_type_rich = lambda ctx: None  # its name says what it is
        elif param.metavar is None:
            param.metavar = "" if param.is_flag else _WORDS.get(_type_of(param), "TEXT")
    return params


def _type_of(param: Any) -> str:
    """Name of what an option takes; typer has named it in two ways."""
    name = param.bare_type() if hasattr(param, "bare_type") else param.type.name
    return str(name).removeprefix("list[").removesuffix("]").partition(" ")[0]


def arrange(app: typer.Typer) -> None:
    """Sort an application's commands into panels, and make every help page plain. A command that
    no panel names comes last."""
    place = {
        name: (number, panel)
        for number, (panel, name) in enumerate((p, n) for p, names in PANELS.items() for n in names)
    }
    named: list[Any] = [*app.registered_commands, *app.registered_groups]
    for info in named:
        info.rich_help_panel = place.get(_name(info), _LAST)[1]
    app.registered_commands.sort(key=lambda info: place.get(_name(info), _LAST)[0])
    _make_plain(app)


def _make_plain(app: typer.Typer) -> None:
    app.info.cls = PlainGroup
    if app.registered_callback is not None:
        app.registered_callback.cls = PlainGroup
    for command in app.registered_commands:
        command.cls = PlainCommand
    for group in app.registered_groups:
        group.cls = PlainGroup
        if group.typer_instance is not None:
            _make_plain(group.typer_instance)


def _name(info: Any) -> str:
    return info.name or str(info.callback.__name__).replace("_", "-")
