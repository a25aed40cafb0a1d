"""Runs the ladder: every agent on every rung, resumable, here or shared out among processes."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from ..agents.simple import FunctionAgent, form_of
from ..envs.search import SearchEnv
from ..errors import EvaluationError
from ..evaluation.machine import note_machine
from ..evaluation.result import EvalResult
from ..evaluation.run import evaluate, settings_of
from ..types import Agent, Task
from ..utils.processes import Channel, Crew
from .ladder import Rung, rungs_of
from .table import TransferTable

Maker = Callable[[SearchEnv, Sequence[Task]], Agent | None]
"""Function that makes an agent for a rung, or None where it cannot play (an oracle without gold
queries)."""
Player = Agent | Maker | Callable[[Any], Any]
"""An agent, its maker, or a function that plays (``searchgym.agents.simple``)."""
Contender = Player | Sequence[Player]
"""A player that climbs; several: the same recipe trained with several seeds."""
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], Any]]]
"""Progress display, used as ``with progress(label, total) as advance: advance(n)``."""
Add = Callable[[str, str, list[EvalResult]], Any]
"""Function that is handed a rung's name, an agent's and its results, one for each seed."""


def oracle(env: SearchEnv, tasks: Sequence[Task]) -> Agent | None:
    """Make the oracle agent where every task with evidence has gold queries, else None."""
    from ..agents.oracle import OracleAgent

    # without gold passages "all the evidence was shown" would be true at once
    solvable = all(t.evidence and len(t.queries) >= len(t.evidence) for t in tasks)
    return OracleAgent(tasks) if solvable else None


def transfer(
    agents: Mapping[str, Contender] | Contender,
    rungs: Sequence[Any],
    *,
    out_dir: str | Path | None = None,
    seed: int = 0,
    batch: int = 256,
    processes: int = 1,
    progress: Progress | None = None,
) -> TransferTable:
    """Evaluate every agent on every rung, on the same questions; cheap rungs first.

    Args:
        agents: Agents by name, or one, which is called by its class; a function that plays, by its
            own name. Makers are called with each rung's environment and questions.
        rungs: Environments (wrapped or not, ids or specs) or :class:`Rung` objects, in any order.
        out_dir: Keeps results.
        seed: Fixes every episode, and which questions a capped rung asks.
        batch: Episodes played at a time.
        processes: The rungs are dealt out to so many. More than 1 are spawned, so a script that
            asks for them does so under ``if __name__ == "__main__":``; agents and rungs must
            pickle.
        progress: Shown while an agent plays a rung; with several processes one is begun before
            another has ended.

    With ``out_dir``, every result is saved under ``results/<rung>/<agent>.<seed>.json`` as soon as
    it is there, and a finished one is not repeated if nothing that moves it has changed: settings,
    questions, versions, and the agent's ``fingerprint`` (agents without one are always run).
    ``machine.json`` says where the last call was made.

    On Ctrl-C the table holds what was finished, with ``complete=False``; the same call goes on
    from there.

    Raises:
        EvaluationError: no agents, two rungs of one name, or what a process failed with.
        CardError: a function that is neither an agent nor a maker of one.
    """
    if not isinstance(agents, Mapping):
        named = agents if callable(agents) and form_of(agents) is not None else type(agents)
        agents = {getattr(named, "__name__", type(agents).__name__): agents}
    rungs = rungs_of(rungs)
    if not agents or not rungs:
        raise EvaluationError(f"got {len(agents)} agents and {len(rungs)} rungs; need one of each")
    if len({rung.name for rung in rungs}) != len(rungs):
        raise EvaluationError("two rungs have the same name; results are told apart by it")
    table = TransferTable(
        tuple(rung.name for rung in rungs),
        tuple(agents),
        notes={rung.name: rung.note for rung in rungs},
        kinds={rung.name: rung.kind for rung in rungs},
        above={rung.name: rung.above for rung in rungs if rung.above},
        seed=seed,
    )
    how = Conditions(Path(out_dir) if out_dir is not None else None, seed, batch)
    rungs = sorted(rungs, key=lambda rung: rung.cost)
    try:
        if processes > 1 and len(rungs) > 1:
            _climb_in_processes(agents, rungs, how, processes, table.add, progress or _silent)
        else:
            _climb(agents, rungs, how, table.add, progress or _silent)
    except KeyboardInterrupt:
        table.complete = False
    return table


class Conditions(NamedTuple):
    """Conditions under which all agents are played, the same in every process."""

    out: Path | None
    seed: int
    batch: int


def _climb(
    agents: Mapping[str, Contender],
    rungs: Sequence[Rung],
    how: Conditions,
    add: Add,
    progress: Progress,
) -> None:
    """Play every rung with every agent; ``KeyboardInterrupt`` where one was cut short."""
    noted = False
    for rung in rungs:
        shared = rung.env()
        tasks = rung.tasks(shared, how.seed)
        for name, contender in agents.items():
            done = []
            for number, agent in enumerate(_members(contender, shared, tasks)):
                path = (
                    how.out / "results" / _slug(rung.name) / f"{_slug(name)}.{number}.json"
                    if how.out
                    else None
                )
                result = _finished(path, agent, shared, tasks, how)
                if result is None:
                    if how.out is not None and not noted:
                        note_machine(how.out)
                        noted = True
                    with progress(f"{rung.name}: {name}", len(tasks)) as advance:
                        result = evaluate(
                            agent, shared, name=name, label=rung.name, tasks=tasks, seed=how.seed,
                            batch=how.batch, progress=advance,
                        )  # fmt: skip
                    if not result.complete:
                        raise KeyboardInterrupt
                    if path is not None:
                        result.save(path)
                done.append(result)
            if done:
                add(rung.name, name, done)


def _climb_in_processes(
    agents: Mapping[str, Contender],
    rungs: Sequence[Rung],
    how: Conditions,
    processes: int,
    add: Add,
    progress: Progress,
) -> None:
    """Deal the rungs out, always alike, so that what a process has cached does not depend on who
    is faster; raises as :func:`_climb` does."""
    processes = min(processes, len(rungs))
    shares = [(agents, rungs[n::processes], how, processes) for n in range(processes)]
    shown: dict[int, tuple[ExitStack, Callable[[int], Any]]] = {}
    results = []
    try:
        with Crew(_work, shares, "use processes=1") as crew:
            for worker, kind, value, _ in crew.messages():
                if kind == "begin":
                    bar = ExitStack()
                    shown[worker] = bar, bar.enter_context(progress(*value))
                elif kind == "advance":
                    shown[worker][1](value)
                elif kind == "end":
                    shown.pop(worker)[0].close()
                elif kind == "result":
                    results.append(value)
    finally:
        for bar, _ in shown.values():
            bar.close()
        place = {rung.name: n for n, rung in enumerate(rungs)}
        for rung, name, done in sorted(results, key=lambda result: place[result[0]]):
            add(rung, name, done)


def _work(
    parent: Channel, share: tuple[Mapping[str, Contender], Sequence[Rung], Conditions, int]
) -> None:
    agents, rungs, how, processes = share
    torch = sys.modules.get("torch")  # agents with a network have brought it
    if torch is not None:
        torch.set_num_threads(max(1, torch.get_num_threads() // processes))

    @contextmanager
    def progress(label: str, total: int) -> Iterator[Callable[[int], Any]]:
        parent.send(("begin", (label, total)))
        yield lambda n: parent.send(("advance", n))
        parent.send(("end", None))

    _climb(agents, rungs, how, lambda *result: parent.send(("result", result)), progress)


def _members(contender: Contender, shared: SearchEnv, tasks: Sequence[Task]) -> list[Agent]:
    if isinstance(contender, Sequence) and not isinstance(contender, str):
        return [agent for one in contender for agent in _members(one, shared, tasks)]
    if isinstance(contender, Agent):
        return [contender]
    function: Callable[..., Any] = contender
    if form_of(function) is not None or not _is_maker(function, shared, tasks):
        return [FunctionAgent(function)]  # of another form, it says which there are
    made: Agent | None = function(shared, tasks)
    return [] if made is None else [made]


def _is_maker(function: Callable[..., Any], shared: SearchEnv, tasks: Sequence[Task]) -> bool:
    try:
        inspect.signature(function).bind(shared, tasks)
    except TypeError:
        return False
    except ValueError:  # builtins have no signature
        return True
    return True


def _finished(
    path: Path | None,
    agent: Agent,
    shared: SearchEnv,
    tasks: Sequence[Task],
    how: Conditions,
) -> EvalResult | None:
    if path is None or not path.is_file() or getattr(agent, "fingerprint", None) is None:
        return None
    try:
        result = EvalResult.load(path)
    except EvaluationError:  # another version's, or half a file: played again
        return None
    now = settings_of(agent, shared, tasks, search_enabled=shared.search_enabled, batch=how.batch)
    same = json.dumps(result.settings, sort_keys=True) == json.dumps(now, sort_keys=True)
    return result if same and result.seed == how.seed and result.complete else None


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


def _silent(label: str, total: int) -> AbstractContextManager[Callable[[int], Any]]:
    return nullcontext(lambda n: None)
