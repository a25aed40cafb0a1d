"""Constraint graphs in words, from the wording of their world's schema.

A small tree is one clause in another ("the film released in 1984 and directed by a person who was
born in Velm"); what is larger, or has cycles, is told sentence by sentence with letters for what is
not named ("Film X was directed by person A. Person A was born in Velm.").
"""

from __future__ import annotations

import re
from string import ascii_uppercase
from typing import TYPE_CHECKING

from searchgym.tasks.context import Context, both_sides
from searchgym.tasks.wording import PEOPLE, Voice, capitalised, clause, indefinite, predicate
from searchgym.text import listed
from searchgym.worlds.schema import Phrases

if TYPE_CHECKING:
    from .constraints import ConstraintGraph, Edge

_CLAUSES = Phrases(
    (
        "Which is the {n} {l}?",
        "What is the name of the {n} {l}?",
        "Name the {n} {l}.",
        "Can you name the {n} {l}?",
        "I am looking for the {n} {l}. What is the name?",
        "Which one is the {n} {l}?",
    ),
    (
        "Identify the {n} {l}.",
        "I am looking for the {n} {l}. Which one is it?",
    ),
)
_SENTENCES = Phrases(
    (
        "Which {n} is {x}? {l}.",
        "Find {x}. {l}.",
        "Name {x} from what is known. {l}.",
        "{l}. Which {n} is {x}?",
        "{l}. What is the name of {x}?",
    ),
    (
        "Work out which {n} is {x}. {l}.",
        "{l}. Identify {x}.",
    ),
)
_SPAN = {"date": "some day between", "year": "some year between", "count": "between"}
_RELATIVE = ("that", "who", "whose", "which")
_WHAT = re.compile(r"^(?:What|Which) (?=(?:is|was) the \{n\})")
_PLACED = frozenset({"located", "based", "headquartered", "native", "situated"})
_DONE = frozenset({"made", "born", "won", "shot", "sold", "built", "sung"})
_VERBS = {"starring": "stars", "featuring": "features", "with": "has"}
_OF = re.compile(r"of \w+ of ")
"""The rest of "the country of citizenship of …", which is no clause."""
MOST_CLAUSES = 5
"""Facts up to which a tree is told in one sentence."""


def ask(ctx: Context, voice: Voice, graph: ConstraintGraph) -> str:
    """The question for a graph's answer."""
    noun = ctx.noun(graph.answer)
    hidden = [
        i for i, n in enumerate(graph.nodes) if i and n.prop < 0 and not n.given
    ]  # every branch of a short tree but one is plain, so that no clause can be misread
    branching = sum(not graph.nodes[e.other(0)].given for e in graph.around(0))
    if graph.is_tree and len(graph.edges) <= MOST_CLAUSES and len(hidden) < 3 and branching < 2:
        form = voice.pick(_CLAUSES)
        if noun in PEOPLE:
            form = _WHAT.sub("Who ", form)
        told = form.replace("{l}", listed(_clauses(ctx, voice, graph, 0, None)))
        return capitalised(told.replace("{n}", noun))
    letters = dict(zip([0, *hidden], "X" + ascii_uppercase, strict=False))
    names = [
        f"{ctx.noun(graph.nodes[i].value)} {letters[i]}" if i in letters else _text(ctx, graph, i)
        for i in range(len(graph.nodes))
    ]
    far = graph.distances()
    edges = sorted(graph.edges, key=lambda e: min(far[e.subject], far[e.object]))
    told = ". ".join(capitalised(_sentence(ctx, voice, e, names)) for e in edges)
    text = voice.pick(_SENTENCES).replace("{l}", told).replace("{n}", noun)
    return capitalised(text.replace("{x}", names[0]))


def _text(ctx: Context, graph: ConstraintGraph, place: int) -> str:
    node = graph.nodes[place]
    if node.bounds:
        low, high = (ctx.names.text(node.prop, end) for end in node.bounds)
        return f"{_SPAN[ctx.prop(node.prop).value or 'count']} {low} and {high}"
    if node.prop >= 0:
        return ctx.names.text(node.prop, node.value)
    return (node.given and ctx.names.given(node.value)) or ""


def _clauses(
    ctx: Context, voice: Voice, graph: ConstraintGraph, place: int, above: Edge | None
) -> list[str]:
    """Clauses said of a node, plain clauses first."""
    edges = [e for e in graph.around(place) if e != above]
    told: list[str] = []
    for edge in sorted(edges, key=lambda e: len(graph.around(e.other(place)))):
        other = edge.other(place)
        known = _text(ctx, graph, other)
        if not known:
            noun = ctx.noun(graph.nodes[other].value)
            more = listed(_clauses(ctx, voice, graph, other, edge) or [""])
            known = f"{indefinite(f'the {noun}')} {more}".rstrip()
        named = bool(_text(ctx, graph, other))
        told.append(_clause(ctx, voice, edge, place, named).replace("{k}", known))
    return told


def _clause(ctx: Context, voice: Voice, edge: Edge, place: int, named: bool) -> str:
    """A fact as a clause after the noun of the node at ``place``, with {k} for the other end: at
    the end of the clause, if it can be, where more is said of what is not ``named``."""
    about = ctx.prop(edge.fact.property)
    node = edge.fact.subject if place == edge.subject else edge.fact.object
    noun = ctx.noun(node)
    options = voice.options(about.inverse if place == edge.subject else about.noun)
    told = [told for option in options if (told := clause(option, noun)) is not None]
    told = [t for t in told if not _OF.match(t)]
    link = "who" if noun in PEOPLE else "that"
    whole = [t for t in told if t.split()[0] in _RELATIVE]
    both = (whole, [_joined(link, t) for t in told if t not in whole])
    last = [[t for t in each if t.endswith("}") and not named] for each in both]
    told = next(filter(None, (*last, *both)), [f"{link} is {option}" for option in options])
    return _slot(voice.pick(Phrases(tuple(told), tuple(told))))


def _joined(link: str, told: str) -> str:
    """A clause as a relative one, so that all can be joined by "and"."""
    first, _, rest = told.partition(" ")
    if first == "where" or rest.startswith(("which ", "whom ", "whose ")):
        return told  # "the city in which Ann Lee was born"
    done = first in _DONE or (first.endswith(("ed", "en")) and first not in _PLACED)
    verb = _VERBS.get(first) or f"{'was' if done else 'is'} {first}"
    return f"{link} {verb} {rest}"


def _slot(text: str) -> str:
    return text.replace("{o}", "{k}").replace("{s}", "{k}")


def _sentence(ctx: Context, voice: Voice, edge: Edge, names: list[str]) -> str:
    """A fact as a sentence about the two ends' names."""
    about = ctx.prop(edge.fact.property)
    subject, obj = names[edge.subject], names[edge.object]
    if not both_sides(about.inverse):
        return f"{obj} is {voice.pick(about.noun).replace('{s}', subject)}"
    options = voice.options(about.inverse)
    told = [told for option in options if (told := predicate(option)) is not None]
    kind = ctx.schema.types[ctx.schema.type_index(about.source)].noun
    told = [t for t in told if t.startswith(("who ", f"which {kind} "))]
    if not told:
        return f"{voice.pick(about.noun).replace('{s}', subject)} is {obj}"
    words = voice.pick(Phrases(tuple(told), tuple(told)))
    verb = words.removeprefix("who ").removeprefix(f"which {kind} ")
    return f"{subject} {verb.replace('{o}', obj)}"
