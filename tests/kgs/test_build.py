"""Graphs hold what their sources say: triples, generated worlds, networkx."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.errors import DataError
from searchgym.kgs.build import from_networkx, from_triples, from_world
from searchgym.kgs.names import Linker, relation_words, unique_titles
from searchgym.worlds import format_value

from .random_graphs import FILMS, TRIPLES, films, generated


@given(TRIPLES)
def test_facts_are_the_triples(triples):
    graph = from_triples(triples, name="g")
    got = {
        (graph.ids[t.head], graph.relations[t.relation], graph.ids[t.tail])
        for e in range(graph.n_entities)
        for t in graph.facts(e)
    }
    assert got == set(triples)
    assert graph.n_facts == graph.n_edges == len(set(triples))
    about = [t for e in range(graph.n_entities) for t in graph.facts_about(e)]
    assert len(about) == graph.n_facts
    for e in range(graph.n_entities):
        assert all(t.tail == e for t in graph.facts_about(e))
        for r in range(len(graph.relations)):
            assert graph.facts(e, r) == [t for t in graph.facts(e) if t.relation == r]
            assert graph.facts_about(e, r) == [t for t in graph.facts_about(e) if t.relation == r]
    again = from_triples(triples, name="other name")
    assert again.digest == graph.digest


def test_values_are_looked_up_and_not_walked_through():
    graph = films()
    inception = graph.ids.index("inception")
    said = [graph.in_words(t) for t in graph.facts(inception)]
    assert said == [
        "Inception — director: Christopher Nolan (nolan)",
        "Inception — composer: zimmer",
        "Inception — date of release: 8 July 2010",
    ]
    assert "8 July 2010" not in graph.ids
    assert graph.n_facts == len(FILMS)
    assert graph.n_edges == len(FILMS) - 1
    nolan = graph.ids.index("nolan")
    assert graph.degree[nolan] == 3  # a fact about itself joins nothing
    assert graph.degree[graph.ids.index("lonely")] == 0


def test_facts_of_a_world_agree_with_the_worlds_own_look_up():
    world, corpus = generated()
    graph = from_world(world, facts=corpus.stated)
    assert (graph.n_entities, graph.n_facts) == (world.n_entities, world.n_facts)
    for e in range(world.n_entities):
        got, expected = graph.facts(e), world.facts_of(e)
        assert [int(graph.source[t.id]) for t in got] == [f.id for f in expected]
        for triple, fact in zip(got, expected, strict=True):
            prop = world.prop(fact)
            assert (triple.head, triple.relation) == (fact.subject, fact.property)
            if prop.is_relation:
                assert triple.tail == fact.object
            else:
                assert (triple.tail, triple.value) == (-1, format_value(prop, fact.object))
        about = graph.facts_about(e)
        assert [int(graph.source[t.id]) for t in about] == [f.id for f in world.facts_about(e)]
        for p in {f.property for f in expected}:
            assert [int(graph.source[t.id]) for t in graph.facts(e, p)] == [
                f.id for f in world.objects(e, p)
            ]


def test_facts_that_no_passage_states_are_left_out():
    world, corpus = generated()
    graph = from_world(world, facts=corpus.stated[::2])
    assert graph.n_facts == (world.n_facts + 1) // 2
    assert sorted(graph.source.tolist()) == corpus.stated[::2].tolist()


def test_a_world_through_networkx_is_the_same_graph():
    world, _ = generated()
    direct, through = from_world(world), from_networkx(world.to_networkx())
    assert through.titles == direct.titles
    assert [set(a) for a in through.aliases[:5]] == [
        {n} - {t} for n, t in zip(direct.labels[:5], direct.titles[:5], strict=True)
    ]

    def edges(graph):
        return {
            (t.head, graph.relations[t.relation], t.tail, t.value)
            for t in map(graph.triple, range(graph.n_facts))
        }

    types = {t for t in edges(through) if t[1] == "type"}
    assert len(types) == world.n_entities  # which networkx says as an attribute
    assert edges(through) - types == edges(direct)


def test_any_networkx_graph_becomes_one():
    plain = nx.Graph([("b", "a"), ("a", "c")])
    plain.nodes["a"].update(label="Alpha", age=3)
    graph = from_networkx(plain)
    assert [graph.in_words(graph.triple(i)) for i in range(3)] == [
        "b — related to: Alpha", "Alpha — related to: c", "Alpha — age: 3",
    ]  # fmt: skip
    directed = nx.MultiDiGraph()
    directed.add_edge(1, 2, key="age")
    directed.add_edge(2, 1, relation="knows")
    directed.nodes[1]["age"] = 7
    both = from_networkx(directed, name="d")
    assert sorted(both.in_words(both.triple(i)) for i in range(3)) == [
        "1 — age value: 7", "1 — age: 2", "2 — knows: 1",
    ]  # fmt: skip
    with pytest.raises(DataError, match="distinct"):
        from_networkx(nx.Graph([(1, "1")]))
    with pytest.raises(DataError, match="no triples"):
        from_networkx(nx.Graph())


def test_literals_must_be_relations():
    with pytest.raises(DataError, match="no relation 'birthday'"):
        from_triples([("a", "b", "c")], name="g", literals=("birthday",))


# --- names --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("relations", "words"),
    [
        (["/film/film/genre", "date_of_birth"], ["genre", "date of birth"]),
        (["_hypernym", "dateOfBirth"], ["hypernym", "date of birth"]),
        (["/a/x./b/y", "/a/x./b/z"], ["x y", "x z"]),
        (["/film/genre", "/music/genre", "/tv/show"], ["film genre", "music genre", "show"]),
        (["a_b", "a b"], ["a_b", "a b"]),
        (["???", "!"], ["???", "!"]),
    ],
)
def test_relations_in_words(relations, words):
    assert relation_words(relations) == words


@given(st.lists(st.text("ab/._ AB", min_size=1, max_size=6), unique=True, max_size=8))
def test_names_are_unique_whatever_the_source_says(names):
    assert len(set(relation_words(names))) == len(names)
    labels = [n.strip("/._") for n in names]
    titles = unique_titles(labels, [str(i) for i in range(len(labels))])
    assert len(set(titles)) == len(titles)


def test_names_are_found_the_longest_first():
    graph = films()
    linker = Linker((graph.titles, graph.labels), graph.aliases)
    nolan, nolan2, inception = (graph.ids.index(i) for i in ("nolan", "nolan2", "inception"))
    assert linker.mentions("Was ORIGIN by Christopher-Nolan?") == (
        (1, (inception,)), (2, (nolan, nolan2)),
    )  # fmt: skip
    assert linker.mentions("christopher nolan nolan2") == ((3, (nolan2,)),)
    assert linker.named("origin!") == (inception,)
    assert linker.mentions("?!") == linker.named("") == ()
