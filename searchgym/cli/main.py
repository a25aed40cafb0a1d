"""The ``searchgym`` command's entry point: runs commands, turns errors into exit codes."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import gymnasium as gym
import typer

from ..errors import MissingExtraError, SearchGymError
from ..objects import also_look_in
from ..storage.files import out_of_space
from ..text import printable
from ..utils.version import __version__
from .commands import MORE, Root, former_option
from .output import examples, plain_warnings, print_anything

BAD_INPUT, INTERRUPTED = 2, 130
DOWNLOADS = ("data", "models")
"""Commands whose downloads get a bar; loading gets none."""
_QUIET = {
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "HF_HUB_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}
_NOISY = r"(transformers|huggingface_hub|sentence_transformers|tokenizers|torch|tqdm|peft)\b"


def build() -> typer.Typer:
    """The application with every command."""
    app = typer.Typer(
        name="searchgym",
        cls=Root,
        help="Gymnasium environments in which search agents are trained and compared.\n\n"
        "First time? [bold]searchgym quickstart[/bold] trains an agent and measures it.",
        epilog=f"More commands: {', '.join(MORE)}.\n\n"
        + examples(
            "searchgym quickstart",
            "searchgym list",
            "searchgym play SearchQA-v0",
            "searchgym eval SearchQA-v0 -a rules",
            "searchgym train smollm --out runs/smollm",
            "searchgym train grpo --model Qwen/Qwen2.5-0.5B-Instruct -s lora.rank=16 --out runs/x",
        ),
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True, cls=Root)
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
        if context.invoked_subcommand not in DOWNLOADS:
            os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return app


@functools.cache
def command() -> Callable[..., Any]:
    """Return what parses and runs command lines, made once a process."""
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


def quiet_libraries() -> None:
    """Ask libraries, before they are loaded, to print errors only.

    Notes for developers ("this argument will be removed", "a faster kernel could be installed")
    tear live tables, and a user of the command line cannot act on them. What the user has set
    stands: ``TRANSFORMERS_VERBOSITY=info`` or ``python -W default`` shows everything.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if sys.warnoptions:
        return
    for kind in (FutureWarning, DeprecationWarning, PendingDeprecationWarning):
        warnings.simplefilter("ignore", kind)
    warnings.filterwarnings("ignore", module=_NOISY)
    warnings.filterwarnings("ignore", message="IProgress not found")  # tqdm blames its caller


def _say_of(error: Exception) -> None:
    """Exit with one line where an error is the person's, or the disk's; return where it is ours."""
    if isinstance(error, typer.Abort):
        _fail("interrupted", INTERRUPTED)
    if hasattr(error, "format_message"):  # an error in the command line itself
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "searchgym"
        former = former_option(command, getattr(error, "option_name", ""))
        _fail(f"{former or error.format_message()} (try '{command} --help')", BAD_INPUT)
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
