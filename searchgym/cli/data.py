"""``searchgym data``: lists the real sets on this machine, and fetches others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..plugins import register
from .options import DataDir
from .output import JsonFlag, console, print_json, print_table, say, with_examples, working

if TYPE_CHECKING:
    from ..corpora.data import SetStatus

SetName = Annotated[str, typer.Argument(metavar="SET", help="A real set; see 'searchgym data'.")]


@register("data")
@with_examples(
    "searchgym data",
    "searchgym data --json",
    "searchgym data get hotpotqa",
    "searchgym data substitute hotpotqa --out runs/hotpotqa-renamed",
)
def data(
    context: typer.Context,
    data_dir: DataDir = None,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Read every file to check its digest.")
    ] = True,
    as_json: JsonFlag = False,
) -> None:
    """Show every real set: whether it is there and whole, its size and licence, how to get it."""
    if context.invoked_subcommand is not None:
        return
    from ..corpora.data import data_directory, status

    with working("checking digests …" if verify else "looking …"):
        sets = status(data_dir, verify=verify)
    if as_json:
        rows = [{**r._asdict(), "folder": str(r.folder), "missing": list(r.missing)} for r in sets]
        print_json({"data_dir": str(data_directory(data_dir)), "sets": rows})
        return
    shown: list[dict[str, Any]] = [
        {"set": row.id, "here": _state(row),
         "MB": f"{max(row.bytes / 1e6, 0.1):.1f}" if row.bytes else "", "licence": row.licence}
        for row in sets
    ]  # fmt: skip
    print_table(f"Real sets in {data_directory(data_dir)}", shown)
    lacking = [row for row in sets if not row.present]
    fetched = [row.id for row in lacking if row.get.startswith("searchgym data get")]
    told = [f"{row.id}: {row.get}" for row in lacking if row.id not in fetched]
    if fetched:
        told.insert(0, f"searchgym data get SET fetches {', '.join(fetched)}")
    for line in told:
        console().print(line, markup=False)
    if any(row.digest_ok is False for row in sets):
        say("BROKEN: a file is not what its card's digest says; get it again")


def _state(row: SetStatus) -> str:
    """Return the table's word for a set: ok, there (digests not read), BROKEN, how much is
    missing."""
    if not row.present:
        return f"{len(row.missing)} missing" if row.bytes else ""
    return "there" if row.digest_ok is None else "ok" if row.digest_ok else "BROKEN"


@register("data get")
@with_examples("searchgym data get hotpotqa", "searchgym data get nq --data-dir d")
def get(
    name: SetName,
    data_dir: DataDir = None,
) -> None:
    """Download a real set into the data directory (needs the extra "hub" and the network)."""
    from ..corpora.data import download

    with working(f"downloading {name} …"):
        folder = download(name, data_dir)
    say(f"{name} is in {folder}")


@register("data substitute")
@with_examples(
    "searchgym data substitute hotpotqa --out runs/renamed",
    "searchgym data substitute nq --out runs/renamed --split public --max-tasks 200 --seed 1",
)
def substitute(
    name: SetName,
    out: Annotated[Path, typer.Option(help="Folder for passages, questions and the table.")],
    split: Annotated[str, typer.Option(help="Which questions.")] = "public",
    max_tasks: Annotated[
        int | None, typer.Option(min=1, help="The first so many questions only.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A word that stays as it is; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes the invented names.")] = 0,
    data_dir: DataDir = None,
) -> None:
    """Exchange a set's names for invented ones, the same in questions, answers and passages.

    What an agent scores less there than on the set itself is what its model knew of the names.
    Environments read it: corpus="DIR/passages.jsonl", tasks="DIR/questions.jsonl".
    """
    from ..corpora.data import load_set
    from ..corpora.substitute import save_substituted
    from ..corpora.substitute import substitute as substituted

    with working(f"reading {name} …"):
        corpus, tasks = load_set(name, split=split, data_dir=data_dir)
    with working("exchanging names …"):
        renamed = substituted(corpus, tasks[:max_tasks], seed=seed, keep=keep or ())
        save_substituted(renamed, out)
    say(
        f"{len(renamed.tasks):,} questions and {len(renamed.corpus):,} passages with "
        f"{len(renamed.table.words):,} exchanged words are in {out}"
    )
