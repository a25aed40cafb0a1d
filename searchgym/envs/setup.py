"""Setup shared by the episodes of one environment: corpus, tasks, tools and rules.

Components are built once per recipe and process, however many environments use them: N single
environments and a vector environment of N slots hold the same index in memory once.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..core.rules import Rules, check_numbers
from ..corpora.corpus import Corpus
from ..curricula import TaskPool
from ..dialects.specs import is_self_search, with_required_flags
from ..errors import CardError, unknown, unknown_id
from ..rewards.reward import Reward
from ..tools import Toolbox, ToolContext, make_toolbox
from ..types import Task
from ..worlds.world import World
from .sources import Components, check_open, load_components, own_files

OF_THE_ENVIRONMENT = frozenset({"curriculum", "params", "render_mode", "search_enabled"})
"""Keywords of ``gym.make`` that are the environment's own and shared by no other."""


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
    tools: Sequence[Any] = ("search",)
    """Each a name of ``searchgym.tools.TOOLS``, an import path, ``{"use": either, **options}``, a
    class, a function or an object (``searchgym.tools.make_tool``)."""
    dialect: Any = "search_r1"
    """A name, options appended with ``+``; ``"package.module:Class"``; ``{"use": either,
    **options}``; a class or an object (``searchgym.dialects.base.get_dialect``)."""
    instructions: str | None = None
    """A prompt in place of the dialect's: a text with ``{question}`` and other placeholders, or a
    published prompt's name (``searchgym.dialects.prompts``)."""
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
    one_search: bool = False
    max_retries: int = 2
    reward: Any = "em"
    """A reward part's name, an import path, a function, a list of these, or weights by part,
    e.g. ``{"f1": 1, "search": -0.02}``; see :class:`searchgym.rewards.Reward`."""

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> Options:
        """Validate keywords; ``CardError`` suggests the nearest name for an unknown one, and is
        raised for files where a file names them that others may have written."""
        known = {f.name for f in fields(cls)}
        for name in keywords:
            if name not in known:
                raise CardError(unknown("environment option", name, known | OF_THE_ENVIRONMENT))
        options = cls(**keywords)
        check_open(options)
        check_numbers(options)
        if isinstance(options.families, str):
            raise CardError(
                f"families is a list, for example [{options.families!r}]; got {options.families!r}"
            )
        return options


RULES = frozenset({f.name for f in fields(Rules)} & {f.name for f in fields(Options)})
"""The options that change no world, task or engine."""


class SearchSetup:
    """Corpus, tasks, toolbox and rules that episodes share.

    An environment holds one and shows its parts (``env.tasks``, ``env.rules``, …); nothing outside
    ``searchgym.envs`` is handed a setup. It pickles by its keywords: a copy in another process
    loads the components again, once for all environments there.
    """

    def __init__(self, keywords: Mapping[str, Any], components: Components | None = None) -> None:
        self.keywords = dict(keywords)
        self.options = options = _adapted(Options.of(keywords), keywords)
        self.components = components = components or load_components(options)
        self.corpus: Corpus = components.corpus
        self.world: World | None = components.world
        self.tasks: Sequence[Task] = components.tasks
        if not self.tasks:
            families = "" if options.families is None else f", families {[*options.families]}"
            raise CardError(
                f"no task is left for {options.corpus!r} split {options.split!r}{families}"
            )
        self.engine = components.engine
        self.toolbox = self._tools()
        self.rules = self._rules()
        self.variants: dict[tuple[int | None, ...], Rules] = {}
        """The rules at other difficulties (``envs.difficulty``)."""

    @property
    def pool(self) -> TaskPool:
        """The tasks by number of hops, branches and blur."""
        return self.components.pool

    def _tools(self) -> Toolbox:
        context = ToolContext(self.corpus, self.engine, self.world, self.options.k)
        return make_toolbox(self.options.tools, context)

    def _rules(self) -> Rules:
        options = self.options
        values = {name: getattr(options, name) for name in RULES - {"tools", "reward"}}
        values["dialect"] = with_required_flags(
            options.dialect, tools=tuple(self.toolbox.tools), max_parallel=options.max_parallel,
            judge=options.judge, delegate=options.delegate,
        )  # fmt: skip
        if options.instructions is not None:
            from ..dialects.prompts import prompt_of

            values["instructions"] = prompt_of(options.instructions)
        return Rules(
            tools=self.toolbox.specs(tuple(self.toolbox.tools)),
            reward=Reward.paid(options.reward),
            needs_task=tuple(sorted(self.toolbox.needs_task)),
            **values,
        )

    def under(self, **rules: Any) -> SearchSetup:
        """The same world, tasks and engine under other rules, e.g. ``k=1``; ``CardError`` for an
        option that they are made of."""
        for name in rules:
            if name not in RULES:
                raise CardError(unknown("rule", name, sorted(RULES)))
        return SearchSetup({**self.keywords, **rules}, self.components)

    def position(self, task_id: str) -> int:
        """Index of a task, named by its id or as ``info`` names it; ``CardError`` for an unknown
        id, or one of ``info`` that several tasks with the same question have."""
        if not isinstance(task_id, str):
            got = f"{type(task_id).__name__}: {task_id!r:.80}"
            raise CardError(f"a task is named by its id, a text, got {got}")
        known = self.components.places
        if (place := known.get(task_id)) is not None:
            return place
        places = self.components.public_places.get(task_id, ())
        if len(places) > 1:
            ids = ", ".join(repr(self.tasks[place].id) for place in places[:3])
            raise CardError(f"{task_id!r} means {len(places)} tasks that ask the same: name {ids}")
        if not places:
            raise CardError(unknown_id("task id", task_id, known))
        return places[0]

    def __reduce__(self) -> tuple[Any, ...]:
        keywords = dict(self.keywords)
        if not is_plain(keywords.get("reward")):  # an object that says what cannot be pickled
            keywords["reward"] = self.rules.reward
        return load_setup, (keywords,)


def _adapted(options: Options, keywords: Mapping[str, Any]) -> Options:
    """The options as ``engine="self"`` needs them, where engine or dialect ask for it."""
    other = isinstance(options.engine, str) and options.engine != "self"
    if other and not is_self_search(options.dialect):
        return options
    from .self_mode import adapted

    return adapted(options, keywords)


_CACHE: OrderedDict[str, Components] = OrderedDict()
_CACHED = 4
"""Worlds and corpora kept per process: they are large, and most programs use one or two."""


def load_setup(keywords: Mapping[str, Any]) -> SearchSetup:
    """The setup of ``keywords``. Its components come from a cache where the keywords they are made
    of are plain values and the files these name have not changed since."""
    Options.of(keywords)
    made_of = {name: value for name, value in keywords.items() if name not in RULES}
    try:
        key = json.dumps([made_of, own_files(keywords)], sort_keys=True)
    except TypeError:  # objects were passed: theirs to share
        return SearchSetup(keywords)
    setup = SearchSetup(keywords, _CACHE.get(key))
    _CACHE[key] = setup.components
    _CACHE.move_to_end(key)
    while len(_CACHE) > _CACHED:
        _CACHE.popitem(last=False)
    return setup


def is_plain(value: Any) -> bool:
    """Check whether a value is JSON."""
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True
