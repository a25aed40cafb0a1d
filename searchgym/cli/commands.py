"""The tree of commands: each is imported when it is asked for, and its help page is plain."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..errors import CardError
from ..objects import load_known
from ..plugins import Registry

COMMANDS = Registry("command", package="searchgym.cli")
"""Name → command; ``"world export"`` is the command ``export`` of the group ``world``, and what
``"data"`` names beside ``"data get"`` is run where no command of the group is named."""
PANELS = {
    "Look": ("list", "show", "play", "search", "view", "watch", "doctor"),
    "Measure": ("eval", "compare", "transfer", "report", "retrieve", "check", "leaderboard",
                "verify"),
    "Train": ("quickstart", "train", "speedrun", "simulator"),
    "Data and servers": ("data", "tasks", "models", "corpus", "world", "export", "serve", "cache"),
}  # fmt: skip
"""Panel of the first help page → its commands, in this order; those of other distributions follow
in a panel of their own."""
MORE = ("audit", "certify", "knower", "lab", "law", "score", "warmstart")
"""Commands that the first help page names in a line."""
GROUPS = {
    "corpus": "Index and inspect corpora.",
    "simulator": "A language model that plays the search engine.",
    "tasks": "Questions made from your own text, by rules: no labels, no model.",
    "world": "Generate, inspect and export worlds and graphs; searchgym view shows one in the "
    "browser.",
}
"""Help of the groups that do nothing by themselves."""
FORMER = {
    "graph": "world inspect GRAPH -e ENTITY, or world path GRAPH A B",
    "world browse": "view WORLD",
    "eval --agent-set": "-s agent.KEY=VALUE",
    "eval -A": "-s agent.KEY=VALUE",
    "eval --judge": "-s judge.KEY=VALUE, once for each",
    "transfer --agent-set": "-s agent.KEY=VALUE",
    "transfer -A": "-s agent.KEY=VALUE",
    "transfer --train": "-s train.KEY=VALUE",
    "transfer -t": "-s train.KEY=VALUE",
    "train --lr": "-s train.lr=RATE",
    "train --lora": "-s lora.rank=RANK",
    "train --lora-alpha": "-s lora.alpha=SCALE",
    "train --lora-targets": "-s lora.targets=q_proj,v_proj",
    "train --dtype": "-s dtype=DTYPE",
    "train --device": "-s device=DEVICE",
    "train --renderer": "-s renderer=FORMAT",
    "train --teacher": "-s teacher=MODEL",
    "train --role": "-s roles.ROLE=MODEL",
    "serve --max-wait-ms": "--max-wait-s SECONDS",
    "retrieve --queries-number": "--number N",
}
"""Former spelling → what is typed now."""
_WORDS = {"int": "N", "float": "X", "Path": "PATH"}


class Commands(dict[str, Any]):
    """Name → command of a group, made when it is asked for."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self.prefix = prefix

    def __iter__(self) -> Iterator[str]:
        below = [n.removeprefix(self.prefix) for n in COMMANDS if n.startswith(self.prefix)]
        names = dict.fromkeys(name.partition(" ")[0] for name in below)
        placed = [*_places(), *MORE]
        key = {name: placed.index(name) if name in placed else len(placed) for name in names}
        return iter(sorted(names, key=lambda name: key[name]) if not self.prefix else names)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, name: str) -> Any:
        return _made(self.prefix + name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a command, or ``default`` where there is none of this name."""
        path = self.prefix + name
        if path in FORMER:
            raise CardError(f"'{path}' is gone; type now: searchgym {FORMER[path]}")
        return _made(path) if _is_group(path) or path in COMMANDS else default

    def keys(self) -> Any:
        return list(iter(self))

    def items(self) -> Any:
        return [(name, self[name]) for name in self]


def former_option(command: str, option: str) -> str | None:
    """Return what is typed now in place of a command's former option."""
    path = f"{command.partition(' ')[2]} {option}"
    return f"{option} is {FORMER[path]} now" if path in FORMER else None


def _places() -> dict[str, str]:
    return {name: panel for panel, names in PANELS.items() for name in names}


def _is_group(path: str) -> bool:
    """Those of plug-ins are not read for names that are shipped."""
    return any(name.startswith(f"{path} ") for name in COMMANDS.shipped)


@cache
def _made(path: str) -> Any:
    shipped = COMMANDS.shipped
    group = _is_group(path)
    item = load_known(COMMANDS[path]) if not group or path in shipped else _help
    name = path.rpartition(" ")[2]
    if isinstance(item, typer.Typer):
        made = _of_application(item)
    elif group:
        kind = type("Group", (PlainGroup,), {"prefix": f"{path} "})
        app = typer.Typer(cls=kind, rich_markup_mode="rich", add_completion=False)
        about = GROUPS.get(path, item.__doc__)
        app.callback(invoke_without_command=True, help=about, epilog=_epilog(item), cls=kind)(item)
        made = typer.main.get_command(app)
    else:
        app = typer.Typer(rich_markup_mode="rich", add_completion=False)
        app.command(name, cls=PlainCommand, epilog=_epilog(item))(item)
        made = typer.main.get_command(app)
    made.name = name
    made.hidden = path in MORE or made.hidden
    if " " not in path:
        made.rich_help_panel = _places().get(path, "More")
    return made


def _epilog(item: Any) -> str | None:
    return getattr(item, "epilog", None)


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _of_application(app: typer.Typer) -> Any:
    """The command, or group, of a plug-in's application."""
    app._add_completion = False
    app.info.cls = PlainGroup
    if app.registered_callback is not None:
        app.registered_callback.cls = PlainGroup
    for command in app.registered_commands:
        command.cls = PlainCommand
    return typer.main.get_command(app)


# --- help pages -----------------------------------------------------------------------------------
class PlainCommand(TyperCommand):
    """A command whose help shows what an option takes, and nothing beside a flag."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = _flowing(self.help)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, --help among them."""
        return _plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands, shown likewise; with a ``prefix``, of those registered below it."""

    prefix: str | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = _flowing(self.help)
        if self.prefix is not None:
            self.commands = Commands(self.prefix)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, --help among them."""
        return _plain(super().get_params(ctx))


class Root(PlainGroup):
    """The group of all commands."""

    prefix = ""


def _flowing(text: str | None) -> str | None:
    """Each paragraph in one line, so that it breaks where the terminal ends rather than also where
    the source does; indented ones stay as they are."""
    if text is None:
        return None
    paragraphs = cleandoc(text).split("\n\n")
    return "\n\n".join(
        p if any(line.startswith((" ", "- ")) for line in p.splitlines()) else p.replace("\n", " ")
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
