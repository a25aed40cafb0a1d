"""What the calculator and the database are worth, on a hundred questions each.

The agents here understand every question (they read its reasoning graph without the solutions) and
read every text without fault, so that what differs is what they can do: search, or a tool besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.text import normalise_answer
from searchgym.types import Answer, Call, Hit, Search, Task
from searchgym.worlds import format_value

TASKS = 110
K, TURNS = 3, 8


@pytest.fixture(scope="module")
def env() -> SearchEnv:
    return SearchEnv(
        tasks={"difference": TASKS, "aggregate": TASKS, "count": TASKS, "superlative": TASKS},
        tools=["search", "calculator", "sql"], dialect="json_tools", max_turns=TURNS, k=K,
    )  # fmt: skip


class Player:
    """Plays one task by searches and calls, and remembers what it was shown."""

    def __init__(self, env: SearchEnv, task: Task) -> None:
        self.env, self.task = env, task
        env.reset(seed=0, options={"task_id": task.id})
        self.say = get_dialect(env.rules.dialect).render_action
        self.hits: list[Hit] = []

    def search(self, query: str) -> None:
        self.env.step(self.say(Search((query,))))
        self.hits += self.env.episode.turns[-1].results[0].hits  # type: ignore[union-attr]

    def call(self, tool: str, **args: Any) -> str:
        self.env.step(self.say(Call(tool, args)))
        return "".join(map(str, self.env.episode.turns[-1].results[0].parts))  # type: ignore[union-attr]

    def answer(self, text: str) -> float:
        return self.env.step(self.say(Answer(text)))[1]

    def read(self, fact: int) -> str | None:
        """The value of a fact as a text that was shown states it; None where none did."""
        world, corpus = self.env.world, self.env.corpus
        assert world is not None
        row = world.fact(fact)
        prop = world.prop(row)
        for said in corpus.statements(fact):  # type: ignore[attr-defined]
            for hit in self.hits:
                if hit.passage.id == corpus[said.passage].id:
                    text = hit.passage.text[said.start : said.end]
                    if prop.is_relation:
                        return text
                    forms = (format_value(prop, row.object, style) for style in (1, 0))
                    return next((form for form in forms if form in text), None)
        return None

    def spans(self) -> set[str]:
        """Every answer that could be copied from what was shown: up to four words in a row."""
        found: set[str] = set()
        for text in (part for hit in self.hits for part in (hit.passage.title, hit.passage.text)):
            words = re.findall(r"[\w',.-]+", text)
            for size in range(1, 5):
                for i in range(len(words)):
                    found.add(normalise_answer(" ".join(words[i : i + size])))
        return found


def family(env: SearchEnv, name: str) -> list[Task]:
    tasks = [task for task in env.tasks if task.family == name]
    assert len(tasks) >= 100, f"{name}: {len(tasks)}"
    return tasks


def report(name: str, with_tool: float, without: float, count: int) -> None:
    print(f"{name}: {with_tool:.3f} with the tool, {without:.3f} without ({count} questions)")


# --- calculator -----------------------------------------------------------------------------------
def test_the_calculator_solves_differences_that_cannot_be_copied(env: SearchEnv) -> None:
    """Without it, the score is that of the best of all agents that copy answers from the texts: a
    question counts as solved if any span of what was shown is an accepted answer."""
    tasks = family(env, "difference")
    solved = copied = 0.0
    for task in tasks:
        player = Player(env, task)
        for query in task.queries:
            player.search(query)
        assert task.graph is not None
        values = [player.read(edge.fact) for edge in task.graph.edges]
        accepted = {normalise_answer(answer) for answer in task.answers}
        copied += bool(accepted & player.spans())
        if None not in values:
            result = player.call("calculator", expression=f"{values[0]} - {values[1]}")
            solved += player.answer(result.lstrip("-"))
    report("difference", solved / len(tasks), copied / len(tasks), len(tasks))
    assert solved / len(tasks) >= 0.95
    assert copied / len(tasks) <= 0.15


# --- python ---------------------------------------------------------------------------------------
def code_of(task: Task, values: list[str]) -> str:
    """What works out the answer of values as the pages state them."""
    head = "from datetime import datetime\nfrom statistics import mean\n"
    shape = task.meta["shape"]
    if shape == "days":
        forms = "('%d %B %Y', '%B %d, %Y')"
        return head + (
            "def day(text):\n"
            f"    for form in {forms}:\n"
            "        try:\n"
            "            return datetime.strptime(text, form)\n"
            "        except ValueError:\n"
            "            pass\n"
            f"abs((day({values[0]!r}) - day({values[1]!r})).days)"
        )
    numbers = ", ".join(re.sub(r"[^0-9]", "", value) for value in values)
    if shape == "percent":
        return head + f"a, b = {numbers}\nround(100 * a / b)"
    return head + f"round(mean([{numbers}]))"


@pytest.mark.contract
def test_python_works_out_what_cannot_be_copied() -> None:
    env = SearchEnv(
        tasks={"computed": {"use": "computed", "count": TASKS}}, tools=["search", "python"],
        dialect="json_tools", max_turns=14, k=K,
    )  # fmt: skip
    tasks, solved, copied = family(env, "computed"), 0.0, 0
    for task in tasks:
        player = Player(env, task)
        for query in dict.fromkeys(task.queries):
            player.search(query)
        assert task.graph is not None
        counted = [e for e in task.graph.edges if not env.world.prop(  # type: ignore[union-attr]
            env.world.fact(e.fact)).is_relation]  # type: ignore[union-attr]  # fmt: skip
        values = [player.read(edge.fact) for edge in counted]
        copied += bool({normalise_answer(a) for a in task.answers} & player.spans())
        if None not in values:
            solved += player.answer(player.call("python", code=code_of(task, values)))  # type: ignore[arg-type]
    report("computed", solved / len(tasks), copied / len(tasks), len(tasks))
    assert solved / len(tasks) >= 0.95
    assert copied / len(tasks) <= 0.05


# --- sql ------------------------------------------------------------------------------------------
def sql_of(env: SearchEnv, task: Task) -> str:
    """The statement a question asks for, from its graph's question side."""
    world, graph = env.world, task.graph
    assert world is not None
    assert graph is not None
    anchor = next(node for node in graph.nodes if node.given)
    title = anchor.value.replace("'", "''")
    edges = {(e.property, e.subject, e.object) for e in graph.edges}
    relation, subject, _ = next(e for e in edges if anchor.id in e[1:])
    prop = world.schema.properties[world.schema.property_index(relation)]
    inverse = subject != anchor.id
    kind = prop.source if inverse else str(prop.target)
    if prop.functional:
        members = f"SELECT title FROM \"{kind}\" WHERE {relation} = '{title}'"
    else:
        table = next(t for t in SQL_TABLES(env) if t.name == relation)
        mine, theirs = list(table.columns) if not inverse else list(table.columns)[::-1]
        members = f'SELECT "{theirs}" FROM "{relation}" WHERE "{mine}" = \'{title}\''
    operation = graph.operation.partition(":")[0]
    if operation == "count":
        return f"SELECT count(*) FROM ({members})"
    key = next(e[0] for e in edges if anchor.id not in e[1:])
    if operation == "sum":
        return f'SELECT sum({key}) FROM "{kind}" WHERE title IN ({members})'
    order = "ASC" if operation == "argmin" else "DESC"
    return f'SELECT name FROM "{kind}" WHERE title IN ({members}) ORDER BY {key} {order} LIMIT 1'


def SQL_TABLES(env: SearchEnv) -> Any:
    return env.toolbox.tools["sql"].database.tables  # type: ignore[attr-defined]


def searches_of(env: SearchEnv, task: Task) -> Iterator[str]:
    """What one can search for who knows the question and no member of the group."""
    graph, schema = task.graph, env.world.schema  # type: ignore[union-attr]
    assert graph is not None
    anchor = next(node for node in graph.nodes if node.given)
    edge = next(e for e in graph.edges if anchor.id in (e.subject, e.object))
    prop = schema.properties[schema.property_index(edge.property)]
    kind = prop.source if edge.object == anchor.id else str(prop.target)
    noun = schema.types[schema.type_index(kind)].noun
    label = edge.property.replace("_", " ")
    yield from (anchor.value, f"{noun} {label} {anchor.value}", task.question)
    yield from (f"{anchor.value} {noun}", f"{label} {anchor.value}", f"{noun} of {anchor.value}")
    yield f"list of {schema.types[schema.type_index(kind)].plural} {anchor.value}"


def by_searching(env: SearchEnv, task: Task) -> float:
    """Search in every way there are turns for, then work out the answer from all members shown."""
    player, world, graph = Player(env, task), env.world, task.graph
    assert world is not None
    assert graph is not None
    for query in list(searches_of(env, task))[: TURNS - 1]:
        player.search(query)
    anchor = next(node for node in graph.nodes if node.given)
    of_anchor = [e for e in graph.edges if anchor.id in (e.subject, e.object)]
    inverse = of_anchor[0].object == anchor.id
    members = {
        (fact.subject if inverse else fact.object)
        for fact in (world.fact(e.fact) for e in of_anchor if player.read(e.fact) is not None)
    }
    operation = graph.operation.partition(":")[0]
    if operation == "count":
        return player.answer(str(len(members)))
    keys = [e for e in graph.edges if e not in of_anchor and player.read(e.fact) is not None]
    values = {f.subject: f.object for f in (world.fact(e.fact) for e in keys)}
    known = {member: values[member] for member in members if member in values}
    if operation == "sum":
        return player.answer(str(sum(known.values())))
    best = min if operation == "argmin" else max
    return player.answer(world.names[best(known, key=lambda e: known[e])] if known else "unknown")


@pytest.mark.parametrize(
    ("name", "gain"), [("aggregate", 0.8), ("count", 0.0), ("superlative", 0.4)]
)
def test_sql_answers_what_searches_cannot_gather(env: SearchEnv, name: str, gain: float) -> None:
    tasks = family(env, name)
    with_sql = without = 0.0
    for task in tasks:
        player = Player(env, task)
        lines = player.call("sql", query=sql_of(env, task)).split("\n")
        assert len(lines) == 2, lines
        with_sql += player.answer(lines[1])
        without += by_searching(env, task)
    report(name, with_sql / len(tasks), without / len(tasks), len(tasks))
    assert with_sql / len(tasks) >= 0.98
    assert with_sql - without >= gain * len(tasks)
