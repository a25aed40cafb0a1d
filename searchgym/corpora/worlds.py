"""Generated corpora: the world of a card's split, put into words."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..cards import Card
from ..errors import CardError, check_known
from ..seeding import derive
from ..worlds.world import World
from .corpus import GeneratedCorpus

SPLITS = ("train", "dev", "test")
WORDING = ("distractors", "paraphrases", "phrasing", "seed")
"""Options of ``wording``."""


class GeneratedWorld(NamedTuple):
    """A world put into words and indexed, before tasks are asked about it."""

    world: World
    corpus: GeneratedCorpus
    phrasing: str
    seed: int
    """Seed of the task set."""
    wording_seed: int


_PLAYED = ("tasks", "twin", "refill", "disjoint_names")
"""Options of a world that say how it is played. ``refill``: questions that fail their proof are
replaced by others; ``disjoint_names``: no name is in two splits."""


def generate_world(
    card: Card,
    split: str = "train",
    world: Mapping[str, Any] | None = None,
    wording: Mapping[str, Any] | None = None,
) -> GeneratedWorld:
    """Generate the world of a card's split and put it into words. Splits are separate worlds: other
    seeds, hence other names and facts; the test split speaks in held-out phrasings unless told
    otherwise.

    Args:
        card: A corpus' card of kind "world".
        split: One of :data:`SPLITS`.
        world: Options of the world, over those of the card.
        wording: Options of its wording, likewise.

    Raises:
        CardError: another split, an unknown option, or a seed that is no whole number.
    """
    from ..worlds.generate import generate
    from ..worlds.loader import load_schema
    from .render import render

    check_split(split)
    recipe = {**card.body.get("world", {}), **(world or {})}
    said = {**card.body.get("wording", {}), **(wording or {})}
    for what, given, known in (
        ("world", recipe, {*inspect.signature(generate).parameters, *_PLAYED}),
        ("wording", said, {*WORDING}),
    ):
        check_known(f"option of {what}", known, *given)
    schema = load_schema(card.folder / recipe.pop("schema", "schema.toml"))
    seed = derive(_seed(recipe, "world"), "split", split)
    if recipe.get("disjoint_names"):
        recipe["names_part"] = (SPLITS.index(split), len(SPLITS))
    for option in ("tasks", "refill", "disjoint_names"):
        recipe.pop(option, None)
    phrasing = said.pop("phrasing", "heldout" if split == "test" else "train")
    wording_seed = _seed(said, "wording")
    if said.pop("paraphrases", False):
        from ..worlds.paraphrases import FILE, paraphrased

        schema = paraphrased(schema, card.folder / FILE)
    style = recipe.pop("twin", None)
    made = generate(schema, seed=seed, **recipe)
    if style is not None:
        from ..worlds.twins import twin

        made = twin(made, style, seed=seed)
    name = f"{card.id}-{split}"
    corpus = render(made, wording_seed=wording_seed, phrasing=phrasing, name=name, **said)
    return GeneratedWorld(made, corpus, phrasing, seed, wording_seed)


def check_split(split: str) -> None:
    """Raise ``CardError`` unless a generated world has a split of this name."""
    if split not in SPLITS:
        raise CardError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")


def _seed(options: dict[str, Any], what: str) -> int:
    seed = options.pop("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise CardError(f"seed of a {what} must be a whole number, got {seed!r}")
    return seed
