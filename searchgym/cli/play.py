"""``searchgym play``: a person answers questions in the terminal."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..envs.info import outcome_info
from ..plugins import register
from .options import Overrides, overrides
from .output import (
    JsonFlag,
    console,
    counted,
    plain,
    print_json,
    typed_line,
    with_examples,
    working,
)
from .targets import is_documents, make_search_env

if TYPE_CHECKING:
    from rich.console import Console

    from ..envs.search import SearchEnv
    from ..types import Hit, Segment

PROMPT = "› "
QUIT = ("quit", "exit", "q", ":q")
_ACTION = re.compile(r"^\s*(search|access|answer|judge|delegate)\s*:", re.IGNORECASE)
_OPEN = re.compile(r"^open\s+(\d+)$", re.IGNORECASE)
_FEW = 3  # letters: shorter words are too common to be worth a colour


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
    from .search import loop, searchable

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
    game = Game(made, partial(typed_line, PROMPT), console(stderr=as_json), echo=not interactive)
    limit = episodes or (None if interactive and task is None else 1)
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


class Game:
    """Plays episodes of a ``SearchEnv`` in the plain dialect with the person whom ``read`` asks.

    ``read`` returns a line, or None when there will be no more. With ``echo`` the lines are printed
    too, so that a piped game reads like one that was typed.
    """

    def __init__(
        self, env: SearchEnv, read: Callable[[], str | None], out: Console, *, echo: bool = False
    ) -> None:
        self.env, self._read, self._print, self._echo = env, read, out.print, echo
        self.outcomes: list[dict[str, Any]] = []
        self.hints = 0
        self._hits: tuple[Hit, ...] = ()
        self._shown = 0  # segments of the episode printed so far

    def welcome(self) -> None:
        """One line on how to play."""
        self._print(
            f"[dim]{len(self.env.tasks):,} questions over {len(self.env.corpus):,} passages. Type "
            "what you look for; [bold]answer: …[/bold] ends it; [bold]help[/bold] says more.[/dim]"
        )

    def play(self, seed: int | None = None, task: str | None = None) -> bool:
        """One question. False if the person left before its end."""
        self.env.reset(seed=seed, options={"task_id": task} if task else None)
        self._hits, self._shown = (), len(self.env.episode.contexts.segments)
        asked = self.env.episode.config.task.question
        self._print()
        self._panel(asked, f"Question {len(self.outcomes) + 1}", "cyan", self._budget())
        while self.env.episode.phase != "done":
            if (line := self._line()) is None:
                return False
            if (action := self._action(line.strip())) is not None:
                self.env.step(action)
                self._news()
        self._verdict()
        return True

    def again(self) -> bool:
        """Return whether the person wants another question."""
        self._print("[dim]Enter: another question · quit: stop[/dim]")
        return self._line() is not None

    def score(self) -> None:
        """The session in one line."""
        n = len(self.outcomes)
        if not n:
            self._print("[dim]No question finished, no score.[/dim]")
            return
        right = sum(o["em"] == 1.0 for o in self.outcomes)
        f1 = sum(o["f1"] for o in self.outcomes) / n
        hints = f" · {counted(self.hints, 'hint')}" if self.hints else ""
        searches = counted(sum(o["queries"] for o in self.outcomes), "search", "searches")
        self._print(
            f"[bold]Score: {right} of {n} right[/bold] · mean F1 {f1:.2f} · {searches}{hints}"
        )

    # --- what is typed ------------------------------------------------------------------------
    def _line(self) -> str | None:
        line = self._read()
        if line is not None and self._echo:
            self._print(f"› {line}", markup=False)
        return None if line is None or line.strip().lower() in QUIT else line

    def _action(self, line: str) -> str | None:
        """The plain dialect's line for what was typed; None if it was no move."""
        word, episode = line.lower(), self.env.episode
        if not line or word in ("help", "?", "h"):
            self._help()
        elif word == "hint":
            from rich.markup import escape

            self.hints += 1
            self._print(f"[magenta]The oracle would type[/magenta]  {escape(self.env.oracle()[0])}")
        elif match := _OPEN.match(line):
            return self._open(int(match[1]))
        elif _ACTION.match(line):
            return line
        elif episode.turns_left > 1 and episode.queries_left != 0:
            return f"search: {line}"
        else:
            self._print("[yellow]No searches left: [bold]answer: …[/bold][/yellow]")
        return None

    def _open(self, number: int) -> str | None:
        if "access" not in self.env.toolbox.tools:
            self._print("[yellow]Pages cannot be opened here, only searched.[/yellow]")
        elif not 1 <= number <= len(self._hits):
            self._print(f"[yellow]There is no result {number} to open.[/yellow]")
        else:
            return f"access: {self._hits[number - 1].passage.url}"
        return None

    def _help(self) -> None:
        rules = self.env.rules
        rows = {
            "any text": "search for it (also: search: …)",
            "open 2": "open the page of result 2 (also: access: URL)",
            "a ## b": "search for several things at once",
            "answer: …": "give your answer; the shorter the better",
            "answer: unanswerable": "refuse, if no answer can be established",
            "hint": "what the oracle would do now",
            "quit": "leave",
        }
        absent = {
            "open 2": "access" not in self.env.toolbox.tools,
            "a ## b": rules.max_parallel == 1,
            "answer: unanswerable": not rules.may_abstain,
        }
        for typed, meaning in rows.items():
            if not absent.get(typed):
                self._print(f"  [bold cyan]{typed:<20}[/bold cyan] {meaning}")

    # --- what is shown ------------------------------------------------------------------------
    def _panel(self, text: str, title: str, colour: str, below: str = "") -> None:
        from rich.markup import escape
        from rich.panel import Panel

        self._print(
            Panel(
                f"[bold]{escape(text)}[/bold]", title=f"[{colour}]{title}[/{colour}]",
                subtitle=below and f"[dim]{below}[/dim]", border_style=colour, padding=(1, 2),
            )
        )  # fmt: skip

    def _budget(self) -> str:
        episode = self.env.episode
        left = episode.queries_left
        searches = "" if left is None else f" · {left} searches left"
        return f"{counted(episode.turns_left, 'turn')} left{searches}"

    def _news(self) -> None:
        segments = self.env.episode.contexts.segments
        for segment in segments[self._shown :]:
            if segment.author == "env" and segment.visible:
                self._segment(segment)
        self._shown = len(segments)
        if self.env.episode.phase != "done":
            last = self.env.episode.turns_left == 1
            warning = "  [bold yellow]Last turn: answer now.[/bold yellow]" if last else ""
            self._print(f"[dim]{self._budget()}[/dim]{warning}")

    def _segment(self, segment: Segment) -> None:
        if segment.kind == "results":
            self._hits = segment.hits
            self._results()
        elif segment.kind != "instructions":
            style = {"page": "white", "invalid": "red", "missing": "red"}.get(segment.kind)
            self._print(segment.text.strip(), markup=False, style=style)

    def _results(self) -> None:
        from rich.padding import Padding
        from rich.text import Text

        if not self._hits:
            self._print("[yellow]Nothing found.[/yellow]")
        words = self._words()
        for i, hit in enumerate(self._hits, 1):
            self._print(
                Text.assemble(
                    (f"{i} ", "cyan"), (hit.passage.title, "bold"), (f"  {hit.score:.1f}", "dim")
                )
            )
            body = Text(hit.passage.text)
            if words:
                body.highlight_regex(rf"(?i)\b(?:{'|'.join(words)})\w*", "bold green")
            self._print(Padding(body, (0, 0, 0, 2)))

    def _words(self) -> list[str]:
        """Words of the question and the last query that results are marked by."""
        turns = self.env.episode.turns
        text = f"{self.env.episode.config.task.question} {turns[-1].text if turns else ''}"
        words = {w.lower() for w in re.findall(r"\w+", text) if len(w) > _FEW}
        return [re.escape(w) for w in sorted(words - {"search", "what", "which", "whose"})]

    def _verdict(self) -> None:
        episode, corpus = self.env.episode, self.env.corpus
        task, outcome = episode.config.task, outcome_info(episode)
        title, colour = "Right", "green"
        if outcome["em"] != 1.0:
            colour = "red"
            title = (
                f"Not quite (F1 {outcome['f1']:.2f})" if outcome["end"] == "answered"
                else f"Out of budget ({outcome['end']})"
            )  # fmt: skip
        pages = [corpus.passage(e).title for e in task.evidence if e in corpus]
        way = f"it stands in {' → '.join(pages)}" if pages else "no page is known to hold it"
        took = counted(episode.queries, "search", "searches")
        self._panel(f"The answer: {task.answers[0]}\n{took}; {way}", title, colour)
        self.outcomes.append(
            {"task_id": task.id, "question": task.question, "queries": episode.queries}
            | plain({k: v for k, v in outcome.items() if k != "infra_error"})
        )
