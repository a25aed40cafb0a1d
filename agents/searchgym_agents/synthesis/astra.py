"""ASTRA (arXiv 2601.21558): questions with their sub-questions, a tool for each, and decoys.

The family ``astra`` decomposes questions of three to five facts along their reasoning graph:
``meta["sub_questions"]`` has each sub-question with its answer, the ones it needs, and the call of
a tool that answers it; ``meta["decoys"]`` has look-alikes that do not help. :func:`arena` lists the
tools, and the reward ``astra`` is the F1 of sub-tasks solved and calls that solved one. (The
paper's language models write tools in Python; here a tool looks up one relation of the world.)
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from searchgym.corpora.corpus import GeneratedCorpus
from searchgym.errors import CardError, TaskError
from searchgym.rewards import Outcome
from searchgym.tasks.chains import chain
from searchgym.tasks.context import Context, PathStep
from searchgym.tasks.draft import Draft
from searchgym.tasks.parallel import parallel
from searchgym.text import covers, normalise_answer
from searchgym.tools import Tool, ToolContext
from searchgym.types import Task, ToolCall, ToolResult, ToolSpec

LEAST, MOST = 3, 5
"""Sub-questions of a task."""


@dataclass(frozen=True)
class Astra:
    """Chains of three to five hops and joins of as many facts, in a generated world.

    A sub-question has one answer, and all but the first of a branch need another's: the graph of
    needs has no cycle, and the solver proves the whole.
    """

    registered = "task family:astra"
    proofs: ClassVar[bool] = True

    decoys: int = 2
    """Decoys of each task, at most."""

    def propose(self, ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
        """A chain, or every fourth time a join, with its sub-questions and decoys."""
        join = turn % 4 == 3
        draft = parallel(ctx, rng, turn) if join else chain(ctx, rng, turn, hops=3 + turn % 3)
        if draft is None or not LEAST <= len(draft.graph.edges) <= MOST:
            return None
        if (subs := sub_questions(ctx, draft)) is None:
            return None
        used = {sub["tool"] for sub in subs}
        known = (ctx.world.titles.index(sub["args"]["name"]) for sub in subs)
        others = [_sub(ctx, entity, step, []) for entity in known for step in ctx.steps(entity)]
        others = [other for other in others if other["tool"] not in used]
        drawn = sorted(rng.permutation(len(others))[: self.decoys].tolist())
        meta = {"sub_questions": subs, "decoys": [others[place] for place in drawn]}
        shape = f"astra-{draft.shape}"
        return replace(draft, family="astra", shape=shape, meta={**draft.meta, **meta})


def sub_questions(ctx: Context, draft: Draft) -> list[dict[str, Any]] | None:
    """The sub-questions of a draft in an order in which they can be asked; None if one has several
    answers."""
    found: dict[str, list[int]] = {node.id: [] for node in draft.graph.nodes if node.given}
    subs: list[dict[str, Any]] = []
    for edge in draft.graph.edges:  # from what is known on
        fact, inverse = ctx.world.fact(edge.fact), edge.subject not in found
        near, far = (edge.object, edge.subject) if inverse else (edge.subject, edge.object)
        entity = fact.object if inverse else fact.subject
        step = next(
            (s for s in ctx.steps(entity) if (s.fact, s.inverse) == (fact.id, inverse)), None
        )
        if step is None or near not in found or far in found:
            return None
        subs.append({**_sub(ctx, entity, step, found[near]), "passage": edge.passage})
        found[far] = [len(subs) - 1]
    return subs


def _sub(ctx: Context, entity: int, step: PathStep, needs: list[int]) -> dict[str, Any]:
    """A sub-question as values of JSON."""
    name, label = ctx.names.title(entity), ctx.label(step.property)
    thing = f"#{needs[0] + 1}" if needs else name
    asked = f"Whose {label} is {thing}?" if step.inverse else f"What is the {label} of {thing}?"
    title, text = ctx.names.title, ctx.names.text
    answer = title(step.value) if step.inverse else text(step.property, step.value)
    tool = tool_name(ctx.prop(step.property).name, step.inverse)
    return {
        "question": asked,
        "answer": answer,
        "needs": needs,
        "tool": tool,
        "args": {"name": name},
    }


def tool_name(relation: str, inverse: bool) -> str:
    """The name of the tool that looks up a relation: "find_film_director", or of those that have
    something as their director, "find_by_film_director"."""
    return f"find_{'by_' if inverse else ''}{relation}"


class RelationTool(Tool):
    """Looks up one relation of a generated world by the name of one end.

    Args:
        relation: A property of the world's schema.
        inverse: Look up the subjects of an object instead of the objects of a subject.
        cost: Cost of each call.
    """

    registered = "tool:relation"
    time_limit = None
    _ctx: Context
    _entities: Mapping[str, Sequence[int]]
    """Normalised name → the entities that bear it."""

    def __init__(self, relation: str, *, inverse: bool = False, cost: float = 0.0) -> None:
        super().__init__(cost=cost)
        self.relation, self.inverse = relation, inverse
        words = relation.replace("_", " ")
        said = f"Names what has a given thing as its {words}." if inverse else f"Tells the {words}."
        name = {"type": "string", "minLength": 1, "maxLength": 200, "description": "Its name."}
        schema = {"type": "object", "properties": {"name": name}, "required": ["name"]}
        self.spec = ToolSpec(tool_name(relation, inverse), said, schema)

    def bind(self, context: ToolContext) -> Self:
        """A copy that looks into the world; ``CardError`` where there is none, or no relation."""
        world, corpus = context.world, context.corpus
        names = [prop.name for prop in world.schema.properties] if world else []
        if world is None or not isinstance(corpus, GeneratedCorpus) or self.relation not in names:
            raise CardError(f"{self.spec.name!r} needs a world with {self.relation!r}, not {names}")
        bound, entities = copy.copy(self), defaultdict(list)
        for entity in range(world.n_entities):
            for name in {world.names[entity], world.titles[entity], *world.aliases(entity)}:
                entities[normalise_answer(name)].append(entity)
        bound._ctx, bound._entities = Context(world, corpus), entities
        return bound

    def use(self, args: Mapping[str, Any], state: Any) -> str:
        """All that is stated of whatever bears the name."""
        names, lookup, told = self._ctx.names, self._ctx.lookup, []
        prop = [p.name for p in self._ctx.schema.properties].index(self.relation)
        for entity in self._entities.get(normalise_answer(args["name"]), ()):
            if self.inverse and self._ctx.prop(prop).is_relation:
                told += [names.title(fact.subject) for fact in lookup.subjects(prop, entity)]
            elif not self.inverse:
                told += [names.text(prop, fact.object) for fact in lookup.objects(entity, prop)]
        return "; ".join(dict.fromkeys(told)) or f"Nothing is known of {args['name']} here."


def arena(tasks: Iterable[Task], *, decoys: bool = True) -> list[dict[str, Any]]:
    """The tools of tasks of the family ``astra``, for ``gym.make(…, tools=["search", *arena(…)])``:
    one a relation that is asked, equal ones merged, and those of the decoys.

    ``TaskError`` if no task has sub-questions.
    """
    named: dict[str, dict[str, Any]] = {}
    for task in tasks:
        for sub in (
            *task.meta.get("sub_questions", ()),
            *(task.meta.get("decoys", ()) if decoys else ()),
        ):
            name = sub["tool"].removeprefix("find_")
            relation = name.removeprefix("by_")
            table = {"use": "relation", "relation": relation, "inverse": name != relation}
            named[sub["tool"]] = table
    if not named:
        raise TaskError("no task has sub-questions: ask tasks={'astra': 100}")
    return [named[name] for name in sorted(named)]


@dataclass(frozen=True)
class AstraReward:
    """2pr / (p + r): r is the share of sub-questions solved, p the number of those solved over the
    number of calls, at most ``most`` (a search may solve two). 0 without a call. The form is ours;
    the paper's was not found.

    A sub-question is solved when a search shows the passage that states its fact, or when its own
    tool is called for its own thing and says its answer.
    """

    registered = "reward:astra"
    systems: ClassVar[tuple[str, ...]] = ("ASTRA",)

    most: float = 1.0
    """The largest precision."""

    def final(self, outcome: Outcome) -> float:
        """The reward of an episode; 0 for a task without sub-questions."""
        subs = outcome.meta.get("sub_questions", ())
        made = [pair for t in outcome.turns for pair in zip(t.calls, t.results, strict=True)]
        seen = frozenset(outcome.seen)
        solved = sum(
            sub["passage"] in seen or any(_says(sub, *pair) for pair in made) for sub in subs
        )
        if not subs or not made:
            return 0.0
        return balanced(solved / len(subs), min(self.most, solved / len(made)))


def _says(sub: Mapping[str, Any], call: ToolCall, result: Any) -> bool:
    """Check whether a call of a sub-question's own tool says its answer."""
    own, asked = (normalise_answer(str(args.get("name"))) for args in (sub["args"], call.args))
    if call.tool != sub["tool"] or own != asked or not isinstance(result, ToolResult):
        return False
    said = " ".join(part for part in result.parts if isinstance(part, str))
    return covers(normalise_answer(said), normalise_answer(sub["answer"]))


def balanced(recall: float, precision: float) -> float:
    """The harmonic mean of a recall and a precision."""
    both = recall + precision
    return 2 * precision * recall / both if both else 0.0
