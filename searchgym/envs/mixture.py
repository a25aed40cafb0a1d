"""Sources of a training's questions: environments, worlds and texts, in shares by weight.

An entry names an environment's id, a corpus card or a folder of texts, or is a table of
``gym.make``'s keywords with three more: ``id``, ``weight`` and ``worlds`` (seeds of generated
worlds). Its development tasks are those of its own split "dev".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from ..cards import cards
from ..corpora.corpus import KG_PREFIX, is_files
from ..errors import CardError, unknown
from ..objects import is_number
from .options import Options
from .registration import env_id, env_ids
from .search import SearchEnv
from .unwrap import search_env

TEXT_TASKS: Mapping[str, Any] = {
    "fact": 400, "gap": 400, "bridge": 400, "comparison": 200, "at_most": True,
}  # fmt: skip
"""Questions made of a text where an entry does not say."""
MOST = 1000
"""Most environments of a mixture."""
OWN_KEYS = ("id", "weight", "worlds", "dev")
OF_SOURCES = frozenset(
    {"corpus", "split", "world", "wording", "tasks", "families", "max_tasks", "data_dir"}
)
"""Options that say what an entry is, so that no other entry takes them over."""


@dataclass(frozen=True, slots=True)
class Portion:
    """One entry of a mixture."""

    name: str
    keywords: Mapping[str, Any]
    """Keywords of ``gym.make``."""
    id: str | None = None
    weight: float | None = None
    """Share of the questions that are drawn; None: every question of the mixture is as likely."""
    worlds: tuple[int, ...] = ()
    """Seeds of generated worlds, each an environment; none: that of the keywords."""
    dev: Mapping[str, Any] = field(default_factory=dict)
    """Changes of the keywords for the development tasks."""

    def table(self) -> dict[str, Any]:
        """The entry as a table, with all that was left out."""
        own = {"id": self.id, "weight": self.weight, "worlds": list(self.worlds), "dev": self.dev}
        return {**self.keywords, **{k: v for k, v in own.items() if v or v == 0}}

    def envs(self) -> list[SearchEnv]:
        """Make the environments of its training tasks."""
        return [self._made({**self.keywords, **self._world(seed)}) for seed in self.seeds()]

    def dev_env(self) -> SearchEnv:
        """Make the environment of its development tasks.

        Raises:
            CardError: its questions are a list or a file, which has no development split.
        """
        tasks = {**self._of_id(), **self.keywords, **self.dev}.get("tasks")
        if not _has_splits(tasks) and "tasks" not in self.dev:
            raise CardError(
                f"{self.name}: these questions have no development split: give other ones, "
                'dev={tasks="dev.jsonl"}, or dev=[…] beside env, to select the model by'
            )
        keywords = {**self.keywords, **self.dev}
        if _has_splits(tasks):
            keywords["split"] = self.dev.get("split", "dev")
        world = {**(self.keywords.get("world") or {}), **(self.dev.get("world") or {})}
        return self._made({**keywords, "world": world} if world else keywords)

    @property
    def is_world(self) -> bool:
        """True if it is played in generated worlds."""
        corpus = {**self._of_id(), **self.keywords}.get("corpus", "encyclopedia")
        known = cards("corpora").get(corpus) if isinstance(corpus, str) else None
        return known is not None and known.body["kind"] == "world"

    def seeds(self) -> Sequence[int | None]:
        """Seeds of its worlds, each an environment; (None,) where the keywords name the world."""
        return self.worlds or (None,)

    def _world(self, seed: int | None) -> dict[str, Any]:
        if seed is None:
            return {}
        return {"world": {**(self.keywords.get("world") or {}), "seed": seed}}

    def _of_id(self) -> Mapping[str, Any]:
        return gym.spec(self.id).kwargs if self.id else {}

    def _made(self, keywords: Mapping[str, Any]) -> SearchEnv:
        if self.id:
            try:
                made = gym.make(self.id, **keywords)
            except TypeError as error:  # of somebody's own environment
                raise CardError(f"{self.id} cannot be made of these options: {error}") from error
            return search_env(made, stepped=True)
        return SearchEnv(**keywords)


def mixture(entries: Any, rules: Mapping[str, Any] | None = None, split: str = "") -> list[Portion]:
    """Read what a recipe's ``env`` names.

    Args:
        entries: An entry or a list of them: an environment's id (``"MultiHopQA-v0"``), a corpus
            (``"vital"``, ``"notes/"``), or a table such as ``{"corpus": "notes/", "tasks":
            {"fact": 200}, "weight": 1}``.
        rules: Options such as ``max_turns`` that hold for entries that do not set them;
            :data:`OF_SOURCES` are passed over.
        split: Of entries that name none and whose questions have splits.

    Raises:
        CardError: nothing of that name, an unknown key, or an impossible weight.
    """
    single, what = isinstance(entries, str | Mapping), split or "env"
    if (not single and not isinstance(entries, Sequence)) or entries == "":
        raise CardError(
            f"{what} is an id, a corpus, a table or a list of these, got {entries!r:.80}"
        )
    listed = [entries] if single else list(entries)
    if not listed:
        raise CardError(f'{what} is an empty list: name something, ["SearchQA-v0", "notes/"]')
    parts = [_part(entry, rules or {}, split) for entry in listed]
    total = sum(part.weight or 0 for part in parts)
    if any(part.weight is not None for part in parts) and not (total and is_number(total)):
        raise CardError(f"the weights of {what} sum to {total}, which cannot be shared")
    if (made := sum(len(part.seeds()) for part in parts)) > MOST:
        raise CardError(f"{what} is {made:,} environments, at most {MOST:,} are made")
    return parts


def _part(entry: Any, rules: Mapping[str, Any], split: str) -> Portion:
    if isinstance(entry, str):
        entry = _named(entry)
    if not isinstance(entry, Mapping):
        raise CardError(f"an entry of env is a name or a table, got {entry!r:.80}")
    keywords = {k: v for k, v in entry.items() if k not in OWN_KEYS}
    given, weight = entry.get("id"), entry.get("weight")
    if weight is not None and not (is_number(weight) and weight >= 0):
        raise CardError(f"weight is a number of at least 0, got {weight!r}")
    worlds = entry.get("worlds", ())
    if not isinstance(worlds, list | tuple) or not all(type(seed) is int for seed in worlds):
        raise CardError(f"worlds are seeds of generated worlds, [0, 1, 2], got {worlds!r}")
    if not isinstance(entry.get("dev", {}), Mapping):
        raise CardError(f"dev of an entry is a table of changes, got {entry['dev']!r:.80}")
    known = {*Options.__dataclass_fields__, *OWN_KEYS}
    for key in {**keywords, **entry.get("dev", {})} if given is None else ():
        if key not in known:
            raise CardError(unknown("key of an entry of env", str(key), known))
    if not isinstance(given, str | None):
        raise CardError(f"id is an environment's id, got {given!r:.80}")
    for table in (entry, entry.get("dev", {})):
        if not isinstance(world := table.get("world"), Mapping | None):
            raise CardError(f"world is a table of the card's settings to change, got {world!r:.80}")
    made_id = env_id(given) if given is not None else None
    keywords = {**{k: v for k, v in rules.items() if k not in OF_SOURCES}, **keywords}
    if given is None and "tasks" not in keywords and _is_bare_text(keywords.get("corpus")):
        keywords["tasks"] = dict(TEXT_TASKS)
    if split and "split" not in keywords and _has_splits(keywords.get("tasks")):
        keywords["split"] = split
    name = str(given or keywords.get("corpus", "encyclopedia"))
    part = Portion(name, keywords, made_id, weight, tuple(worlds), dict(entry.get("dev", {})))
    if part.worlds and not part.is_world:
        raise CardError(
            f"{name} is no generated world, and only those have seeds: leave worlds out"
        )
    return part


def _has_splits(tasks: Any) -> bool:
    """Check whether questions are made or chosen by split, not given as a list or a file."""
    return tasks is None or isinstance(tasks, Mapping)


def _is_bare_text(corpus: Any) -> bool:
    """Check whether a corpus brings no questions, so that they are made of its text."""
    if not isinstance(corpus, str):
        return corpus is not None
    if corpus.startswith(KG_PREFIX):
        return False
    if is_files(corpus):
        return True
    known = cards("corpora").get(corpus)
    return known is not None and known.body["kind"] == "real" and not known.body.get("splits")


def _named(name: str) -> dict[str, Any]:
    """The table that a name alone means."""
    known_id = name in gym.registry or f"searchgym/{name}" in gym.registry
    if (is_files(name) and not known_id) or name.startswith(KG_PREFIX) or name in cards("corpora"):
        return {"corpus": name}
    try:
        return {"id": env_id(name)}
    except CardError:
        ids = [i.removeprefix("searchgym/") for i in env_ids()]
        known = [*ids, *cards("corpora")]
        raise CardError(
            f"{unknown('environment or corpus', name, known)}; nor is there a file or folder of "
            "that name here"
        ) from None


def shares(parts: Sequence[Portion], sizes: Sequence[int]) -> list[float]:
    """Share of each part, summing to 1: by weight (1 where a part of several has none), or by its
    number of questions where no part has a weight."""
    if all(part.weight is None for part in parts):
        raw: list[float] = [float(size) for size in sizes]
    else:
        raw = [1.0 if part.weight is None else part.weight for part in parts]
    return [value / sum(raw) for value in raw]


class EnvironmentMix:
    """Environments of which each training step plays one, in shares by weight.

    Args:
        envs: Environments of SearchGym.
        weights: One of each, not negative; None: all alike.
    """

    def __init__(self, envs: Sequence[SearchEnv], weights: Sequence[float] | None = None) -> None:
        raw = [1.0] * len(envs) if weights is None else list(weights)
        self.envs = tuple(env for env, weight in zip(envs, raw, strict=True) if weight)
        self.shares = tuple(weight / sum(raw) for weight in raw if weight)
        self._order: list[int] = []
        self._played = [0] * len(self.envs)

    @classmethod
    def of(cls, env: Any, rules: Mapping[str, Any] | None = None) -> EnvironmentMix:
        """Make it of an environment, its id or spec, or of a table or list as :func:`mixture`
        reads it, whose entries take ``rules`` where they set none.

        Raises:
            CardError: as :func:`mixture`, or an environment that cannot be made.
        """
        if isinstance(env, EnvironmentMix):
            return env
        if not isinstance(env, Mapping | list | tuple):
            return cls([search_env(env, stepped=True)])
        parts = mixture(env, rules)
        made = [part.envs() for part in parts]
        sizes = [sum(len(each.tasks) for each in envs) for envs in made]
        weights = [
            share * len(each.tasks) / size
            for envs, size, share in zip(made, sizes, shares(parts, sizes), strict=True)
            for each in envs
        ]
        return cls([each for envs in made for each in envs], weights)

    def at(self, step: int) -> SearchEnv:
        """Return the environment that step ``step``, from 0, plays: the one whose share of the
        steps so far is furthest behind."""
        while len(self._order) <= step:
            done = len(self._order) + 1
            behind = [s * done - n for s, n in zip(self.shares, self._played, strict=True)]
            self._order.append(behind.index(max(behind)))
            self._played[self._order[-1]] += 1
        return self.envs[self._order[step]]
