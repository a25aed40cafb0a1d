"""``masked``: sentences with one to four masks to fill in, each found from the one before.

After the pre-training task of MaskSearch (arXiv 2505.20285), there over sentences of Wikipedia;
``task.meta["masks"]`` is the number of masks, by which its curriculum orders tasks.
"""

from __future__ import annotations

import numpy as np

from ..worlds.schema import Phrases
from .context import Context
from .draft import Draft, Sketch, family
from .names import joined_answers
from .simple import ends
from .wording import Voice

MOST = 4
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
def propose(ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
    """A random definite path of one to four steps, a sentence for each; what a step leads to is
    masked in its sentence and in the next."""
    masks = 1 + turn % MOST
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
