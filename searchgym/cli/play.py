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

from ..dialects.base import get_dialect
from ..dialects.plain import Plain, without_forms
from ..envs.info import outcome_info
from ..envs.options import SELF
from ..errors import CardError
from ..evaluation.metrics import declared_shares, own_metric
from ..plugins import register
from ..types import OWN_ACTIONS, Call, Search
from ..utils.arguments import rejection_reason
from ..utils.terminal import print_pairs
from . import typed
from .options import Overrides, overrides
from .output import (
    JsonFlag,
    console,
    counted,
    cut,
    plain,
    print_json,
    summary,
    typed_line,
    with_examples,
    working,
)
from .targets import env_id, is_documents, make_search_env

if TYPE_CHECKING:
    from rich.console import Console

    from ..envs.search import SearchEnv
    from ..types import Hit, Segment, Task, ToolSpec

PROMPT = "› "
QUIT = ("quit", "exit", "q", ":q")
_ACTION = re.compile(r"^\s*(search|access|answer|judge|delegate|call)\s*:", re.IGNORECASE)
_OPEN = re.compile(r"^open\s+(\d+)$", re.IGNORECASE)
_TAGGED = re.compile(r"[^.\n]*</?\w+>[^.\n]*\.\s*")
_BRIEF, _BEST = 120, 5  # characters of a tool in the help; results after the end
_FEW = 3  # letters: shorter words are too common to be worth a colour


@register("play")
@with_examples(
    "searchgym play",
    "searchgym play LongSearchQA-v0 --seed 7",
    "searchgym play ServiceQA-v1 --seed 3",
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
    [bold]hint[/bold] shows what the oracle would do, [bold]rules[/bold] what an agent is told,
    [bold]help[/bold] the rest. Works piped, too.
    """
    from ..core.trajectory import Trajectory, write_jsonl
    from .search import loop, searchable

    if is_documents(env):  # documents without questions: a person looks around in them
        with working(f"reading {env} …"):
            corpus, searches = searchable(env, {"name": "bm25", **overrides(settings)})
        loop(corpus, searches)
        return
    with working(f"building {env} …"):
        made = _played(env, settings)
    interactive = sys.stdin.isatty()
    if interactive:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  (arrow keys and history in input())
    game = Game(made, partial(typed_line, PROMPT), console(stderr=as_json), echo=not interactive)
    limit = episodes or (None if interactive and task is None else 1)
    trajectories = []
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
        told = {"metric": game.metric, "score": game.mean(game.measure)}
        print_json({"env": env, **told, "episodes": game.outcomes, "hints": game.hints})


def _played(name: str, settings: list[str] | None) -> SearchEnv:
    """The environment in the dialect that a person types; ``CardError`` where none can be typed."""
    import gymnasium as gym

    own = overrides(settings)
    engine = {**gym.spec(env_id(name)).kwargs, **own}.get("engine")
    if (engine.get("name") if isinstance(engine, dict) else engine) == SELF:
        raise CardError(
            f"{name} cannot be played: it has no engine, its agents write the search results "
            "themselves; play one that searches, such as SearchQA-v0"
        )
    if not isinstance(get_dialect(own.get("dialect", "plain")), Plain):
        raise CardError("a person plays in the dialect 'plain'; leave out --set dialect=…")
    return make_search_env(name, settings, stepped=True, dialect="plain")


class Game:
    """Plays episodes of a ``SearchEnv`` in the plain dialect with the person whom ``read`` asks.

    ``read`` returns a line, or None when there will be no more. With ``echo`` the lines are printed
    too, so that a piped game reads like one that was typed.
    """

    def __init__(
        self, env: SearchEnv, read: Callable[[], str | None], out: Console, *, echo: bool = False
    ) -> None:
        self.env, self._read, self._out, self._echo = env, read, out, echo
        self._print = out.print
        self.outcomes: list[dict[str, Any]] = []
        self.hints = 0
        self._hits: tuple[Hit, ...] = ()
        self._shown = 0  # segments of the episode printed so far
        rules = env.rules.to_json()
        self.metric = own_metric(rules)
        self.measure = "return" if self.metric == "reward" else self.metric
        self._best = " of 1" if "reward" in declared_shares(rules) else ""

    def play(self, seed: int | None = None, task: str | None = None) -> bool:
        """One question. False if the person left before its end."""
        self.env.reset(seed=seed, options={"task_id": task} if task else None)
        self._hits, self._shown = (), len(self.env.episode.contexts.segments)
        asked = self.env.episode.config.task.question
        if not self.outcomes:
            self._welcome()
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

    def mean(self, name: str) -> float | None:
        """Mean of a measure over the questions so far; None before the first is over."""
        n = len(self.outcomes)
        return sum(o[name] for o in self.outcomes) / n if n else None

    def score(self) -> None:
        """The session in one line."""
        n, reward, f1 = len(self.outcomes), self.mean("return"), self.mean("f1")
        if not n:
            self._print("[dim]No question finished, no score.[/dim]")
            return
        parts = [f"mean reward {reward:.2f}{self._best}"]
        if self.metric != "reward":
            right = sum(o["em"] == 1.0 for o in self.outcomes)
            parts = [f"{right} of {n} right", f"mean F1 {f1:.2f}", *parts]
        parts.append(self._queries(sum(o["queries"] for o in self.outcomes)))
        parts += [counted(self.hints, "hint")] if self.hints else []
        self._print(f"[bold]Score: {parts[0]}[/bold]", *parts[1:], sep=" · ")

    # --- what is typed ------------------------------------------------------------------------
    def _line(self) -> str | None:
        line = self._read()
        if line is not None and self._echo:
            self._print(f"› {line}", markup=False)
        return None if line is None or line.strip().lower() in QUIT else line

    @property
    def _tools(self) -> dict[str, ToolSpec]:
        """The tools of whoever's turn it is."""
        return {tool.name: tool for (now,) in [self.env.requests()] for tool in now.tools}

    @property
    def _calls(self) -> dict[str, ToolSpec]:
        """Those that are used by calls."""
        return {name: tool for name, tool in self._tools.items() if name not in OWN_ACTIONS}

    def _action(self, line: str) -> str | None:
        """The plain dialect's line for what was typed; None if it was no move."""
        word = line.lower()
        if not line or word in ("help", "?", "h"):
            self._help()
        elif word == "rules":
            self._rules()
        elif word == "hint":
            self._hint()
        elif match := _OPEN.match(line):
            return self._open(int(match[1]))
        elif _ACTION.match(line):
            return line
        elif call := typed.read(line, self._calls):
            return self._call(call)
        elif "search" not in self._tools:
            self._print("[yellow]There is no search here; [bold]help[/bold] says what is.[/yellow]")
        else:
            return self._while_allowed(f"search: {line}")
        return None

    def _call(self, call: Call) -> str | None:
        """The dialect's line for a call; None, at no cost, where its arguments do not fit."""
        tools = self._calls
        if wrong := rejection_reason(tuple(tools.values()), call):
            self._print(
                f"{wrong}; type: {typed.form(tools[call.tool])}", markup=False, style="yellow"
            )
            return None
        return self._while_allowed(get_dialect(self.env.rules.dialect).render_action(call))

    def _while_allowed(self, action: str) -> str | None:
        episode = self.env.episode
        if episode.turns_left > 1 and episode.queries_left != 0:
            return action
        kind = "calls" if self._calls else "searches"
        self._print(f"[yellow]No {kind} left: [bold]answer: …[/bold][/yellow]")
        return None

    def _hint(self) -> None:
        from rich.markup import escape

        self.hints += 1
        line, tools = self.env.oracle()[0], self._calls
        action = get_dialect(self.env.rules.dialect).parse(line).action
        if isinstance(action, Call):
            line = typed.write(action, tools[action.tool]) or line
        # in one line, however long: it is there to be pasted
        self._print(f"[magenta]The oracle would type[/magenta]  {escape(line)}", soft_wrap=True)

    def _open(self, number: int) -> str | None:
        if "access" not in self._tools:
            self._print("[yellow]Pages cannot be opened here, only searched.[/yellow]")
        elif not 1 <= number <= len(self._hits):
            self._print(f"[yellow]There is no result {number} to open.[/yellow]")
        else:
            return f"access: {self._hits[number - 1].passage.url}"
        return None

    def _help(self) -> None:
        rules, tools = self.env.rules, self._tools
        search = "your query; it ends the question" if rules.one_search else "search for it"
        rows = {
            "any text": f"{search} (also: search: …)" if "search" in tools else "",
            "a ## b": "search for several things at once" if rules.max_parallel > 1 else "",
            "open 2": "open the page of result 2 (also: access: URL)" if "access" in tools else "",
            **{typed.form(t): cut(t.description, _BRIEF) for t in self._calls.values()},
            "judge: bad": "have the last results removed" if rules.judge else "",
            "delegate: …": "hand over a sub-task" if rules.delegate else "",
            "answer: …": "" if rules.one_search else "give your answer; it ends the question",
            "answer: unanswerable": "refuse, if no answer can be established"
            if rules.may_abstain else "",
            "rules": "what an agent is told of the task and its tools",
            "hint": "what the oracle would do now",
            "quit": "leave",
        }  # fmt: skip
        print_pairs(self._out, {k: v for k, v in rows.items() if v}, indent=2)

    def _rules(self) -> None:
        """What an agent is told, but for how its dialect writes actions."""
        self._print(self._task(), "", sep="\n", markup=False)
        print_pairs(
            self._out, {typed.form(t): typed.explained(t) for t in self._calls.values()}, indent=2
        )

    def _task(self) -> str:
        """The instructions without a dialect's forms; a prompt around the question as it is."""
        told = self.env.episode.contexts.segments[0].text
        return _TAGGED.sub("", without_forms(told)).strip()

    # --- what is shown ------------------------------------------------------------------------
    def _welcome(self) -> None:
        first = "Type what you look for"
        if "search" not in self._tools:
            first = f"Type {' or '.join(map(typed.form, self._calls.values())) or 'what you know'}"
        ends = "" if self.env.rules.one_search else "; [bold]answer: …[/bold] ends it"
        self._print(
            f"[dim]{len(self.env.tasks):,} questions over {len(self.env.corpus):,} passages. "
            f"{first}{ends}; [bold]help[/bold] says more.[/dim]\n"
        )
        self._print(self._task(), markup=False)

    def _queries(self, number: int) -> str:
        """What an episode counts: searches, and calls of other tools."""
        calls = any(tool.name not in OWN_ACTIONS for tool in self.env.rules.tools)
        return counted(number, "call") if calls else counted(number, "search", "searches")

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
        searches = "" if left is None else f" · {self._queries(left)} left"
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
            if isinstance(self.env.episode.turns[-1].action, Call):
                self._print(segment.text.strip(), markup=False)
            else:
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
        over = self.env.episode.phase == "done"  # what is left to read is the verdict
        for i, hit in enumerate(self._hits[:_BEST] if over else self._hits, 1):
            self._print(
                Text.assemble(
                    (f"{i} ", "cyan"), (hit.passage.title, "bold"), (f"  {hit.score:.1f}", "dim")
                )
            )
            body = Text(hit.passage.text)
            if words:
                body.highlight_regex(rf"(?i)\b(?:{'|'.join(words)})\w*", "bold green")
            self._print(Padding(body, (0, 0, 0, 2)))
        if over and len(self._hits) > _BEST:
            self._print(f"[dim]… and {len(self._hits) - _BEST} more[/dim]")

    def _words(self) -> list[str]:
        """Words of the question and the last query that results are marked by."""
        action = self.env.episode.turns[-1].action
        queries = action.queries if isinstance(action, Search) else ()
        text = " ".join([self.env.episode.config.task.question, *queries])
        words = {w.lower() for w in re.findall(r"\w+", text) if len(w) > _FEW}
        return [re.escape(w) for w in sorted(words - {"what", "which", "whose"})]

    def _verdict(self) -> None:
        episode, corpus = self.env.episode, self.env.corpus
        task, outcome = episode.config.task, outcome_info(episode)
        lines = [self._right(task)]
        if self.metric == "reward":
            lines += [f"{p.name}: {summary(p.measure)}." for p in episode.config.rules.reward.parts]
        gold = () if task.should_abstain else task.evidence  # there, what does not say it
        pages = [corpus.passage(e).title for e in gold if e in corpus]
        way = f"it stands in {' → '.join(pages)}" if pages else "no page is known to hold it"
        lines.append(f"{self._queries(episode.queries)}; {way}")
        self._panel("\n".join(lines), *self._judged(outcome))
        self.outcomes.append(
            {"task_id": task.id, "question": task.question, "queries": episode.queries}
            | plain({k: v for k, v in outcome.items() if k != "infra_error"})
        )

    def _right(self, task: Task) -> str:
        """What would have been paid."""
        if self.env.rules.one_search:
            return f"A query that finds it: {task.queries[0] if task.queries else task.question}"
        what = "A right answer" if self.metric == "reward" else "The answer"
        return f"{what}: {task.answers[0]}"

    def _judged(self, outcome: dict[str, Any]) -> tuple[str, str]:
        """The verdict and its colour: the reward, and what the answer is where that is paid."""
        paid = outcome["return"]
        reward, colour = f"reward {paid:.4g}{self._best}", "green" if paid > 0 else "red"
        if outcome["end"] != "answered":
            return f"Out of budget ({outcome['end']}) · {reward}", "red"
        if self.metric == "reward":
            return reward.capitalize(), "yellow" if 0 < paid < 1 else colour
        if outcome["em"] == 1.0:
            return f"Right · {reward}", "green"
        return f"Not quite (F1 {outcome['f1']:.2f}) · {reward}", "red"
