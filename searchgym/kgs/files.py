"""Knowledge graphs from files: triples by the line, entities beside them, GraphML.

Every fault is one ``DataError`` with file and line; nothing half-loaded is ever returned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..cards import Card
from ..corpora.corpus import KG_PREFIX
from ..corpora.data import data_directory, require_file
from ..corpora.lines import Line, Unique, is_tsv, read_json, read_lines
from ..errors import DataError
from .build import Entity, from_networkx, from_triples
from .graph import KnowledgeGraph

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "head": ("head", "s", "subject", "h", "source"),
    "relation": ("relation", "r", "predicate", "p", "property"),
    "tail": ("tail", "o", "object", "t", "target"),
}
"""Names that headers and JSON keys may give to the parts of a triple."""
SPLIT = "split"
_LABELS = ("label", "title", "name")
_ENDS = (".tsv", ".txt", ".jsonl")
_DESCRIPTIONS = ("description", "definition", "text")


def load_kg(
    source: str | Path,
    *,
    entities: str | Path | None = None,
    name: str | None = None,
    literals: Collection[str] = (),
    splits: Collection[str] | None = None,
) -> KnowledgeGraph:
    """A graph from a triples file, a GraphML file, or a folder with ``triples.*`` in it.

    Triples are tab-separated ``head relation tail`` (.tsv, .txt) or JSON lines (.jsonl), gzipped if
    the name ends in .gz. A TSV header and JSON keys may use the names in ``COLUMNS``; a column
    "split" says where a triple belongs, a key "literal" that is true makes values of the tails of
    its relation, other columns are left alone. ``entities`` (in a folder:
    ``entities.*``) gives ids their labels: JSON lines with ``id``, ``label`` and optionally
    ``description`` and ``aliases``, or TSV rows ``id, label[, description]``.

    Args:
        literals: Relations whose tails are values (dates, numbers), not entities.
        splits: Keep only triples of these splits ("train").

    Raises:
        DataError: with file and line, for a file that is absent or a line that is no triple.
    """
    path = Path(str(source).removeprefix(KG_PREFIX))
    if path.is_dir():
        name = name or path.name
        entities = entities or _one_of(path, "entities", required=False)
        path = _one_of(path, "triples", required=True) or path
    if not path.is_file():
        raise DataError(f"{path} does not exist; expected a file of triples or a folder with one")
    name = name or path.name.split(".")[0]
    if path.suffix.lower() == ".graphml":
        return _graphml(path, name)
    known = dict(read_entities(Path(entities))) if entities else {}
    marked = set(literals)
    triples = list(read_triples(path, splits=splits, literals=marked))
    return from_triples(triples, name=name, entities=known, literals=marked)


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


def read_triples(
    path: Path, *, splits: Collection[str] | None = None, literals: set[str] | None = None
) -> Iterator[tuple[str, str, str]]:
    """(head, relation, tail) per line, in order; see :func:`load_kg`. Relations whose tails are
    marked as values are added to ``literals``."""
    rows = _tsv(path) if is_tsv(path) else _jsonl(path)
    for where, record in rows:
        if splits is not None:
            if SPLIT not in record:
                raise DataError(f"{where}: no {SPLIT!r}, but only {sorted(splits)} are wanted")
            if record[SPLIT] not in splits:
                continue
        head, relation, tail = (_part(record, key, where) for key in COLUMNS)
        if literals is not None and record.get("literal") is True:
            literals.add(relation)
        yield head, relation, tail


def read_entities(path: Path) -> Iterator[tuple[str, Entity]]:
    """(id, entity) per line, in order; see :func:`load_kg`."""
    unique = Unique()
    if is_tsv(path):
        for where, line in read_lines(path):
            cells = line.split("\t")
            if len(cells) not in (2, 3) or not cells[0].strip():
                raise DataError(f"{where}: {len(cells)} columns; expected id⇥label[⇥description]")
            own = cells[0].strip()  # as in triples
            unique.check(own, where)
            yield own, Entity(cells[1] or own, "".join(cells[2:]))
        return
    for where, record in read_json(path):
        key = record.get("id")
        if not isinstance(key, str) or not key.strip():
            raise DataError(f"{where}: an entity needs 'id', a text; got {key!r}")
        key = key.strip()
        unique.check(key, where)
        label = next((record[k] for k in _LABELS if record.get(k)), key)
        told = next((record[k] for k in _DESCRIPTIONS if record.get(k)), "")
        aliases = record.get("aliases") or []
        if not isinstance(aliases, list) or not all(
            isinstance(v, str) for v in (label, told, *aliases)
        ):
            raise DataError(f"{where}: label and description are texts, aliases a list of texts")
        names = tuple(dict.fromkeys(a for a in aliases if a and a != label))
        yield key, Entity(label, told, names)


def _tsv(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    columns: tuple[str, ...] = ()
    for where, line in read_lines(path):
        cells = line.split("\t")
        if not columns:
            named = _named([cell.strip() for cell in cells], str.lower)
            if set(COLUMNS) <= set(named):
                columns = named
                continue
            if len(cells) != 3:
                raise DataError(
                    f"{where}: {len(cells)} columns; expected head⇥relation⇥tail, or a header"
                )
            columns = tuple(COLUMNS)
        if len(cells) != len(columns):
            raise DataError(f"{where}: {len(cells)} columns, expected {len(columns)}")
        yield where, dict(zip(columns, cells, strict=True))


def _jsonl(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    for where, record in read_json(path):
        yield where, dict(zip(_named(list(record)), record.values(), strict=True))


def _named(names: Sequence[str], fold: Callable[[str], str] = str) -> tuple[str, ...]:
    """Columns as ``COLUMNS`` calls them. Of several that could be a part the one earliest there is
    it, and the others are left alone: beside a "head", "source" says where a triple is from."""
    folded = [fold(name) for name in names]
    part = {
        next(name for name in known if name in folded): key
        for key, known in COLUMNS.items()
        if not set(known).isdisjoint(folded)
    }
    return tuple(part.get(low, name) for low, name in zip(folded, names, strict=True))


def _part(record: Mapping[str, Any], key: str, where: Line) -> str:
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: the triple's {key} is {value!r}; expected a text")
    return value.strip()


def _graphml(path: Path, name: str) -> KnowledgeGraph:
    import networkx as nx

    try:
        graph = nx.read_graphml(path)
    except (nx.NetworkXError, SyntaxError, ValueError, KeyError) as error:
        raise DataError(f"{path}: not GraphML: {error}") from error
    return from_networkx(graph, name=name)


def is_kg(path: Path) -> bool:
    """Return whether a path holds triples: a file, or a folder with ``triples.*`` in it."""
    return path.is_file() or any(path.glob("triples.*"))


def _one_of(folder: Path, stem: str, *, required: bool) -> Path | None:
    paths = sorted(
        p for p in folder.glob(f"{stem}.*") if p.name.removesuffix(".gz").endswith(_ENDS)
    )
    if len(paths) > 1 or (required and not paths):
        got = ", ".join(p.name for p in paths) or "none"
        raise DataError(f"{folder}: expected one file {stem}.tsv or {stem}.jsonl, found {got}")
    return paths[0] if paths else None
