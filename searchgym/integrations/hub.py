"""Folders as the Hugging Face hub wants them: questions and trajectories that ``datasets`` loads,
agents that ``transformers`` loads, each with a card.

``searchgym export SOURCE --to hub --out FOLDER`` writes one; nothing is sent. ``hf upload
YOU/NAME FOLDER`` publishes it (``--repo-type dataset`` for data). The keys of the cards' front
matter are those of the hub's documentation of dataset and model cards.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

from ..cards import cards
from ..core.trajectory import Trajectory
from ..corpora.parquet import write_parquet
from ..errors import DataError
from ..evaluation.formats import row
from ..storage.files import parse_json, write_whole
from ..tasks.records import task_to_dict
from ..text import unmarked
from ..types import Task

LICENCES = {
    "Apache-2.0": "apache-2.0", "MIT": "mit", "CC BY 4.0": "cc-by-4.0",
    "CC BY-SA 3.0": "cc-by-sa-3.0", "CC BY-SA 4.0": "cc-by-sa-4.0",
}  # fmt: skip
"""Our cards' names of licences → the hub's."""
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (10**6, "100K<n<1M"))
KEPT = (".json", ".jinja", ".model", ".safetensors", ".txt")
"""Endings of the files of a model's folder; other things of a run are left out."""
UNSAID = "unknown"
_SPLIT = re.compile(r"\w{1,64}")
"""Names of splits, which become files'."""
_TOLD = ("recipe", "seed", "episodes", "seconds")
"""Keys by which a file of weights may say how it was trained."""


def write_tasks(
    folder: Path, tasks: Sequence[Task], source: str, corpus: str, settings: Sequence[str] = ()
) -> int:
    """Write questions, a row each in ``data/SPLIT.parquet``, and the card; how many.

    ``task`` is the whole record as JSON. ``corpus``: whose card says the licence.

    Raises:
        DataError: there are no questions, or the folder has a card already.
    """
    splits: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        splits.setdefault(task.split or "all", []).append({
            "id": task.id, "question": task.question, "answers": list(task.answers),
            "family": task.family, "hops": task.hops, "evidence": list(task.evidence),
            "should_abstain": task.should_abstain, "task": json.dumps(task_to_dict(task)),
        })  # fmt: skip
    options = "".join(f" -s {setting}" for setting in settings)
    licence, texts = _rights(corpus)
    families = ", ".join(f"{n:,} {name}" for name, n in Counter(t.family for t in tasks).items())
    about = f"""
{len(tasks):,} questions of `{source}` ({families}), asked over the corpus `{corpus}`.

## How it was made

`searchgym export {source}{options} --to hub` with searchgym {version("searchgym")}.
`pip install searchgym` and `searchgym eval {source}{options}` play the same questions.

## Columns

`answers` are all accepted, `evidence` names the passages that state them, and `should_abstain` is
true where no page does. `task` is the whole record as JSON. The passages are not in this data set.

## Texts and their authors

{texts}
"""
    return _data(folder, source, splits, licence, ["question-answering"], about)


def write_played(folder: Path, played: Iterable[Trajectory], source: str, corpus: str) -> int:
    """Write trajectories, a row each in ``data/train.parquet``, and the card; how many.

    Raises:
        DataError: there are none, or the folder has a card already.
    """
    rows = [row(trajectory) for trajectory in played]
    licence, texts = _rights(corpus)
    paid = sum(r["reward"] for r in rows) / len(rows) if rows else 0.0
    about = f"""
{len(rows):,} episodes of search agents over `{corpus or UNSAID}`; mean reward {paid:.3f}.

## How it was made

`searchgym export {source} --to hub` with searchgym {version("searchgym")}, of what
`searchgym eval … --out` recorded.

## Columns

`messages` is the chat (the environment is the user, the agent the assistant), and `trajectory` the
whole record as JSON: `searchgym export data/train.parquet --to jsonl --out FILE` writes what
`searchgym view` shows. The rest says what was asked, answered and paid.

## Texts and their authors

The episodes contain passages. {texts}
"""
    tasks = ["question-answering", "text-generation"]
    return _data(folder, source, {"train": rows}, licence, tasks, about)


def write_agent(folder: Path, source: Path, licence: str = UNSAID) -> int:
    """Copy a trained agent, a model's folder or a file of weights, and write the card; how many
    parameters it has.

    Raises:
        DataError: it is neither, cannot be read, holds a link (whose file may be somebody's own),
            or the folder has a card already.
    """
    model = source.is_dir()
    files = [f for f in sorted(source.glob("*")) if f.suffix in KEPT] if model else [source]
    if links := [f for f in files if model and f.is_symlink()]:
        raise DataError(f"{links[0]} is a link: put the file that is meant in its place")
    files = [f for f in files if f.is_file()]
    weights = [file for file in files if file.suffix == ".safetensors"]
    if not weights or (model and not any(f.name.endswith("config.json") for f in files)):
        raise DataError(
            f"{source} is no trained agent: expected FILE.safetensors, or a folder with weights "
            "and config.json, as 'searchgym train' writes them"
        )
    read = [_weights(file) for file in weights]
    parameters = sum(count for count, _ in read)
    how = {name: said for _, meta in read for name, said in meta.items()}
    _new(folder)
    for file in files:
        shutil.copyfile(file, folder / file.name)
    head: dict[str, Any] = {
        "library_name": "transformers" if model else "searchgym", "license": licence,
        "tags": ["searchgym", "search-agent", "reinforcement-learning", "question-answering"],
    }  # fmt: skip
    if model:
        head["pipeline_tag"] = "text-generation"
        use = (
            '`AutoModelForCausalLM.from_pretrained("YOU/NAME")` loads it, and `searchgym eval '
            "SearchQA-v0 -a FOLDER`"
        )
    else:
        use = f"`searchgym eval SearchQA-v0 -a {source.name}`"
    told = "".join(
        f"\n| {name} | {unmarked(str(how[name])[:200])} |" for name in _TOLD if name in how
    )
    about = f"""
A search agent of {parameters:,} parameters, trained with searchgym {version("searchgym")}.

## How it was made

| what | value |
|---|---|
| file | {source.name} |{told}

## Use

After `pip install searchgym`, {use} plays with it.
Measure it before you say how good it is: `--out` writes a result, and `searchgym verify` checks it.

## Rights

Licence: {licence}. A model that was trained further keeps the licence of the one that it began as.
Worlds are Apache-2.0, and other texts that it learnt from have licences of their own
(`searchgym data`).
"""
    _card(folder, source.stem, head, about)
    return parameters


def _weights(file: Path) -> tuple[int, dict[str, Any]]:
    """Count the parameters of a file of weights; also what it says of its training."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as opened:
            said = parse_json((opened.metadata() or {}).get("searchgym", "{}"), file)
            sizes = [prod(opened.get_slice(name).get_shape()) for name in opened.keys()]  # noqa: SIM118
    except SafetensorError as error:
        raise DataError(f"{file} cannot be read as weights: {error}") from error
    meta = said.get("meta") if isinstance(said, dict) else None
    return sum(sizes), meta if isinstance(meta, dict) else {}


def _data(
    folder: Path, source: str, splits: Mapping[str, list[dict[str, Any]]], licence: dict[str, str],
    tasks: Sequence[str], about: str,
) -> int:  # fmt: skip
    count = sum(map(len, splits.values()))
    for split in splits:
        if not _SPLIT.fullmatch(split):
            raise DataError(f"a split is named by letters and digits here, got {split!r:.80}")
    if not count:
        raise DataError(f"{source} has nothing to write to {folder}")
    _new(folder)
    for split, rows in splits.items():
        write_parquet(folder / "data" / f"{split}.parquet", rows)
    files = [{"split": split, "path": f"data/{split}.parquet"} for split in splits]
    _card(folder, Path(source).name.split(".")[0], {
        "pretty_name": Path(source).name, **licence, "task_categories": list(tasks),
        "size_categories": [next((name for most, name in SIZES if count < most), "n>1M")],
        "tags": ["searchgym", "search-agent", "multi-hop", "agentic"],
        "configs": [{"config_name": "default", "data_files": files}],
    }, about)  # fmt: skip
    return count


def _rights(corpus: str) -> tuple[dict[str, str], str]:
    """The licence in the front matter's words, and a sentence on the texts."""
    known = cards("corpora").get(corpus)
    if known is None or "licence" not in known.body:
        return {"license": UNSAID}, (
            f"The texts are those of `{corpus or UNSAID}`, whose licence is not known here: say "
            "who wrote them and under which licence, before anybody else gets them."
        )
    said = str(known.body["licence"])
    name = LICENCES.get(said)
    if "world" in known.body:
        texts = "All names and pages are invented by SearchGym's generator (Apache-2.0)."
    else:
        cited = f" {known.body['citation']}" if known.body.get("citation") else ""
        texts = f"Licence of questions and passages: {said}.{cited}"
    return ({"license": name} if name else {"license": "other", "license_name": said}), texts


def _new(folder: Path) -> None:
    if (folder / "README.md").exists():
        raise DataError(f"{folder} has a README.md already: delete it, or name another folder")
    folder.mkdir(parents=True, exist_ok=True)


def _card(folder: Path, title: str, head: Mapping[str, Any], about: str) -> None:
    """Write the card last: a folder without it is not whole. JSON is YAML, too."""
    front = "\n".join(f"{key}: {json.dumps(value)}" for key, value in head.items())
    write_whole(folder / "README.md", f"---\n{front}\n---\n\n# {title}\n{about}")
