"""``searchgym play``: a person answers questions in the terminal."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..plugins import register
from .options import Overrides, overrides
from .output import JsonFlag, print_json, with_examples, working
from .targets import make_search_env

PROMPT = "› "


@register("play")
@with_examples(
    "searchgym play",
    "searchgym play LongSearchQA-v0 --seed 7",
    "printf 'search: Rome\\nanswer: Italy\\n' | searchgym play SimpleQA-v0 --json",
)
def play(
    env: Annotated[
        str, typer.Argument(metavar="ENV", help="Environment to play, or a folder to search in.")
    ] = "SearchQA-v0",
    seed: Annotated[int | None, typer.Option(help="The same seed asks the same questions.")] = None,
    task: Annotated[str | None, typer.Option(help="Play the task of this id.")] = None,
    episodes: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after so many questions (default: ask; piped: 1)."),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Write your trajectories here, one JSON line each.")
    ] = None,
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """Play an environment yourself: search, read, answer, see your score.

    Type what you look for and press Enter; [bold]answer: …[/bold] ends the question,
    [bold]hint[/bold] shows what the oracle would do, [bold]help[/bold] the rest. Works piped, too.
    """
    from ..core.trajectory import Trajectory, write_jsonl
    from .game import Game
    from .output import console
    from .search import is_documents, loop, searchable

    if is_documents(env):  # documents without questions: a person looks around in them
        with working(f"reading {env} …"):
            corpus, searches = searchable(env, {"name": "bm25", **overrides(settings)})
        loop(corpus, searches)
        return
    with working(f"building {env} …"):
        made = make_search_env(env, settings, stepped=True, dialect="plain")
    interactive = sys.stdin.isatty()
    if interactive:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  (arrow keys and history in input())
    game = Game(made, _read_line, console(stderr=as_json), echo=not interactive)
    limit = episodes or (None if interactive or task is None else 1)
    if not interactive and episodes is None:
        limit = 1
    trajectories = []
    game.welcome()
    while limit is None or len(game.outcomes) < limit:
        finished = game.play(seed if not game.outcomes else None, task)
        if made.episode.turns:
            trajectories.append(Trajectory.of(made.episode, purpose="play"))
        if not finished or (limit is None and not game.again()):
            break
    game.score()
    if record is not None:
        write_jsonl(record, trajectories)
    if as_json:
        print_json({"env": env, "episodes": game.outcomes, "hints": game.hints})


def _read_line() -> str | None:
    """The next line a person typed; None at the end of the input."""
    try:
        return input(PROMPT) if sys.stdin.isatty() else _piped()
    except EOFError:
        return None


def _piped() -> str | None:
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None
