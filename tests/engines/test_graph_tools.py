"""The graph's modes and tools, over a generated world and an imported graph."""

from __future__ import annotations

import gc
import weakref

import gymnasium as gym
import pytest

import searchgym  # noqa: F401  (registers the environments)
from searchgym.dialects import get_dialect
from searchgym.engines.graph.index import graph_index
from searchgym.engines.registry import build_engine
from searchgym.envs import SearchVectorEnv
from searchgym.errors import CardError, EngineError
from searchgym.kgs import kg_corpus, neighbours
from searchgym.objects import load_object
from searchgym.tools import TOOLS, ToolContext
from searchgym.tools import make_tool as made_tool
from searchgym.types import Call, CallContext, ToolCall
from tests.kgs.random_graphs import films, generated

CONTEXT = CallContext(0, "e", {})
GRAPH_TOOLS = [name for name, path in TOOLS.items() if ".graph:" in path]


def make_tool(name, corpus, world):
    return made_tool(name, ToolContext(corpus, None, world))


@pytest.fixture(scope="module")
def kg():
    return kg_corpus(films())


def use(tool, **args):
    (result,) = tool.run([ToolCall(tool.spec.name, args, 0, CONTEXT)])
    return result


def said(result):
    return "".join(result.parts)


# --- modes ----------------------------------------------------------------------------------------
def test_hits_state_every_fact_of_their_page():
    world, corpus = generated()
    engine = build_engine({"name": "graph", "mode": "facts"}, corpus, world)
    index = graph_index(corpus, world)
    for e in range(0, world.n_entities, 29):
        (hit, *_) = engine.search([world.titles[e]], 1)[0]
        assert hit.passage.id == corpus[int(corpus.page_of[e])].id
        for triple in index.graph.facts(e):
            shown = triple.value if triple.tail < 0 else world.titles[triple.tail]
            assert shown in hit.passage.text


def test_the_hybrid_shows_facts_and_passages():
    world, corpus = generated()
    spec = {"name": "graph", "mode": "ppr", "passages": True}
    engine = build_engine(spec, corpus, world)
    tool = make_tool("graph_search", corpus, world)
    for title in world.titles[::97]:
        for hits in (engine.search([title], 3)[0], use(tool, query=title, k=3).hits):
            assert len(hits) == 3
            for hit in hits:
                facts, passage = hit.passage.text.split("\nPassage:\n")
                assert passage == corpus.passage(hit.passage.id).text
                assert facts.startswith("Facts:\n")
                assert ": " in facts.removeprefix("Facts:\n")


def test_pages_of_an_imported_graph(kg):
    engine = build_engine("graph", kg)
    assert [h.passage.id for h in engine.search(["Origin"], 5)[0]] == [
        "inception",
        "nolan",
        "zimmer",
    ]
    assert engine.search(["Origin"], 1)[0][0].passage == kg.passage("inception")


def test_an_index_is_shared_and_goes_with_its_corpus():
    corpus = kg_corpus(films())
    index = graph_index(corpus)
    assert graph_index(corpus) is index
    assert graph_index(kg_corpus(films())) is not index
    gone = weakref.ref(index)
    del corpus, index
    gc.collect()
    assert gone() is None


def test_texts_alone_are_no_graph():
    from tests.small import CORPUS

    for spec in ("graph", {"name": "graph", "mode": "ppr"}):
        with pytest.raises(EngineError, match="needs a generated world or a knowledge graph"):
            build_engine(spec, CORPUS)
    with pytest.raises(EngineError, match="has no graph behind it"):
        make_tool("graph_path", CORPUS, None)


# --- tools ----------------------------------------------------------------------------------------
def test_facts(kg):
    tool = make_tool("graph_facts", kg, None)
    assert said(use(tool, entity="inception")).splitlines() == [
        "Inception — director: Christopher Nolan (nolan)",
        "Inception — composer: zimmer",
        "Inception — date of release: 8 July 2010",
    ]
    assert said(use(tool, entity="Origin", relation="Date_of_release")) == (
        "Inception — date of release: 8 July 2010"
    )
    assert "No such fact" in said(use(tool, entity="london", relation="director"))
    assert "No relation is called dirctor. Relations: director; composer" in said(
        use(tool, entity="inception", relation="dirctor")
    )
    assert "Did you mean Inception" in said(use(tool, entity="the Inception thing"))


def test_homonyms_are_told(kg):
    both = said(use(make_tool("graph_facts", kg, None), entity="christopher nolan"))
    assert both.startswith(
        "Taken to be Christopher Nolan (nolan). Also called so: Christopher Nolan (nolan2).\n"
    )
    one = said(use(make_tool("graph_facts", kg, None), entity="Christopher Nolan (nolan2)"))
    assert one == "Christopher Nolan (nolan2) — place of birth: paris"


def test_facts_of_a_world_are_the_worlds():
    world, corpus = generated()
    tool = make_tool("graph_facts", corpus, world)
    for e in range(0, world.n_entities, 13):
        expected = {f.id for f in world.facts_of(e)} | {f.id for f in world.facts_about(e)}
        assert set(use(tool, entity=world.titles[e]).meta["facts"]) == expected
        for prop in {f.property for f in world.facts_of(e)}:
            name = world.schema.properties[prop].name
            got = use(tool, entity=world.titles[e], relation=name).meta["facts"]
            expected = {f.id for f in world.objects(e, prop)} | {
                f.id for f in world.subjects(prop, e) if world.schema.properties[prop].is_relation
            }
            assert set(got) == expected


def test_neighbours():
    world, corpus = generated()
    tool, graph = make_tool("graph_neighbors", corpus, world), graph_index(corpus, world).graph
    for e in range(0, world.n_entities, 41):
        for hops in (1, 2):
            found = neighbours(graph, e, hops=hops)
            lines = said(use(tool, node=world.titles[e], hops=hops, k=50)).splitlines()
            assert (
                lines[0]
                == f"{min(50, len(found))} of {len(found)} neighbours of {world.titles[e]}:"
            )
            shown = [line.partition(" (")[0] for line in lines[1:]]
            names = [world.titles[n.entity].partition(" (")[0] for n in found[:50]]
            assert shown == names
    assert len(said(use(tool, node=world.titles[0])).splitlines()) <= 6


def test_paths(kg):
    tool = make_tool("graph_path", kg, None)
    assert said(use(tool, a="london", b="frankfurt")).splitlines() == [
        "london → Christopher Nolan (nolan) → Inception → zimmer → frankfurt",
        "Christopher Nolan (nolan) — place of birth: london",
        "Inception — director: Christopher Nolan (nolan)",
        "Inception — composer: zimmer",
        "zimmer — place of birth: frankfurt",
    ]
    assert "No chain of at most 2 facts" in said(use(tool, a="london", b="frankfurt", max_len=2))
    assert "No chain" in said(use(tool, a="london", b="Lonely Island"))
    both = said(use(tool, a="nobody", b="Nolanx"))
    assert "No entity is called nobody" in both
    assert "No entity is called Nolanx" in both


def test_rankings():
    world, corpus = generated()
    index = graph_index(corpus, world)
    rank = make_tool("graph_rank", corpus, world)
    community = make_tool("community_search", corpus, world)
    for e in range(0, world.n_entities, 53):
        title = world.titles[e]
        central = use(rank, query=title, k=4)
        assert [h.passage.title for h in central.hits] == [
            world.titles[n] for n, _ in index.ppr(title, 4)
        ]
        assert {f.id for f in world.facts_of(e)} <= set(central.meta["facts"])
        alike = use(rank, query=title, method="sim", k=4)
        assert use(community, query=title, beam=0, k=4).hits == alike.hits
        assert len(use(community, query=title).hits) <= 5
    assert said(use(rank, query="zzz qqq")) == "Nothing was found."


def test_tools_fit_their_schemas():
    from searchgym.utils.arguments import check_schema

    for name in GRAPH_TOOLS:
        tool = load_object(TOOLS[name])
        check_schema(tool.spec.parameters, name)
        assert tool.spec.name == name


# --- environments ---------------------------------------------------------------------------------
SMALL = {"world": {"entities": 300}, "tasks": {"simple": 20, "chain": 10}}
ALL = ("search", *GRAPH_TOOLS)


@pytest.mark.parametrize("dialect", ["search_r1", "asearcher", "json_tools", "plain"])
def test_an_agent_solves_a_chain_with_the_graph_alone(dialect):
    env = gym.make("SearchQA-v0", tools=tuple(GRAPH_TOOLS), dialect=dialect, max_turns=6, **SMALL,
                   reward={"em": 1, "evidence": 1, "call": -0.1}).unwrapped  # fmt: skip
    solved = 0
    for seed in range(6):
        env.reset(seed=seed)
        task = env.episode.config.task
        words = get_dialect(env.episode.config.rules.dialect)
        total = 0.0
        for evidence in task.evidence:  # each hop's page names the next entity
            title = env.corpus.passage(evidence).title
            call = Call("graph_facts", {"entity": title})
            _, reward, *_, info = env.step(words.render_action(call))
            total += reward
            assert (info["tool"], info["valid"]) == ("graph_facts", True)
        assert env.episode.missing_evidence == ()
        assert total == pytest.approx(1 - 0.1 * len(task.evidence))
        _, reward, terminated, *_ = env.step(env.oracle()[-1])
        solved += reward == 1.0
        assert terminated
    assert solved == 6


def test_a_vector_of_environments_mixes_tools_and_searches():
    env = SearchVectorEnv(4, tools=ALL, dialect="json_tools", max_turns=9, **SMALL)
    env.reset(seed=0)
    words = get_dialect(env.env.rules.dialect)
    title = env.env.world.titles[0]
    actions = [
        words.render_action(Call("graph_neighbors", {"node": title, "hops": 2})),
        env.oracle()[1][0],
        words.render_action(Call("graph_rank", {"query": title})),
        "nothing",
    ]
    *_, infos = env.step(actions)
    assert list(infos["action"][:3]) == ["Call", "Search", "Call"]
    assert list(infos["tool"]) == ["graph_neighbors", None, "graph_rank", None]
    assert len(infos["hits"][2]) == 5
    assert list(infos["queries"]) == [1, 1, 1, 0]


def test_agentgl_plays_the_graph():
    env = gym.make(
        "SearchQA-v0", tools=("graph_neighbors", "graph_rank"), dialect="agentgl", **SMALL
    )
    observation, _ = env.reset(seed=0)
    assert "2-hop" in observation
    assert "To search" not in observation
    title = env.unwrapped.world.titles[1]
    observation, *_, info = env.step(f"<think>hm <|begin_of_query|>2-hop:{title}<|end_of_query|>")
    assert f"neighbours of {title}" in observation
    assert info["tool"] == "graph_neighbors"
    *_, info = env.step(f"<|begin_of_query|>similar:{title}<|end_of_query|>")
    assert len(info["hits"]) == 5


def test_dialects_that_cannot_say_a_tool_are_refused():
    with pytest.raises(
        CardError, match="can call graph_neighbors, graph_rank only, not graph_path"
    ):
        gym.make("SearchQA-v0", tools=("search", "graph_path"), dialect="agentgl", **SMALL)
    with pytest.raises(CardError, match="Did you mean 'graph_path'"):
        gym.make("SearchQA-v0", tools=("graph_pth",), **SMALL)


def test_an_imported_graph_is_an_environment(tmp_path):
    graph = kg_corpus(films()).graph
    lines = [
        f"Person {i}\tborn in\tTown {i % 7}\nPerson {i}\tteacher\tPerson {i + 1}\n"
        for i in range(60)
    ]
    path = tmp_path / "people.tsv"
    path.write_text("".join(lines), encoding="utf-8")
    env = gym.make("SearchQA-v0", corpus=f"kg:{path}", engine="graph", tools=ALL, k=5).unwrapped
    families = {t.family for t in env.tasks}
    assert families == {"simple", "chain", "parallel", "unanswerable"}
    for seed in range(5):
        env.reset(seed=seed)
        for action in env.oracle():
            *_, info = env.step(action)
        assert info["outcome"]["em"] == 1.0
        assert info["outcome"]["evidence_recall"] == 1.0
    with pytest.raises(CardError, match="no task is left"):
        gym.make("SearchQA-v0", corpus=graph, tasks={"count": 3})
