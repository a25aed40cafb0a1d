"""``searchgym warmstart``: a tokenizer and a small reader, trained from nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from searchgym.cli.live import SupervisedTraining, quiet_loading
from searchgym.cli.output import (
    JsonFlag,
    print_facts,
    print_json,
    progress,
    say,
    with_examples,
    working,
)
from searchgym.errors import MissingExtraError
from searchgym.plugins import register

from ..card_options import train_by_command


@register("command:warmstart")
@with_examples(
    "searchgym warmstart",
    "searchgym warmstart --few-episodes --no-paraphrases --out runs/short",
)
def warmstart(
    out: Annotated[Path, typer.Option(help="Folder of the model; an unfinished run goes on.")] = (
        Path("runs/warm")
    ),
    steps: Annotated[
        int, typer.Option(min=600, help="Training steps, all stages together.")
    ] = 5000,
    worlds: Annotated[int, typer.Option(min=1, help="Generated worlds to learn from.")] = 60,
    width: Annotated[
        int, typer.Option(min=8, help="Width of the model; a multiple of eight.")
    ] = 128,
    word_vectors: Annotated[
        bool,
        typer.Option(
            help="Take what words mean from the bundled sentence encoder and read all others as "
            "names, a token each; reading and searching are learnt from nothing either way."
        ),
    ] = True,
    corpus: Annotated[
        str, typer.Option(help="Kind of world: id or folder of a generated corpus.")
    ] = "encyclopedia",
    paraphrases: Annotated[
        bool | None,
        typer.Option(
            help="Word three of four worlds in many more ways, so that unseen phrasings are "
            "understood; unless you say, where the corpus has them.",
            show_default=False,
        ),
    ] = None,
    open_pages: Annotated[
        bool,
        typer.Option(
            "--open-pages", help="Results are short snippets; a page is opened to be read."
        ),
    ] = False,
    results: Annotated[int, typer.Option(min=1, max=10, help="Shown per search.")] = 3,
    few_episodes: Annotated[
        bool,
        typer.Option(
            "--few-episodes",
            help="Reading is learnt, but hardly any whole episode shown: searching on is left to "
            "be learnt by reward.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Fixes worlds, weights and order.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Make a language model that can search and read a little, out of nothing.

    The tokenizer and the weights are learnt from generated worlds; the vectors of English words are
    a sentence encoder's unless you say [bold]--no-word-vectors[/bold]. What comes out is a starting
    point for [bold]searchgym train RECIPE --model[/bold]. Ctrl-C or a kill loses little: the same
    command goes on.
    """
    with working("loading …"):
        from searchgym.cards import card
        from searchgym.errors import WorldError
        from searchgym.worlds.paraphrases import FILE

        file = card("corpora", corpus).folder / FILE
        if paraphrases is None:
            paraphrases = file.exists()
        elif paraphrases and not file.exists():  # said before processes start
            raise WorldError(f"{file}: no such file; this world has no paraphrases")
        try:
            from ..candidate.encoder import WordEncoder
            from .run import stages, warm_start
            from .traces import DEFAULTS, OPENING
        except ImportError as error:
            raise MissingExtraError("training a language model", "llm") from error
    plan = stages(steps, few_episodes=few_episodes)
    with progress("writing examples", worlds, "worlds") as bar, quiet_loading():
        shown = SupervisedTraining(bar)
        made = warm_start(
            out, plan, worlds=worlds, width=width, seed=seed, report=shown, written=bar.to,
            encoder=WordEncoder(layers=6) if word_vectors else None, paraphrases=paraphrases,
            processes=min(8, os.cpu_count() or 1),
            keywords={**(OPENING if open_pages else DEFAULTS), "corpus": corpus, "k": results},
        )  # fmt: skip
    facts: dict[str, Any] = {
        "model": str(out),
        "parameters": sum(p.numel() for p in made.model.parameters()),
        "tokens": made.tokens,
        "minutes of training": round(made.seconds / 60, 1),
        "share of next tokens right, last step": shown.last.accuracy if shown.last else None,
    }
    if shown.last is None:
        say(f"{out} was trained to its last step already")
    print_json(facts) if as_json else print_facts("Warm start", facts)
    say(f"go on with: searchgym train grpo --model {out} -s train.lr=1e-4")


@register("trainer:warmstart")
def train_reader(*arguments: Any, **options: Any) -> None:
    """Train the reader by its card: ``searchgym train reader``."""
    train_by_command(warmstart, *arguments, **options)
