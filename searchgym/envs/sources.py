"""Sources of an environment's corpus, tasks and engine: a world, a real set, own files."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakValueDictionary

from ..cards import Card, card, cards
from ..corpora.corpus import KG_PREFIX, Corpus, is_files, own_files
from ..corpora.worlds import GeneratedWorld, check_split, generate_world
from ..curricula import TaskPool
from ..errors import CardError, TaskError, unknown
from ..objects import leaves
from ..types import SearchEngine, Task
from ..utils import collecting_later
from ..utils.trust import refuse
from ..worlds.world import World
from .info import public_id

if TYPE_CHECKING:
    from ..kgs.corpus import KGCorpus
    from ..tasks.draft import Family
    from ..tasks.grounded import TextFacts
    from .options import Options

C = TypeVar("C", bound=Corpus)

USUAL_SPLITS = ("train", "public")
"""Splits of environments that name none: the option's default, and that of the real sets' cards."""
OWN = "a corpus of your own"
DEFAULT_TASKS: Mapping[str, Any] = {
    "simple": 100, "chain": 100, "comparison": 100, "intersection": 50, "at_most": True,
}  # fmt: skip
"""Tasks of a generated world where neither keywords nor card say; fewer in a small world."""


@dataclass(frozen=True)
class Components:
    """Components of an environment, and what is derived from them once."""

    corpus: Corpus
    tasks: Sequence[Task]
    engine: SearchEngine
    world: World | None

    @cached_property
    def pool(self) -> TaskPool:
        """The tasks by number of hops, branches and blur."""
        return TaskPool(self.tasks)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Task id → index."""
        return {task.id: place for place, task in enumerate(self.tasks)}

    @cached_property
    def public_places(self) -> Mapping[str, Sequence[int]]:
        """Name in ``info`` → indices of the tasks with that question."""
        places: dict[str, list[int]] = {}
        for place, task in enumerate(self.tasks):
            places.setdefault(public_id(task.question), []).append(place)
        return places


LARGEST = 100_000
"""Most entities, questions and other numbers of what a file has made that others may have written:
a hundred thousand take minutes and a few GB."""
MOST_LEAVES = 200
"""Most options of a world, wording, table of tasks or engine in such a file, those within others
counted: each part of an engine reads the corpus anew."""


def check_open(options: Options) -> None:
    """``CardError`` while a file is read that others may have written, unless it names a shipped
    corpus and asks shipped or generated questions of it: nothing else is opened for it."""
    from ..engines.registry import check_open as check_engine

    corpus, tasks = options.corpus, options.tasks
    if isinstance(options.engine, str | Mapping):
        check_engine(options.engine)
    if isinstance(corpus, str) and corpus.removeprefix("searchgym/") not in cards("corpora"):
        refuse(f"the corpus {corpus!r:.80}")
    if isinstance(tasks, str):
        refuse(f"the questions {tasks!r:.80}")
    if options.data_dir is not None:
        refuse(f"the folder {options.data_dir!r:.80}")
    if isinstance(options.world, Mapping) and "schema" in options.world:
        refuse(f"the schema {options.world['schema']!r:.80}")
    for name in ("world", "tasks", "engine", "wording"):
        parts, most = list(leaves(getattr(options, name))), 100 if name == "wording" else LARGEST
        if len(parts) > MOST_LEAVES:
            refuse(f"{len(parts):,} options in {name}, more than {MOST_LEAVES}")
        numbers = [
            (k, v) for k, v in parts if isinstance(v, int | float) and not k.endswith("seed")
        ]
        if not sum(abs(value) for _, value in numbers) <= most:
            key, value = max(numbers, key=lambda each: abs(each[1]))
            refuse(f"{key}={value!r:.40} in {name}, more than {most:,} in all")


@collecting_later()  # a corpus is many objects without cycles
def load_components(options: Options) -> Components:
    """Build or load what an environment is made of."""
    source = options.corpus
    if (graphed := kg_source(source, options.data_dir)) is not None:
        return _asked_of_graph(graphed, options)
    own = isinstance(source, Corpus) or (isinstance(source, str) and is_files(source))
    asked_of_text = isinstance(options.tasks, Mapping)
    if not own and (source_card := _card_of(source)).body["kind"] == "world":
        return _generated(source_card, options)
    _refuse_recipe(options, OWN if own or asked_of_text else "a real set")
    if asked_of_text:
        return _asked_of_text(cast(Corpus, text_source(source, options)), options)
    tasks: Sequence[Task]
    if own:
        _refuse_split(options)
        corpus, tasks = cast(Corpus, text_source(source, options)), _own_tasks(options)
    else:
        from ..corpora.data import load_set

        corpus, tasks = load_set(source_card.id, split=options.split, data_dir=options.data_dir)
        if options.tasks is not None:
            tasks = _own_tasks(options)
    return Components(corpus, _asked(tasks, options), _engine(options.engine, corpus), None)


def text_source(source: Any, options: Options) -> Corpus | None:
    """The passages of a corpus that is no generated world: one's own, files, or a real set's."""
    if isinstance(source, Corpus):
        return source
    if isinstance(source, str) and is_files(source):
        from ..corpora.load import load_corpus

        return load_corpus(source)
    source_card = _card_of(source)
    if source_card.body["kind"] == "world":
        return None
    from ..corpora.data import load_set

    return load_set(source_card.id, next(iter(source_card.body.get("splits", ())), "public"),
                    options.data_dir)[0]  # fmt: skip


def rules_for(corpus: Corpus) -> str:
    """The rules of a corpus' language, told by its commonest words; English where there are none of
    its own."""
    from ..engines.languages import language_of

    found = language_of(passage.text for passage in islice(corpus, 500))
    return found if found in ("spanish", "french") else "english"


def _asked_of_text(corpus: Corpus, options: Options) -> Components:
    """Questions that rules make of a corpus' text; without the passages that the unanswerable ones
    lack."""
    from ..corpora.data import descriptions
    from ..tasks.grounded import FAMILIES, ground
    from ..tasks.grounded.build import NEEDED, split_of

    table = {family: number for family, number in options.tasks.items() if family != "at_most"}
    asking = _asking({name: n for name, n in table.items() if name not in FAMILIES})
    counts = {family: number for family, number in table.items() if family in FAMILIES}
    if unfit := [name for name in table if name not in counts and name not in asking]:
        raise CardError(
            f"a corpus of your own has no {', '.join(unfit)} questions: they need a generated "
            "world. Give questions, tasks='questions.jsonl' or tasks=[Task(…), …], or have them "
            "made from the text: tasks={'fact': 100, 'bridge': 50}, on the command line -s "
            f"'tasks={{fact=100, bridge=50}}' ({', '.join(FAMILIES)})"
        )
    split = {"public": "test", "dev_extra": "dev"}.get(options.split, options.split)
    proof = _engine("bm25", corpus)
    made = ground(
        corpus,
        counts,
        proof.search,  # type: ignore[attr-defined]
        name=corpus.name,
        split=split,  # type: ignore[arg-type]
        at_most=bool(options.tasks.get("at_most")),
        descriptions=descriptions(corpus.name, options.data_dir),
        rules=rules_for(corpus),
    )
    if made.withheld:
        corpus = Corpus(corpus.name, [p for p in corpus if p.id not in made.withheld])
    more, corpus = _asked_by(asking, corpus, split, options)
    if not made.tasks and not more and any(table.values()):
        asked = sum(split_of(passage.title) == split for passage in corpus)
        name = options.corpus if isinstance(options.corpus, str) else corpus.name
        raise CardError(
            f"rules made 0 questions of {name}: it has {len(corpus):,} passages, {asked:,} of them "
            f"in the split {split!r}. {NEEDED}. See what rules make of it: searchgym tasks make "
            f"{name} --split {split} --out tasks.jsonl"
        )
    tasks = _asked([*made.tasks, *more], options)
    return Components(corpus, tasks, _engine(options.engine, corpus), None)


def _asking(counts: Mapping[Any, Any]) -> dict[str, tuple[Family, int]]:
    """The families of a table that ask of any corpus, and how many tasks of each."""
    from ..tasks.families import FAMILIES, wanted_families

    def used(name: Any, value: Any) -> Any:
        return value.get("use", name) if isinstance(value, Mapping) else name

    known = {n: v for n, v in counts.items() if (use := used(n, v)) in FAMILIES or ":" in str(use)}
    return {f.name: (f, number) for f, number in wanted_families(known) if f.ask is not None}


def _asked_by(
    asking: Mapping[str, tuple[Family, int]], corpus: C, split: str, options: Options
) -> tuple[list[Task], C]:
    """Tasks of families that ask of any corpus, each of what the one before left, and what is
    searched; fewer than were asked for are an error, or with ``at_most`` a warning."""
    from ..tasks.build import FewerTasks

    tasks: list[Task] = []
    for name, (family, number) in asking.items():
        if options.families is not None and name not in options.families:
            continue
        assert family.ask is not None
        proof: Any = _engine("bm25", corpus)
        found, searched = family.ask(corpus, number, split=split, search=proof.search)
        corpus = cast(C, searched)
        if len(found) < number:
            short = f"{corpus.name}: asked for {number} {name} tasks, and {len(found)} can be made"
            if not cast(Mapping[str, Any], options.tasks).get("at_most"):
                raise TaskError(
                    f"{short} of its {split} part; ask for fewer, or give at_most: true"
                )
            warnings.warn(short, FewerTasks, stacklevel=2)
        tasks += [replace(task, family=name, split=split) for task in found]
    return tasks, corpus


def _card_of(source: Any) -> Card:
    """The card that ``corpus`` names; ``CardError`` says how a path object is written."""
    if isinstance(source, os.PathLike):
        path = os.fspath(source)
        text = path if "/" in path else f"./{path}"
        raise CardError(f"corpus is a text, got {source!r}; write corpus={text!r}")
    return card("corpora", str(source))


_BM25: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""The engine "bm25" over each corpus in use, by the corpus' ``id``."""


def _engine(spec: Any, corpus: Corpus, world: World | None = None) -> SearchEngine:
    """An engine over a corpus; environments that search the same one share "bm25" over it, which is
    a function of the query."""
    from ..engines import build_engine

    if spec != "bm25":
        return build_engine(spec, corpus, world)
    engine = _BM25.get(id(corpus))
    if engine is None or engine.corpus is not corpus:
        engine = _BM25[id(corpus)] = build_engine(spec, corpus)
    return engine


def kg_source(source: Any, data_dir: Any = None) -> KGCorpus | None:
    """The passages of a knowledge graph, if ``source`` names one: "kg:PATH" of triples, "kg:" and a
    folder of text or a set, whose facts are read, a card of kind "graph", a graph, or its
    corpus."""
    if not isinstance(source, str):
        from ..kgs.corpus import KGCorpus, kg_corpus
        from ..kgs.graph import KnowledgeGraph

        if isinstance(source, KnowledgeGraph):
            return kg_corpus(source)
        return source if isinstance(source, KGCorpus) else None
    if source.startswith(KG_PREFIX):
        from ..kgs.corpus import kg_corpus
        from ..kgs.files import is_kg, load_kg

        name = source.removeprefix(KG_PREFIX)
        if is_kg(Path(name)) or not (Path(name).is_dir() or name in cards("corpora")):
            return kg_corpus(load_kg(source))
        return kg_corpus(facts_of(name, data_dir).graph())
    if is_files(source):
        return None
    corpus_card = card("corpora", source)
    if corpus_card.body["kind"] != "graph":
        return None
    from ..kgs.corpus import kg_corpus
    from ..kgs.files import load_kg_card

    return kg_corpus(load_kg_card(corpus_card, data_dir))


def facts_of(name: str, data_dir: Any = None) -> TextFacts:
    """The facts that a folder of text or a real set states."""
    from ..corpora.data import descriptions
    from ..tasks.grounded import read_facts
    from .options import Options

    folder = f"{name}/" if Path(name).is_dir() else name
    found = text_source(folder, Options(corpus=name, data_dir=data_dir))
    if found is None:
        raise CardError(f"{name} is a generated world; engine='graph' knows its facts as they are")
    return read_facts(found, name=found.name, descriptions=descriptions(found.name, data_dir),
                      rules=rules_for(found))  # fmt: skip


KG_TASKS = {"simple": 100, "chain": 100}
"""Questions asked of a knowledge graph where keywords do not say."""


def _asked_of_graph(corpus: KGCorpus, options: Options) -> Components:
    """Questions of one's own, or asked from the graph; what BM25 does not find is left out."""
    from ..tasks.families import wanted_families
    from ..tasks.graphs import FAMILIES, build_graph_tasks

    _refuse_recipe(options, "a knowledge graph")
    if options.tasks is not None and not isinstance(options.tasks, Mapping):
        _refuse_split(options)
        engine = _engine(options.engine, corpus)
        return Components(corpus, _asked(_own_tasks(options), options), engine, None)
    check_split(options.split)
    counts = KG_TASKS if options.tasks is None else options.tasks
    asking = _asking({name: n for name, n in counts.items() if name not in FAMILIES})
    kept, corpus = _asked_by(asking, corpus, options.split, options)
    engine = _engine(options.engine, corpus)
    wanted = dict(wanted_families(counts))  # a family that no corpus has fails here, by name
    _check_families(options, (family.name for family in wanted))
    kept += build_graph_tasks(
        corpus, {family: n for family, n in wanted.items() if family.name not in asking},
        _engine("bm25", corpus), split=options.split, families=options.families,  # type: ignore[arg-type]
    )  # fmt: skip
    return Components(corpus, _chosen(kept, options), engine, None)


def _own_tasks(options: Options) -> Sequence[Task]:
    if isinstance(options.tasks, str):
        from ..corpora.load import load_questions

        return load_questions(options.tasks)
    if isinstance(options.tasks, Sequence) and all(isinstance(t, Task) for t in options.tasks):
        from ..tasks.records import checked_tasks

        return checked_tasks(options.tasks)
    raise CardError(
        "a corpus of your own needs questions: tasks='questions.jsonl', tasks=[Task(…), …], or "
        "numbers of those made from its text, tasks={'fact': 100, 'bridge': 50} (on the command "
        "line -s 'tasks={fact=100, bridge=50}'); a "
        f"real set brings its own with tasks=None; got {_described(options.tasks)}"
    )


def _refuse_recipe(options: Options, what: str) -> None:
    for name in ("world", "wording"):
        if getattr(options, name) is not None:
            raise CardError(f"{name} changes how a world is generated; {what} takes no {name}=")


def _refuse_split(options: Options) -> None:
    if options.split not in USUAL_SPLITS:
        raise CardError(
            f"split chooses one of a card's worlds or question files; {OWN} takes no split=, "
            f"got {options.split!r}; name a file of the questions you want with tasks="
        )


def _described(tasks: Any) -> str:
    """Name the kind of what was given as tasks, by an environment's card too, and of a list the
    first that is none."""
    kind = type(tasks).__name__
    for task in tasks if isinstance(tasks, Sequence) else ():
        if not isinstance(task, Task):
            return f"a {kind} that holds a {type(task).__name__}: {task!r:.80}"
    return kind


def _check_families(options: Options, known: Iterable[str]) -> None:
    there = [*dict.fromkeys(known)] if options.families is not None else []
    for family in options.families or ():
        if family not in there:
            raise CardError(unknown("task family", str(family), there))


MISSED = 0.25
"""Share of a family's tasks from which on it is said that they were left out."""


def _say_unproved(built: Sequence[Task], kept: Sequence[Task]) -> None:
    from ..tasks.build import FewerTasks

    made, left = (Counter(task.family for task in tasks) for tasks in (built, kept))
    few = [
        f"{left[name]} of {n} {name}" for name, n in made.items() if left[name] < (1 - MISSED) * n
    ]
    if few:
        warnings.warn(
            f"questions that fail their proof are left out: {', '.join(few)} remain",
            FewerTasks,
            stacklevel=2,
        )


def _asked(tasks: Sequence[Task], options: Options) -> list[Task]:
    _check_families(options, (task.family for task in tasks))
    return _chosen(tasks, options)


def _chosen(tasks: Sequence[Task], options: Options) -> list[Task]:
    kept = [t for t in tasks if options.families is None or t.family in options.families]
    return kept[: options.max_tasks]


_WORLDS: OrderedDict[str, tuple[GeneratedWorld, SearchEngine]] = OrderedDict()
_KEPT = 2
"""Worlds kept per process: environments that only ask other questions of one share it."""
_LARGEST = 20_000
"""Passages of a world that is kept; memory is not held for larger ones."""


def _indexed(corpus_card: Card, options: Options) -> tuple[GeneratedWorld, SearchEngine]:
    """The world of a card's split, and BM25 over its passages: from a cache where its recipe is of
    plain values and the card's files have not changed since."""
    recipe = [corpus_card.id, options.split, options.world, options.wording]
    try:
        key = json.dumps([recipe, own_files({"corpus": str(corpus_card.folder)})], sort_keys=True)
    except TypeError:  # as generate() will say
        key = ""
    if key not in _WORLDS:
        data = generate_world(corpus_card, options.split, options.world, options.wording)
        made = data, _engine("bm25", data.corpus)
        if not key or len(data.corpus) > _LARGEST:
            return made
        _WORLDS[key] = made
    _WORLDS.move_to_end(key)
    while len(_WORLDS) > _KEPT:
        _WORLDS.popitem(last=False)
    return _WORLDS[key]


def _generated(corpus_card: Card, options: Options) -> Components:
    from ..tasks.audit import Prover, verify
    from ..tasks.build import build_tasks
    from ..tasks.families import unproved, wanted_families

    data, proof = _indexed(corpus_card, options)
    engine = _engine(options.engine, data.corpus, data.world)
    recipe = {**corpus_card.body.get("world", {}), **(options.world or {})}
    default = recipe.get("tasks", DEFAULT_TASKS)
    counts: Any = options.tasks if options.tasks is not None else default
    if not isinstance(counts, Mapping):
        tasks: Sequence[Task] = _own_tasks(options)
        return Components(data.corpus, _asked(tasks, options), engine, data.world)
    _check_families(options, (family.name for family, _ in wanted_families(counts)))
    prover, exempt = Prover(data.world, data.corpus), unproved(counts)

    def proved(built: Sequence[Task]) -> Sequence[Task]:
        report = verify(built, data.world, data.corpus, proof, exempt=exempt, prover=prover)
        return report.kept

    refill = bool(recipe.get("refill", False))
    tasks = build_tasks(
        data.world, data.corpus, counts=counts, families=options.families, seed=data.seed,
        wording_seed=data.wording_seed, phrasing=data.phrasing, split=options.split,
        id_prefix=f"{corpus_card.id}-{options.split}", prove=proved if refill else None,
    )  # fmt: skip
    if not refill:
        built, tasks = tasks, list(proved(tasks))
        _say_unproved(built, tasks)
    return Components(data.corpus, _chosen(tasks, options), engine, data.world)
