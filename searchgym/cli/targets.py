"""Environments, corpora and worlds from what a person types: an id, a card's name, a folder."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from ..cards import Card, card, cards
from ..envs.registration import CARD_FILES
from ..envs.registration import env_id as env_id
from ..envs.search import SearchEnv
from ..envs.unwrap import search_env
from ..errors import CardError, DialectError, EngineError, RewardError, TaskError, WorldError
from ..objects import is_path, own_folder
from .options import overrides

if TYPE_CHECKING:
    from ..corpora.corpus import Corpus
    from ..corpora.worlds import GeneratedWorld
    from ..types import Passage
    from ..worlds.world import World


# --- environments ---------------------------------------------------------------------------------
def make(name: str, settings: Sequence[str] | None = None, **keywords: Any) -> gym.Env[Any, Any]:
    """``gym.make`` with errors as one clear line. Nested tables are merged with the card's."""
    known = env_id(name)
    given = merged(gym.spec(known).kwargs, {**keywords, **overrides(settings)})
    try:
        return gym.make(known, **given)
    except (CardError, TaskError, EngineError, DialectError, RewardError) as error:
        if given or (path := CARD_FILES.get(known)) is None:  # what was given may be what is wrong
            raise
        raise type(error)(f"{path}: {error}") from error
    except (TypeError, ValueError) as error:
        raise CardError(f"cannot make {known} with {given or 'its defaults'}: {error}") from error


def merged(default: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is given, tables over those of ``default``; those of tasks replace them."""
    return {
        key: {**default[key], **value}
        if isinstance(value, dict) and isinstance(default.get(key), Mapping) and key != "tasks"
        else value
        for key, value in given.items()
    }


def make_search_env(
    name: str, settings: Sequence[str] | None = None, *, stepped: bool = False, **keywords: Any
) -> SearchEnv:
    """:func:`make`, for commands that need SearchGym's own environments.

    ``stepped``: the command steps the environment itself; others play its episodes, with the
    effects of wrappers.
    """
    env = make(name, settings, **keywords)
    if not stepped:
        return search_env(env, stepped=True)
    if not isinstance(env.unwrapped, SearchEnv):
        raise CardError(f"{name} is a {type(env.unwrapped).__name__}; this needs a SearchEnv")
    return env.unwrapped


def without_keywords(name: str) -> tuple[dict[str, Any], Callable[..., Any]]:
    """The keywords of a registered environment, and what makes it from keywords alone."""
    spec = copy.deepcopy(gym.spec(env_id(name)))
    keywords, spec.kwargs = dict(spec.kwargs), {}
    return keywords, partial(gym.make, spec)


# --- corpora --------------------------------------------------------------------------------------
def corpus_card(name: str) -> Card | None:
    """The card of this name or folder (``./mine``); None for files, folders of text and
    ``kg:PATH``. Passages may be named without a separator where nothing shipped is called so.

    Raises:
        CardError: neither a card nor a path that exists; the near names are given.
    """
    if name.startswith("kg:"):
        return None
    if name.removeprefix("searchgym/") in cards("corpora") or own_folder(name) is not None:
        return card("corpora", name)
    if Path(name).exists() and (is_path(name) or not (Path(name) / "card.toml").exists()):
        return None  # passages, which are only read
    return card("corpora", name)


def is_documents(name: str) -> bool:
    """Return whether a name means documents (a folder, a text, a PDF file), not records."""
    from ..corpora.load import beir_passages, holds_documents

    path = Path(name)
    known = is_path(name) or path.suffix or (path.is_dir() and not (path / "card.toml").exists())
    if not known or not path.exists() or (path / "card.toml").is_file():
        return False
    if not is_path(name) and path.is_dir() and name in cards("corpora"):
        return False
    return beir_passages(path) is None and holds_documents(path)


def world(name: str, split: str, settings: Sequence[str] | None) -> GeneratedWorld:
    """Generate the world of a card and put it into words. Settings override the world's recipe;
    those that begin with ``wording.`` its wording."""
    from ..corpora.worlds import generate_world

    try:
        source_card = corpus_card(name)
    except CardError as error:
        raise _with_those_of_its_schema(error, name) from None
    if source_card is None or source_card.body["kind"] != "world":
        raise CardError(f"{name} is not a generated world; see: searchgym list corpora")
    recipe: dict[str, Any] = overrides(settings)
    wording = recipe.pop("wording", {})
    try:
        return generate_world(source_card, split, recipe, wording)
    except TypeError as error:
        raise CardError(
            f"cannot generate {name} with {recipe or 'its defaults'}: {error}"
        ) from error


def _with_those_of_its_schema(error: CardError, name: str) -> CardError:
    """The mistakes of a card, and of the schema beside it: one call tells them all."""
    from ..worlds.loader import load_schema

    if (folder := own_folder(name)) is not None and (folder / "schema.toml").is_file():
        try:
            load_schema(folder)
        except WorldError as more:
            return CardError(f"{error}; {more}")
    return error


def corpus(name: str, split: str | None, data_dir: Path | None = None) -> Corpus:
    """The passages of a world, a real set, a knowledge graph, a file or a folder of text."""
    return corpus_and_world(name, split, data_dir)[0]


def corpus_and_world(
    name: str, split: str | None, data_dir: Path | None = None
) -> tuple[Corpus, World | None]:
    """The passages, and the world behind them where they are generated. ``split``: by default
    train of a world, public of a real set."""
    if name.startswith("kg:"):
        from ..envs.sources import kg_source

        return kg_source(name, data_dir), None  # type: ignore[return-value]
    source_card = corpus_card(name)
    if source_card is None:
        from ..corpora.load import load_corpus

        return load_corpus(name), None
    if source_card.body["kind"] == "world":
        made = world(name, split or "train", None)
        return made.corpus, made.world
    if source_card.body["kind"] == "graph":
        from ..kgs.corpus import kg_corpus
        from ..kgs.files import load_kg_card

        return kg_corpus(load_kg_card(source_card, data_dir)), None
    from ..corpora.data import load_set

    return load_set(source_card.id, split=split or "public", data_dir=data_dir)[0], None


def stream(name: str, split: str | None, data_dir: Path | None = None) -> Iterable[Passage]:
    """Passages as ``corpus`` gives them, read one after the other where files hold them."""
    from ..corpora.data import real_sets, stream_set
    from ..corpora.load import holds_documents, stream_passages

    source_card = None if name.startswith("kg:") else corpus_card(name)
    if source_card is not None and source_card.id in real_sets():
        return stream_set(source_card.id, split or "public", data_dir)
    path = Path(name)
    if source_card is None and path.is_file() and not holds_documents(path):
        return stream_passages([path], name=path.name.split(".")[0])
    return corpus(name, split, data_dir)
