"""An agent that knows what to ask and believes only what it was shown.

Not to be confused with ``env.unwrapped.oracle()``, which reads the episode. This one reads turn
requests like any other agent, in any dialect: it knows each question's gold queries, but gives the
answer only when the tools have really shown all the evidence, and abstains otherwise. Its score is
therefore what the engine and the budget allow: 1.0 wherever every task is solvable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ..core.oracle import gold_calls, uncalled
from ..dialects.base import Dialect, get_dialect
from ..errors import TaskError
from ..text import normalise_answer
from ..types import ABSTAIN, Action, Answer, Search, Task, TurnRequest


class OracleAgent:
    """Runs the gold queries in hop order, then answers from evidence seen; where a task names its
    calls of other tools (``searchgym.core.oracle.gold_calls``), makes those and answers if their
    results say so.

    Args:
        tasks: Whose questions will be asked. Told apart by their text, so no two tasks may share a
            question unless answers and evidence agree too.
        attempts: Tries of a query that does not show its evidence (for noisy engines).

    ``act`` raises ``TaskError`` for a question of no known task.
    """

    fingerprint = "oracle"

    def __init__(self, tasks: Iterable[Task], attempts: int = 1) -> None:
        self.attempts = attempts
        self._tasks: dict[str, Task] = {}
        for task in tasks:
            twin = self._tasks.setdefault(task.question, task)
            if (twin.answers, twin.evidence) != (task.answers, task.evidence):
                raise TaskError(
                    f"tasks {twin.id!r} and {task.id!r} ask the same question and differ in "
                    "answers or evidence: the oracle cannot tell them apart"
                )
        self._asked: dict[str, dict[str, Task]] = {}  # dialect -> the question as shown -> task

    def act(self, requests: Sequence[TurnRequest], /) -> list[str]:
        """One action per request; stateless."""
        return [
            (dialect := get_dialect(request.dialect)).render_action(self._choose(request, dialect))
            for request in requests
        ]

    def _task(self, request: TurnRequest, dialect: Dialect) -> Task | None:
        asked = next((s for s in request.segments if s.kind == "question"), None)
        if asked is None:  # a delegated context: it holds a sub-task, not the question
            return None
        # under instructions of one's own the question stands within them
        shown = dialect.question(asked.asked) if asked.asked else asked.text
        if request.dialect not in self._asked:
            self._asked[request.dialect] = {
                dialect.question(task.question): task for task in self._tasks.values()
            }
        try:
            return self._asked[request.dialect][shown]
        except KeyError:
            raise TaskError(
                f"the oracle knows no task that asks {shown.strip()[:200]!r}; give it the "
                "environment's tasks"
            ) from None

    def _choose(self, request: TurnRequest, dialect: Dialect) -> Action:
        task = self._task(request, dialect)
        if task is None:
            return Answer("done")
        if calls := gold_calls(task, request.tools):
            return self._call(task, calls, request, dialect)
        shown = {hit.passage.id for segment in request.segments for hit in segment.hits}
        if shown.issuperset(task.evidence):
            return Answer(task.answers[0])
        if request.turns_left > 1 and request.queries_left != 0:
            pairs = zip(task.evidence, task.queries, strict=False)
            direct = [query for evidence, query in pairs if evidence not in shown]
            tried = self._tried(request, dialect)
            for attempt in range(1, self.attempts + 1):
                # a passage may also be found by another of the task's queries than its own
                for query in (*direct, *task.queries):
                    search = dialect.canonical(Search((query,)))
                    if tried[search] < attempt:
                        return search
        return Answer(ABSTAIN)

    def _call(
        self, task: Task, calls: Sequence[Action], request: TurnRequest, dialect: Dialect
    ) -> Action:
        """The next gold call that was not made; then the answer, if the results say it, or if it is
        worked out from what they say (``task.meta["worked_out"]``)."""
        made = [dialect.parse(s.text).action for s in request.segments if s.author == "policy"]
        missing = uncalled(calls, dialect, made)
        if missing and request.turns_left > 1 and request.queries_left != 0:
            return missing[0]
        said = [s.text for s in request.segments if s.kind == "results" and s.author == "env"]
        # dialects of JSON write a line break as two characters
        text = " ".join(said).replace("\\n", " ")
        shown = f" {normalise_answer(text)} "
        parts = task.items or (task.answers,)
        told = task.meta.get("worked_out") or all(
            any(f" {normalise_answer(a)} " in shown for a in forms) for forms in parts
        )
        return Answer(task.answers[0] if told else ABSTAIN)

    @staticmethod
    def _tried(request: TurnRequest, dialect: Dialect) -> Counter[Action]:
        return Counter(
            dialect.parse(s.text).action for s in request.segments if s.author == "policy"
        )
