"""Contents of each page, as plain values for the templates; the same whether served or written."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ..kgs.graph import Triple
from ..types import GraphEdge, ReasoningGraph, Task
from .atlas import Atlas
from .neighbourhood import picture
from .reasoning import BOX, drawing, operation_words
from .schema_graph import schema_graph
from .spans import around, pieces

PER_PAGE = 50
"""Rows of a list."""
MOST_FACTS = 200
"""Rows of a table of facts; hubs have thousands."""
MOST_TASKS = 25
"""Tasks listed on an entity's page."""


class Links(Protocol):
    """Addresses of pages; None for one that was not written."""

    def home(self) -> str: ...
    def tasks(self) -> str: ...
    def entity(self, entity: int) -> str | None: ...
    def task(self, place: int) -> str | None: ...
    def kind(self, kind: int) -> str | None: ...


class Named(NamedTuple):
    """Target of a link."""

    title: str
    address: str | None
    kind: int | None = None


class FactRow(NamedTuple):
    """A fact of an entity, numbered as the marks in its page are."""

    number: int
    fact: int
    property: str
    other: Named
    here: bool
    """True if the entity's own page states it."""
    elsewhere: tuple[Named, ...]
    """Other pages that do."""


def home(
    atlas: Atlas, links: Links, text: str = "", kind: int | None = None, page: int = 1
) -> dict[str, Any]:
    """The search page."""
    entities = atlas.names.find(text, kind)
    shown, pager = _part(entities, page)
    families = Counter(task.family for task in atlas.tasks)
    return {
        "atlas": atlas, "text": text, "chosen": kind, "found": len(entities), "pager": pager,
        "rows": [entity_row(atlas, links, e) for e in shown],
        "kinds": list(zip(atlas.kinds, atlas.members(), strict=True)),
        "families": sorted(families.items()), "facts": atlas.graph.n_facts,
    }  # fmt: skip


SAMPLES = 3
"""Tasks on the first page, each of another family."""


def overview(atlas: Atlas, links: Links) -> dict[str, Any]:
    """The first page's picture of the world: kinds, how many facts join them, sample tasks."""
    samples: dict[str, int] = {}
    for place, task in enumerate(atlas.tasks):
        if links.task(place) is not None and len(task.question) < 160:
            samples.setdefault(task.family, place)
    places = list(samples.values())
    spread = places[:: max(1, len(places) // SAMPLES)][:SAMPLES]
    rows = [task_row(atlas, links, place) for place in spread]
    return {"schema": schema_graph(atlas, links), "samples": rows}


def entity_row(atlas: Atlas, links: Links, entity: int) -> dict[str, Any]:
    """One line of a list of entities."""
    says, about = atlas.facts(entity)
    return {
        "name": Named(atlas.graph.titles[entity], links.entity(entity), atlas.kind(entity)),
        "kind": atlas.kinds[atlas.kind(entity)], "others": atlas.other_names(entity),
        "facts": len(says) + len(about), "tasks": len(atlas.tasks_of(entity)),
    }  # fmt: skip


def entity(atlas: Atlas, links: Links, entity: int) -> dict[str, Any]:
    """An entity: its neighbourhood, its page with the facts marked, its facts, its tasks."""
    graph = atlas.graph
    says, about = atlas.facts(entity)
    where = atlas.passage(entity)
    spans = atlas.stated_in(where)
    number = {t.id: i for i, t in enumerate((*says, *about), 1)}
    used = atlas.tasks_of(entity)
    # facts of others that the page states: marked, numbered after its own
    for fact, _, _ in spans:
        number.setdefault(fact, len(number) + 1)
    strange = [graph.triple(f) for f in number if f not in {t.id for t in (*says, *about)}]
    return {
        "title": graph.titles[entity], "number": entity, "key": graph.ids[entity],
        "kind": atlas.kinds[atlas.kind(entity)], "kind_place": atlas.kind(entity),
        "others": atlas.other_names(entity), "description": graph.descriptions[entity],
        "picture": picture(atlas, entity), "links": links, "kinds": atlas.kinds,
        "passage": atlas.page(entity),
        "pieces": [
            (p.text, [number[f] for f in p.facts], [(number[f], f) for f in p.begins])
            for p in pieces(atlas.page(entity).text, spans)
        ],
        "marked": bool(spans),
        "says": _facts(atlas, links, says, number, where, about=False),
        "about": _facts(atlas, links, about, number, where, about=True),
        "strange": [
            (number[t.id], t.id, Named(graph.titles[t.head], links.entity(t.head)),
             graph.relation_words[t.relation], _tail(atlas, links, t))
            for t in strange
        ],
        "counts": (len(says), len(about)),
        "tasks": [task_row(atlas, links, place) for place in used[:MOST_TASKS]],
        "more_tasks": max(0, len(used) - MOST_TASKS),
    }  # fmt: skip


def _facts(
    atlas: Atlas, links: Links, facts: Sequence[Triple], number: dict[int, int], where: int, *,
    about: bool,
) -> list[FactRow]:  # fmt: skip
    graph = atlas.graph
    rows = []
    for t in facts[:MOST_FACTS]:
        other = (
            Named(graph.titles[t.head], links.entity(t.head), atlas.kind(t.head))
            if about
            else _tail(atlas, links, t)
        )
        places = list(dict.fromkeys(place.passage for place in atlas.places(t.id)))
        elsewhere = tuple(_page(atlas, links, p, t.id) for p in places if p != where)
        words = graph.relation_words[t.relation]
        rows.append(FactRow(number[t.id], t.id, words, other, where in places, elsewhere))
    return rows


def _tail(atlas: Atlas, links: Links, fact: Triple) -> Named:
    if fact.tail < 0:
        return Named(fact.value, None)
    return Named(atlas.graph.titles[fact.tail], links.entity(fact.tail), atlas.kind(fact.tail))


def _page(atlas: Atlas, links: Links, passage: int, fact: int | None = None) -> Named:
    """A passage, linked to the mark of a fact in it."""
    owner = atlas.entity_of_passage(passage)
    address = None if owner is None else links.entity(owner)
    if address is not None and fact is not None:
        address += f"#said-{fact}"
    document = atlas.corpus[passage]
    return Named(document.title or document.id, address)


def tasks(
    atlas: Atlas, links: Links, text: str = "", family: str = "", page: int = 1
) -> dict[str, Any]:
    """The list of tasks."""
    asked = " ".join(text.casefold().split())
    places = [
        place
        for place, task in enumerate(atlas.tasks)
        if (not family or task.family == family)
        and (not asked or any(asked in s.casefold() for s in (task.question, task.id)))
    ]
    shown, pager = _part(places, page)
    return {
        "text": text, "family": family, "found": len(places), "pager": pager,
        "families": sorted({task.family for task in atlas.tasks}),
        "rows": [task_row(atlas, links, place) for place in shown],
    }  # fmt: skip


def task_row(atlas: Atlas, links: Links, place: int) -> dict[str, Any]:
    """One line of a list of tasks."""
    task = atlas.tasks[place]
    return {
        "id": task.id, "question": task.question, "address": links.task(place),
        "family": task.family, "hops": task.hops, "answer": task.answers[0],
    }  # fmt: skip


def task(atlas: Atlas, links: Links, place: int) -> dict[str, Any]:
    """A task: question, answers, gold queries and pages, how it is reasoned out."""
    task, graph = atlas.tasks[place], atlas.tasks[place].graph
    made = None
    if graph is not None and graph.nodes:
        made = drawing(graph, task.answers[0], _named_nodes(atlas, graph))
    return {
        "task": task, "links": links, "atlas": atlas, "drawing": made, "BOX": BOX,
        "evidence": [_evidence(atlas, links, task, i) for i in range(len(task.evidence))],
        "steps": [_step(atlas, links, graph, edge) for edge in graph.edges] if graph else [],
        "operation": operation_words(graph.operation) if graph and not graph.answer else "",
        "before": links.task(place - 1) if place else None,
        "after": links.task(place + 1) if place + 1 < len(atlas.tasks) else None,
    }  # fmt: skip


def _named_nodes(atlas: Atlas, graph: ReasoningGraph) -> dict[str, list[str]]:
    """Return what each node stands for, by the facts used; those that are counted are several."""
    names_of: dict[str, dict[str, None]] = {}
    for edge in graph.edges:
        ends = atlas.ends_of_edge(edge)
        if ends is not None:
            names_of.setdefault(edge.subject, {})[ends[0]] = None
            names_of.setdefault(edge.object, {})[ends[1]] = None
    return {node: list(names) for node, names in names_of.items()}


def _evidence(atlas: Atlas, links: Links, task: Task, i: int) -> dict[str, Any]:
    passage = task.evidence[i]
    page = Named(passage, None)
    if there := passage in atlas.corpus:
        page = _page(atlas, links, atlas.corpus.position(passage))
    query = task.queries[i] if i < len(task.queries) else ""
    return {"page": page, "there": there, "query": query}


def _step(atlas: Atlas, links: Links, graph: ReasoningGraph, edge: GraphEdge) -> dict[str, Any]:
    place, fact = atlas.place_of_edge(edge), atlas.fact_of_edge(edge)
    page = quote = None
    if edge.passage in atlas.corpus:
        where = atlas.corpus.position(edge.passage)
        page = _page(atlas, links, where, fact if place else None)
        if place is not None:
            quote = around(atlas.corpus[where].text, place.start, place.end)
    value = {node.id: node.value for node in graph.nodes}
    said = atlas.ends_of_edge(edge) or (value[edge.subject], value[edge.object])
    ends = [
        Named(name, None if (e := atlas.titled(name)) is None else links.entity(e)) for name in said
    ]
    return {
        "subject": ends[0], "object": ends[1], "property": edge.property.replace("_", " "),
        "page": page, "quote": quote, "there": edge.fact >= 0 or bool(edge.parts),
        "parts": [
            _page(atlas, links, atlas.corpus.position(passage))
            for passage in dict.fromkeys(passage for _, passage in edge.parts)
            if passage in atlas.corpus
        ],
    }  # fmt: skip


def _part(rows: Sequence[int], page: int) -> tuple[Sequence[int], dict[str, int]]:
    """The rows of a page and where it is among all; pages beyond the last show the last."""
    last = max(1, math.ceil(len(rows) / PER_PAGE))
    page = min(max(page, 1), last)
    low = (page - 1) * PER_PAGE
    return rows[low : low + PER_PAGE], {"page": page, "last": last, "first_row": low + 1}
