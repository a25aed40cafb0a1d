"""The catalogue's knowledge graphs (``corpora/<id>/card.toml`` of kind "graph"), loaded by name."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ..cards import Card
from ..corpora.data import data_directory, require_file
from ..errors import DataError
from .files import load_kg
from .graph import KnowledgeGraph


def load_kg_card(
    card: Card, data_dir: str | Path | None = None, *, splits: Collection[str] | None = None
) -> KnowledgeGraph:
    """The graph of a card, also of one of your own.

    Raises ``DataError``, which says how to get its files, if they are not on this machine."""
    data = card.body.get("data", {})
    folder = data_directory(data_dir) / card.id
    paths = {key: folder / data[key] for key in ("triples", "entities") if key in data}
    if "triples" not in paths:
        raise DataError(f"{card.folder / 'card.toml'}: [data] needs 'triples', a file's name")
    for path in paths.values():
        require_file(card, path)
    return load_kg(
        paths["triples"], entities=paths.get("entities"), name=card.id,
        literals=data.get("literals", ()), splits=splits,
    )  # fmt: skip
