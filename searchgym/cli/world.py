"""``searchgym world``: generate, inspect and export knowledge graphs and their texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CardError, DataError, WorldError, check_known, unknown
from ..plugins import register
from .options import DataDir, Overrides
from .output import (
    JsonFlag,
    print_facts,
    print_json,
    print_table,
    progress,
    say,
    with_examples,
    working,
)
from .targets import corpus_and_world, corpus_card, world

if TYPE_CHECKING:
    from ..corpora.rewritten import Rewritten
    from ..corpora.worlds import GeneratedWorld
    from ..engines.graph.index import GraphIndex
    from ..worlds.world import World

Name = Annotated[str, typer.Argument(metavar="WORLD", help="A world's card: name or folder.")]
GraphName = Annotated[
    str,
    typer.Argument(
        metavar="WORLD|GRAPH", help="A card's name or folder, or kg:PATH for your triples."
    ),
]
Split = Annotated[str, typer.Option(help="train, dev or test: three different worlds.")]


@register("world generate")
@with_examples(
    "searchgym world generate ./my-world",
    "searchgym world generate encyclopedia --out runs/world",
    "searchgym world generate ./my-world --out w -s entities=500 -s seed=3 --tasks 50",
    "searchgym world generate encyclopedia --out w -s wording.phrasing=heldout",
    "searchgym world generate encyclopedia-v1 --out w --writer openai",
)
def generate(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for passages, tasks and facts. Without it, they are only made."),
    ] = None,
    tasks: Annotated[int, typer.Option(min=0, help="Tasks per family.")] = 100,
    writer: Annotated[
        str | None,
        typer.Option(help="Generator that words the pages anew: a name, or options as JSON."),
    ] = None,
    split: Split = "train",
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """Generate a world, put it into words and ask about it; write it all as JSON lines.

    What is wrong with a card or schema of yours is named, all of it at once, and without
    [bold]--out[/bold] nothing is written: this checks a world while you write it.

    --out gets passages.jsonl, tasks.jsonl (only proved ones) and entities.jsonl (with all facts).
    Environments read them back: corpus="DIR/passages.jsonl", tasks="DIR/tasks.jsonl".

    A page of [bold]--writer[/bold] is kept where each of the page's facts is found again, and
    nothing else is named. What it wrote lies in DIR/writer.sqlite: a run that broke off goes on.
    """
    from ..engines.registry import build_engine
    from ..tasks.audit import verify
    from ..tasks.build import build_tasks
    from ..tasks.families import FAMILIES
    from ..tasks.records import save_tasks
    from ..worlds.export import to_jsonl

    with working(f"generating {name} …"):
        made = world(name, split, settings)
    told = None
    if writer is not None:
        told = _reworded(made, writer, out)
        made = made._replace(corpus=told.corpus)
    with working("asking and proving …"):
        counts = {**dict.fromkeys(FAMILIES.shipped, tasks), "at_most": True} if tasks else {}
        built = build_tasks(
            made.world, made.corpus, counts=counts, seed=made.seed,
            wording_seed=made.wording_seed, phrasing=made.phrasing, split=split,
        )  # fmt: skip
        report = verify(built, made.world, made.corpus, build_engine("bm25", made.corpus))
    if out is not None:
        with working("writing …"):
            out.mkdir(parents=True, exist_ok=True)
            with (out / "passages.jsonl").open("w", encoding="utf-8", newline="\n") as file:
                for passage in made.corpus:
                    file.write(json.dumps(passage._asdict(), ensure_ascii=False) + "\n")
            save_tasks(report.kept, out / "tasks.jsonl")
            to_jsonl(made.world, out / "entities.jsonl")
    facts = {
        "world": made.corpus.name,
        "entities": made.world.n_entities,
        "facts": made.world.n_facts,
        "passages": len(made.corpus),
        **({} if told is None else {"rewritten": told.kept}),
        "corpus digest": made.corpus.digest,
        "tasks proved": len(report.kept),
        "tasks dropped": len(report.rejected),
        "folder": None if out is None else str(out),
    }
    title = "Nothing is wrong; --out DIR writes it" if out is None else "Written"
    print_facts(title, facts, as_json)


@register("world inspect")
@with_examples(
    "searchgym world inspect encyclopedia",
    "searchgym world inspect encyclopedia -e 'Oldeth Marn' --split test",
    "searchgym world inspect kg_wn18rr --json",
    "searchgym world inspect kg:triples.tsv -e 'Marie Curie'",
)
def inspect(
    name: GraphName,
    entity: Annotated[
        str | None, typer.Option("--entity", "-e", help="Show this entity's facts and page.")
    ] = None,
    split: Split = "train",
    data_dir: DataDir = None,
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """Count entities and facts by kind; or show one entity with its page."""
    if _is_graph(name):
        _inspect_graph(_graph(name, split, data_dir), entity, as_json)
        return
    with working(f"generating {name} …"):
        made = world(name, split, settings)
    if entity is not None:
        number = _find(made.world, entity)
        page = made.corpus[int(made.corpus.page_of[number])]
        facts = _facts(made.world, number)
        if as_json:
            print_json({"page": page._asdict(), "facts": facts})
            return
        print_table(page.title, facts)
        print(f"\n{page.text}")
        return
    types, properties = _census(made.world)
    if as_json:
        print_json(
            {"world": made.corpus.name, "entities": made.world.n_entities,
             "facts": made.world.n_facts, "types": types, "properties": properties}
        )  # fmt: skip
        return
    print_table(f"{made.corpus.name}: {made.world.n_entities:,} entities", types)
    print()
    print_table(f"{made.world.n_facts:,} facts", properties)


@register("world realism")
@with_examples(
    "searchgym world realism encyclopedia --beside hotpotqa",
    "searchgym world realism notes/ --json",
)
def realism(
    name: Annotated[str, typer.Argument(metavar="WORLD|CORPUS", help="A card, file or folder.")],
    split: Annotated[
        str | None, typer.Option(help="train, dev or test of a world; public of a real set.")
    ] = None,
    beside: Annotated[
        str | None, typer.Option(help="A real set or a folder of text to compare with.")
    ] = None,
    data_dir: DataDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure how real a text reads: a table of its statistics, and with [bold]--beside[/bold] a
    classifier that guesses which text a sentence comes from (.5: it cannot tell).
    """
    from ..evaluation.realism import blind, kept, table

    columns, texts = {}, []
    for source, part in ((name, split), *([(beside, None)] if beside else [])):
        with working(f"measuring {source} …"):
            passages, asked = _asked(source, part, data_dir)
            texts.append(passages)
            columns[source if part is None else f"{source} ({part})"] = table(passages, asked)
    auc = None
    if beside:
        with working("guessing which text is whose …"):
            auc = blind(*texts)
    ours, *real = columns.values()
    bars = kept(ours, real[0] if real else None, auc.mean if auc else None)
    if as_json:
        print_json({"table": columns, "auc": auc._asdict() if auc else None, "bars": bars})
        return
    keys = list(dict.fromkeys(key for column in columns.values() for key in column))
    if auc:
        say(f"which text is ours, by single sentences: AUC {auc:.2f} (n={auc.n:,})")
    for said, held in bars.items():
        say(f"{'kept' if held else 'not kept'}: {said}")
    print_table(
        "",
        [{"": key, **{c: str(row.get(key, "")) for c, row in columns.items()}} for key in keys],
    )


def _asked(name: str, split: str | None, data_dir: Path | None) -> tuple[list[Any], list[Any]]:
    """Passages, and the questions about them that have an answer."""
    from ..corpora.data import load_set, real_sets
    from ..evaluation.realism import GoldQuestion
    from .targets import corpus, make_search_env

    source_card = corpus_card(name)
    tasks: Any = ()
    if source_card is not None and source_card.body["kind"] == "world":
        env = make_search_env("SearchQA-v0", corpus=name, split=split or "train")
        passages, tasks = env.corpus, env.tasks
    elif source_card is not None and source_card.id in real_sets():
        passages, tasks = load_set(source_card.id, split or "public", data_dir)
    else:
        passages = corpus(name, split, data_dir)
    asked = []
    for task in tasks:
        gold = tuple(passages.position(p) for p in task.evidence if p in passages)
        if not task.should_abstain:
            asked.append(GoldQuestion(task.question, gold))
    return list(passages), asked


@register("world path")
@with_examples("searchgym world path kg_fb15k237 'Lake District' 'Talking Heads'")
def path(
    name: GraphName,
    a: Annotated[str, typer.Argument(metavar="A", help="Entity at which the path begins.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Entity at which it ends.")],
    max_len: Annotated[int, typer.Option(min=1, help="Most facts in it.")] = 6,
    split: Split = "train",
    data_dir: DataDir = None,
    as_json: JsonFlag = False,
) -> None:
    """Show a shortest path between two entities, fact by fact."""
    from ..kgs.graph import shortest_path

    index = _graph(name, split, data_dir)
    graph = index.graph
    facts = shortest_path(graph, _entity(index, a), _entity(index, b), max_len=max_len)
    if facts is None:
        raise DataError(f"no path of at most {max_len} facts joins {a} and {b}; try --max-len")
    said = [graph.in_words(graph.triple(fact)) for fact in facts]
    if as_json:
        print_json({"facts": said})
    else:
        print("\n".join(said) or "They are one entity.")


@register("world export")
@with_examples(
    "searchgym world export encyclopedia --out world.graphml",
    "searchgym world export encyclopedia --out entities.jsonl",
)
def export(
    name: Name,
    out: Annotated[Path, typer.Option(help="The file to write.")],
    form: Annotated[
        str | None, typer.Option("--format", help="graphml or jsonl (default: by the name).")
    ] = None,
    split: Split = "train",
    settings: Overrides = None,
) -> None:
    """Export the knowledge graph: GraphML for graph tools, JSON lines (one per entity) for scripts.

    In Python, [bold]world.to_networkx()[/bold] gives a networkx.MultiDiGraph.
    """
    from ..worlds.export import to_graphml, to_jsonl

    form = form or ("graphml" if out.suffix == ".graphml" else "jsonl")
    check_known("format", ("graphml", "jsonl"), form, error=WorldError)
    with working(f"generating {name} …"):
        made = world(name, split, settings)
    with working(f"writing {out} …"):
        out.parent.mkdir(parents=True, exist_ok=True)
        (to_graphml if form == "graphml" else to_jsonl)(made.world, out)
    say(f"{made.world.n_entities:,} entities and {made.world.n_facts:,} facts are in {out}")


# --- generated worlds -----------------------------------------------------------------------------
def _reworded(made: GeneratedWorld, writer: str, out: Path | None) -> Rewritten:
    """The world's pages in a generator's words, where they state the same."""
    from ..corpora.rewritten import rewritten
    from ..llms.registry import Cached, build_generator
    from .options import json_or_text

    asked = build_generator(json_or_text(writer))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        asked = Cached(asked, out / "writer.sqlite")
    with progress("rewriting", len(made.corpus), "pages") as advance:
        told = rewritten(made.corpus, made.world, asked, progress=advance)
    for reason, number in told.refused.most_common():
        say(f"a rewritten page {reason}: {number:,}")
    return told


def _find(world: World, name: str) -> int:
    for i, title in enumerate(world.titles):
        if title == name:
            return i
    raise WorldError(unknown("entity", name, world.titles))


def _facts(world: World, entity: int) -> list[dict[str, Any]]:
    from ..tasks.context import Surfaces

    names = Surfaces(world)
    rows = []
    for fact in world.facts_of(entity):
        about = world.prop(fact)
        value = (
            world.titles[fact.object]
            if about.is_relation
            else names.text(fact.property, fact.object)
        )
        rows.append({"property": about.name, "value": value})
    for fact in world.facts_about(entity):
        rows.append({"property": f"← {world.prop(fact).name}", "value": world.titles[fact.subject]})
    return rows


def _census(world: World) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    import numpy as np

    types = []
    for i, kind in enumerate(world.schema.types):
        members = world.entities_of(i)
        example = world.titles[int(members[0])] if len(members) else ""
        types.append({"type": kind.name, "entities": len(members), "example": example})
    counted = np.bincount(world.property_of, minlength=len(world.schema.properties))
    properties = []
    for i, about in enumerate(world.schema.properties):
        subjects = world.subject_of[world.property_of == i]
        most = int(np.unique(subjects, return_counts=True)[1].max()) if len(subjects) else 0
        properties.append(
            {"property": about.name, "from": about.source, "to": about.target or about.value,
             "cardinality": about.cardinality if about.is_relation else "",
             "facts": int(counted[i]), "most per subject": most}
        )  # fmt: skip
    return types, properties


# --- graphs ---------------------------------------------------------------------------------------
def _is_graph(name: str) -> bool:
    """Return whether a graph is named that no generated world is behind."""
    if name.startswith("kg:"):
        return True
    try:
        card = corpus_card(name)
    except CardError:  # told where the world is generated
        return False
    return card is not None and card.body["kind"] == "graph"


def _graph(name: str, split: str, data_dir: Path | None) -> GraphIndex:
    from ..engines.graph.index import graph_index

    with working(f"reading {name} …"):
        return graph_index(*corpus_and_world(name, split, data_dir))


def _entity(index: GraphIndex, name: str) -> int:
    entities = index.entity(name)
    if not entities:
        near = index.near_names(name)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise DataError(f"no entity is called {name!r}{hint}")
    return entities[0]


def _inspect_graph(index: GraphIndex, entity: str | None, as_json: bool) -> None:
    graph = index.graph
    if entity is None:
        facts: dict[str, Any] = {
            "graph": graph.name, "entities": graph.n_entities, "facts": graph.n_facts,
            "edges": graph.n_edges, "relations": len(graph.relations),
            "values": len(graph.values), "most joined": graph.titles[int(graph.degree.argmax())],
            "digest": graph.digest,
        }  # fmt: skip
        print_facts("", facts, as_json)
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
