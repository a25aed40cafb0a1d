"""``searchgym tasks``: makes questions and knowledge graphs from any text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ..plugins import register
from .options import DataDir
from .output import counted, print_table, say, with_examples, working

NUMBERS: Mapping[str, int] = {
    "fact": 100, "gap": 100, "bridge": 100, "comparison": 50, "yes_no": 25,
}  # fmt: skip
SAMPLES = 40


@register("tasks make")
@with_examples(
    "searchgym tasks make notes/ --out tasks.jsonl",
    "searchgym tasks make vital --out tasks.jsonl -s fact=500 -s bridge=100 --split test",
)
def make(
    corpus: Annotated[
        str, typer.Argument(metavar="CORPUS", help="A folder, a file, or a corpus card's name.")
    ],
    out: Annotated[Path, typer.Option(help="Where the tasks go, JSON lines.")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="FAMILY=N",
            help="Number of a family's tasks; one or several replace the usual ones.",
        ),
    ] = None,
    split: Annotated[
        str, typer.Option(help="Pages that are asked about: train, dev or test.")
    ] = "train",
    seed: Annotated[int, typer.Option(help="Draws other questions.")] = 0,
    passages: Annotated[
        Path | None,
        typer.Option(help="Write the passages here that unanswerable questions leave."),
    ] = None,
    writer: Annotated[
        str | None,
        typer.Option(help="Generator that words the questions: a name, or options as JSON."),
    ] = None,
    reader: Annotated[
        str | None, typer.Option(help="Generator of the round trip (default: the writer).")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="Engine that is tried beside BM25, by which the questions are chosen."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Make checked questions from a corpus, and show some of them.

    Play them with corpus="CORPUS", tasks="OUT". Fewer than asked for are made where the text holds
    fewer; pages of one split are never asked about in another. [bold]--writer[/bold] words them
    anew; what then fails a check, is answered otherwise by a reader of its pages, or is answered
    without them, is left out.
    """
    import random
    from dataclasses import replace

    from ..corpora.data import descriptions, write_records
    from ..engines import build_engine
    from ..envs.options import Options
    from ..envs.sources import rules_for, text_source
    from ..errors import TaskError
    from ..llms.registry import build_generator
    from ..tasks.grounded import Writer, findable, ground
    from ..tasks.grounded.build import NEEDED, split_of, told
    from ..tasks.records import save_tasks
    from .options import json_or_text
    from .targets import overrides

    counts = overrides(settings, example="fact=200") or dict(NUMBERS)
    with working(f"reading {corpus} …"):
        found = text_source(
            corpus, Options(corpus=corpus, data_dir=str(data_dir) if data_dir else None)
        )
        if found is None:
            raise TaskError(f"{corpus} is a generated world, which asks its own questions")
        proof = build_engine("bm25", found)
        other = build_engine(json_or_text(engine), found) if engine else None
    if "unanswerable" in counts and passages is None:
        raise TaskError(
            "unanswerable questions lack their passages: say where the others go with "
            "--passages FILE, and search that file"
        )
    worder = None
    if writer is not None:
        asked = build_generator(json_or_text(writer))
        worder = Writer(asked, build_generator(json_or_text(reader)) if reader else None)
    elif reader is not None:
        raise TaskError("--reader checks what --writer words: name that, too")
    with working(f"making questions from {len(found):,} passages …"):
        made = ground(
            found, counts, proof.search, name=found.name, seed=seed, split=split,  # type: ignore[arg-type, attr-defined]
            at_most=True, descriptions=descriptions(found.name, data_dir), writer=worder,
            rules=rules_for(found),
        )  # fmt: skip
        tasks = made.tasks
        if not tasks:
            broken = sum(p.text.count("\ufffd") for p in found)
            lost = f", with {counted(broken, 'character')} that could not be read" if broken else ""
            raise TaskError(
                f"no question can be made of {corpus}: {counted(len(found), 'passage')} read"
                f"{lost}, {sum(split_of(p.title) == split for p in found)} in split {split!r}; "
                f"{told(made.refused)}. {NEEDED}"
            )
        if other is not None:
            able = findable(tasks, other.search)  # type: ignore[attr-defined]
            tasks = tuple(replace(t, meta={**t.meta, "found_by": {engine: a}})
                          for t, a in zip(tasks, able, strict=True))  # fmt: skip
        save_tasks(tasks, out)
        if passages is not None:
            write_records(passages, (p._asdict() for p in found if p.id not in made.withheld))
    shown = random.Random(seed).sample(list(made.tasks), min(SAMPLES, len(made.tasks)))
    rows = [
        {"family": t.family, "question": t.question, "answer": "; ".join(t.answers)} for t in shown
    ]
    print_table(f"{len(rows)} of {len(made.tasks):,} tasks", rows)
    for family, wanted in counts.items():
        if made.made.get(family, 0) < wanted:
            say(f"{family}: {made.made.get(family, 0)} of {wanted}")
    if other is not None:
        for family in made.made:
            own = [t.meta["found_by"][engine] for t in tasks if t.family == family]
            say(f"{engine} finds the pages of {sum(own)} of {len(own)} {family} questions")
    if made.refused:
        say(f"tries that gave no task: {told(made.refused)}")
    say(f"{len(made.tasks):,} tasks are in {out}")


@register("tasks graph")
@with_examples("searchgym tasks graph notes/ --out notes-graph/")
def graph(
    corpus: Annotated[
        str, typer.Argument(metavar="CORPUS", help="A folder, a file, or a corpus card's name.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for triples.jsonl and entities.jsonl.")],
    data_dir: DataDir = None,
) -> None:
    """Write the facts that a corpus states as a knowledge graph, each with its sentence.

    Search it with corpus="kg:OUT"; corpus="kg:CORPUS" reads the facts anew.
    """
    from collections import Counter

    from ..envs.sources import facts_of

    with working(f"reading {corpus} …"):
        facts = facts_of(corpus, str(data_dir) if data_dir else None)
        facts.save(out)
    counts = Counter(statement.relation for statement in facts.statements)
    shown = {s.relation: s for s in reversed(facts.statements)}
    rows = [
        {"relation": relation, "facts": n, "such as": f"{shown[relation].head}: "
         f"{shown[relation].tail}"} for relation, n in counts.most_common()
    ]  # fmt: skip
    print_table(f"{len(facts.statements):,} facts of {len(facts.entities):,} articles", rows)
    say(f'{out} holds them; search with corpus="kg:{out}"')
