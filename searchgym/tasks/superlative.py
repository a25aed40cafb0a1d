"""``superlative``: which member of a group comes first, is oldest, largest, …"""

from __future__ import annotations

import numpy as np

from ..worlds.schema import Phrases
from .comparison import comparable, is_phrase
from .context import Context, pick
from .draft import Draft, Sketch, family
from .groups import describe_group, random_group
from .paths import forward
from .wording import Voice, capitalised

_WHICH = Phrases(
    (
        "Which of the {g} {is}?",
        "Of the {g}, which one {is}?",
        "Among the {g}, which {is}?",
        "Out of all the {g}, which one {is}?",
        "Take the {g}. Which of them {is}?",
        "Which one of the {g} {is}?",
        "Tell me which of the {g} {is}.",
        "If you compare the {g}, which one {is}?",
    ),
    (
        "Looking at the {g}, which one {is}?",
        "There are several {g}; which one {is}?",
        "Considering the {g}, say which {is}.",
    ),
)
MOST = 4


@family()
def propose(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """Two to four members, each with one stated value, and no tie for the extreme."""
    keys = comparable(ctx)
    if not keys:
        return None
    key = pick(rng, keys)
    about = ctx.prop(key)
    group = random_group(ctx, rng, 2, MOST, key=key)
    if group is None:
        return None
    values = []
    for one in group.members:
        facts = ctx.lookup.objects(one, key)
        if len(facts) != 1 or not ctx.stated(facts[0].id):
            return None
        values.append(facts[0])
    least = bool(about.less) and (not about.more or rng.random() < 0.5)
    best = (min if least else max)(f.object for f in values)
    winners = [f.subject for f in values if f.object == best]
    if len(winners) != 1:
        return None
    sketch = Sketch(ctx)
    anchor = sketch.entity(group.anchor, given=True)
    member = sketch.entity(winners[0])
    value = sketch.value(key, best)
    sketch.group(group, anchor, member)
    for fact in values:
        step = forward(fact)
        sketch.edge(member, step, value, sketch.query(fact.subject, step))
    words = (about.less if least else about.more).split("|")[-1]

    def render(voice: Voice) -> str:
        text = voice.pick(_WHICH).replace("{is}", is_phrase(superlative(words)))
        return capitalised(text.replace("{g}", describe_group(ctx, voice, group)))

    return sketch.finish(
        "superlative", shape="first" if least else "last",
        answers=ctx.names.entity_answers(winners[0]), hops=2, branches=len(values),
        operation=f"{'argmin' if least else 'argmax'}:{member}={value}", render=render,
    )  # fmt: skip


def superlative(words: str) -> str:
    """ "oldest" -> "the oldest"; verb phrases and wording with an article stay."""
    if words.startswith("the ") or is_phrase(words) == words or words in ("first", "last"):
        return words
    return f"the {words}"
