"""Runs the ladder: every agent on every rung, resumable."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ..agents.function import FunctionAgent, form_of
from ..envs.search import SearchEnv
from ..errors import EvaluationError
from ..evaluation.machine import note_machine
from ..evaluation.result import EvalResult
from ..evaluation.run import evaluate, settings_of
from ..types import Agent, Task
from .rungs import rungs_of
from .table import TransferTable

Maker = Callable[[SearchEnv, Sequence[Task]], Agent | None]
"""Function that makes an agent for a rung, or None where it cannot play (an oracle without gold
queries)."""
Player = Agent | Maker | Callable[[Any], Any]
"""An agent, its maker, or a function that plays (``searchgym.agents.function``)."""
Contender = Player | Sequence[Player]
"""A player that climbs; several: the same recipe trained with several seeds."""
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], Any]]]
"""Progress display, used as ``with progress(label, total) as advance: advance(n)``."""


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
        progress: Shown while an agent plays a rung.

    With ``out_dir``, every result is saved under ``results/<rung>/<agent>.<seed>.json`` as soon as
    it is there, and a finished one is not repeated if nothing that moves it has changed: settings,
    questions, versions, and the agent's ``fingerprint`` (agents without one are always run).
    ``machine.json`` says where the last call was made.

    On Ctrl-C the table holds what was finished, with ``complete=False``; the same call goes on
    from there.

    Raises:
        EvaluationError: no agents, or two rungs of one name.
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
    folder = Path(out_dir) / "results" if out_dir is not None else None
    noted = False
    try:
        for rung in sorted(rungs, key=lambda rung: rung.cost):
            shared = rung.env()
            tasks = rung.tasks(shared, seed)
            for name, contender in agents.items():
                done = []
                for number, agent in enumerate(_members(contender, shared, tasks)):
                    path = (
                        folder / _slug(rung.name) / f"{_slug(name)}.{number}.json"
                        if folder
                        else None
                    )
                    result = _finished(path, agent, shared, tasks, seed, batch)
                    if result is None:
                        if out_dir is not None and not noted:
                            note_machine(Path(out_dir))
                            noted = True
                        with (progress or _silent)(f"{rung.name}: {name}", len(tasks)) as advance:
                            result = evaluate(
                                agent, shared, name=name, label=rung.name, tasks=tasks, seed=seed,
                                batch=batch, progress=advance,
                            )  # fmt: skip
                        if not result.complete:
                            raise KeyboardInterrupt
                        if path is not None:
                            result.save(path)
                    done.append(result)
                if done:
                    table.add(rung.name, name, done)
    except KeyboardInterrupt:
        table.complete = False
    return table


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
    """Check whether a function takes what a maker is called with."""
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
    seed: int,
    batch: int,
) -> EvalResult | None:
    """The saved result, if it is what running again would give."""
    if path is None or not path.is_file() or getattr(agent, "fingerprint", None) is None:
        return None
    try:
        result = EvalResult.load(path)
    except EvaluationError:  # another version's, or half a file: played again
        return None
    now = settings_of(agent, shared, tasks, search_enabled=shared.search_enabled, batch=batch)
    same = json.dumps(result.settings, sort_keys=True) == json.dumps(now, sort_keys=True)
    return result if same and result.seed == seed and result.complete else None


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


def _silent(label: str, total: int) -> AbstractContextManager[Callable[[int], Any]]:
    return nullcontext(lambda n: None)
