"""Reward of reports whose sentences cite pages, and a page that says why each got what it got."""

from __future__ import annotations

import html
from dataclasses import dataclass

from ..errors import CardError
from ..scoring.citations import Claim, Dossier, Judged, Verdict, judge_report
from ..types import Page, ReasoningGraph, ToolResult
from .outcome import Outcome


@dataclass(frozen=True)
class Citations:
    """Pay a report for what it states of what was asked, with a page cited that says so.

    The score is coverage · 2 P R / (P + R). Coverage is the share of the facts asked for that are
    stated with support; P the share of the citations of which a page states what their sentence
    states; R the share of the sentences that state something asked for with support. ``others``
    is what a supported sentence about something else counts in R (0: as much as an unsupported
    one, so that pasting pages does not pay). A page supports only if the episode showed it. The
    facts are the world's (:mod:`searchgym.scoring.citations`); where a task brings no dossier they
    are the edges of its reasoning graph, without the words of their properties. Measures after
    ALCE (Gao et al., arXiv 2305.14627); the product is ours.

    Raises:
        CardError: ``others`` outside of [0, 1].
    """

    registered = "citations"
    systems = ("ALCE",)
    ranks = True
    unit = True

    others: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.others <= 1:
            raise CardError(f"citations needs others from 0 to 1, got {self.others}")

    def final(self, outcome: Outcome) -> float:
        if not outcome.answered:
            return 0.0
        return judged(outcome).score(self.others)


def judged(outcome: Outcome) -> Judged:
    """Verdicts on an episode's answer, read as a report."""
    return judge_report(outcome.answer, dossier_of(outcome), shown_as(outcome))


def dossier_of(outcome: Outcome) -> Dossier:
    """What can be said in answer to a task: its dossier, else the facts of its reasoning graph."""
    if (data := outcome.meta.get("dossier")) is not None:
        return Dossier.from_json(data)
    graph = outcome.task.graph or ReasoningGraph((), (), "")
    place = {node.id: i for i, node in enumerate(graph.nodes)}
    things = [
        [*dict.fromkeys([node.value, *(outcome.answers if node.id == graph.answer else ())])]
        for node in graph.nodes
    ]
    facts = [
        Claim(place[e.subject], e.property, place[e.object],
              frozenset(passage for _, passage in e.stated()), True)
        for e in graph.edges
    ]  # fmt: skip
    return Dossier([[form for form in forms if form] for forms in things], facts, {})


def shown_as(outcome: Outcome) -> dict[str, set[str]]:
    """Citation → ids of the passages that it means, of all that the episode showed: a passage's id,
    title or URL, or its number in the order in which passages were first shown."""
    names: dict[str, set[str]] = {}
    seen = frozenset(outcome.seen)
    for number, passage in enumerate(outcome.seen, 1):
        for name in (str(number), passage):
            names.setdefault(name, set()).add(passage)
    for turn in outcome.turns:
        for result in turn.results:
            if not isinstance(result, ToolResult):
                continue
            for hit in result.hits:
                for name in (hit.passage.title, hit.passage.url):
                    names.setdefault(name, set()).add(hit.passage.id)
            if isinstance(page := result.meta.get("page"), Page):
                for name in (page.title, page.url):
                    names.setdefault(name, set()).update(seen.intersection(page.passage_ids))
    return names


_WHY = {
    "asked": "states what was asked; a cited page says so",
    "beside": "true and cited, but not asked for",
    "repeated": "says again what a sentence before it said",
    "uncited": "true, but cites no page",
    "wrong page": "true, but no cited page that was shown states all of it",
    "unknown": "states nothing that is known of what was asked about",
}


def why(verdict: Verdict, dossier: Dossier) -> str:
    """The reason of a verdict, in words."""
    if verdict.stray:
        return f"says more than is known: {', '.join(verdict.stray)}"
    facts = "; ".join(
        f"{dossier.things[f.subject][0]} – {f.property} – {dossier.things[f.object][0]}"
        for f in (dossier.facts[n] for n in verdict.facts)
    )
    return _WHY[verdict.state] + (f" ({facts})" if facts else "")


def explained(outcome: Outcome) -> str:
    """A page (HTML) that says of each sentence of a report what it got and why, and which facts
    asked for it does not state."""
    dossier, found = dossier_of(outcome), judged(outcome)
    rows = "".join(
        f"<tr class={'good' if v.state == 'asked' else 'bad'}><td>{html.escape(v.sentence.text)}"
        f"<td>{html.escape(', '.join(v.sentence.cited)) or '–'}<td>{v.state}"
        f"<td>{html.escape(why(v, dossier))}"
        for v in found.verdicts
    )
    lacking = "".join(
        f"<li>{html.escape(dossier.things[f.subject][0])} – {f.property} – "
        f"{html.escape(dossier.things[f.object][0])}"
        for n, f in enumerate(dossier.facts)
        if f.asked and n not in found.told
    )
    return (
        "<!doctype html><meta charset=utf-8><title>Report</title><style>body{font:16px/1.5 "
        "sans-serif;max-width:60em;margin:2em auto;padding:0 1em}td{vertical-align:top;padding:.3em"
        " .6em;border-top:1px solid #ccc}.good td:nth-child(3){color:#17602f}.bad td:nth-child(3)"
        f"{{color:#a8201a}}</style><h1>{html.escape(outcome.question)}</h1><p>Precision "
        f"{found.precision:.2f}, recall {found.recall:.2f}, coverage {found.coverage:.2f}.<table>"
        f"<tr><th>Sentence<th>Cites<th>Verdict<th>Why{rows}</table>"
        + (f"<h2>Not stated with support</h2><ul>{lacking}</ul>" if lacking else "")
    )
