"""The ladder of the benchmark, from the training world to a live engine, and choosing rungs of it.

Each rung changes one thing. After the held-out wording, engines change under the same questions,
so that their drops are paired; other schemas and real sets ask other questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..cards import card
from ..envs.options import RULES, Options
from ..envs.search import SearchEnv
from ..envs.unwrap import search_env
from ..errors import CardError, unknown
from ..seeding import stream
from ..types import Task

Kind = Literal["generated", "text", "real"]
HOME, WORLD, WORDING = "source world", "held-out world", "held-out wording"
"""Names of the first three rungs; what comes after them is one step away from the third."""

TEXT = "vital"
"""Corpus of the rungs of real text."""
REAL_TEXT, OTHER_QUESTIONS = "real text", "real text, others"
ASKED: Mapping[str, Any] = {"fact": 150, "gap": 150, "bridge": 50, "at_most": True}
"""Questions made of its text, by family; a training asks these families, too."""
OTHERS: Mapping[str, Any] = {
    "comparison": 100, "yes_no": 60, "intersection": 40, "bridge_comparison": 40, "at_most": True,
}  # fmt: skip

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
    """The step that selects the rung (:data:`STEPS`)."""
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


def text_rungs(
    data_dir: str | Path | None = None,
    *,
    cap: int | None = None,
    rules: Mapping[str, Any] | None = None,
    make: Callable[..., Any] = SearchEnv,
) -> tuple[list[Rung], list[str]]:
    """Return the rungs between worlds and real questions: what rules ask about real text, on pages
    that no training with the split "train" touches, in families (:data:`ASKED`) that such a
    training asks and in others; and a line if the text is not on this machine."""
    from ..corpora.data import status

    row = next(row for row in status(data_dir, verify=False) if row.id == TEXT)
    if not row.present:
        return [], [f"{REAL_TEXT}: {row.get}"]
    shared = {**(rules or {}), "corpus": TEXT, "split": "test"}
    if data_dir is not None:
        shared["data_dir"] = str(data_dir)
    asked = (
        (REAL_TEXT, ASKED, "questions made of real text: unseen pages", WORDING),
        (OTHER_QUESTIONS, OTHERS, "… in families that no training asks there", REAL_TEXT),
    )
    return [
        Rung(
            name, "text", {**shared, "tasks": dict(tasks)}, f"{TEXT}: {note}", cap, above,
            step="text", cost=1, make=make,
        )
        for name, tasks, note, above in asked
    ], []  # fmt: skip


# --- the full ladder ----------------------------------------------------------------------------
STEPS: Mapping[str, str] = {
    "source": "the world it was trained in",
    "world": "another world: unseen names and facts",
    "wording": "… in unseen phrasings",
    "schema": "a world of other things and relations",
    "degraded": "the same questions, results made worse",
    "misinformation": "the same questions, one page with wrong facts at a rank",
    "dense": "the same questions, a sentence encoder searches",
    "hybrid": "the same questions, BM25 and encoder fused",
    "simulated": "the same questions, a language model plays the engine",
    "text": "questions made of real text: unseen pages, and other families of questions",
    "real": "real questions and passages, every set present",
    "remote": "real questions, a server or a recording of one answers",
}
"""Names for choosing rungs, in the order of the ladder; a real set's name chooses that set."""
CARRIED = RULES | {"params", "search_enabled", "curriculum"}
"""Keywords that other corpora take over from training: all that worlds, tasks and engines are not
made of."""
DEGRADED: Mapping[str, Mapping[str, float]] = {
    "noisy engine": {"noise": 0.3},
    "hostile engine": {"noise": 0.1, "stale": 0.1, "seo": 0.2, "adversarial": 0.2},
}
MISLED = (1, 3)
"""Ranks of the page with wrong facts; the results are one longer, so that no true page is lost."""
OTHER_SCHEMA = "research"


class Ladder(NamedTuple):
    """Rungs from near to far, and one line per rung that cannot be had, with the reason."""

    rungs: list[Rung]
    absent: list[str]


@dataclass(frozen=True)
class Engines:
    """Engines of the rungs that need more than a corpus."""

    degraded: Mapping[str, Mapping[str, float]] | None = None
    """Rates by rung name; None: :data:`DEGRADED`."""
    generator: Any = None
    """Text generator of the simulated engine (a folder, ``{"name": …}``, an object), or options of
    that engine (``{"generator": folder, "words": 12, "per_call": 1}``)."""
    remote: Mapping[str, Any] | str | None = None
    """A server's URL, or options of the engine "remote" (``{"provider": "brave"}``)."""
    recording: str | Path | None = None
    """File that records the remote engine's answers; without an engine, it is replayed."""
    remote_set: str | None = None
    """The real set whose questions the remote engine is asked; None: the first present."""
    cache: str | Path | None = None
    """Folder of the encoder's vectors; None: they are computed each time."""


def full_ladder(
    keywords: Mapping[str, Any],
    *,
    data_dir: str | Path | None = None,
    sets: Sequence[str] = REAL_SETS,
    cap: int | None = None,
    real_cap: int | None = None,
    engines: Engines | None = None,
    make: Callable[..., Any] = SearchEnv,
) -> Ladder:
    """Every rung that this machine can offer.

    Args:
        keywords: Environment options of training; their corpus must be a generated world.
        data_dir: Where the real sets are (default: ``SEARCHGYM_DATA``, else the user's cache).
        sets: Which real sets.
        cap: At most so many questions per rung.
        real_cap: … per real set; None: ``cap``.
        engines: Engines other than BM25.
        make: Makes every rung's environment: ``SearchEnv`` or a subclass.

    Raises:
        CardError: a corpus that is no generated world.
    """
    corpus = str(keywords.get("corpus", "encyclopedia"))
    if card("corpora", corpus).body["kind"] != "world":
        raise CardError(f"the ladder begins in a generated world, and {corpus!r} is none")
    told = engines or Engines()
    rules = {k: v for k, v in keywords.items() if k in CARRIED}
    real_cap = cap if real_cap is None else real_cap
    rungs = generated_rungs(keywords, cap=cap, make=make)
    wording, absent = rungs[-1], []
    rungs.append(_other_schema(wording, corpus))
    for name, rates in (DEGRADED if told.degraded is None else told.degraded).items():
        engine = {"name": "degraded", "engine": wording.keywords.get("engine", "bm25"), **rates}
        rungs.append(_engine(wording, name, "degraded", engine, _said(rates), cost=1))
    rungs += [_misled(wording, rank) for rank in MISLED]
    if missing := [m for m in ("sentence_transformers", "faiss") if find_spec(m) is None]:
        absent.append(
            f"dense and hybrid engine: {', '.join(missing)} not installed: pip install "
            '"searchgym[dense]"'
        )
    else:
        rungs += _dense(wording, told.cache)
    if told.generator is None:
        absent.append(
            "simulated engine: no generator given: --generator FOLDER of a language model "
            "('searchgym simulator' trains one)"
        )
    else:
        engine = {"name": "simulated", **_simulated(told.generator)}
        note = "a language model plays the engine"
        rungs.append(_engine(wording, "simulated engine", "simulated", engine, note, cost=4))
    text, without = text_rungs(data_dir, cap=cap, rules=rules, make=make)
    real, lacking = real_rungs(data_dir, sets=sets, cap=real_cap, rules=rules, make=make)
    asked, why = _remote(real, told)
    return Ladder(rungs + text + real + asked, absent + without + lacking + why)


def choose(ladder: Ladder, names: Sequence[str]) -> Ladder:
    """The rungs of some steps (:data:`STEPS`) or names, in the ladder's order.

    Raises:
        CardError: an unknown name, or nothing left; the reason where a step is absent.
    """
    if not names:
        return ladder
    known = {*STEPS, *(r.name for r in ladder.rungs), REAL_TEXT, *REAL_SETS}
    for name in names:
        if name not in known:
            raise CardError(unknown("rung", name, sorted(known)))
    kept = [r for r in ladder.rungs if r.step in names or r.name in names]
    absent = [line for line in ladder.absent if _step(line) & {*names}]
    if not kept:
        raise CardError("none of these rungs can be had here: " + "; ".join(absent))
    return Ladder(kept, absent)


def _step(line: str) -> set[str]:
    """Return the step that would have chosen the rung that a line about an absent one names."""
    subject = line.partition(":")[0]
    if subject == REAL_TEXT:
        return {"text", subject}
    return {"real", subject} if subject in REAL_SETS else {*subject.split()} & {*STEPS}


def _other_schema(wording: Rung, corpus: str) -> Rung:
    other = OTHER_SCHEMA if corpus != OTHER_SCHEMA else "encyclopedia"
    kept = {k: v for k, v in wording.keywords.items() if k != "world"}
    note = f"{other}: other things, relations and phrasings"
    return Rung(
        "other schema", "generated", {**kept, "corpus": other}, note, wording.cap, WORDING,
        step="schema", make=wording.make,
    )  # fmt: skip


def _engine(
    wording: Rung, name: str, step: str, engine: Mapping[str, Any], note: str, cost: int
) -> Rung:
    keywords = {**wording.keywords, "engine": engine}
    return replace(
        wording, name=name, keywords=keywords, note=note, above=wording.name, asks=wording.name,
        step=step, cost=cost,
    )  # fmt: skip


def _misled(wording: Rung, rank: int) -> Rung:
    inner = wording.keywords.get("engine", "bm25")
    engine = {"name": "degraded", "engine": inner, "contradict": 1.0, "rank": rank}
    note = f"a page with wrong facts in place {rank} of every search"
    name = f"misinformation at rank {rank}"
    rung = _engine(wording, name, "misinformation", engine, note, cost=1)
    default = next(field.default for field in fields(Options) if field.name == "k")
    k = wording.keywords.get("k", default) + 1
    return replace(rung, keywords={**rung.keywords, "k": k})


def _dense(wording: Rung, cache: str | Path | None) -> list[Rung]:
    dense: dict[str, Any] = {"name": "dense"}
    if cache is not None:
        dense["cache"] = str(cache)
    hybrid = {"name": "hybrid", "engines": ["bm25", dense]}
    return [
        _engine(wording, "dense engine", "dense", dense, "all-MiniLM-L6-v2", cost=3),
        _engine(wording, "hybrid engine", "hybrid", hybrid, "BM25 and MiniLM fused", cost=3),
    ]


def _simulated(given: Any) -> dict[str, Any]:
    """Options of the engine: all of them, or its generator, which a folder or hub name may be."""
    if isinstance(given, Mapping) and "generator" in given:
        made = dict(given)
        given = made.pop("generator")
    else:
        made = {}
    if isinstance(given, str):
        given = {"name": "transformers", "model": given}
    return {**made, "generator": given}


def _remote(real: Sequence[Rung], told: Engines) -> tuple[list[Rung], list[str]]:
    """Real questions to a server (kept on disk, so that each is paid for once) or a recording."""
    if told.remote is None and told.recording is None:
        return [], ["remote engine: no --remote URL and no --recording FILE given"]
    bases = [r for r in real if told.remote_set in (None, r.name)]
    if not bases:
        wanted = f"the set {told.remote_set!r}" if told.remote_set else "a real set"
        return [], [f"remote engine: needs {wanted}, which is not on this machine"]
    base, engine = bases[0], {}
    if told.remote is not None:
        options = {"url": told.remote} if isinstance(told.remote, str) else dict(told.remote)
        engine = {"name": "remote", **options}
        if told.recording is not None:
            engine = {"name": "recorded", "engine": engine, "path": str(told.recording)}
    else:
        engine = {"name": "recorded", "path": str(told.recording), "mode": "replay"}
    name = f"{'remote' if told.remote is not None else 'recorded'} engine: {base.name}"
    rung = _engine(base, name, "remote", engine, "asked over the network", cost=5)
    return [rung], []


def _said(rates: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {rate:g}" for name, rate in rates.items())
