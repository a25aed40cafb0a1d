"""Questions about a knowledge graph: one answer each, and none in two splits."""

from __future__ import annotations

from searchgym.kgs import from_world
from searchgym.tasks.graphs import FAMILIES, ask_kg
from tests.worlds.shipped import world_from_card


def test_questions_have_one_answer_and_splits_share_none():
    world = world_from_card("encyclopedia", entities=400, seed=5)
    graph = from_world(world)
    seen: set[str] = set()
    for family in FAMILIES:
        for split in ("train", "dev", "test"):
            asked = list(ask_kg(graph, family, split=split))
            assert len(asked) > 20
            assert not seen & {t.question for t in asked}
            seen |= {t.question for t in asked}
            assert asked == list(ask_kg(graph, family, split=split))
            assert asked != list(ask_kg(graph, family, split=split, seed=1))
            for task in asked[:30]:
                first = world.titles.index(task.graph.nodes[0].value)
                here = [first]
                for edge in task.graph.edges:  # every way of following the relations
                    prop = world.schema.property_index(edge.property)
                    facts = [f for e in here for f in world.objects(e, prop)]
                    here = [f.object for f in facts]
                assert len(facts) == 1
                assert [facts[0].id] == [task.graph.edges[-1].fact]
                assert (
                    task.hops
                    == len(task.queries)
                    == len(task.evidence)
                    == FAMILIES.index(family) + 1
                )
