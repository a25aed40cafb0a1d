"""``follow_up``: a question and its answer, then one about that answer which does not name it.

To be searched it must be rewritten so that it stands on its own, as in conversational query
reformulation (ConvSearch-R1, arXiv 2505.15776). The gold query is such a rewrite.
"""

from __future__ import annotations

import re

import numpy as np

from ..worlds.schema import Phrases
from .context import Context
from .draft import Draft, Sketch, family
from .paths import Path
from .simple import answers, ends
from .wording import Voice

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
def propose(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A definite path of two steps: the first is the past, the second is asked for."""
    start = ctx.any_start(rng)
    walked = None if start is None else ctx.walk(rng, start, 2)
    if walked is None or ctx.names.given(walked.steps[0].value) is None:
        return None
    past, asked = walked.prefix, Path(walked.steps[0].value, walked.steps[1:])
    if not ctx.hidden((past.start, asked.start), ends(ctx, asked)):
        return None
    sketch = Sketch(ctx)
    end = sketch.path(asked)

    def render(voice: Voice) -> str:
        name = voice.named(asked.start)
        unnamed = re.sub(re.escape(name), _THAT, voice.ask(asked), flags=re.IGNORECASE)
        follow_up = unnamed[:1].upper() + unnamed[1:]
        text = voice.pick(_TALK).replace("{q}", voice.ask(past)).replace("{a}", name)
        return text.replace("{f}", follow_up)

    return sketch.finish(
        "follow_up", shape="follow-up", answers=answers(ctx, asked), answer=end, hops=1,
        render=render,
    )  # fmt: skip
