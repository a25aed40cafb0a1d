"""Pages of a world: its entities with their facts and texts, and the tasks asked about it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from ..corpora.corpus import GeneratedCorpus
from ..engines.graph.index import graph_index
from ..envs.search import SearchEnv
from ..kgs.graph import Triple
from ..types import GraphEdge, ReasoningGraph, Task
from ..web.pages import Templates
from ..web.server import build_app

if TYPE_CHECKING:
    from starlette.applications import Starlette

PER_PAGE, MOST_FACTS, MOST_TASKS = 50, 200, 25
"""Rows of a list, of a table of facts (hubs have thousands), and of the tasks of an entity."""
LONGEST_TEXT = 200
"""Characters of a search that are looked at."""
OPERATIONS: Mapping[str, str] = {
    "count": "their number", "argmin": "the least", "argmax": "the greatest",
    "equal": "the same?", "join": "both", "difference": "the difference",
}  # fmt: skip
"""Words for how an answer is computed (``tasks.solver``)."""


class PageLink(NamedTuple):
    """A name and the address that it leads to; None for values and for what has no page."""

    title: str
    address: str | None = None


class WorldIndex:
    """A setting's graph, pages and tasks, each findable from the others.

    Entities go by their number in the graph, facts by their row, tasks by their place.

    Raises:
        EngineError: the corpus has no graph behind it.
    """

    def __init__(self, env: SearchEnv) -> None:
        index = graph_index(env.corpus, env.world)
        self.graph, self.corpus, self.page_of = index.graph, index.corpus, index.page_of
        self.tasks: Sequence[Task] = env.tasks
        self._world = env.world
        self._entity_of = {int(where): e for e, where in enumerate(self.page_of.tolist())}
        self._titled = {title: e for e, title in enumerate(self.graph.titles)}
        self._fact_of_row = {row: fact for fact, row in enumerate(self.graph.source.tolist())}
        self.task_place = {task.id: place for place, task in enumerate(self.tasks)}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Names of the kinds of entities; imported graphs have one."""
        if self._world is None:
            return ("entity",)
        return tuple(t.name.replace("_", " ") for t in self._world.schema.types)

    def kind(self, entity: int) -> int:
        """Place of an entity's kind in :attr:`kinds`."""
        return 0 if self._world is None else int(self._world.type_of[entity])

    def other_names(self, entity: int) -> list[str]:
        """Return the other names of an entity, without its title."""
        names = dict.fromkeys((self.graph.labels[entity], *self.graph.aliases[entity]))
        return [name for name in names if name and name != self.graph.titles[entity]]

    def find(self, text: str, kind: int | None = None) -> list[int]:
        """Entities one of whose names holds ``text`` (case ignored): equal names first, then those
        that begin so, short ones first. An empty text finds all, in order."""
        asked, found = " ".join(text.casefold().split()), []
        for entity, title in enumerate(self.graph.titles):
            if kind is not None and kind != self.kind(entity):
                continue
            names = [name.casefold() for name in (title, *self.other_names(entity))]
            fits = [(n != asked, not n.startswith(asked), len(n)) for n in names if asked in n]
            if fits:
                found.append((min(fits) if asked else (), entity))
        return [entity for _, entity in sorted(found)]

    def facts(self, entity: int) -> tuple[list[Triple], list[Triple]]:
        """Facts whose head it is, and facts of others whose tail it is."""
        about = [t for t in self.graph.facts_about(entity) if t.head != entity]
        return self.graph.facts(entity), about

    def places(self, fact: int) -> list[tuple[int, int, int]]:
        """``(passage, start, end)`` of every place that states a fact; imported graphs know
        none."""
        known = self.corpus if isinstance(self.corpus, GeneratedCorpus) else None
        found = known.statements(int(self.graph.source[fact])) if known else ()
        return [(s.passage, s.start, s.end) for s in found]

    def stated_in(self, passage: int) -> list[tuple[int, int, int]]:
        """``(fact, start, end)`` of every fact a page states, in order of position."""
        known = self.corpus if isinstance(self.corpus, GeneratedCorpus) else None
        found = known.stated_in(passage) if known else ()
        return [(self._fact_of_row[s.fact], s.start, s.end) for s in found]

    @cached_property
    def tasks_of(self) -> Mapping[int, list[int]]:
        """Places of the tasks in whose reasoning or evidence an entity occurs."""
        tasks_of: dict[int, list[int]] = {}
        for place, task in enumerate(self.tasks):
            named = [node.value for node in task.graph.nodes] if task.graph else []
            titled = [self._titled[name] for name in named if name in self._titled]
            pages = [self._entity_of.get(self.corpus.position(passage))
                     for passage in task.evidence if passage in self.corpus]  # fmt: skip
            for entity in dict.fromkeys([*titled, *pages]):
                if entity is not None:
                    tasks_of.setdefault(entity, []).append(place)
        return tasks_of

    # --- links --------------------------------------------------------------------------------
    def link(self, entity: int) -> PageLink:
        return PageLink(self.graph.titles[entity], f"/entity/{entity}")

    def tail(self, fact: Triple) -> PageLink:
        return PageLink(fact.value) if fact.tail < 0 else self.link(fact.tail)

    def link_to_page(self, passage: int, fact: int | None = None) -> PageLink:
        """A passage, linked to the mark of a fact in it."""
        owner, document = self._entity_of.get(passage), self.corpus[passage]
        mark = "" if fact is None else f"#said-{fact}"
        address = None if owner is None else f"/entity/{owner}{mark}"
        return PageLink(document.title or document.id, address)

    def link_to_task(self, place: int) -> PageLink:
        task = self.tasks[place]
        return PageLink(task.question, f"/task/{quote(task.id, safe='')}")

    # --- contents of pages ----------------------------------------------------------------------
    def entity_page(self, entity: int) -> dict[str, Any]:
        """An entity: its page with the facts marked, its facts, its tasks."""
        graph, where = self.graph, int(self.page_of[entity])
        says, about = self.facts(entity)
        spans = self.stated_in(where)
        number = {t.id: i for i, t in enumerate((*says, *about), 1)}
        of_others = [fact for fact, _, _ in spans if fact not in number]
        for fact in of_others:  # marked, too, and numbered after its own
            number.setdefault(fact, len(number) + 1)

        def row(t: Triple, other: PageLink) -> dict[str, Any]:
            places = dict.fromkeys(passage for passage, _, _ in self.places(t.id))
            return {
                "number": number[t.id], "fact": t.id, "property": graph.relation_words[t.relation],
                "other": other, "pages": [self.link_to_page(p, t.id) for p in places],
            }  # fmt: skip

        used = self.tasks_of.get(entity, [])
        return {
            "title": graph.titles[entity], "kind": self.kinds[self.kind(entity)],
            "others": self.other_names(entity), "description": graph.descriptions[entity],
            "passage": self.corpus[where], "marked": bool(spans),
            "pieces": [
                (text, [number[f] for f in facts], [(number[f], f) for f in begins])
                for text, facts, begins in pieces(self.corpus[where].text, spans)
            ],
            "says": [row(t, self.tail(t)) for t in says[:MOST_FACTS]],
            "about": [row(t, self.link(t.head)) for t in about[:MOST_FACTS]],
            "counts": (len(says), len(about)),
            "strange": [
                (number[t.id], t.id, self.link(t.head), graph.relation_words[t.relation],
                 self.tail(t))
                for t in map(graph.triple, dict.fromkeys(of_others))
            ],
            "tasks": [self.task_row(place) for place in used[:MOST_TASKS]],
            "more_tasks": max(0, len(used) - MOST_TASKS),
        }  # fmt: skip

    def entity_row(self, entity: int) -> dict[str, Any]:
        return {
            "name": self.link(entity), "kind": self.kinds[self.kind(entity)],
            "others": self.other_names(entity), "facts": sum(map(len, self.facts(entity))),
            "tasks": len(self.tasks_of.get(entity, [])),
        }  # fmt: skip

    def task_row(self, place: int) -> dict[str, Any]:
        return {"name": self.link_to_task(place), "task": self.tasks[place]}

    def find_tasks(self, text: str, family: str) -> list[int]:
        """Places of the tasks of a family (``""``: all) whose question or id holds ``text``."""
        asked = " ".join(text.casefold().split())
        return [
            place
            for place, task in enumerate(self.tasks)
            if family in ("", task.family)
            and (asked in task.question.casefold() or asked in task.id.casefold())
        ]

    def task_page(self, place: int) -> dict[str, Any]:
        """A task: question, answers, gold queries and pages, how it is reasoned out."""
        task, graph = self.tasks[place], self.tasks[place].graph
        queries = (*task.queries, *[""] * len(task.evidence))
        return {
            "task": task,
            "evidence": [
                (self.link_to_page(self.corpus.position(passage)) if passage in self.corpus
                 else PageLink(passage), passage in self.corpus, query)
                for passage, query in zip(task.evidence, queries, strict=False)
            ],
            "steps": [self._step(graph, edge) for edge in graph.edges] if graph else [],
            "operation": operation_words(graph.operation) if graph and not graph.answer else "",
            "before": self.link_to_task(place - 1) if place else None,
            "after": self.link_to_task(place + 1) if place + 1 < len(self.tasks) else None,
        }  # fmt: skip

    def _step(self, graph: ReasoningGraph, edge: GraphEdge) -> dict[str, Any]:
        """A fact of the reasoning, and the sentence that states it. A fact that is not in the
        graph is what a task to be refused asks for."""
        fact = self._fact_of_row.get(edge.fact)
        if fact is not None:
            triple = self.graph.triple(fact)
            ends = [self.link(triple.head), self.tail(triple)]
        else:
            value = {node.id: node.value for node in graph.nodes}
            titles = [value[edge.subject], value[edge.object]]
            found = [self._titled.get(title) for title in titles]
            ends = [PageLink(t) if e is None else self.link(e)
                    for t, e in zip(titles, found, strict=True)]  # fmt: skip
        page = quoted = None
        if edge.passage in self.corpus:
            where = self.corpus.position(edge.passage)
            places = [] if fact is None else self.places(fact)
            spans = [(start, end) for passage, start, end in places if passage == where]
            page = self.link_to_page(where, fact if spans else None)
            quoted = around(self.corpus[where].text, *spans[0]) if spans else None
        return {
            "subject": ends[0], "object": ends[1], "property": edge.property.replace("_", " "),
            "page": page, "quote": quoted, "there": edge.fact >= 0 or bool(edge.parts),
            "parts": [
                self.link_to_page(self.corpus.position(passage))
                for passage in dict.fromkeys(passage for _, passage in edge.parts)
                if passage in self.corpus
            ],
        }  # fmt: skip


def world_app(world: WorldIndex) -> Starlette:
    """An application that shows a world: ``/``, ``/entity/N``, ``/tasks``, ``/task/ID``."""
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    pages = Templates(styles=["viewer.css"], scripts=["viewer.js"])

    def show(view: str, heading: str = "", status: int = 200, **values: Any) -> Any:
        html = pages.served(
            "world.html", view=view, heading=heading, name=world.corpus.name, **values
        )
        return HTMLResponse(html, status)

    def missing(request: Any) -> Any:
        return show("missing", "Not here", 404, message=f"{request.url.path} is no page.")

    def listing(request: Any, view: str, rows: Sequence[int], line: Any, **values: Any) -> Any:
        last = max(1, math.ceil(len(rows) / PER_PAGE))
        page = min(max(_number(request.query_params.get("page")) or 1, 1), last)
        shown = [line(row) for row in rows[(page - 1) * PER_PAGE : page * PER_PAGE]]
        return show(
            view, "Tasks" if view == "tasks" else values["text"], world=world, rows=shown,
            found=len(rows), page_number=page, last=last, **values,
        )  # fmt: skip

    def entities(request: Any) -> Any:
        kind = _number(request.query_params.get("kind"))
        kind = kind if kind is not None and kind < len(world.kinds) else None
        text = request.query_params.get("q", "")[:LONGEST_TEXT]
        rows = world.find(text, kind)
        return listing(request, "entities", rows, world.entity_row, text=text, chosen=kind)

    def tasks(request: Any) -> Any:
        text = request.query_params.get("q", "")[:LONGEST_TEXT]
        family = request.query_params.get("family", "")
        families = sorted({task.family for task in world.tasks})
        rows = world.find_tasks(text, family)
        return listing(
            request, "tasks", rows, world.task_row, text=text, family=family, families=families
        )

    def entity(request: Any) -> Any:
        number = request.path_params["number"]
        if number >= world.graph.n_entities:
            return missing(request)
        page = world.entity_page(number)
        return show("entity", page["title"], **page)

    def task(request: Any) -> Any:
        place = world.task_place.get(request.path_params["key"])
        if place is None:
            return missing(request)
        return show("task", world.tasks[place].question, **world.task_page(place))

    return build_app([
        Route("/", entities), Route("/entity/{number:int}", entity), Route("/tasks", tasks),
        Route("/task/{key:path}", task), Route("/{rest:path}", missing),
    ])  # fmt: skip


def operation_words(operation: str) -> str:
    """Words for how an answer is computed: "the least"."""
    name = operation.partition(":")[0]
    return OPERATIONS.get(name, name)


def pieces(
    text: str, spans: Sequence[tuple[int, int, int]]
) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """``text`` as pieces that join to it again, cut at the ends of every ``(fact, start, end)``:
    each with the facts that it states a part of, and those whose first character it holds.

    Spans may overlap, nest, repeat a fact, or reach beyond the text, which cuts them off; empty
    ones state nothing.
    """
    kept = [(fact, max(start, 0), min(end, len(text))) for fact, start, end in spans]
    kept = [(fact, start, end) for fact, start, end in kept if start < end]
    cuts = sorted({0, len(text), *(s for _, s, _ in kept), *(e for _, _, e in kept)})
    made = []
    for low, high in pairwise(cuts):
        facts = dict.fromkeys(fact for fact, s, e in kept if s <= low and high <= e)
        begins = dict.fromkeys(fact for fact, s, _ in kept if s == low)
        made.append((text[low:high], tuple(facts), tuple(begins)))
    return made


def around(text: str, start: int, end: int, reach: int = 90) -> tuple[str, str, str]:
    """Return the text before a span, the span, and the text after it: to the sentence's ends, and
    at most ``reach`` characters each way."""
    before, after = text[:start], text[end:]
    begin = max(before.rfind(". ") + 2 if ". " in before else 0, before.rfind("\n") + 1)
    stops = [at for at in (after.find(". "), after.find("\n")) if at >= 0]
    stop = min(stops) + 1 if stops else len(after)
    left, right = before[begin:], after[:stop]
    if len(left) > reach:
        left = "…" + left[-reach:]
    if len(right) > reach:
        right = right[:reach] + "…"
    return left, text[start:end], right


def _number(text: str | None) -> int | None:
    """A whole number of at most nine digits, or None."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 9 else None
