"""``searchgym warmstart``: a tokenizer and a small reader, trained from nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import MissingExtraError
from .live import quiet_loading
from .output import JsonFlag, examples, print_facts, print_json, progress, say, working

if TYPE_CHECKING:
    from ..llms.sft import Progress


def warmstart(
    out: Annotated[Path, typer.Option(help="Folder of the model; an unfinished run goes on.")] = (
        Path("runs/warm")
    ),
    steps: Annotated[int, typer.Option(min=1, help="Training steps, all stages together.")] = 5000,
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
        from ..cards import card
        from ..errors import WorldError
        from ..worlds.paraphrases import FILE

        file = card("corpora", corpus).folder / FILE
        if paraphrases is None:
            paraphrases = file.exists()
        elif paraphrases and not file.exists():  # said before processes start
            raise WorldError(f"{file}: no such file; this world has no paraphrases")
        try:
            from .. import WordEncoder
            from ..warmstart.run import stages, warm_start
            from ..warmstart.traces import DEFAULTS, OPENING
        except ImportError as error:
            raise MissingExtraError("training a language model", "llm") from error
    plan = stages(steps, few_episodes=few_episodes)
    last: list[Progress] = []
    with progress("writing examples", worlds, "worlds") as bar, quiet_loading():
        done = 0

        def written(count: int) -> None:
            nonlocal done
            bar(count - done)
            done = count

        def report(now: Progress) -> None:
            nonlocal done
            if not last:
                bar.stage("training", steps, "steps")
                done = 0
            last[:] = [now]
            bar(now.step - done)
            done = now.step

        made = warm_start(
            out, plan, worlds=worlds, width=width, seed=seed, report=report, written=written,
            encoder=WordEncoder(layers=6) if word_vectors else None, paraphrases=paraphrases,
            processes=min(8, os.cpu_count() or 1),
            keywords={**(OPENING if open_pages else DEFAULTS), "corpus": corpus, "k": results},
        )  # fmt: skip
    facts: dict[str, Any] = {
        "model": str(out),
        "parameters": sum(p.numel() for p in made.model.parameters()),
        "tokens": made.tokens,
        "minutes of training": round(made.seconds / 60, 1),
        "share of next tokens right, last step": last[0].accuracy if last else None,
    }
    if not last:
        say(f"{out} was trained to its last step already")
    print_json(facts) if as_json else print_facts("Warm start", facts)
    say(f"go on with: searchgym train grpo --model {out} --lr 1e-4")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        epilog=examples(
            "searchgym warmstart",
            "searchgym warmstart --few-episodes --no-paraphrases --out runs/short",
        )
    )(warmstart)
