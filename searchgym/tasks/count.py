"""``count``: how many things a relation links to one thing. Answers: digits and number word."""

from __future__ import annotations

import numpy as np

from ..worlds.schema import Phrases
from .context import Context
from .draft import Draft, Sketch
from .family import family
from .grammar import capitalised
from .groups import describe_group, random_group
from .names import number_answers
from .wording import Voice

HOW_MANY = Phrases(
    (
        "How many {g} are there?",
        "How many {g} are known?",
        "What is the number of {g}?",
        "Count the {g}. How many are there?",
        "How many {g} exist?",
        "Give the number of {g}.",
        "In total, how many {g} are there?",
        "Tell me how many {g} there are.",
        "What is the total number of {g}?",
        "I would like to know how many {g} there are.",
        "How many {g} can be found altogether?",
    ),
    (
        "How numerous are the {g}?",
        "Work out the total number of {g}.",
        "I would like to know how many {g} can be found.",
    ),
)
MOST = 12


@family(same_answer=0.3)
def propose(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """Counts two to twelve members; one-member groups would give "how many" away as a lookup."""
    group = random_group(ctx, rng, 2, MOST)
    if group is None:
        return None
    sketch = Sketch(ctx)
    anchor = sketch.entity(group.anchor, given=True)
    member = sketch.entity(group.members[0])
    sketch.group(group, anchor, member)

    def render(voice: Voice) -> str:
        text = voice.pick(HOW_MANY)
        return capitalised(text.replace("{g}", describe_group(ctx, voice, group)))

    return sketch.finish(
        "count", shape="subjects" if group.inverse else "objects",
        answers=number_answers(len(group.facts)), hops=1, operation=f"count:{member}",
        render=render,
    )  # fmt: skip
