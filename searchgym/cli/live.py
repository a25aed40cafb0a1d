"""A training run on the screen: a live table on a terminal, a line per step elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..errors import MissingExtraError
from ..scoring.metrics import HEALTH, PLAY, RARE, RL, label
from .output import ProgressBar, console, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..llms.sft import Progress

SHOWN = (*PLAY, "return", *RARE, *HEALTH, "loss", "ratio")
"""Metrics in the order of the table; others follow under their own names."""
_BARS = "▁▂▃▄▅▆▇█"
_KEPT = 240
_WIDTH = 24
_AROUND = 14
"""Lines of the display besides the rows of the table: title, bar, header, warnings, pace, note."""


class SupervisedTraining:
    """Shows the steps of a supervised training: on a bar, and where nobody watches a terminal, by a
    line every so many steps (``lines``; 0: none)."""

    def __init__(self, bar: ProgressBar, *, label: str = "training", lines: int = 0) -> None:
        self._bar, self._label = bar, label
        self._lines = 0 if sys.stderr.isatty() else lines
        self.last: Progress | None = None
        """The last step; None if there was none to make."""

    def __call__(self, now: Progress) -> None:
        if self.last is None:
            self._bar.stage(self._label, now.steps, "steps")
        self.last = now
        self._bar.to(now.step)
        if self._lines and now.step % self._lines == 0:
            say(f"step {now.step}/{now.steps} loss {now.loss:.3f} {now.seconds:.1f} s")


def chosen(metrics: Mapping[str, float]) -> list[tuple[str, str]]:
    """(name, label) of the metrics in the table: those of ``SHOWN``, parts of the reward, and
    divergences that losses log."""
    parts = [
        n for n in metrics if n.startswith("rewards/") and n.removeprefix("rewards/") not in SHOWN
    ]
    more = [n for n in metrics if n.endswith("/kl") and not n.startswith("importance_")]
    return [
        *((n, label(n, RL)) for n in SHOWN if n in metrics),
        *((n, f"reward part: {n.removeprefix('rewards/').replace('_', ' ')}") for n in parts),
        *((n, f"KL of the loss {n.removesuffix('/kl')}") for n in more),
    ]


def sparkline(values: Sequence[float], width: int = _WIDTH) -> str:
    """The last values as bars, means of neighbours if there are more than fit; NaN is a blank."""
    if len(values) > width:
        size = len(values) / width
        values = [_mean(values[int(i * size) : int((i + 1) * size)]) for i in range(width)]
    real = [v for v in values if v == v]
    if not real:
        return ""
    low, high = min(real), max(real)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((v - low) * scale)] if v == v else " " for v in values)


def throughput(metrics: Mapping[str, float]) -> dict[str, float]:
    """Episodes and tokens per second of playing, and seconds per step."""
    play = max(metrics.get("rollout_s", 0.0), 1e-9)
    episodes = metrics.get("episodes", 0.0)
    return {
        "episodes/s": episodes / play,
        "tokens/s": episodes * metrics.get("completion_length", 0.0) / play,
        "s/step": play + metrics.get("update_s", 0.0),
    }


class Screen:
    """Follows a run: a table that stays in place on a terminal, a line per step elsewhere.

    Args:
        title: Of the run.
        steps: Of the whole run.
        done: Already, where the run is resumed.
    """

    def __init__(self, title: str, steps: int, done: int = 0) -> None:
        self.title, self.steps, self.done = title, steps, done
        self.history: dict[str, deque[float]] = {}
        self.first: dict[str, float] = {}
        self.metrics: Mapping[str, float] = {}
        self.warnings: list[str] = []
        self.note = ""
        self._out = console(stderr=True)
        self.live = self._out.is_terminal
        self._began, self._before = time.perf_counter(), done
        self._display = None
        if self.live:
            from rich.live import Live

            self._display = Live(self, console=self._out, refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        if self._display is not None:
            self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._display is not None:
            self._display.stop()

    def step(self, metrics: Mapping[str, float], warnings: Sequence[str] = ()) -> None:
        """Take in a finished step and the warnings it gave."""
        self.metrics, self.done = metrics, int(metrics["step"]) + 1
        for name, _ in chosen(metrics):
            self.history.setdefault(name, deque(maxlen=_KEPT)).append(metrics[name])
            self.first.setdefault(name, metrics[name])
        if self._display is None:
            say(self.line())
        self.warn(warnings)

    def warn(self, warnings: Sequence[str]) -> None:
        """Show warnings."""
        self.warnings += warnings
        if self._display is None:
            for warning in warnings:
                say(f"warning: {warning}")

    def tell(self, note: str) -> None:
        """A line under the table, or beside the log."""
        self.note = note
        if self._display is None:
            say(note)

    def line(self) -> str:
        """The last step in one line."""
        always = ("reward", "em", "searches", "invalid", "truncated", "frac_reward_zero_std",
                  "entropy")  # fmt: skip
        shown = (*always, *(n for n in RARE if self.metrics.get(n)))
        values = " ".join(f"{n} {_number(self.metrics[n])}" for n in shown if n in self.metrics)
        pace = throughput(self.metrics)
        return f"step {self.done}/{self.steps} {values} {pace['s/step']:.1f} s"

    def __rich__(self) -> RenderableType:
        from rich import box
        from rich.console import Group
        from rich.markup import escape
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        head = Table.grid(padding=(0, 2), expand=False)
        head.add_row(f"[bold]{escape(self.title)}[/bold]")
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=self.steps, completed=self.done, width=40),
            f"{self.done}/{self.steps} steps", self._left(),
        )  # fmt: skip
        table = Table(box=box.SIMPLE, pad_edge=False)
        for name, justify in (("", "left"), ("now", "right"), ("mean of 10", "right"),
                              ("start", "right"), ("trend", "left")):  # fmt: skip
            table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        # a display taller than the terminal cannot be redrawn in place
        room = self._out.height - _AROUND if self.done < self.steps else None
        for name, shown in chosen(self.metrics)[:room]:
            values = list(self.history[name])
            table.add_row(
                escape(shown), _number(values[-1]), _number(_mean(values[-10:])),
                _number(self.first[name]), sparkline(values),
            )  # fmt: skip
        lines = [Text(f"warning: {w}", style="yellow") for w in self.warnings[-6:]]
        pace = "  ".join(f"{v:,.1f} {n}" for n, v in throughput(self.metrics).items())
        foot = [Text(pace if self.metrics else "playing the first episodes …", style="dim")]
        if self.note:
            foot.append(Text(self.note, style="bold"))
        return Group(head, bar, *([table] if self.metrics else []), *lines, *foot)

    def _left(self) -> str:
        made = self.done - self._before
        if not made:
            return ""
        seconds = (time.perf_counter() - self._began) / made * (self.steps - self.done)
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Switch off transformers' own progress bars, which would tear the screen."""
    try:
        from transformers.utils import logging
    except ImportError as error:
        raise MissingExtraError("a language model", "llm") from error

    was = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was:
            logging.enable_progress_bar()
        sys.stderr.flush()


def _mean(values: Sequence[float]) -> float:
    real = [v for v in values if v == v]
    return sum(real) / len(real) if real else float("nan")


def _number(value: float) -> str:
    if value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
