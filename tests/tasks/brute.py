"""Reading reasoning graphs by plain nested loops, independent of the solver."""

from __future__ import annotations

from searchgym.types import ReasoningGraph
from searchgym.worlds import World, value_answers


def text(world: World, prop: int, value: int) -> str:
    about = world.schema.properties[prop]
    return world.titles[value] if about.target else value_answers(about, value)[0]


def bindings(graph: ReasoningGraph, world: World, skip: frozenset[str]) -> list[dict[str, object]]:
    """Every assignment of node ids to (kind, raw value, text), edge by edge."""
    triples = [
        (int(s), world.schema.properties[int(p)], int(p), int(o))
        for s, p, o in zip(world.subject_of, world.property_of, world.object_of, strict=True)
    ]
    nodes = {n.id: n for n in graph.nodes}

    def fits(binding: dict[str, object], node: str, value: tuple[str, int, str]) -> bool:
        wanted = nodes[node]
        if wanted.type != value[0] or (wanted.given and wanted.value != value[2]):
            return False
        return binding.get(node, value) == value

    found: list[dict[str, object]] = [{}]
    for edge in graph.edges:
        if edge.object in skip:
            continue
        after: list[dict[str, object]] = []
        for subject, about, prop, obj in triples:
            if about.name != edge.property:
                continue
            left = (about.source, subject, world.titles[subject])
            right = (about.target or about.name, obj, text(world, prop, obj))
            for binding in found:
                if fits(binding, edge.subject, left) and fits(binding, edge.object, right):
                    extended = {**binding, edge.subject: left, edge.object: right}
                    if extended not in after:
                        after.append(extended)
        found = after
    return found


OPERATIONS = frozenset(
    "lookup argmin argmax sum mean count set equal percent difference days join".split()
)
"""Those that :func:`answers` reads."""


def answers(graph: ReasoningGraph, world: World) -> set[str]:
    operation, _, arguments = graph.operation.partition(":")
    found = bindings(graph, world, frozenset())
    if operation in ("argmin", "argmax"):
        pairs = [p.split("=") for p in arguments.split(",")]
        rows = {(b[c], b[k][1]) for b in found for c, k in pairs}  # type: ignore[index]
        if not rows:
            return set()
        best = (min if operation == "argmin" else max)(value for _, value in rows)
        return {who[2] for who, value in rows if value == best}  # type: ignore[index]
    if operation == "sum":
        member, _, value = arguments.partition("=")
        values = {b[member]: b[value][1] for b in found}  # type: ignore[index]
        return {str(sum(values.values()))} if values else set()  # type: ignore[arg-type]
    if operation == "mean":
        member, _, value = arguments.partition("=")
        each = {b[member]: b[value][1] for b in found}.values()  # type: ignore[index]
        return {str(int(sum(each) / len(each) + 0.5))} if each else set()  # type: ignore[arg-type]
    nodes = arguments.split(",") if arguments else [graph.answer]
    rows_ = {tuple(b[n] for n in nodes) for b in found}
    if operation == "count":
        return {str(len(rows_))} if rows_ else set()
    if operation == "set":
        members = {value[2] for row in rows_ for value in row}  # type: ignore[index]
        return {"; ".join(sorted(members))} if members else set()
    if operation == "equal":
        return {"yes" if len(set(row)) == 1 else "no" for row in rows_}
    if operation == "percent":
        return {str(int(100 * row[0][1] / row[1][1] + 0.5)) for row in rows_}  # type: ignore[index]
    if operation in ("difference", "days"):
        return {str(abs(row[0][1] - row[1][1])) for row in rows_}  # type: ignore[index]
    return {" and ".join(value[2] for value in row) for row in rows_}  # type: ignore[index]
