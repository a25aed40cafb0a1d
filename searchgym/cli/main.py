"""The ``searchgym`` command's entry point: builds the application, turns errors into exit codes."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import gymnasium as gym
import typer

from .._version import __version__
from ..errors import MissingExtraError, SearchGymError
from ..objects import also_look_in, load_known
from ..plugins import Registry
from ..storage.files import out_of_space
from ..text import printable
from . import (
    cache,
    catalog,
    check,
    compare,
    corpus,
    data,
    evaluate,
    formats,
    graph,
    learn,
    models,
    play,
    report,
    retrieve,
    search,
    serve,
    show,
    simulator,
    transfer,
    view,
    watch,
    world,
)
from .help import arrange
from .libraries import quiet_libraries
from .output import examples, plain_warnings, print_anything

BAD_INPUT, INTERRUPTED = 2, 130


def build() -> typer.Typer:
    """The application with every command."""
    app = typer.Typer(
        name="searchgym",
        help="Gymnasium environments in which search agents are trained and compared.\n\n"
        "First time? [bold]searchgym quickstart[/bold] trains an agent and measures it.",
        epilog=examples(
            "searchgym quickstart",
            "searchgym list",
            "searchgym play SearchQA-v0",
            "searchgym eval SearchQA-v0 -a rules",
            "searchgym train smollm --out runs/smollm",
            "searchgym train grpo --model Qwen/Qwen2.5-0.5B-Instruct --lora 16 --out runs/x",
        ),
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def root(
        context: typer.Context,
        version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
        traceback: Annotated[
            bool, typer.Option("--traceback", help="Show where an error came from.")
        ] = False,
    ) -> None:
        if version:
            typer.echo(f"searchgym {__version__}")
            raise typer.Exit
        if traceback:
            os.environ["SEARCHGYM_TRACEBACK"] = "1"
        quiet_libraries()
        if context.invoked_subcommand not in (
            "data",
            "models",
        ):  # a download deserves a bar, loading does not
            os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    for module in (
        catalog,
        show,
        play,
        search,
        retrieve,
        evaluate,
        compare,
        formats,
        learn,
        watch,
        transfer,
        report,
        check,
        serve,
        view,
    ):
        module.add_to(app)
    app.add_typer(world.app, name="world")
    app.add_typer(corpus.app, name="corpus")
    app.add_typer(graph.app, name="graph")
    app.add_typer(data.app, name="data")
    app.add_typer(models.app, name="models")
    app.add_typer(cache.app, name="cache")
    app.add_typer(simulator.app, name="simulator")
    for name, path in Registry("command", package="searchgym.cli").items():
        _add(app, name, load_known(path))
    arrange(app)
    return app


def _add(app: typer.Typer, name: str, added: Any) -> None:
    """Add a plug-in's command: a function, an application of one command, or a group of several."""
    if not isinstance(added, typer.Typer):
        app.command(name, epilog=getattr(added, "epilog", None))(added)
    elif len(added.registered_commands) == 1 and not added.registered_callback:
        (only,) = added.registered_commands
        only.name = name
        app.registered_commands.append(only)
    else:
        app.add_typer(added, name=name)


@functools.cache
def command() -> Callable[..., Any]:
    """Return what parses and runs command lines. It reads every command's signature, so it is made
    once a process."""
    return typer.main.get_command(build())


def run(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a check failed, 2 an error in what was asked,
    3 not all could be checked (``verify``)."""
    with suppress(FileNotFoundError):  # somebody deleted the folder
        also_look_in(os.getcwd())  # mine:agent is mine.py of this folder; last, it shadows nothing
    plain_warnings()
    print_anything()
    try:
        result: Any = command()(arguments, standalone_mode=False, prog_name="searchgym")
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except (SearchGymError, gym.error.Error) as error:
        if os.environ.get("SEARCHGYM_TRACEBACK"):
            raise
        _fail(str(error), BAD_INPUT)
    except BrokenPipeError:  # `searchgym list | head`: the reader has gone, nothing to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        _say_of(error)
        raise
    code = result if isinstance(result, int) else 0
    if code == INTERRUPTED:  # newer typer versions turn Ctrl-C into an exit code themselves
        _fail("interrupted", INTERRUPTED)
    sys.exit(code)


def _say_of(error: Exception) -> None:
    """Exit with one line where an error is the person's, or the disk's; return where it is ours."""
    if isinstance(error, typer.Abort):
        _fail("interrupted", INTERRUPTED)
    if hasattr(error, "format_message"):  # an error in the command line itself
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "searchgym"
        _fail(f"{error.format_message()} (try '{command} --help')", BAD_INPUT)
    if os.environ.get("SEARCHGYM_TRACEBACK"):
        return
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        _fail(str(MissingExtraError(f"this command ({error.name})", "all")), BAD_INPUT)
    if (full := out_of_space(error)) is not None:
        _fail(full, BAD_INPUT)
    if isinstance(error, OSError) and error.filename is not None:  # no such file, not writable
        _fail(f"{error.filename}: {error.strerror}", BAD_INPUT)


def _fail(message: str, code: int) -> None:
    line = " ".join(printable(message).split())
    print(f"searchgym: {line}", file=sys.stderr)
    sys.exit(code)
