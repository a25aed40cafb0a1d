"""Parquet files of questions, in plain columns or in the layout that Search-R1 and verl train on.

That layout has a row ``{data_source, prompt: [{role, content}], ability, reward_model: {style,
ground_truth: {target: [answer, …]}}, extra_info: {split, index}}``; the question is what follows
``Question:`` in the prompt. Search-R1's own files keep FlashRAG's ``id``, ``question`` and
``golden_answers`` beside it; then these count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..dialects.prompts import SEARCH_R1
from ..errors import DataError, MissingExtraError
from ..storage.files import replacing
from ..types import Task
from .lines import Line

BATCH = 1024
"""Rows read at a time."""
SCORED = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
"""The ``data_source``s that Search-R1's trainer knows how to score (all by exact match)."""
_LAYOUT = ("prompt", "ability", "reward_model", "extra_info")


def is_parquet(path: Path) -> bool:
    """Return whether the name is of a Parquet file."""
    return path.suffix == ".parquet"


def read_parquet(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Rows as records, counted from 1.

    Raises:
        DataError: absent, or no parquet file.
        MissingExtraError: pyarrow is not installed.
    """
    pyarrow, parquet = _pyarrow()
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH):
                for record in batch.to_pylist():
                    number += 1
                    yield Line(path, number), record
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a parquet file that can be read: {error}") from error


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows of equal keys; the old file stays until the new one is whole.

    Raises:
        DataError: there are none, or one holds a text that is no UTF-8 (half of a surrogate pair).
    """
    pyarrow, parquet = _pyarrow()
    if not rows:
        raise DataError(f"there is nothing to write to {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        table = pyarrow.Table.from_pylist([dict(row) for row in rows])
    except UnicodeEncodeError as error:
        raise DataError(f"{path} can hold UTF-8 only: {error}") from error
    with replacing(path) as partial:
        parquet.write_table(table, partial)
    return path


def plain_record(row: tuple[Line, dict[str, Any]]) -> tuple[Line, dict[str, Any]]:
    """A row with ``id``, ``question`` and ``answers``, whichever layout it has; ``DataError`` for
    one that has neither."""
    where, record = row
    record = {name: value for name, value in record.items() if value is not None}
    if "question" in record and ("answers" in record or "golden_answers" in record):
        split = (record.get("extra_info") or {}).get("split")
        plain = {name: value for name, value in record.items() if name not in _LAYOUT}
        return where, {"id": _id(record, where), **({"split": split} if split else {}), **plain}
    if "prompt" not in record or "reward_model" not in record:
        raise DataError(
            f"{where}: a question needs columns id, question and answers, or prompt and "
            f"reward_model as in Search-R1's files; it has {', '.join(record)}"
        )
    extra = record.get("extra_info") or {}
    own = {name: extra[name] for name in ("evidence", "hops", "family") if extra.get(name)}
    split = extra.get("split")
    return where, {
        "id": _id(record, where),
        "question": _question(record["prompt"], where),
        "answers": _answers(record["reward_model"], where),
        **({"split": split} if split else {}),
        **({"data_source": record["data_source"]} if record.get("data_source") else {}),
        **own,
    }


def search_r1_row(task: Task, index: int, source: str) -> dict[str, Any]:
    """Return a task as a row that Search-R1's data scripts would write: its prompt byte for byte as
    one message of the user's, FlashRAG's ``id``, ``question`` and ``golden_answers`` beside it, and
    our columns (family, hops, evidence). :func:`plain_record` reads it back.

    Args:
        task: What is asked.
        index: Its place in the file.
        source: ``data_source``; its trainer scores those of ``SCORED`` only.
    """
    question = task.question.strip()
    asked = question if question.endswith("?") else f"{question}?"
    return {
        "id": task.id,
        "question": task.question,
        "golden_answers": list(task.answers),
        "data_source": source,
        "prompt": [{"role": "user", "content": SEARCH_R1.replace("{question}", asked)}],
        "ability": "fact-reasoning",
        "reward_model": {"style": "rule", "ground_truth": {"target": list(task.answers)}},
        "extra_info": {"split": task.split, "index": index},
        "family": task.family, "hops": task.hops, "evidence": list(task.evidence),
    }  # fmt: skip


def _id(record: Mapping[str, Any], where: Line) -> Any:
    if "id" in record:
        return record["id"]
    extra = record.get("extra_info") or {}
    index = extra.get("index", where.number - 1)
    parts = (record.get("data_source") or where.path.stem, extra.get("split"), index)
    return "-".join(str(part) for part in parts if part not in (None, ""))


def _question(prompt: Any, where: Line) -> str:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    texts = [
        m["content"]
        for m in messages or ()
        if isinstance(m, Mapping) and m.get("role") == "user" and isinstance(m.get("content"), str)
    ]
    if not texts:
        raise DataError(f"{where}: 'prompt' holds no message of a user")
    return _asked(texts[-1])


def _asked(prompt: str) -> str:
    """Return the question that a prompt asks. A question may itself hold ``Question:``: Search-R1's
    are known by how they begin; in those of others examples may stand before it, each with a line
    of its own, so that the last line with the mark counts, from its first mark on."""
    ours = SEARCH_R1.partition("{question}")[0]
    if prompt.startswith(ours):
        return prompt.removeprefix(ours).strip()
    before, mark, after = prompt.rpartition("Question:")
    if not mark:
        return prompt.strip()
    line = before[before.rfind("\n") + 1 :]  # of the last mark, up to it
    return (line + mark + after).partition("Question:")[2].strip()


def _answers(reward: Any, where: Line) -> list[str]:
    truth = reward.get("ground_truth") if isinstance(reward, Mapping) else None
    target = truth.get("target") if isinstance(truth, Mapping) else truth
    answers = [target] if isinstance(target, str) else target
    if not isinstance(answers, list) or not all(isinstance(a, str) for a in answers) or not answers:
        raise DataError(
            f"{where}: 'reward_model' holds no ground_truth (a text, texts, or a 'target'), got "
            f"{str(reward)[:80]!r}"
        )
    return answers


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("a parquet file", "parquet") from None
    return pyarrow, pyarrow.parquet
