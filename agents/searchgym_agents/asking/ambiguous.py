"""The family ``ambiguous``: questions that fit several things, until the person is asked well.

“I am thinking of a film directed by A. When did it come out?” fits every film of A's. The person
means one of them; asked about another property (``ask_user``), they tell that of theirs. The solver
proves that the question as worded has several answers, and that with what is told after the right
question it has one (the users of ESearch-R1, arXiv 2512.18571, ProMed, arXiv 2508.13514, and
InfoPO, arXiv 2603.00656, are asked so; the questions are ours).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from searchgym.plugins import register
from searchgym.tasks.context import Context, backward, both_sides, forward
from searchgym.tasks.draft import Draft, Sketch, family
from searchgym.tasks.solver import Solver
from searchgym.tasks.wording import Voice, capitalised, indefinite, split_description
from searchgym.text import normalise_answer
from searchgym.tools.user import THINGS, asked_about
from searchgym.types import ReasoningGraph
from searchgym.utils.english import STOP
from searchgym.worlds.schema import Phrases
from searchgym.worlds.world import Fact

MOST, KNOWN = 6, 6
"""Things that a question fits at most; properties that the person can tell at most."""
_VAGUE = STOP | {"number", "person", "kind", "this"}
"""Words that name no property."""
_ODD = re.compile(r"\b(?:[Tt]he|first) \{s\}|\b(?:mom|dad|town)\b")
_WHOLE = re.compile(r"[A-Z].*[.?]$")
"""Question or order, not what one types into a search box: it follows a whole sentence."""


class Told(NamedTuple):
    """A property of a thing, how it is spoken of, and its value."""

    about: str
    phrase: str
    """Words for it: “the director of {s}”."""
    text: str
    fact: Fact

    @property
    def words(self) -> list[str]:
        """Words that a question names it by: its name, and those of the phrase."""
        said = re.findall(r"\w+", self.phrase.replace("{s}", "").casefold())
        return list(dict.fromkeys([self.about, *(word for word in said if word not in _VAGUE)]))


@register("task family:ambiguous")
@family()
def ambiguous(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A property of one of the things that share a relation's object."""
    goal = ctx.any_entity(rng)
    shared = [
        (prop, fact)
        for prop, facts in ctx.lookup.out(goal).items()
        if ctx.invertible[prop] and len(facts) == 1
        for fact in facts
        if ctx.stated(fact.id) and ctx.names.given(fact.object) is not None
        and 2 <= len(ctx.lookup.subjects(prop, fact.object)) <= MOST
    ]  # fmt: skip
    if not shared or not ctx.names.clear(goal):
        return None
    prop, link = shared[int(rng.random() * len(shared))]
    same = [f.subject for f in ctx.lookup.subjects(prop, link.object)]
    known = [t for t in tellable(ctx, goal) if t.fact.property != prop]
    asked = [t for t in known if both_sides(ctx.prop(t.fact.property).question)]
    if len(known) < 2 or not asked:
        return None
    wanted = asked[int(rng.random() * len(asked))]
    used = ctx.memo.setdefault("ambiguous", set())
    if (key := (link.object, prop, wanted.fact.property)) in used:
        return None  # the same words would mean another thing
    gold = {normalise_answer(a) for a in _answers(ctx, wanted.fact)}
    kept = [t for t in known if t is not wanted and normalise_answer(t.text) not in gold][:KNOWN]
    table = [
        {**{t.about: _text(ctx, e, t.fact.property) for t in kept},
         "answer": _text(ctx, e, wanted.fact.property)} for e in same
    ]  # fmt: skip
    mine = table[same.index(goal)]
    right = [t for t in kept if sum(row[t.about] == mine[t.about] for row in table) == 1]
    if len({row["answer"] for row in table}) < 2 or not right:
        return None
    told = right[int(rng.random() * len(right))]
    draft = _draft(ctx, goal, link, wanted, told)
    if draft is None or not _fits_several(ctx, draft.graph, told):
        return None
    used.add(key)
    this = _this(ctx.noun(goal))
    shared_words = Counter(word for t in kept for word in t.words)
    knows = [
        {"about": t.about, "words": [w for w in t.words if shared_words[w] == 1 or w == t.about],
         "says": capitalised(f"{t.phrase} is {t.text}.".replace("{s}", this))} for t in kept
    ]  # fmt: skip
    question = f"What is {told.phrase}?".replace("{s}", this)
    named = asked_about(question, knows)
    if len(named) > THINGS or named[:1] != [knows[kept.index(told)]]:
        return None
    user = {"scene": "You think of one thing and do not know its name.", "knows": knows}
    calls = [
        {"tool": "ask_user", "args": {"question": question}},
        {"tool": "search", "args": {"query": draft.queries[0]}},
    ]
    meta = {"user": user, "calls": calls, "candidates": table, "goal": same.index(goal),
            "right": [t.about for t in right]}  # fmt: skip
    return replace(draft, meta=meta)


def tellable(ctx: Context, entity: int) -> list[Told]:
    """Properties with one value, stated on the thing's own page, that a person can tell."""
    told = []
    for prop, facts in ctx.lookup.out(entity).items():
        (fact, *others) = facts
        if others or not ctx.stated(fact.id) or not ctx.usable_as_value(forward(fact)):
            continue
        if ctx.page(fact.id) != int(ctx.corpus.page_of[entity]):
            continue
        phrase = ctx.prop(prop).noun.train[0]
        told.append(Told(ctx.label(prop), phrase, _text(ctx, entity, prop), fact))
    return told


def _text(ctx: Context, entity: int, prop: int) -> str:
    """The value of a property, or of several of them; "" where there is none."""
    facts = ctx.lookup.objects(entity, prop)
    return "; ".join(sorted(ctx.names.text(prop, f.object) for f in facts))


def _answers(ctx: Context, fact: Fact) -> tuple[str, ...]:
    return ctx.names.value_answers(fact.property, fact.object)


def _draft(ctx: Context, goal: int, link: Fact, wanted: Told, told: Told) -> Draft | None:
    sketch = Sketch(ctx)
    anchor, node = sketch.entity(link.object, given=True), sketch.entity(goal)
    ends = []
    for fact, given in ((told.fact, True), (wanted.fact, False)):
        relation = ctx.prop(fact.property).is_relation
        ends.append(sketch.entity(fact.object, given=given) if relation
                    else sketch.value(fact.property, fact.object, given=given))  # fmt: skip
    query = f"{sketch.query(link.object, backward(link))} {told.text}"
    for near, step, far in (
        (anchor, backward(link), node), (node, forward(told.fact), ends[0]),
        (node, forward(wanted.fact), ends[1]),
    ):  # fmt: skip
        sketch.edge(near, step, far, query)
    if not sketch.hidden or len({anchor, *ends}) < 3:
        return None
    noun, about = ctx.noun(goal), ctx.prop(wanted.fact.property)

    def render(voice: Voice) -> str:
        descriptions = [_with_noun(d, noun) for d in voice.options(ctx.prop(link.property).inverse)]
        known = voice.pick(_preferred(descriptions, lambda d: not _ODD.search(d)))
        known = indefinite(known.replace("{o}", voice.named(link.object)))
        asks = _preferred(
            voice.options(about.question), _WHOLE.match, lambda a: not _ODD.search(a),
            lambda a: about.is_relation or not _says(a, noun), lambda a: not a.startswith("{s}"),
        )  # fmt: skip
        question = voice.pick(asks).replace("{s}", _this(noun))
        whole = question if _WHOLE.match(question) else f"{question}?"
        return f"I am thinking of {known}. {capitalised(whole)}"

    return sketch.finish(
        "ambiguous", shape="told", answer=ends[1], answers=_answers(ctx, wanted.fact), hops=2,
        branches=2, render=render,
    )  # fmt: skip


def _this(noun: str) -> str:
    """How a thing is spoken of that was named by its kind: "this series", a television series."""
    return f"this {noun.split()[-1]}"


def _with_noun(description: str, noun: str) -> str:
    """A description whose head is the noun by which the question calls the thing, or part of it
    ("team"), or what the thing is to another one ("the native of {o}")."""
    head, rest = split_description(description) or (noun, "")
    if noun.endswith(head) or head.startswith(noun) or rest.split()[0] in ("of", "to", "on"):
        return description
    return f"the {noun} {rest}"


def _says(ask: str, noun: str) -> bool:
    """Return whether a question names the kind of thing besides the thing: "What kind of film is
    this film?"."""
    return re.search(rf"\b{noun.split()[-1]}s?\b", ask) is not None


def _preferred(phrases: Sequence[str], *wanted: Callable[[str], object]) -> Phrases:
    """The phrases that are as wanted; of wishes that no phrase fulfils, the first ones count."""
    left = tuple(phrases)
    for wish in wanted:
        left = tuple(phrase for phrase in left if wish(phrase)) or left
    return Phrases(left, left)


def _fits_several(ctx: Context, graph: ReasoningGraph, told: Told) -> bool:
    """Prove that without what is told there are several answers."""
    solver = ctx.memo.get("solver")
    if solver is None:
        solver = ctx.memo["solver"] = Solver(ctx.world)
    return len(solver.solve(as_worded(graph, told.fact.id))) > 1


def as_worded(graph: ReasoningGraph, told: int) -> ReasoningGraph:
    """The graph of the question without the fact ``told``, which only the person tells."""
    edges = tuple(edge for edge in graph.edges if edge.fact != told)
    used: set[Any] = {node for edge in edges for node in (edge.subject, edge.object)}
    return replace(graph, edges=edges, nodes=tuple(n for n in graph.nodes if n.id in used))
