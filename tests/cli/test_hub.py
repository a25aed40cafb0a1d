"""Folders for the hub, loaded as its users load them: with ``datasets`` and ``transformers``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from searchgym.core import read_jsonl
from searchgym.errors import DataError
from searchgym.integrations import hub
from searchgym.types import Task
from tests.cli.conftest import SMALL, Cli

datasets = pytest.importorskip("datasets", reason="the extra trl has it")
yaml = pytest.importorskip("yaml", reason="datasets has it")


def front_matter(folder: Path) -> dict[str, Any]:
    """What the hub reads of a card, by its own client: it knows which keys and values are right."""
    from huggingface_hub import DatasetCard, ModelCard

    text = (folder / "README.md").read_text("utf-8")
    kind = DatasetCard if "task_categories" in text else ModelCard
    card = kind.load(folder / "README.md")
    for heading in ("## How it was made", "licen", "searchgym "):
        assert heading in text
    head = yaml.safe_load(text.split("---")[1])
    assert card.data.to_dict() == head
    return dict(head)


def loaded(folder: Path, tmp_path: Path) -> Any:
    return datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))


def test_questions_there_and_back(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "questions"
    done = cli("export", "SearchQA-v0", "--to", "hub", "-o", out, *SMALL)
    assert done.code == 0, done.err
    head = front_matter(out)
    assert (head["license"], head["size_categories"]) == ("apache-2.0", ["n<1K"])
    found = loaded(out, tmp_path)
    (split,) = found
    assert len(found[split]) == 23
    for row in found[split]:
        task = json.loads(row["task"])
        assert [task[k] for k in ("id", "question", "answers")] == [
            row["id"], row["question"], row["answers"],
        ]  # fmt: skip
    again = cli("export", "SearchQA-v0", "--to", "hub", "-o", out, *SMALL)
    assert "has a README.md already" in again.err


def test_trajectories_there_and_back(cli: Cli, tmp_path: Path) -> None:
    assert cli("eval", "SearchQA-v0", "-a", "rules", *SMALL, "--out", tmp_path).code == 0
    source, out = tmp_path / "rules.trajectories.jsonl", tmp_path / "played"
    done = cli("export", source, "--to", "hub", "-o", out)
    assert done.code == 0, done.err
    assert front_matter(out)["license"] == "apache-2.0"
    rows = loaded(out, tmp_path)["train"]
    assert rows[0]["messages"][0]["role"] == "user"
    back = tmp_path / "back.jsonl"
    assert cli("export", out / "data" / "train.parquet", "--to", "jsonl", "-o", back).code == 0
    assert list(read_jsonl(back)) == list(read_jsonl(source))
    moved = tmp_path / "elsewhere.trajectories.jsonl"
    source.rename(moved)  # its corpus is not known without the result beside it
    assert cli("export", moved, "--to", "hub", "-o", tmp_path / "unknown").code == 0
    assert front_matter(tmp_path / "unknown")["license"] == "unknown"


def test_a_model_is_loaded_by_transformers_and_plays(cli: Cli, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from searchgym.llms import small_model, train_tokenizer

    tokenizer = train_tokenizer(["a b c d e f"], 300)
    model = small_model(tokenizer, width=32, context=64)
    made, out = tmp_path / "model", tmp_path / "agent"
    model.save_pretrained(made)
    tokenizer.save_pretrained(made)
    (made / "optimizer.pt").write_bytes(b"of the run")
    done = cli("export", made, "--to", "hub", "-o", out, "--licence", "mit")
    assert done.code == 0, done.err
    head = front_matter(out)
    assert (head["license"], head["library_name"]) == ("mit", "transformers")
    assert not (out / "optimizer.pt").exists()
    again = AutoModelForCausalLM.from_pretrained(out)
    for ours, theirs in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert AutoTokenizer.from_pretrained(out).encode("a b") == tokenizer.encode("a b")


def test_what_is_no_agent_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "model.safetensors").write_bytes(b"")
    done = cli("export", tmp_path / "half", "--to", "hub", "-o", tmp_path / "out")
    assert done.code == 2
    assert "config.json" in done.err
    asked = ("--to", "hub", "-o", tmp_path / "out", "--licence", "mit")
    assert "trained agent's" in cli("export", "SearchQA-v0", *asked, *SMALL).err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("cut", b"\x20", "cannot be read as weights"),
        ("long", (1 << 60).to_bytes(8, "little") + b"{}", "cannot be read as weights"),
        ("deep", "[" * 9000, "nested too deeply"),
        ("list", "[1]", ""),
        ("nothing", '{"meta": null}', ""),
        ("markup", '{"meta": {"recipe": "x |\\n<script>"}}', ""),
    ],
)
def test_weights_of_others(
    cli: Cli, tmp_path: Path, name: str, content: bytes | str, says: str
) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    file, out = tmp_path / f"{name}.safetensors", tmp_path / "out"
    if isinstance(content, str):
        save_file({"a": np.zeros((2, 3), np.float32)}, file, metadata={"searchgym": content})
    else:
        file.write_bytes(content)
    done = cli("export", file, "--to", "hub", "-o", out)
    assert (done.code, out.exists()) == ((2, False) if says else (0, True)), done.err
    assert says in done.err
    if not says:
        front_matter(out)
        assert "<script>" not in (out / "README.md").read_text()


def test_only_the_folders_own_files_are_copied(cli: Cli, tmp_path: Path) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    model, out = tmp_path / "model", tmp_path / "out"
    (model / "sub.json").mkdir(parents=True)
    (model / "config.json").write_text("{}")
    save_file({"a": np.zeros(3, np.float32)}, model / "model.safetensors")
    (tmp_path / "key").write_text("private")
    (model / "notes.txt").symlink_to(tmp_path / "key")
    refused = cli("export", model, "--to", "hub", "-o", out)
    assert (refused.code, out.exists()) == (2, False)
    assert "notes.txt is a link" in refused.err
    (model / "notes.txt").unlink()
    assert cli("export", model, "--to", "hub", "-o", out).code == 0


def test_questions_over_ones_own_corpus(cli: Cli, tmp_path: Path) -> None:
    """Named on the command line, they need no trust; Parquet cannot keep half a pair."""
    task = {"id": "a", "question": "Who?", "answers": ["x"]}
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("It was x.")
    file = tmp_path / "tasks.jsonl"
    command = ("export", "SearchQA-v0", "--to", "hub", "-s", f"corpus={tmp_path / 'notes'}/", "-s",
               f"tasks={file}", "-o")  # fmt: skip
    file.write_text(json.dumps(task))
    assert cli(*command, tmp_path / "fine").code == 0
    file.write_text(json.dumps(task | {"question": "\ud800?"}))
    assert "can hold UTF-8 only" in cli(*command, tmp_path / "half").err
    with pytest.raises(DataError, match="a split is named by letters"):
        hub.write_tasks(tmp_path / "in" / "q", [Task("a", "q", ("x",), split="../../out")], "", "")
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
