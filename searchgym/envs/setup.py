"""Setup shared by the episodes of one environment: corpus, tasks, tools and rules.

Components are built once per recipe and process, however many environments use them: N single
environments and a vector environment of N slots hold the same index in memory once.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.rules import Rules
from ..corpora.corpus import Corpus, own_files
from ..curricula import TaskPool
from ..dialects.base import with_required_flags
from ..errors import CardError, unknown, unknown_id
from ..rewards.reward import Reward
from ..tools import Toolbox, ToolContext, make_toolbox
from ..types import Task
from ..worlds.world import World
from .options import RULES, Options, adapted
from .sources import Components, check_open, load_components


class SearchSetup:
    """Corpus, tasks, toolbox and rules that episodes share.

    An environment holds one and shows its parts (``env.tasks``, ``env.rules``, …); nothing outside
    ``searchgym.envs`` is handed a setup. It pickles by its keywords: a copy in another process
    loads the components again, once for all environments there.
    """

    def __init__(self, keywords: Mapping[str, Any], components: Components | None = None) -> None:
        self.keywords = dict(keywords)
        self.options = options = adapted(checked_options(keywords), keywords)
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
            judge=options.judge, delegate=bool(options.delegate),
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


def checked_options(keywords: Mapping[str, Any]) -> Options:
    """The options of keywords; ``CardError`` for what cannot be, and for files where a file names
    them that others may have written."""
    options = Options.of(keywords)
    check_open(options)
    return options


_CACHE: OrderedDict[str, Components] = OrderedDict()
_CACHED = 4
"""Worlds and corpora kept per process: they are large, and most programs use one or two."""


def load_setup(keywords: Mapping[str, Any]) -> SearchSetup:
    """The setup of ``keywords``. Its components come from a cache where the keywords they are made
    of are plain values and the files these name have not changed since."""
    checked_options(keywords)
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
