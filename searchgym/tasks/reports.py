"""``report``: several facts about a named thing and one that it leads to, to be written up in
sentences that cite the pages that state them (:mod:`searchgym.scoring.citations`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..corpora.render_forms import indefinite
from ..scoring.citations import Claim, Dossier, Spoken, cue_words, words
from ..text import listed
from ..worlds.schema import Phrases
from ..worlds.world import Fact
from .chains import answers, ends
from .context import Context, Path, joined_answers
from .draft import Draft, Sketch, family
from .wording import Voice, capitalised

_ASK = Phrases(
    (
        "Write a short report on {d}.",
        "Report on {d}, a sentence for each.",
        "Write up {d}, in a sentence each.",
        "I need a short report that covers {d}.",
        "Prepare a summary of {d}.",
        "In a few sentences, report {d}.",
        "What can be said of {d}? Write a report.",
        "Put together a report about {d}.",
    ),
    (
        "Compose a brief report stating {d}.",
        "Set out in sentences {d}.",
        "Draft a report which names {d}.",
    ),
)
_CITE = Phrases(
    (
        "Cite behind each sentence a page that states it, as in [Title].",
        "After each sentence put the title of a page that says so in square brackets.",
        "Every sentence must cite a page that states it: [Title].",
        "Give a source for each sentence, in the form [Title].",
    ),
    (
        "Let each sentence end with its source in brackets: [Title].",
        "Source every sentence with the title of a page in square brackets.",
    ),
)
_OF = re.compile(r"\b(\w++) of \{([so])\}")


@family()
def report(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """Propose three to five facts on two pages or more: one or two of the named thing, what leads
    on from it, and one or two of that."""
    start = ctx.any_start(rng)
    steps = list(ctx.steps(start)) if start is not None else []
    bridges = [step for step in steps if ctx.leads_on(step) and step.value != start]
    if start is None or not bridges:
        return None
    bridge = bridges[int(rng.integers(len(bridges)))]
    own = [step for step in steps if step.fact != bridge.fact]
    onward = [s for s in ctx.steps(bridge.value) if s.fact != bridge.fact and s.value != start]
    if len(own) <= turn % 2 or len(onward) <= turn // 2 % 2:
        return None
    chosen = [own[i] for i in rng.permutation(len(own))[: 1 + turn % 2]]
    led = [onward[i] for i in rng.permutation(len(onward))[: 1 + turn // 2 % 2]]
    paths = [Path(start, (s,)) for s in chosen] + [Path(start, (bridge, s)) for s in led]
    reached = [end for path in paths for end in ends(ctx, path) if end != bridge.value]
    accepted = [answers(ctx, path) for path in paths]
    unnamed = [bridge.value, *reached]
    if len({start, *unnamed}) <= len(unnamed) or not ctx.hidden((start,), unnamed):
        return None
    if len({forms[0].lower() for forms in accepted}) < len(paths):
        return None
    asked = [ctx.world.fact(step.fact) for step in (*chosen, bridge, *led)]
    dossier, numbers = dossier_about(ctx, [start, *unnamed], asked)
    text = written(ctx, dossier, {fact: numbers[fact.id] for fact in asked})
    if text is None:
        return None
    sketch = Sketch(ctx)
    nodes = [sketch.path(path) for path in paths]

    def render(voice: Voice) -> str:
        described = listed([voice.describe(path) for path in paths])
        asks = capitalised(voice.pick(_ASK).replace("{d}", described))
        return f"{asks} {voice.pick(_CITE)}"

    return sketch.finish(
        "report", shape=f"report-{len(asked)}", answers=(text, *joined_answers(accepted, 8)),
        items=tuple(accepted), hops=2, branches=len(paths), operation=f"join:{','.join(nodes)}",
        render=render, meta={"dossier": dossier.to_json()},
    )  # fmt: skip


def dossier_about(
    ctx: Context, entities: Sequence[int], asked: Sequence[Fact]
) -> tuple[Dossier, dict[int, int]]:
    """All that pages state of some entities, with the facts that a report is asked for; and the
    number in it of each fact of the world."""
    things: list[tuple[str, ...]] = []
    places: dict[tuple[str, int], int] = {}

    def place(kind: str, value: int, forms: tuple[str, ...]) -> int:
        if (kind, value) not in places:
            places[kind, value] = len(things)
            things.append(forms)
        return places[kind, value]

    about = {fact.id: fact for e in entities for of in ctx.lookup.out(e).values() for fact in of}
    about |= {fact.id: fact for fact in asked}
    claims: dict[int, Claim] = {}
    for fact in about.values():
        prop = ctx.prop(fact.property)
        same = [fact]
        if prop.symmetric:  # "A is married to B" on either's page
            same += [f for f in ctx.lookup.objects(fact.object, fact.property)
                     if f.object == fact.subject]  # fmt: skip
        pages = [ctx.corpus[page].id for f in same for page in ctx.passages(f.id)]
        if fact.id < ctx.world.stated and pages:
            subject = place("", fact.subject, ctx.names.entity_answers(fact.subject))
            value = ctx.names.value_answers(fact.property, fact.object)
            thing = place("" if prop.is_relation else prop.name, fact.object, value)
            wanted = any(fact.id == each.id for each in asked)
            claims[fact.id] = Claim(subject, prop.name, thing, frozenset(pages), wanted)
    known: dict[str, Spoken] | None = ctx.memo.get("words of properties")
    if known is None:
        known = ctx.memo["words of properties"] = dict(_properties(ctx))
    used = {(known[f.property].source, known[f.property].kind) for f in claims.values()}
    kept = {name: p for name, p in known.items() if (p.source, p.kind) in used}
    return Dossier(things, claims.values(), kept), {fact: n for n, fact in enumerate(claims)}


def _properties(ctx: Context) -> Iterator[tuple[str, Spoken]]:
    """The words in which each property is spoken of, by its name."""
    for about in ctx.schema.properties:
        banks = (about.document, about.noun, about.question, about.inverse, about.aside, about.tail)
        phrases = [text for bank in banks for text in (*bank.train, *bank.heldout)]
        plain: frozenset[str] = frozenset()
        if about.target is not None:
            nouns = [
                ctx.schema.types[ctx.schema.type_index(t)] for t in (about.source, about.target)
            ]
            plain = cue_words(words(" ".join(f"{t.noun} {t.name} {t.reference}" for t in nouns)))
        of: dict[str, str] = {}
        for noun, end in _OF.findall(" ".join(phrases)) if about.source == about.target else ():
            of[noun] = end if of.get(noun, end) == end else ""
        said = words(" ".join(phrases).replace("{s}", " ").replace("{o}", " "))
        kind = about.target or str(about.value)
        cues = cue_words(said) - plain
        yield (
            about.name,
            Spoken(
                about.source, kind, cues, plain, {n: e for n, e in of.items() if e},
                about.categories,
            ),
        )  # fmt: skip


def written(ctx: Context, dossier: Dossier, facts: Mapping[Fact, int]) -> str | None:
    """A report that states some facts, each by its number in the dossier, in a sentence as pages
    word it, and cites their pages; None where no wording of one is understood as it is meant."""
    sentences = []
    for fact, number in facts.items():
        about, page = ctx.prop(fact.property), ctx.corpus[ctx.page(fact.id)]
        subject = ctx.names.title(fact.subject)
        for template in (*about.document.train, *about.document.heldout):
            text = template.removesuffix(".").replace("{o}", "\x00").replace("{s}", subject)
            value = ctx.names.text(fact.property, fact.object)
            text = re.sub(r"\ba \x00", f"a{indefinite(value)}\x00", text).replace("\x00", value)
            reading = dossier.stated(capitalised(text))
            stated = all(page.id in dossier.facts[n].pages for n in reading.facts)
            if number in reading.facts and stated and not reading.stray:
                break
        else:
            return None
        title = page.id if re.search(r"[\[\]\n]", page.title) else page.title
        sentences.append(f"{capitalised(text)} [{title}].")
    return " ".join(sentences)
