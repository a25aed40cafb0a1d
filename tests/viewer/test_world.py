# ruff: noqa: F811 - a fixture that is imported has the name of what asks for it
"""A world's pages: found by name, linked to one another, marked where facts are stated, inert."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from searchgym.cli import run
from searchgym.envs import SearchEnv
from searchgym.errors import EngineError
from searchgym.kgs import Entity, from_triples, kg_corpus
from searchgym.types import GraphEdge, GraphNode, ReasoningGraph, Task
from searchgym.viewer.world import WorldIndex, around, pieces, world_app

from ..browser import accessible, browser, page, served  # noqa: F401
from ..small import CORPUS, TASKS

pytestmark = pytest.mark.contract

SCRIPT = '<script>document.title = "owned"</script>'
IMAGE = '"><img src=x onerror="document.title=\'owned\'">'
TURNED = "safe\u202eevil\u2066"
ADDRESS = "javascript:document.title='owned'"
TEMPLATE = "{{ 7 * 7 }} {% raise %} </title></svg></style>"


@pytest.fixture(scope="module")
def env() -> SearchEnv:
    return SearchEnv(
        **{"world": {"entities": 400}, "tasks": {"simple": 20, "chain-2": 10, "comparison": 10,
         "count": 5, "parallel": 5, "unanswerable": 5}}
    )  # fmt: skip


@pytest.fixture(scope="module")
def world(env: SearchEnv) -> WorldIndex:
    return WorldIndex(env)


@pytest.fixture(scope="module")
def hostile() -> WorldIndex:
    """Five entities, named by an attacker, with a task of the same kind."""
    names = (SCRIPT, IMAGE, TURNED, ADDRESS, TEMPLATE)
    entities = {f"e{i}": Entity(name, name, (name,)) for i, name in enumerate(names)}
    triples = [(f"e{i}", f"{names[i]} of", f"e{(i + 1) % 5}") for i in range(5)]
    corpus = kg_corpus(from_triples(triples, name=SCRIPT, entities=entities))
    nodes = (GraphNode("a", IMAGE, SCRIPT, True), GraphNode("b", SCRIPT, IMAGE))
    task = Task(
        "../" + SCRIPT, SCRIPT + TURNED, (IMAGE,), ("e0", IMAGE), (TEMPLATE,), IMAGE, 1,
        graph=ReasoningGraph(nodes, (GraphEdge("a", SCRIPT, "b", 0, "e0"),), "b"),
    )  # fmt: skip
    return WorldIndex(SearchEnv(**{"corpus": corpus, "tasks": [task]}))


@pytest.fixture(scope="module")
def client(world: WorldIndex) -> TestClient:
    return TestClient(world_app(world), base_url="http://127.0.0.1")


@pytest.fixture(scope="module")
def address(world: WorldIndex) -> Iterator[str]:
    with served(world_app(world)) as at:
        yield at


def task_address(world: WorldIndex, place: int) -> str:
    return f"/task/{quote(world.tasks[place].id, safe='')}"


def test_every_marked_span_says_what_its_fact_says(world: WorldIndex):
    seen = 0
    for entity in range(0, world.graph.n_entities, 7):
        where = int(world.page_of[entity])
        text = world.corpus[where].text
        for fact, start, end in world.stated_in(where):
            triple = world.graph.triple(fact)
            if triple.head == entity and triple.tail >= 0:
                names = (world.graph.titles[triple.tail], *world.other_names(triple.tail))
                assert any(name.lower() in text[start:end].lower() for name in names)
                seen += 1
    assert seen > 50


def test_a_fact_and_the_pages_that_state_it_find_each_other(world: WorldIndex):
    entity = int(world.graph.degree.argmax())
    says, about = world.facts(entity)
    assert all(t.head == entity for t in says)
    assert all(t.tail == entity for t in about)
    for fact in (*says, *about):
        places = world.places(fact.id)
        assert places  # agents can read every fact of the graph
        for passage, start, end in places:
            assert (fact.id, start, end) in world.stated_in(passage)


def test_tasks_and_entities_find_each_other(world: WorldIndex):
    used = [place for places in world.tasks_of.values() for place in places]
    assert set(used) == set(range(len(world.tasks)))
    for place, task in enumerate(world.tasks):
        for passage in task.evidence:
            link = world.link_to_page(world.corpus.position(passage))
            assert place in world.tasks_of[int(str(link.address).rpartition("/")[2])]


def test_mere_texts_have_nothing_to_browse():
    with pytest.raises(EngineError, match=r'corpus="kg:PATH"'):
        WorldIndex(SearchEnv(**{"corpus": CORPUS, "tasks": TASKS}))


def test_names_are_found_best_first_and_by_kind(world: WorldIndex):
    title = world.graph.titles[3]
    assert world.find(f"  {title.upper()} ")[0] == 3
    assert 3 in world.find(title[:4], world.kind(3))
    assert 3 not in world.find(title, world.kind(3) + 1)
    assert world.find("no such name") == []
    assert world.find("") == list(range(400))
    fits = [
        min(
            not name.casefold().startswith("s")
            for name in (world.graph.titles[e], *world.other_names(e))
            if "s" in name.casefold()
        )
        for e in world.find("s")
    ]
    assert fits == sorted(fits)  # those that begin so come first
    assert len(set(fits)) == 2


@pytest.mark.parametrize("query", ["kind=99", "kind=x", "page=0", "page=99999999999", "q=%00%ff"])
def test_odd_questions_get_a_page(client: TestClient, query: str):
    assert client.get(f"/?{query}").status_code == 200
    assert client.get(f"/tasks?{query}").status_code == 200


@pytest.mark.parametrize("address", ["/entity/400", "/entity/99999999999", "/task/none", "/etc"])
def test_what_is_not_there_is_said_so(client: TestClient, address: str):
    answer = client.get(address)
    assert answer.status_code == 404
    assert "Not here" in answer.text


def test_links_within_all_pages_lead_somewhere(client: TestClient, world: WorldIndex):
    """From a task to its pages' marks and back."""
    for place in range(0, len(world.tasks), 11):
        page = client.get(task_address(world, place)).text
        assert page.count('<tr id="step-') == len(world.tasks[place].graph.edges)
        for address in set(re.findall(r'href="(/entity/\d+(?:#said-\d+)?)"', page)):
            there, _, mark = address.partition("#")
            target = client.get(there).text
            assert not mark or f'id="{mark}"' in target
            anchors = set(re.findall(r'href="#([\w-]+)"', target))
            assert anchors <= set(re.findall(r'id="([\w-]+)"', target))


def test_hostile_names_reach_no_page_as_markup(hostile: WorldIndex, page: Any):
    client = TestClient(world_app(hostile), base_url="http://127.0.0.1")
    addresses = ["/", "/tasks", *(f"/entity/{e}" for e in range(5)), task_address(hostile, 0)]
    for address in addresses:
        answer = client.get(address)
        assert answer.status_code == 200, address
        for wrong in ("<script>document", "<img", 'href="javascript', "\u202e", "\u2066", " 49 "):
            assert wrong not in answer.text, (address, wrong)
        assert "script-src 'self'" in answer.headers["content-security-policy"]
    with served(world_app(hostile)) as at:
        for address in addresses:
            page.goto(at + address)
            assert page.title() != "owned"
            assert page.locator("main script, main img, main style").count() == 0


def test_from_a_search_to_an_entity_and_its_task(address: str, world: WorldIndex, page: Any):
    place, task = next((i, t) for i, t in enumerate(world.tasks) if t.family == "chain")
    title = task.graph.nodes[0].value
    page.goto(address)
    page.keyboard.press("/")
    page.keyboard.type(title)
    page.get_by_role("rowheader", name=title, exact=True).get_by_role("link").first.click()
    assert page.get_by_role("heading", level=1).inner_text().startswith(title)
    # a mark in the page leads to the fact's row
    mark = page.locator(".number-mark").first
    mark.click()
    assert page.locator("tr:target td").first.inner_text() == mark.inner_text()
    page.get_by_role("link", name=task.question).first.click()
    assert page.url == address + task_address(world, place)
    assert page.locator("strong").first.inner_text() == task.answers[0]
    # the passage that states a step, at the very mark
    page.locator("#step-1 td").last.get_by_role("link").click()
    page.locator(".number-mark:target").wait_for()
    page.goto(address + task_address(world, place))
    page.keyboard.press("n")
    page.wait_for_url(address + task_address(world, place + 1))


def test_all_kinds_of_pages_are_accessible_and_fit_a_phone(
    address: str, world: WorldIndex, page: Any, browser: Any
):
    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True)
    phone = context.new_page()
    hub = int(world.graph.degree.argmax())
    for path in ("/", "/?q=zzzz", f"/entity/{hub}", "/tasks", task_address(world, 0)):
        page.goto(address + path)
        accessible(page)
        phone.goto(address + path)
        assert phone.evaluate("document.documentElement.scrollWidth") == 390, path
    context.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["encyclopaedia"], "encyclopedia"),
        (["SearchQA-v7"], "SearchQA-v0"),
        (["kg:nowhere.tsv"], "nowhere.tsv"),
        (["SearchQA-v0", "--split", "tset"], "train, dev, test"),
        (["SearchQA-v0", "-s", "wrld=3"], "world"),
        (["SearchQA-v0", "--export", "x.html"], "of episodes"),
        (["research", "-s", "world.entities=60", "-s", "tasks.intersection=500"],
         "asked for 500 tasks of family 'intersection'"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        run(["view", *arguments, "--no-browser"])
    error = capsys.readouterr().err.removeprefix("building research …\n").strip()
    assert ended.value.code == 2
    assert told in error
    assert "\n" not in error


def test_the_former_command_names_this_one(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        run(["world", "browse", "research", "--out", "pages"])
    assert ended.value.code == 2
    assert "searchgym view WORLD" in capsys.readouterr().err


SPANS = st.lists(st.tuples(st.integers(0, 9), st.integers(-3, 40), st.integers(-3, 40)), max_size=8)


@given(st.text(max_size=30), SPANS)
def test_pieces_join_to_the_text_and_carry_exactly_their_facts(text, spans):
    made = pieces(text, spans)
    assert "".join(piece for piece, _, _ in made) == text
    at = 0
    for piece, facts, _ in made:
        assert piece
        for place in range(at, at + len(piece)):
            covering = {f for f, start, end in spans if start <= place < end}
            assert set(facts) == covering
        at += len(piece)
    begun = [fact for _, _, begins in made for fact in begins]
    real = {f for f, start, end in spans if max(start, 0) < min(end, len(text))}
    assert set(begun) == real  # every fact that covers something has a mark to jump to


def test_around_keeps_to_the_sentence_and_to_its_reach():
    text = "First one. The lamp was built in 1871 by Velle. Last."
    start = text.index("1871")
    assert around(text, start, start + 4) == ("The lamp was built in ", "1871", " by Velle.")
    left, span, right = around("a" * 200 + "b" + "c" * 200, 200, 201, reach=10)
    assert (left, span, right) == ("…" + "a" * 10, "b", "c" * 10 + "…")
