"""Triples and entities from files; faults have file and line; the real sets when they are there."""

from __future__ import annotations

import gzip
import json
import time

import networkx as nx
import pytest

from searchgym.cards import card
from searchgym.corpora import data_directory
from searchgym.errors import DataError
from searchgym.kgs.corpus import entity_text, kg_corpus
from searchgym.kgs.files import load_kg, load_kg_card
from searchgym.worlds import to_graphml

from .random_graphs import films, generated


def write(path, text):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_bytes(text.encode())
    return path


SAME = {
    "plain.tsv": "a\tlikes\tb\nb\tlikes\tc d\n",
    "zipped.txt.gz": "a\tlikes\tb\nb\tlikes\tc d\n",
    "headed.tsv": "split\tobject\tsubject\tpredicate\ntrain\tb\ta\tlikes\n\ntest\tc d\tb\tlikes\n",
    "lines.jsonl": '{"s": "a", "r": "likes", "o": "b", "x": 1}\n'
    '{"head": "b", "relation": "likes", "tail": "c d"}\n',
    "lines.jsonl.gz": '{"s": "a", "r": "likes", "o": "b"}\n{"h": "b", "p": "likes", "t": "c d"}\n',
}


@pytest.mark.parametrize("name", SAME)
def test_formats_say_the_same(tmp_path, name):
    graph = load_kg(f"kg:{write(tmp_path / name, SAME[name])}")
    assert [graph.in_words(graph.triple(i)) for i in range(2)] == ["a — likes: b", "b — likes: c d"]
    assert graph.name == name.split(".")[0]


def test_columns_that_could_be_two_things(tmp_path):
    """Provenance is often called "source", which is also a word for the head of an edge."""
    headed = "Head\tRelation\tTail\tSource\ta\na\tlikes\tb\tweb\tx\n"
    record = {"source": "web", "head": "a", "relation": "likes", "object": "b", "target": "x"}
    edges = {"source": "a", "relation": "likes", "target": "b"}
    for name, text in (
        ("t.tsv", headed), ("t.jsonl", json.dumps(record)), ("e.jsonl", json.dumps(edges)),
    ):  # fmt: skip
        graph = load_kg(write(tmp_path / name, text))
        assert [graph.in_words(graph.triple(i)) for i in range(graph.n_facts)] == ["a — likes: b"]
        assert graph.n_entities == 2


@pytest.mark.parametrize("name", ["entities.tsv", "entities.jsonl"])
def test_ids_with_blanks_around_them_are_the_same(tmp_path, name):
    write(tmp_path / "triples.tsv", "Q1 \tlikes\t Q2\n")
    told = {
        "entities.tsv": "Q1 \tAnn\n Q2\tBob\n",
        "entities.jsonl": '{"id": "Q1 ", "label": "Ann"}\n{"id": " Q2", "label": "Bob"}\n',
    }
    write(tmp_path / name, told[name])
    graph = load_kg(tmp_path)
    assert graph.titles == ["Ann", "Bob"]
    assert graph.in_words(graph.triple(0)) == "Ann — likes: Bob"


def test_a_folder_with_entities(tmp_path):
    write(tmp_path / "triples.tsv", SAME["headed.tsv"])
    records = [{"id": "a", "label": "Ann", "description": "a person", "aliases": ["Annie", "Ann"]},
               {"id": "z", "name": "Zoe", "definition": "nobody's friend"}]  # fmt: skip
    write(tmp_path / "entities.jsonl.gz", "\n".join(map(json.dumps, records)))
    graph = load_kg(tmp_path)
    assert (graph.name, graph.n_entities) == (tmp_path.name, 4)
    assert (graph.titles[0], graph.aliases[0], graph.descriptions[0]) == (
        "Ann", ("Annie",), "a person",
    )  # fmt: skip
    assert graph.descriptions[1] == "nobody's friend"
    assert load_kg(tmp_path, splits=["test"]).n_facts == 1
    (tmp_path / "entities.jsonl.gz").unlink()
    write(tmp_path / "entities.tsv", "a\tAnn\nz\tZoe\tnobody\n")
    assert load_kg(tmp_path).titles[:2] == ["Ann", "Zoe"]
    assert load_kg(tmp_path / "triples.tsv").titles[0] == "a"


def test_graphml(tmp_path):
    world, _ = generated()
    path = tmp_path / "world.graphml"
    to_graphml(world, path)
    graph = load_kg(path)
    assert graph.n_entities == world.n_entities
    assert graph.n_facts == world.n_facts + world.n_entities  # networkx also says each one's type
    assert set(graph.titles) == set(world.titles)
    nx.write_graphml(nx.path_graph(3), path)
    assert load_kg(path).n_edges == 2


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.tsv", "a\tb\tc\na\tb\n", "t.tsv, line 2: 2 columns, expected 3"),
        ("t.tsv", "a\tb\n", "line 1: 2 columns; expected head⇥relation⇥tail"),
        ("t.tsv", "a\tb\tc\n\na\t \tc\n", "line 3: the triple's relation is ' '"),
        ("t.jsonl", '{"s": "a", "r": "b"}\n', "line 1: the triple's tail is None"),
        ("t.jsonl", '{"s": "a", "r": "b", "o": 3}\n', "line 1: the triple's tail is 3"),
        ("t.jsonl", '{"s": "a", "r": "b", "o": "c"}\n{\n', "line 2: not valid JSON"),
        ("t.tsv", "", "no triples"),
        ("t.tsv.gz", None, "cannot be read"),
        ("t.graphml", "<graphml>", "not GraphML"),
    ],
)
def test_a_broken_line_is_one_clear_error(tmp_path, name, text, said):
    path = tmp_path / name
    if text is None:
        path.write_bytes(b"\x1f\x8bnot gzip at all")
    else:
        write(path, text)
    with pytest.raises(DataError, match=said.replace("(", r"\(").replace("|", r"\|")) as got:
        load_kg(path)
    assert "\n" not in str(got.value)


def test_faults_of_entities_folders_and_splits(tmp_path):
    triples = write(tmp_path / "triples.tsv", SAME["plain.tsv"])
    for text, said in (
        ('{"id": 3}', "line 1: an entity needs 'id'"),
        ('{"id": "a"}\n{"id": "a"}', "line 2: id 'a' was already used"),
        ('{"id": "a", "aliases": [1]}', "aliases a list of texts"),
    ):
        with pytest.raises(DataError, match=said):
            load_kg(triples, entities=write(tmp_path / "e.jsonl", text))
    with pytest.raises(DataError, match="line 1: 1 columns"):
        load_kg(triples, entities=write(tmp_path / "e.tsv", "a\n"))
    with pytest.raises(DataError, match="no 'split'"):
        load_kg(triples, splits=["train"])
    write(tmp_path / "triples.jsonl", "")
    with pytest.raises(DataError, match=r"found triples.jsonl, triples.tsv"):
        load_kg(tmp_path)
    with pytest.raises(DataError, match="does not exist"):
        load_kg(tmp_path / "nothing.tsv")
    with pytest.raises(DataError, match="point SEARCHGYM_DATA"):
        load_kg_card(card("corpora", "kg_wn18rr"), tmp_path)


# --- passages and questions -----------------------------------------------------------------------
def test_passages_are_made_of_facts():
    corpus = kg_corpus(films())
    graph = corpus.graph
    assert corpus.passage("inception").text == (
        "a film about dreams\nalso known as: Origin\ndirector: Christopher Nolan (nolan)\n"
        "composer: zimmer\ndate of release: 8 July 2010"
    )
    assert "director of: Inception; dunkirk" in corpus.passage("nolan").text
    assert corpus.passage("lonely").text == ""
    for e in range(graph.n_entities):
        assert corpus[int(corpus.page_of[e])].id == graph.ids[e]
        assert corpus.page(corpus.passage(graph.ids[e]).url).title == graph.titles[e]
    short = entity_text(graph, graph.ids.index("nolan"), per_relation=1)
    assert "director of: Inception; and 1 more" in short


# --- the real sets --------------------------------------------------------------------------------
COUNTS = {  # entities, facts, relations
    "kg_2wiki": (12_378, 11_368, 33),
    "kg_fb15k237": (14_541, 310_116, 237),
    "kg_wn18rr": (40_943, 93_003, 11),
}


@pytest.mark.data
@pytest.mark.parametrize("name", COUNTS)
def test_real_sets_load_whole(name):
    if not (data_directory() / name).is_dir():
        pytest.skip(f"needs the knowledge graph {name}: none in {data_directory()}")
    start = time.process_time()
    graph = load_kg_card(card("corpora", name))
    took = time.process_time() - start
    print(
        f"{name}: {graph.n_entities:,} entities, {graph.n_facts:,} facts, {graph.n_edges:,} edges, "
        f"{len(graph.relations)} relations, {len(graph.values):,} values; {took:.1f} s"
    )
    assert (graph.n_entities, graph.n_facts, len(graph.relations)) == COUNTS[name]
    assert len(set(graph.titles)) == graph.n_entities
    assert len(set(graph.relation_words)) == len(graph.relations)
    hub = int(graph.degree.argmax())
    assert len(graph.facts(hub)) + len(graph.facts_about(hub)) >= graph.degree[hub] > 100
