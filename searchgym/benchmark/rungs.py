"""The rungs of the ladder from the world an agent was trained in to real questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..envs.search import SearchEnv
from ..envs.unwrap import search_env
from ..seeding import stream
from ..types import Task

Kind = Literal["generated", "real", "smoke"]
HOME, WORLD, WORDING = "source world", "held-out world", "held-out wording"
"""Names of the first three rungs; what comes after them is one step away from the third."""

REAL_SETS = (
    "hotpotqa", "2wikimultihopqa", "musique", "nq", "popqa", "triviaqa", "bamboogle",
)  # fmt: skip
"""Real question sets, multi-hop ones first. The last two have no passages of their own and search
the passages of all sets present."""


@dataclass(frozen=True)
class Rung:
    """One set of questions and the environment they are asked in."""

    name: str
    kind: Kind
    keywords: Mapping[str, Any]
    """Keywords of the environment, as for ``gym.make``."""
    note: str = ""
    cap: int | None = None
    """Largest number of questions, drawn at random by the evaluation's seed, the same for every
    agent; None: all."""
    above: str = ""
    """Rung that this one is one step away from: the drop is due to that step."""
    asks: str = ""
    """The rung whose questions it asks, of the same corpus and tasks; "": its own."""
    step: str = ""
    """The step that selects the rung (see ``ladder.STEPS``)."""
    cost: int = 0
    """Rungs of low cost are played first; 0: generated passages and BM25."""
    make: Callable[..., Any] = SearchEnv
    """Maker of the environment from ``keywords``: ``SearchEnv``, a subclass, or what returns
    one."""

    def env(self) -> SearchEnv:
        """Make the environment in which they are asked, with the effects of its wrappers."""
        return search_env(self.make(**self.keywords), stepped=True)

    def tasks(self, shared: SearchEnv, seed: int = 0) -> list[Task]:
        """The questions asked: all, or ``cap`` of them in the set's order."""
        tasks = list(shared.tasks)
        if self.cap is None or self.cap >= len(tasks):
            return tasks
        drawn = stream(seed, "rung", self.asks or self.name).permutation(len(tasks))[: self.cap]
        return [tasks[i] for i in sorted(drawn.tolist())]


def rungs_of(envs: Sequence[Any]) -> list[Rung]:
    """Return one rung for each environment, id or spec; rungs are returned as they are.

    A rung is named after the environment's id, or its corpus, with the split where two would share
    a name and a number where that does not tell them apart. Corpora without a generated world count
    as real.
    """
    rungs: list[Rung] = []
    for given in envs:
        if isinstance(given, Rung):
            rungs.append(given)
            continue
        env = search_env(given, stepped=True)
        spec = getattr(given, "spec", None)
        name = given if isinstance(given, str) else spec.id if spec else env.corpus.name
        used = {rung.name for rung in rungs}
        if name in used:
            name = f"{name} ({env.setup.options.split})"
        if name in used:
            name = f"{name} #{len(rungs) + 1}"
        kind: Kind = "real" if env.world is None else "generated"
        rungs.append(Rung(name, kind, {}, make=partial(_itself, env)))
    return rungs


def _itself(env: SearchEnv) -> SearchEnv:
    return env


def generated_rungs(
    keywords: Mapping[str, Any],
    *,
    cap: int | None = None,
    tasks: Mapping[str, int] | None = None,
    make: Callable[..., Any] = SearchEnv,
) -> list[Rung]:
    """Return the three generated rungs: the training environment's own world, another world (unseen
    names and facts), and another world in phrasings that training never used.

    ``keywords`` are those the agent was trained with; ``tasks`` replaces the counts per family.
    """
    shared = {k: v for k, v in keywords.items() if k not in ("split", "wording")}
    if tasks is not None:
        shared["tasks"] = dict(tasks)
    rungs = (
        (HOME, "train", "the world it was trained in", "", "source"),
        (WORLD, "dev", "unseen names and facts", HOME, "world"),
        (WORDING, "test", "unseen names, facts and phrasings", WORLD, "wording"),
    )
    return [
        Rung(name, "generated", {**shared, "split": split}, note, cap, above, step=step, make=make)
        for name, split, note, above, step in rungs
    ]


def real_rungs(
    data_dir: str | Path | None = None,
    *,
    sets: Sequence[str] = REAL_SETS,
    split: str = "public",
    cap: int | None = None,
    rules: Mapping[str, Any] | None = None,
    make: Callable[..., Any] = SearchEnv,
) -> tuple[list[Rung], list[str]]:
    """Return rungs of the real sets on this machine, and a line per absent set: how to get it.

    ``rules``: environment options such as ``max_turns``, which should be those of training.
    """
    from ..corpora.data import data_directory, status

    status_of = {row.id: row for row in status(data_dir, verify=False)}
    root = str(data_directory(data_dir))
    rungs: list[Rung] = []
    absent: list[str] = []
    for name in sets:
        row = status_of.get(name)
        if row is None or not row.present:
            absent.append(f"{name}: {row.get if row else 'no such set in the catalogue'}")
            continue
        keywords = {**(rules or {}), "corpus": name, "split": split, "data_dir": root}
        rungs.append(
            Rung(name, "real", keywords, row.summary, cap, WORDING, step="real", cost=2, make=make)
        )
    return rungs, absent


def smoke_rung(
    *,
    cap: int | None = 200,
    rules: Mapping[str, Any] | None = None,
    make: Callable[..., Any] = SearchEnv,
) -> Rung:
    """Real text that is on every machine, Python's own documentation strings, with questions made
    from their first sentences. Shows that the pipeline runs on real text; not a benchmark."""
    from ..corpora.docstrings import load_docstrings

    corpus, tasks = load_docstrings(cap or 200)
    keywords = {**(rules or {}), "corpus": corpus, "tasks": tasks}
    note = "documentation strings; a smoke run"
    return Rung(
        "python docs", "smoke", keywords, note, cap, WORDING, step="real", cost=1, make=make
    )
