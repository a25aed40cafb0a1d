"""The game behind ``searchgym play``: reads lines, shows results, keeps the score."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..envs.info import outcome_info
from ..envs.search import SearchEnv
from ..types import Hit, Segment
from .output import plain

if TYPE_CHECKING:
    from rich.console import Console

_ACTION = re.compile(r"^\s*(search|access|answer|judge|delegate)\s*:", re.IGNORECASE)
_OPEN = re.compile(r"^open\s+(\d+)$", re.IGNORECASE)
QUIT = ("quit", "exit", "q", ":q")
_FEW = 3  # letters: shorter words are too common to be worth a colour


class Game:
    """Plays episodes of a ``SearchEnv`` in the plain dialect with the person whom ``read`` asks.

    ``read`` returns a line, or None when there will be no more. With ``echo`` the lines are printed
    too, so that a piped game reads like one that was typed.
    """

    def __init__(
        self, env: SearchEnv, read: Callable[[], str | None], out: Console, *, echo: bool = False
    ) -> None:
        self.env, self._read, self._out, self._echo = env, read, out, echo
        self.outcomes: list[dict[str, Any]] = []
        self.hints = 0
        self._hits: tuple[Hit, ...] = ()
        self._shown = 0  # segments of the episode printed so far

    def welcome(self) -> None:
        """One line on how to play."""
        corpus = self.env.corpus
        self._out.print(
            f"[dim]{len(self.env.tasks):,} questions over {len(corpus):,} passages. Type "
            "what you look for; [bold]answer: …[/bold] ends it; [bold]help[/bold] says more.[/dim]"
        )

    def play(self, seed: int | None = None, task: str | None = None) -> bool:
        """One question. False if the person left before its end."""
        self.env.reset(seed=seed, options={"task_id": task} if task else None)
        self._hits, self._shown = (), 0
        self._question()
        while self.env.episode.phase != "done":
            line = self._line()
            if line is None:
                return False
            action = self._action(line.strip())
            if action is None:
                continue
            self.env.step(action)
            self._news()
        self._verdict()
        return True

    def again(self) -> bool:
        """Return whether the person wants another question."""
        self._out.print("[dim]Enter: another question · quit: stop[/dim]")
        return self._line() is not None

    def score(self) -> None:
        """The session in one line."""
        n = len(self.outcomes)
        if not n:
            self._out.print("[dim]No question finished, no score.[/dim]")
            return
        right = sum(o["em"] == 1.0 for o in self.outcomes)
        f1 = sum(o["f1"] for o in self.outcomes) / n
        searches = sum(o["queries"] for o in self.outcomes)
        hints = f" · {self.hints} hint{'s' * (self.hints != 1)}" if self.hints else ""
        self._out.print(
            f"[bold]Score: {right} of {n} right[/bold] · mean F1 {f1:.2f} · "
            f"{searches} search{'es' * (searches != 1)}{hints}"
        )

    # --- what is typed ------------------------------------------------------------------------
    def _line(self) -> str | None:
        line = self._read()
        if line is not None and self._echo:
            self._out.print(f"› {line}", markup=False)
        return None if line is None or line.strip().lower() in QUIT else line

    def _action(self, line: str) -> str | None:
        """The plain dialect's line for what was typed; None if it was no move."""
        word = line.lower()
        if not line or word in ("help", "?", "h"):
            self._help()
        elif word == "hint":
            self._hint()
        elif match := _OPEN.match(line):
            return self._open(int(match[1]))
        elif _ACTION.match(line):
            return line
        elif self._can_search():
            return f"search: {line}"
        else:
            self._out.print("[yellow]No searches left: [bold]answer: …[/bold][/yellow]")
        return None

    def _can_search(self) -> bool:
        episode = self.env.episode
        return episode.turns_left > 1 and episode.queries_left != 0

    def _open(self, number: int) -> str | None:
        if "access" not in self.env.toolbox.tools:
            self._out.print("[yellow]Pages cannot be opened here, only searched.[/yellow]")
        elif not 1 <= number <= len(self._hits):
            self._out.print(f"[yellow]There is no result {number} to open.[/yellow]")
        else:
            return f"access: {self._hits[number - 1].passage.url}"
        return None

    def _help(self) -> None:
        tools = self.env.toolbox.tools
        rows = [("any text", "search for it (also: search: …)")]
        if "access" in tools:
            rows.append(("open 2", "open the page of result 2 (also: access: URL)"))
        if self.env.rules.max_parallel > 1:
            rows.append(("a ## b", "search for several things at once"))
        rows += [("answer: …", "give your answer; the shorter the better")]
        if self.env.rules.may_abstain:
            rows.append(("answer: unanswerable", "refuse, if no answer can be established"))
        rows += [("hint", "what the oracle would do now"), ("quit", "leave")]
        for typed, meaning in rows:
            self._out.print(f"  [bold cyan]{typed:<20}[/bold cyan] {meaning}")

    def _hint(self) -> None:
        from rich.markup import escape

        self.hints += 1
        actions = self.env.oracle()
        self._out.print(f"[magenta]The oracle would type[/magenta]  {escape(actions[0])}")

    # --- what is shown ------------------------------------------------------------------------
    def _question(self) -> None:
        from rich.markup import escape
        from rich.panel import Panel

        self._shown = len(self.env.episode.contexts.segments)
        task = self.env.episode.config.task
        self._out.print()
        self._out.print(
            Panel(
                f"[bold]{escape(task.question)}[/bold]",
                title=f"[cyan]Question {len(self.outcomes) + 1}[/cyan]",
                subtitle=f"[dim]{self._budget()}[/dim]",
                border_style="cyan",
                padding=(1, 2),
            )
        )

    def _budget(self) -> str:
        episode = self.env.episode
        left = episode.queries_left
        searches = "" if left is None else f" · {left} searches left"
        turns = episode.turns_left
        return f"{turns} turn{'s' * (turns != 1)} left{searches}"

    def _news(self) -> None:
        segments = self.env.episode.contexts.segments
        for segment in segments[self._shown :]:
            if segment.author == "env" and segment.visible:
                self._segment(segment)
        self._shown = len(segments)
        if self.env.episode.phase != "done":
            last = self.env.episode.turns_left == 1
            warning = "  [bold yellow]Last turn: answer now.[/bold yellow]" if last else ""
            self._out.print(f"[dim]{self._budget()}[/dim]{warning}")

    def _segment(self, segment: Segment) -> None:
        if segment.kind == "results":
            self._hits = segment.hits
            self._results(segment.hits)
        elif segment.kind == "page":
            self._out.print(segment.text.strip(), markup=False, style="white")
        elif segment.kind in ("invalid", "missing"):
            self._out.print(segment.text.strip(), markup=False, style="red")
        elif segment.kind != "instructions":
            self._out.print(segment.text.strip(), markup=False)

    def _results(self, hits: tuple[Hit, ...]) -> None:
        from rich.padding import Padding
        from rich.text import Text

        if not hits:
            self._out.print("[yellow]Nothing found.[/yellow]")
        words = self._words()
        for i, hit in enumerate(hits, 1):
            head = Text.assemble(
                (f"{i} ", "cyan"), (hit.passage.title, "bold"), (f"  {hit.score:.1f}", "dim")
            )
            self._out.print(head)
            body = Text(hit.passage.text)
            if words:
                body.highlight_regex(rf"(?i)\b(?:{'|'.join(words)})\w*", "bold green")
            self._out.print(Padding(body, (0, 0, 0, 2)))

    def _words(self) -> list[str]:
        """Words of the question and the last query that results are marked by."""
        turns = self.env.episode.turns
        text = f"{self.env.episode.config.task.question} {turns[-1].text if turns else ''}"
        words = {w.lower() for w in re.findall(r"\w+", text) if len(w) > _FEW}
        return [re.escape(w) for w in sorted(words - {"search", "what", "which", "whose"})]

    def _verdict(self) -> None:
        from rich.markup import escape
        from rich.panel import Panel

        episode = self.env.episode
        task, outcome = episode.config.task, outcome_info(episode)
        if outcome["em"] == 1.0:
            title, colour = "Right", "green"
        elif outcome["end"] == "answered":
            title, colour = f"Not quite (F1 {outcome['f1']:.2f})", "red"
        else:
            title, colour = f"Out of budget ({outcome['end']})", "red"
        lines = []
        if outcome["em"] != 1.0:
            lines.append(f"The answer: [bold]{escape(task.answers[0])}[/bold]")
        n = episode.queries
        lines.append(f"{n} search{'es' * (n != 1)}; {self._way()}")
        self._out.print(Panel("\n".join(lines), title=f"[bold]{title}[/bold]", border_style=colour))
        self.outcomes.append(
            {"task_id": task.id, "question": task.question, "queries": episode.queries}
            | plain({k: v for k, v in outcome.items() if k != "infra_error"})
        )

    def _way(self) -> str:
        """Return the pages that hold the answer, in hop order."""
        from rich.markup import escape

        corpus, evidence = self.env.corpus, self.env.episode.config.task.evidence
        titles = [corpus.passage(e).title for e in evidence if e in corpus]
        if not titles:
            return "no page is known to hold the answer"
        return "it stands in " + " → ".join(f"[italic]{escape(t)}[/italic]" for t in titles)
