"""Asynchronous rollouts: other episodes keep generating while tools run.

In lock step (``searchgym.core.rollout``) every episode waits for the longest text of its turn and
for the slowest tool. Here an episode acts as soon as its own text is complete, its tools run in a
thread while other episodes generate, and the next episode takes a finished one's place at once.
The episodes are the same, because draws are keyed by episode and turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from ..core.episode import Episode, run_tools
from ..errors import EngineError
from ..llms.base import Completion
from ..llms.transformers_generator import Continuous, TransformersGenerator
from ..tools import Toolbox
from ..types import Failure, TurnRequest
from .causal_lm import CausalLMPolicy, turn_failed


def play(
    episodes: Iterable[Episode],
    policy: CausalLMPolicy,
    toolbox: Toolbox,
    *,
    slots: int = 64,
    tool_threads: int = 1,
    progress: Callable[[int], object] | None = None,
) -> list[Episode]:
    """Play episodes to their ends, up to ``slots`` at a time; returned in the order given.

    Args:
        policy: Over a ``TransformersGenerator``.
        tool_threads: Calls of the toolbox that may run at the same time; more than one needs tools
            that can be called from several threads.
        progress: Told how many episodes have just finished.

    Raises:
        EngineError: another generator (vLLM schedules by itself: use ``run_episodes``), or one
            that failed.
    """
    return _Flow(policy, toolbox, slots, tool_threads, progress).play(iter(episodes))


class _Flow:
    def __init__(
        self,
        policy: CausalLMPolicy,
        toolbox: Toolbox,
        slots: int,
        tool_threads: int,
        progress: Callable[[int], object] | None,
    ) -> None:
        if not isinstance(policy.generator, TransformersGenerator):
            raise EngineError(
                f"play() writes with a TransformersGenerator, got "
                f"{type(policy.generator).__name__}; use searchgym.core.rollout.run_episodes"
            )
        if tool_threads < 1:
            raise EngineError(f"tool_threads must be at least 1, got {tool_threads}")
        self.policy, self.toolbox, self.slots = policy, toolbox, slots
        self.progress = progress
        self.writing = Continuous(policy.generator, slots)
        self.open = 0
        self._pool = ThreadPoolExecutor(tool_threads, "tools")
        self._asked: dict[int, tuple[Episode, TurnRequest]] = {}
        self._calls: dict[Future[None], list[Episode]] = {}

    def play(self, episodes: Iterator[Episode]) -> list[Episode]:
        order: list[Episode] = []
        with self._pool:
            try:
                while True:
                    while self.open < self.slots and (new := next(episodes, None)) is not None:
                        order.append(new)
                        self.open += 1
                        self._go_on([new])
                    if not self.open:
                        return order
                    self._write()
                    self._receive()
            finally:
                for call in self._calls:
                    call.cancel()

    def _go_on(self, episodes: list[Episode]) -> None:
        """Advance each episode: submit its turn, start its tools, or count its end."""
        calling: list[Episode] = []
        for episode in episodes:
            while episode.phase == "act":
                (request,) = episode.requests()
                asked = self.policy.ask(request)
                if not isinstance(asked, Completion):
                    self._asked[self.writing.submit(asked)] = episode, request
                    break
                # no room: an empty turn, taken at once
                episode.act(self.policy.remember(request, asked).text)
            if episode.phase == "receive":
                calling.append(episode)
            elif episode.phase == "done":
                self._finish()
        if calling:
            self._calls[self._pool.submit(run_tools, calling, self.toolbox)] = calling

    def _write(self) -> None:
        """Generate one token of each running text; episodes whose text is complete act."""
        if not len(self.writing):
            return
        acted: list[Episode] = []
        for ticket, answer in self.writing.step():
            episode, request = self._asked.pop(ticket)
            if isinstance(answer, Failure):
                raise turn_failed(request, answer)
            episode.act(self.policy.remember(request, answer).text)
            acted.append(episode)
        self._go_on(acted)

    def _receive(self) -> None:
        """Continue episodes whose tools have answered; wait only if no text is being generated."""
        if not self._calls:
            return
        idle = None if not len(self.writing) else 0
        done, _ = wait(self._calls, timeout=idle, return_when=FIRST_COMPLETED)
        for call in done:
            episodes = self._calls.pop(call)
            call.result()  # an error of a tool is an error of the run
            self._go_on(episodes)

    def _finish(self) -> None:
        self.open -= 1
        if self.progress is not None:
            self.progress(1)
