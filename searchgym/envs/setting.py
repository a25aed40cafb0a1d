"""What the episodes of one environment share: corpus, tasks, tools and rules.

Built once per recipe and process, however many environments use it: N single environments and a
vector environment of N slots hold the same index in memory once.
"""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..arguments import check_tools
from ..cards import load_object
from ..corpora.corpus import Corpus
from ..curricula import TaskPool
from ..dialects.base import DIALECTS, SELF_SEARCH, get_dialect
from ..errors import CardError, unknown
from ..rules import Rules
from ..scoring.reward import RewardSpec
from ..tools import AccessTool, SearchTool, Tool, Toolbox
from ..types import Access, Call, Delegate, Judge, Task
from ..worlds.world import World
from .self_mode import adapted
from .sources import Material, material, own_files

TOOLS = ("search", "access")


@dataclass(frozen=True, slots=True)
class Options:
    """Keywords of ``gym.make``: strings, numbers and plain containers, so that specs serialise.

    ``corpus``, ``tasks`` and ``engine`` also take objects (a ``Corpus``, a list of ``Task``, a
    ``SearchEngine``) for people who bring their own.
    """

    corpus: Any = "encyclopedia"
    """A corpus card's name, a path to your files, ``"kg:PATH"`` for a knowledge graph's triples, or
    a ``Corpus`` or ``KnowledgeGraph``."""
    split: str = "train"
    """train | dev | test for worlds (separate worlds); a question file's split for real sets."""
    world: Mapping[str, Any] | None = None
    """Overrides of the card's world recipe: ``{"entities": 10_000, "seed": 3}``."""
    wording: Mapping[str, Any] | None = None
    """Overrides of how the world is put into words: ``{"phrasing": "heldout", "seed": 1}``,
    ``{"paraphrases": True}``."""
    tasks: Any = None
    """Tasks per family (``{"simple": 200}``), a question file, or tasks. None: the card's."""
    families: Sequence[str] | None = None
    """Keep only tasks of these families."""
    max_tasks: int | None = None
    """Keep only the first so many tasks."""
    data_dir: str | None = None
    engine: Any = "bm25"
    """``"bm25"``, ``"graph"``, a mapping with ``name`` and arguments, or a ``SearchEngine``.
    ``"self"``: no engine; the policy writes its own results (see ``searchgym.envs.self_mode``)."""
    tools: Sequence[str] = ("search",)
    """Any of ``"search"``, ``"access"``, and where a graph stands behind the corpus
    ``"graph_facts"``, ``"graph_neighbors"``, ``"graph_path"``, ``"graph_rank"``,
    ``"community_search"``, ``"graph_search"``."""
    dialect: str = "search_r1"
    k: int = 3
    max_turns: int = 6
    max_queries: int | None = None
    max_parallel: int = 1
    max_chars: int = 1_000_000
    max_tokens: int | None = None
    token_counter: str = "words"
    max_action_chars: int = 20_000
    snippet_chars: int | None = 4_000
    page_chars: int = 25_000
    page_stub_chars: int | None = None
    judge: bool = False
    delegate: bool = False
    may_abstain: bool = False
    max_retries: int = 2
    reward: Any = "em"
    """A reward part's name or weights per part, e.g. ``{"f1": 1, "search": -0.02}``."""

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> Options:
        """Validate keywords; ``CardError`` suggests the nearest name for an unknown one."""
        known = {f.name for f in fields(cls)}
        for name in keywords:
            if name not in known:
                raise CardError(unknown("environment option", name, known))
        return cls(**keywords)


RULES = frozenset({f.name for f in fields(Rules)} & {f.name for f in fields(Options)})
"""The options that change no world, task or engine."""


class Setting:
    """Corpus, tasks, toolbox and rules of an environment."""

    def __init__(self, keywords: Mapping[str, Any]) -> None:
        self.keywords = dict(keywords)
        self.options = options = adapted(Options.of(keywords), keywords)
        found: Material = material(options)
        self.corpus: Corpus = found.corpus
        self.world: World | None = found.world
        self.tasks: Sequence[Task] = found.tasks
        self._by_id = {task.id: i for i, task in enumerate(self.tasks)}
        if not self.tasks:
            raise CardError(f"no task is left for {options.corpus!r} split {options.split!r}")
        self.pool = TaskPool(self.tasks)
        self.engine = found.engine
        self.toolbox = Toolbox(self._tools())
        self.rules = self._rules()
        self.variants: dict[tuple[int | None, ...], Rules] = {}
        """The rules at other difficulties (``envs.difficulty``)."""

    def _tools(self) -> dict[str, Tool]:
        from ..engines.graph.tools import GRAPH_TOOLS, make_tool
        from ..engines.pages import CorpusPages, pages_of

        names = tuple(self.options.tools)
        for name in names:
            if name not in TOOLS and name not in GRAPH_TOOLS:
                raise CardError(unknown("tool", name, (*TOOLS, *GRAPH_TOOLS)))
        made: dict[str, Tool] = {}
        for name in names:  # in their order: the axis "tools" takes the first so many
            if name == "search":
                made[name] = SearchTool(self.engine, self.options.k, self.corpus)
            elif name == "access":
                made[name] = AccessTool(pages_of(self.engine, CorpusPages(self.corpus)))
            else:
                made[name] = make_tool(name, self.corpus, self.world)
        check_tools(tool.spec for tool in made.values())
        return made

    def _rules(self) -> Rules:
        options = self.options
        values = {name: getattr(options, name) for name in RULES - {"tools", "reward"}}
        values["dialect"] = _able(options)
        return Rules(
            tools=self.toolbox.specs(tuple(self.toolbox.tools)),
            reward=RewardSpec.of(options.reward),
            needs_task=tuple(sorted(self.toolbox.needs_task)),
            **values,
        )

    def under(self, **rules: Any) -> Setting:
        """The same world, tasks and engine under other rules, e.g. ``k=1``; ``CardError`` for an
        option that they are made of."""
        for name in rules:
            if name not in RULES:
                raise CardError(unknown("rule", name, sorted(RULES)))
        made = copy.copy(self)
        made.keywords = {**self.keywords, **rules}
        made.options = adapted(Options.of(made.keywords), made.keywords)
        made.toolbox = Toolbox(made._tools())
        made.rules = made._rules()
        made.variants = {}
        return made

    def position(self, task_id: str) -> int:
        """Index of a task; ``CardError`` for an unknown id."""
        try:
            return self._by_id[task_id]
        except KeyError:
            raise CardError(unknown("task id", str(task_id), list(self._by_id)[:200])) from None


def _able(options: Options) -> str:
    """The dialect's name with every option switched on that the rules need, so that no tool is
    offered which the policy has no way to call."""
    called = [tool for tool in options.tools if tool not in TOOLS]
    needs = {
        "access": "access" in options.tools,
        "parallel": options.max_parallel > 1,
        "judge": options.judge,
        "delegate": options.delegate,
        "tools": bool(called),
    }
    name = options.dialect
    base, *chosen = name.split("+")
    get_dialect(name)  # a wrong name fails here, by name
    flags = getattr(load_object(DIALECTS.get(base) or SELF_SEARCH.get(base, base)), "FLAGS", ())
    kinds = {"access": Access, "judge": Judge, "delegate": Delegate, "tools": Call}
    for flag, needed in needs.items():
        if not needed or flag in chosen:
            continue
        if flag in flags:
            name += f"+{flag}"
        elif flag in kinds and kinds[flag] not in get_dialect(name).renders:
            raise CardError(f"the dialect {base!r} has no way to say {flag!r}; choose another")
    sayable: frozenset[str] | None = getattr(get_dialect(name), "CALLS", None)
    if sayable is not None and (unsaid := sorted(set(called) - sayable)):
        raise CardError(
            f"the dialect {base!r} can call {', '.join(sorted(sayable))} only, not {unsaid[0]}; "
            "use another, for example dialect='json_tools'"
        )
    return get_dialect(name).name


_CACHE: OrderedDict[str, Setting] = OrderedDict()
_CACHED = 4
"""Settings kept per process: worlds are large, and most programs use one or two."""


def setting(keywords: Mapping[str, Any]) -> Setting:
    """The setting for keywords, from the cache where they are plain values and the files they name
    have not changed since."""
    try:
        key = json.dumps([dict(keywords), own_files(keywords)], sort_keys=True)
    except TypeError:  # objects were passed: theirs to share
        key = None
    if key is None:
        return Setting(keywords)
    if key in _CACHE:
        _CACHE.move_to_end(key)
        return _CACHE[key]
    made = _CACHE[key] = Setting(keywords)
    while len(_CACHE) > _CACHED:
        _CACHE.popitem(last=False)
    return made
