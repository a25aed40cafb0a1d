"""``searchgym graph``: look into a knowledge graph, generated or imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import DataError
from .output import JsonFlag, examples, group, print_facts, print_json, print_table, working
from .targets import DataDir

if TYPE_CHECKING:
    from ..engines.graph.index import GraphIndex

app = group("Look into knowledge graphs: counts, an entity's facts, paths, rankings.")

Name = Annotated[
    str, typer.Argument(metavar="GRAPH", help="A corpus card's name, or kg:PATH for your triples.")
]
Split = Annotated[str, typer.Option(help="Split of a generated world: train, dev or test.")]


@app.command(
    epilog=examples(
        "searchgym graph show kg_wn18rr",
        "searchgym graph show kg:triples.tsv 'Marie Curie'",
        "searchgym graph show encyclopedia 'Oldeth Marn' --json",
    )
)
def show(
    name: Name,
    entity: Annotated[str | None, typer.Argument(help="An entity's name or id.")] = None,
    split: Split = "train",
    data_dir: DataDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Count what is in a graph; or show an entity with its facts."""
    index = _index(name, split, data_dir)
    graph = index.graph
    if entity is None:
        facts: dict[str, Any] = {
            "entities": graph.n_entities, "facts": graph.n_facts, "edges": graph.n_edges,
            "relations": len(graph.relations), "values": len(graph.values),
            "most joined": graph.titles[int(graph.degree.argmax())], "digest": graph.digest,
        }  # fmt: skip
        if as_json:
            print_json({"graph": graph.name, **facts})
        else:
            print_facts(graph.name, facts)
        return
    number = _entity(index, entity)
    rows = [
        {"head": graph.titles[t.head], "relation": graph.relation_words[t.relation],
         "tail": t.value if t.tail < 0 else graph.titles[t.tail]}
        for t in (*graph.facts(number), *graph.facts_about(number))
    ]  # fmt: skip
    if as_json:
        print_json({"id": graph.ids[number], "title": graph.titles[number], "facts": rows})
    else:
        print_table(graph.titles[number], rows)


@app.command(epilog=examples("searchgym graph path kg_fb15k237 'Lake District' 'Talking Heads'"))
def path(
    name: Name,
    a: Annotated[str, typer.Argument(help="Entity at which the path begins.")],
    b: Annotated[str, typer.Argument(help="Entity at which it ends.")],
    max_len: Annotated[int, typer.Option(min=1, help="Most facts in it.")] = 6,
    split: Split = "train",
    data_dir: DataDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a shortest path between two entities, fact by fact."""
    from ..kgs.walks import shortest_path

    index = _index(name, split, data_dir)
    graph = index.graph
    facts = shortest_path(graph, _entity(index, a), _entity(index, b), max_len=max_len)
    if facts is None:
        raise DataError(f"no path of at most {max_len} facts joins {a} and {b}; try --max-len")
    said = [graph.in_words(graph.triple(fact)) for fact in facts]
    if as_json:
        print_json({"facts": said})
    else:
        print("\n".join(said) or "They are one entity.")


def _index(name: str, split: str, data_dir: Path | None) -> GraphIndex:
    from ..engines.graph.index import graph_index
    from .sources import corpus, corpus_card, world

    card = corpus_card(name)
    with working(f"reading {name} …"):
        if card is not None and card.body["kind"] == "world":
            made = world(name, split, None)
            return graph_index(made.corpus, made.world)
        return graph_index(corpus(name, split, data_dir))


def _entity(index: GraphIndex, name: str) -> int:
    entities = index.entity(name)
    if not entities:
        near = index.near_names(name)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise DataError(f"no entity is called {name!r}{hint}")
    return entities[0]
