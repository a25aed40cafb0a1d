"""Corpora and worlds from what a person types: a card's name, a card's folder, files, a folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards import Card, card, cards
from ..errors import CardError, WorldError
from ..objects import is_path, own_folder
from .targets import overrides

if TYPE_CHECKING:
    from ..corpora.corpus import Corpus
    from ..envs.sources import GeneratedWorld
    from ..types import Passage


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


def world(name: str, split: str, settings: Sequence[str] | None) -> GeneratedWorld:
    """Generate the world of a card and put it into words. Settings override the world's recipe;
    those that begin with ``wording.`` its wording."""
    from ..envs.options import Options
    from ..envs.sources import generate_world

    try:
        source_card = corpus_card(name)
    except CardError as error:
        raise _with_those_of_its_schema(error, name) from None
    if source_card is None or source_card.body["kind"] != "world":
        raise CardError(f"{name} is not a generated world; see: searchgym list corpora")
    recipe: dict[str, Any] = overrides(settings)
    wording = recipe.pop("wording", {})
    options = Options(corpus=name, split=split, world=recipe, wording=wording)
    try:
        return generate_world(source_card, options)
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


def corpus(name: str, split: str, data_dir: Path | None = None) -> Corpus:
    """The passages of a world, a real set, a knowledge graph, a file or a folder of text."""
    from ..corpora.corpus import KG_PREFIX

    if name.startswith(KG_PREFIX):
        from ..kgs.corpus import kg_corpus
        from ..kgs.files import load_kg

        return kg_corpus(load_kg(name))
    source_card = corpus_card(name)
    if source_card is None:
        from ..corpora.load import load_corpus

        return load_corpus(name)
    if source_card.body["kind"] == "world":
        return world(name, split, None).corpus
    if source_card.body["kind"] == "graph":
        from ..kgs.corpus import kg_corpus
        from ..kgs.sets import load_kg_card

        return kg_corpus(load_kg_card(source_card, data_dir))
    from ..corpora.data import load_set

    return load_set(source_card.id, split=split, data_dir=data_dir)[0]


def stream(name: str, split: str, data_dir: Path | None = None) -> Iterable[Passage]:
    """Passages as ``corpus`` gives them, read one after the other where files hold them."""
    from ..corpora.data import real_sets, stream_set
    from ..corpora.load import holds_documents, stream_passages

    source_card = None if name.startswith("kg:") else corpus_card(name)
    if source_card is not None and source_card.id in real_sets():
        return stream_set(source_card.id, split, data_dir)
    path = Path(name)
    if source_card is None and path.is_file() and not holds_documents(path):
        return stream_passages([path], name=path.name.split(".")[0])
    return corpus(name, split, data_dir)
