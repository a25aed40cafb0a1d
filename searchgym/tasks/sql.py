"""``sql``: questions of other families with the SELECT that answers each, over a world's tables.

The statement is made of the question's reasoning graph, so it is right wherever the graph is; that
its result is the solver's answer is tested on a thousand questions. Oracles run it
(``meta["calls"]``), and rewards compare an agent's queries with it (``meta["sql"]``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from ..errors import CardError, TaskError
from ..types import GraphNode, ReasoningGraph
from ..worlds.tables import Tables
from ..worlds.world import World
from .context import Context
from .draft import Draft, Render
from .wording import Voice

KEYWORDS = frozenset(
    "action all and as between by case cast check column cross default do end except exists filter "
    "first following for from full group groups having if in index inner into is join key last "
    "left like limit match natural no not null of on or order outer over partition plan primary "
    "range release right row rows select set table temp then to union unique using values view "
    "when where window with".split()
)
"""Names that SQLite reads otherwise unless they are quoted."""


def quoted(name: str) -> str:
    """A name of a table or column as it stands in a statement."""
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name not in KEYWORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """A text or a whole number as it stands in a statement."""
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def statement(world: World, graph: ReasoningGraph) -> str:
    """The SELECT that a reasoning graph asks for, over the tables of ``Tables(world.schema)``.

    Raises:
        TaskError: a graph with a relation that no page states, or an operation that compares more
            than two things.
    """
    return _Select(world, graph).statement()


class _Select:
    def __init__(self, world: World, graph: ReasoningGraph) -> None:
        self.world, self.graph = world, graph
        self.nodes = {node.id: node for node in graph.nodes}
        self.tables: list[str] = []
        self.where: list[str] = []
        self.said: dict[str, str] = {}
        """Node → what its title or value is called in the statement."""
        properties = {p.name: i for i, p in enumerate(world.schema.properties)}
        layout = Tables(world.schema)
        edges = list({(e.subject, e.property, e.object): e for e in graph.edges}.values())
        for edge in edges:
            if edge.property not in properties:
                raise TaskError(f"no table holds {edge.property!r}, which follows from others")
            if self._functional(properties[edge.property]):
                self._row(self.nodes[edge.subject])
        for number, edge in enumerate(edges):
            prop = properties[edge.property]
            table, column = layout.place[prop]
            if self._functional(prop):
                self._link(edge.object, f"{edge.subject}.{quoted(column)}", edge.fact)
                continue
            self.tables.append(f"{quoted(table)} AS r{number}")
            subject = next(iter(layout.by_name[table].columns))
            self._link(edge.subject, f"r{number}.{quoted(subject)}", edge.fact)
            self._link(edge.object, f"r{number}.{quoted(column)}", edge.fact)

    def _functional(self, prop: int) -> bool:
        return self.world.schema.properties[prop].functional

    def _row(self, node: GraphNode) -> None:
        """The row of an entity, in the table of its type."""
        if node.id not in self.said:
            self.tables.append(f"{quoted(node.type)} AS {node.id}")
            self.said[node.id] = f"{node.id}.title"
            if node.given:
                self.where.append(f"{node.id}.title = {literal(node.value)}")

    def _link(self, node: str, said: str, fact: int) -> None:
        """One more way to say a node: it is the same as the others."""
        if node in self.said:
            self.where.append(f"{said} = {self.said[node]}")
        elif self.nodes[node].given:
            self.where.append(f"{said} = {literal(self._raw(self.nodes[node], fact))}")
        else:
            self.said[node] = said

    def _raw(self, node: GraphNode, fact: int) -> Any:
        """A given node as its column holds it."""
        prop = next((p for p in self.world.schema.properties if p.name == node.type), None)
        if prop is None or prop.is_relation or prop.value == "category":
            return node.value
        value = self.world.fact(fact).object
        return date.fromordinal(value).isoformat() if prop.value == "date" else value

    def _name(self, node: str) -> str:
        return self.said.get(node) or literal(self.nodes[node].value)

    def _select(self, *what: str) -> str:
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        return f"SELECT {', '.join(what)} FROM {', '.join(self.tables)}{where}"

    def statement(self) -> str:
        operation, _, arguments = self.graph.operation.partition(":")
        names = [self._name(n) for n in re.split("[,=]", arguments or self.graph.answer)]
        if operation in ("lookup", "set", "join"):
            return self._select("DISTINCT " + ", ".join(names))
        if operation == "count":
            return self._select(f"count(DISTINCT {names[0]})")
        if operation == "sum":
            return (
                f"SELECT sum(v) FROM ({self._select(f'DISTINCT {names[0]}', f'{names[1]} AS v')})"
            )
        if operation == "difference":
            return self._select(f"abs({names[0]} - {names[1]})")
        if operation == "equal":
            return self._select(f"CASE WHEN {names[0]} = {names[1]} THEN 'yes' ELSE 'no' END")
        if operation in ("argmin", "argmax") and len(names) == 2:
            order = "" if operation == "argmin" else " DESC"
            return f"{self._select(names[0])} ORDER BY {names[1]}{order} LIMIT 1"
        if operation in ("argmin", "argmax") and len(names) == 4:
            first, key, second, other = names
            sign = "<" if operation == "argmin" else ">"
            return self._select(f"CASE WHEN {key} {sign} {other} THEN {first} ELSE {second} END")
        raise TaskError(f"the operation {self.graph.operation!r} has no statement")


ASKED = (
    "aggregate", "superlative", "count", "difference", "aggregate", "chain", "intersection", "set",
    "comparison",
)  # fmt: skip


_ODD = re.compile(
    r"^[a-z]|[^.?]$|^Which are the|^Who or what|\b(?:mom|dad)\b|\bby director\b|\bexist\?$"
)
"""Typed into a search box; a plural that people are among; familiar; grammar."""
_TRIES = 20


def plainly(render: Render) -> Render:
    """The same question in the first of the least odd of its wordings."""

    def plain(voice: Voice) -> str:
        return min((render(voice) for _ in range(_TRIES)), key=lambda text: len(_ODD.findall(text)))

    return plain


class SqlQuestions:
    """Questions of several families in turn, each with its statement.

    Args:
        of: Names of families whose questions are asked.

    Raises:
        CardError: an unknown family, or none.
    """

    registered = "sql"
    same_answer = 0.15
    proofs = True

    def __init__(self, of: Sequence[str] = ASKED) -> None:
        from .families import make_family

        if isinstance(of, str) or not of:
            raise CardError(f"'of' lists families, for example ['count', 'chain']; got {of!r}")
        self.families = [make_family(name) for name in of]

    def propose(self, ctx: Context, rng: np.random.Generator, turn: int, /) -> Draft | None:
        """The next draft of the family whose turn it is."""
        around, place = divmod(turn, len(self.families))
        draft = self.families[place].propose(ctx, rng, around)
        if not isinstance(draft, Draft):
            return None
        query = statement(ctx.world, draft.graph)
        meta = {**draft.meta, "sql": query, "calls": [{"tool": "sql", "args": {"query": query}}]}
        answers = (*draft.answers, *_as_in_a_table(ctx.world, draft.graph))
        shape = f"{draft.family}:{draft.shape}"
        return replace(
            draft, family="sql", shape=shape, answers=answers, meta=meta,
            render=plainly(draft.render),
        )  # fmt: skip


def _as_in_a_table(world: World, graph: ReasoningGraph) -> Iterator[str]:
    """A date that is asked for, as columns hold it."""
    edge = next((e for e in graph.edges if e.object == graph.answer and e.fact >= 0), None)
    if edge is not None:
        fact = world.fact(edge.fact)
        if world.prop(fact).value == "date":
            yield date.fromordinal(fact.object).isoformat()
