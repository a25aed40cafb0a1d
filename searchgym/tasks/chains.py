"""Families along one path of facts: ``simple``, ``chain``, ``masked``, ``follow_up`` and
``unanswerable``.

``masked`` (MaskSearch, arXiv 2505.20285) has sentences with one to four masks to fill in;
``task.meta["masks"]`` is their number. ``follow_up`` is a question about the answer to another,
which must be rewritten to be searched (ConvSearch-R1, arXiv 2505.15776); the gold query is such a
rewrite. ``unanswerable`` asks, worded alike, for what the world does not hold: the only right
answer is to abstain, and evidence are the pages on which the answer would stand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ..errors import TaskError
from ..types import ABSTAIN
from ..worlds.schema import Phrases
from .context import Context, Path, PathStep, backward, forward, joined_answers, pick
from .draft import Draft, Sketch, family
from .wording import Voice


@family()
def simple(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A question for the end of one definite step; one in four goes from object to subject."""
    step_from = definite_fact(ctx, rng, inverse=turn % 4 == 3)
    if step_from is None:
        return None
    start, step = step_from
    path = Path(start, (step,))
    if ctx.names.given(start) is None or not ctx.hidden(path.entities, ends(ctx, path)):
        return None
    return lookup(ctx, "simple", path, shape="inverse" if step.inverse else "forward")


def definite_fact(
    ctx: Context,
    rng: np.random.Generator,
    *,
    inverse: bool,
    among: Sequence[int] | None = None,
) -> tuple[int, PathStep] | None:
    """A random definite step and where it starts: its property first (of ``among``, else of the
    whole schema), so that rare ones occur."""
    prop = pick(rng, range(len(ctx.schema.properties)) if among is None else among)
    if inverse and (not ctx.invertible[prop] or ctx.prop(prop).symmetric):
        return None
    fact = ctx.any_fact(rng, prop)
    if fact is None:
        return None
    others = (
        ctx.lookup.subjects(prop, fact.object)
        if inverse
        else ctx.lookup.objects(fact.subject, prop)
    )
    step = backward(fact) if inverse else forward(fact)
    if len(others) != 1 or not ctx.stated(fact.id) or not ctx.usable_as_value(step):
        return None
    return (fact.object if inverse else fact.subject), step


def ends(ctx: Context, path: Path) -> tuple[int, ...]:
    """Entities a question must not name: everything a path reaches."""
    return tuple(s.value for s in path.steps if ctx.leads_on(s))


def answers(ctx: Context, path: Path) -> tuple[str, ...]:
    """Accepted answers for a path's end."""
    step = path.steps[-1]
    if step.inverse:
        return ctx.names.entity_answers(step.value)
    return ctx.names.value_answers(step.property, step.value)


def lookup(ctx: Context, family: str, path: Path, *, shape: str) -> Draft:
    """The draft that asks for a path's end."""
    sketch = Sketch(ctx)
    end = sketch.path(path)
    return sketch.finish(
        family, shape=shape, answers=answers(ctx, path), answer=end, hops=len(path.steps),
        render=lambda voice: voice.ask(path),
    )  # fmt: skip


HOPS = (2, 2, 3, 2, 4, 2, 3, 2, 3, 2, 4, 2, 3, 2, 5, 2, 3, 2, 4, 6)
"""Hops of twenty tasks in a row: half of two, a quarter of three, fewer of the longer ones."""
MOST_HOPS = 20


@family()
def chain(
    ctx: Context, rng: np.random.Generator, turn: int, hops: int | None = None
) -> Draft | None:
    """A random definite path whose end is asked for."""
    length = HOPS[turn % len(HOPS)] if hops is None else hops
    if not 2 <= length <= MOST_HOPS:
        raise TaskError(
            f"a chain has 2 to {MOST_HOPS} hops, got {length}; for one hop use 'simple'"
        )
    start = ctx.any_start(rng)
    path = None if start is None else ctx.walk(rng, start, length)
    if path is None or not ctx.hidden((path.start,), ends(ctx, path)):
        return None
    draft = lookup(ctx, "chain", path, shape=f"chain-{length}")
    # Two hops read off one page would be found by a single search.
    return draft if draft.difficulty.dispersion >= min(length, 1 + length // 2) else None


MOST_MASKS = 4
_FILL = Phrases(
    (
        "Fill in what is masked: {t}",
        "What belongs in the place of each mask? {t}",
        "Complete the text: {t}",
        "Replace the masks, in order: {t}",
        "What do the masks stand for? {t}",
        "Find what has been masked: {t}",
        "Restore the text: {t}",
    ),
    (
        "Say what each mask hides, in order: {t}",
        "Which words have been masked here? {t}",
        "Supply what the masks leave out: {t}",
    ),
)


@family()
def masked(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A random definite path of one to four steps, a sentence for each; what a step leads to is
    masked in its sentence and in the next."""
    masks = 1 + turn % MOST_MASKS
    start = ctx.any_start(rng)
    path = None if start is None else ctx.walk(rng, start, masks)
    if path is None or not ctx.hidden((path.start,), ends(ctx, path)):
        return None
    sketch = Sketch(ctx)
    nodes = sketch.steps(path)
    forms = []
    for step in path.steps:
        by_name = ctx.leads_on(step)
        forms.append(
            ctx.names.entity_answers(step.value)
            if by_name
            else ctx.names.value_answers(step.property, step.value)
        )

    def render(voice: Voice) -> str:
        sentences, known = [], voice.named(path.start)
        for i, step in enumerate(path.steps, 1):
            mask = "[mask]" if masks == 1 else f"[mask {i}]"
            subject, thing = (mask, known) if step.inverse else (known, mask)
            text = voice.pick(ctx.prop(step.property).document)
            sentences.append(text.replace("{s}", subject).replace("{o}", thing))
            known = mask
        voice.ordered = masks > 1
        return voice.pick(_FILL).replace("{t}", " ".join(sentences))

    return sketch.finish(
        "masked", shape=f"masked-{masks}", answers=joined_answers(forms), hops=masks,
        operation=f"join:{','.join(nodes)}", render=render, items=tuple(forms) if masks > 1 else (),
        meta={"masks": masks},
    )  # fmt: skip


_TALK = Phrases(
    (
        "First I asked: {q} The answer was {a}. Now I ask: {f}",
        "{q} - {a}. {f}",
        "Q: {q} A: {a}. Q: {f}",
        "You said {a} when I asked: {q} And then: {f}",
        "We spoke of this: {q} It was {a}. Next question: {f}",
    ),
    (
        "Before: {q} Reply: {a}. After that: {f}",
        "To the question {q} you replied {a}. My next one: {f}",
    ),
)
_THAT = "that one"


@family()
def follow_up(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A definite path of two steps: the first is the past, the second is asked for."""
    start = ctx.any_start(rng)
    walked = None if start is None else ctx.walk(rng, start, 2)
    if walked is None or ctx.names.given(walked.steps[0].value) is None:
        return None
    past, asked = walked.prefix, Path(walked.steps[0].value, walked.steps[1:])
    if ctx.schema.prose and turn % 2:  # about what the question before was about
        asked = _about_the_same(ctx, rng, past) or asked
    if not ctx.hidden((past.start, asked.start), ends(ctx, asked)):
        return None
    sketch = Sketch(ctx)
    end = sketch.path(asked)

    def render(voice: Voice) -> str:
        name = voice.named(asked.start)
        if ctx.schema.prose:
            unnamed = _referred(ctx, asked, past, voice)
        else:
            unnamed = re.sub(re.escape(name), _THAT, voice.ask(asked), flags=re.IGNORECASE)
        follow_up = unnamed[:1].upper() + unnamed[1:]
        answer = voice.named(past.end)
        text = voice.pick(_TALK).replace("{q}", voice.ask(past)).replace("{a}", answer)
        return text.replace("{f}", follow_up)

    return sketch.finish(
        "follow_up", shape="follow-up", answers=answers(ctx, asked), answer=end, hops=1,
        render=render,
    )  # fmt: skip


_PLACES = ("city", "country", "stadium", "lab", "university")
_BEFORE_OBJECTS = ("of", "by", "to", "for", "with", "from", "in", "at", "on", "through", "into")


def _about_the_same(ctx: Context, rng: np.random.Generator, past: Path) -> Path | None:
    """Another question about the thing that the past one asked about, told apart by its kind."""
    kinds = [int(ctx.world.type_of[e]) for e in (past.start, past.end)]
    steps = [s for s in ctx.steps(past.start) if s.property != past.steps[-1].property]
    if kinds[0] == kinds[1] or not steps:
        return None
    return Path(past.start, (pick(rng, steps),))


def _referred(ctx: Context, asked: Path, past: Path, voice: Voice) -> str:
    """A question in which a pronoun, "there" or "that film" stands for the thing; the kind where a
    pronoun could be the other one's."""
    entity = asked.start
    t = ctx.schema.types[int(ctx.world.type_of[entity])]
    forms = t.pronouns[int(ctx.world.facet_of[entity]) % len(t.pronouns)]
    subject, possessive = forms.split("/")
    them = {"he": "him", "she": "her"}.get(subject, subject)
    other = past.start if entity != past.start else past.end
    clash = subject in ctx.schema.types[int(ctx.world.type_of[other])].pronouns[0]
    step = asked.steps[-1]
    noun = "" if step.inverse else voice.pick(ctx.prop(step.property).noun)
    if noun.endswith(" of {s}") and entity == past.start and voice.coin():
        return f"And {noun.removesuffix(' of {s}')}?"
    if (clash and entity == past.start) or not voice.coin():
        subject = them = f"that {t.noun}"
        possessive = f"{subject}'s"

    def said(match: re.Match[str]) -> str:
        before, own = match[1], match[2]
        after = match.string[match.end() :]
        if own:
            return f"{before} {possessive}" if before else possessive
        if before and before.lower() in ("in", "at") and t.name in _PLACES and them == "it":
            return "there"
        if before is None:
            return subject
        is_object = before.lower() in _BEFORE_OBJECTS or after[:1] in ("", "?", ",", ".")
        return f"{before} {them if is_object else subject}"

    name = re.escape(voice.named(entity))
    return re.sub(rf"(?:\b(\w+) )?{name}('s)?", said, voice.ask(asked), flags=re.IGNORECASE)


@family(same_answer=1.0)
def unanswerable(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """Propose tasks: of five, three ask for a missing object, one for a missing subject ("the film
    directed by" someone who directed none), one for something missing after a true first hop."""
    kind = turn % 5
    start = ctx.any_start(rng)
    if start is None:
        return None
    path: Path | None = Path(start)
    if kind == 4:
        path = ctx.walk(rng, start, 1, end=True)
    if path is None:
        return None
    missing = _missing(ctx, path.end, inverse=kind == 3)
    if not missing:
        return None
    return _draft(ctx, path, pick(rng, missing), inverse=kind == 3)


def _missing(ctx: Context, entity: int, *, inverse: bool) -> list[int]:
    """Properties an entity of this type could have and this one has not."""
    kind = ctx.schema.types[int(ctx.world.type_of[entity])].name
    have = ctx.lookup.into(entity) if inverse else ctx.lookup.out(entity)
    return [
        i
        for i, p in enumerate(ctx.schema.properties)
        if (p.target if inverse else p.source) == kind
        and i not in have
        and (not inverse or (ctx.invertible[i] and not p.symmetric))
        and len(ctx.lookup.facts_with(i))
    ]


def _draft(ctx: Context, path: Path, prop: int, *, inverse: bool) -> Draft | None:
    sketch = Sketch(ctx)
    here = sketch.path(path)
    if not sketch.hidden:
        return None
    end = sketch.unknown(prop, inverse)
    asked = PathStep(prop, inverse, -1, -1)
    sketch.absent(here, prop, inverse, end)
    sketch.look_at(path.end)
    whole = path.then(asked)

    def render(voice: Voice) -> str:
        return voice.ask(whole)

    return sketch.finish(
        "unanswerable", shape=f"missing-{'subject' if inverse else 'object'}-{len(whole.steps)}",
        answers=(ABSTAIN,), answer=end, hops=len(whole.steps), render=render, should_abstain=True,
    )  # fmt: skip
