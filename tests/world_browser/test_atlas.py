"""Entities, pages and tasks found from one another; search; both pictures."""

from __future__ import annotations

from itertools import pairwise

import pytest

from searchgym.envs.search import SearchEnv
from searchgym.errors import EngineError
from searchgym.types import GraphEdge, GraphNode, ReasoningGraph
from searchgym.world_browser.atlas import Atlas
from searchgym.world_browser.neighbourhood import LONGEST, MOST, ROW, picture
from searchgym.world_browser.reasoning import BOX, TALL, drawing
from searchgym.world_browser.search import NameIndex

from ..small import CORPUS, TASKS


def test_every_marked_span_says_what_its_fact_says(atlas: Atlas, world: SearchEnv):
    seen = 0
    for entity in range(0, atlas.graph.n_entities, 7):
        text = atlas.page(entity).text
        for fact, start, end in atlas.stated_in(atlas.passage(entity)):
            triple = atlas.graph.triple(fact)
            if triple.head == entity and triple.tail >= 0:
                names = (atlas.graph.titles[triple.tail], *atlas.other_names(triple.tail))
                assert any(name.lower() in text[start:end].lower() for name in names)
                seen += 1
    assert seen > 50


def test_a_fact_and_the_pages_that_state_it_find_each_other(atlas: Atlas):
    entity = int(atlas.graph.degree.argmax())
    says, about = atlas.facts(entity)
    assert all(t.head == entity for t in says)
    assert all(t.tail == entity for t in about)
    for fact in (*says, *about):
        places = atlas.places(fact.id)
        assert places  # agents can read every fact of the graph
        for place in places:
            assert (fact.id, place.start, place.end) in atlas.stated_in(place.passage)


def test_tasks_and_entities_find_each_other(atlas: Atlas):
    for place, task in enumerate(atlas.tasks):
        assert atlas.task_place(task.id) == place
        entities = atlas.entities_of(task)
        assert entities
        assert all(place in atlas.tasks_of(entity) for entity in entities)
        for passage in task.evidence:
            assert atlas.passage_entity(passage) in entities
    assert atlas.task_place("nobody asked this") is None


def test_mere_texts_have_nothing_to_browse():
    with pytest.raises(EngineError, match=r'corpus="kg:PATH"'):
        Atlas(SearchEnv(**{"corpus": CORPUS, "tasks": TASKS}))


def test_names_are_found_best_first_and_by_kind():
    index = NameIndex(
        [("Lunn",), ("Port Lunn",), ("Alunn",), ("Lunnby", "Old Quay"), ("Brede",)],
        [0, 1, 0, 1, 0],
    )
    assert index.find("lunn") == [0, 3, 1, 2]
    assert index.find("  LUNN ", kind=1) == [3, 1]
    assert index.find("old") == [3]
    assert index.find("x") == []
    assert index.find("", kind=0) == [0, 2, 4]


def test_no_two_neighbours_touch_and_all_are_inside(atlas: Atlas):
    degrees = [sum(map(len, atlas.facts(e))) for e in range(atlas.graph.n_entities)]
    assert max(degrees) > 15
    for entity in sorted(range(len(degrees)), key=degrees.__getitem__)[:: len(degrees) // 25]:
        made = picture(atlas, entity)
        assert made.drawn == min(degrees[entity], MOST)
        for side in (made.about, made.says):
            rows = sorted([s.y for s in side.spots] + [h.y for h in side.headings])
            assert all(0 < y < made.height for y in rows)
            spots = sorted(s.y for s in side.spots)
            assert all(b - a >= ROW for a, b in pairwise(spots))
            assert all(len(s.name) <= LONGEST for s in side.spots)


def test_a_hub_keeps_some_of_every_relation_and_counts_the_rest(atlas: Atlas):
    entity = int(atlas.graph.degree.argmax())
    says, about = atlas.facts(entity)
    made = picture(atlas, entity, most=6)
    assert made.drawn == 6
    relations = {(t.relation, "says") for t in says} | {(t.relation, "about") for t in about}
    headings = (*made.says.headings, *made.about.headings)
    assert len(headings) == min(6, len(relations))
    shown = {h.words for h in headings}
    words = atlas.graph.relation_words
    left = sum(1 for t in (*says, *about) if words[t.relation] in shown) - 6
    assert sum(h.more for h in headings) == left


def test_reasoning_runs_from_what_is_given_to_the_answer(atlas: Atlas):
    families = set()
    for task in atlas.tasks:
        if task.graph is None or not task.graph.nodes:
            continue
        made = drawing(task.graph, task.answers[0], {})
        families.add(task.family)
        corners = [(box.x, box.y) for box in made.boxes]
        assert len(set(corners)) == len(corners)
        for i, (x, y) in enumerate(corners):
            assert x + BOX <= made.width and y + TALL <= made.height  # noqa: PT018
            assert all(abs(x - u) >= BOX or abs(y - v) >= TALL for u, v in corners[:i])
        numbered = [arrow for arrow in made.arrows if arrow.number]
        numbers = [n for arrow in numbered for n in range(arrow.number, arrow.last + 1)]
        assert numbers == list(range(1, len(task.graph.edges) + 1))
        roles = [box.role for box in made.boxes]
        assert roles.count("answer") == 1
        if task.family == "chain":
            by_x = sorted(made.boxes, key=lambda box: box.x)
            assert [by_x[0].role, by_x[-1].role] == ["given", "answer"]
    assert {"simple", "chain", "comparison", "count", "parallel"} <= families


def test_things_that_are_counted_are_not_shown_as_one():
    nodes = (GraphNode("n0", "band", "The Wolves", True), GraphNode("n1", "person", "Ann"))
    edges = tuple(GraphEdge("n0", "member", "n1", i, "p") for i in range(3))
    graph = ReasoningGraph(nodes, edges, "", "count:n1")
    made = drawing(graph, "3", {"n0": ["The Wolves"], "n1": ["Ann", "Bea", "Cid"]})
    assert [box.text for box in made.boxes] == ["The Wolves", "Ann and 2 more", "3"]
    assert made.boxes[2].kind == "their number"
    facts, computed = made.arrows
    assert (facts.number, facts.last) == (1, 3), "one arrow says how many facts it stands for"
    assert computed.number == 0
