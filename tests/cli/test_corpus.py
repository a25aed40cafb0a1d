"""``corpus``: indexing and searching one's own files, audits, and ``data``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from searchgym.tasks import FAMILIES
from tests.cli.conftest import SMALL, Cli

PASSAGES = {
    "a": ("Ada Lovelace", "Ada Lovelace wrote the first program."),
    "b": ("Charles Babbage", "Charles Babbage designed the analytical engine."),
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    with (tmp_path / "passages.jsonl").open("w", encoding="utf-8") as file:
        for key, (title, text) in PASSAGES.items():
            file.write(json.dumps({"id": key, "title": title, "text": text}) + "\n")
    record = {"id": "q", "question": "Who wrote the first program?", "answers": ["Ada Lovelace"],
              "supporting_ids": ["a"]}  # fmt: skip
    (tmp_path / "questions.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    return tmp_path


def test_index_then_search_through_the_index(cli: Cli, files: Path) -> None:
    out = files / "index"
    made = cli("corpus", "index", files / "passages.jsonl", "--out", out, "-s", "k1=1.2", "--json")
    assert made.json["passages"] == 2
    assert made.json["bytes"] > 0
    found = cli(
        "corpus", "inspect", files / "passages.jsonl", "--index", out, "-q", "engine", "--json"
    ).json
    assert [hit["id"] for hit in found["found"]["engine"]] == ["b"]
    assert found["digest"] == made.json["digest"]


def test_an_index_on_disk_holds_its_passages(cli: Cli, files: Path) -> None:
    from searchgym.engines import DiskBM25Engine

    named = files / "passages.jsonl", "--out", files / "index"
    made = cli("corpus", "index", *named, "--engine", "bm25_disk", "-s", "stemmer=null", "--json")
    engine = DiskBM25Engine(files / "index")
    assert made.json["digest"] == engine.passages.digest
    assert [passage.id for passage in engine.passages] == ["a", "b"]
    again = cli("corpus", "index", *named, "--engine", "bm25_disk")
    assert again.code == 2
    assert "holds files already" in again.err
    wrong = cli("corpus", "index", *named, "--engine", "bm25_disk", "-s", "links=4")
    assert wrong.code == 2
    assert "links" in wrong.err


def test_an_environment_uses_the_index(cli: Cli, files: Path) -> None:
    from searchgym.envs import SearchEnv

    out = files / "index"
    cli("corpus", "index", files / "passages.jsonl", "--out", out, "-s", "k1=1.7")
    keywords = {"corpus": str(files / "passages.jsonl"), "tasks": str(files / "questions.jsonl")}
    saved = SearchEnv(**{**keywords, "engine": {"name": "bm25", "index": str(out)}})
    built = SearchEnv(**{**keywords, "engine": {"name": "bm25", "k1": 1.7}})
    assert saved.engine.fingerprint == built.engine.fingerprint
    assert saved.engine.fingerprint != SearchEnv(**keywords).engine.fingerprint


def test_an_index_of_other_passages_is_refused(cli: Cli, files: Path) -> None:
    out = files / "index"
    cli("corpus", "index", files / "passages.jsonl", "--out", out)
    with (files / "passages.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "c", "text": "new"}) + "\n")
    done = cli("corpus", "inspect", files / "passages.jsonl", "--index", out, "-q", "engine")
    assert done.code == 2
    assert "not built from corpus" in done.err


def test_a_folder_of_notes_is_searched(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "todo.md").write_text("# Garden\n\nWater the tomatoes.\n", "utf-8")
    done = cli("corpus", "inspect", tmp_path / "notes", "-q", "tomatoes")
    assert done.code == 0
    assert "Garden" in done.out


def test_inspect_shows_samples(cli: Cli, files: Path) -> None:
    found = cli("corpus", "inspect", files / "passages.jsonl", "--json").json
    assert [row["id"] for row in found["samples"]] == ["a", "b"]
    assert found["characters, longest"] == max(len(t) for _, t in PASSAGES.values())


def test_audit_of_ones_own_questions(cli: Cli, files: Path, tmp_path: Path) -> None:
    passages, questions = files / "passages.jsonl", files / "questions.jsonl"
    out = tmp_path / "audit.csv"
    found = cli("audit", questions, "--corpus", passages, "--json", "--out", out).json
    (line,) = found["shares"]
    assert (line["questions"], line["in_corpus"]["share"], line["within"]["share"]) == (1, 1.0, 1.0)
    assert out.read_text("utf-8").startswith("task_id,question")
    missing = cli("audit", questions)
    assert (missing.code, "--corpus" in missing.err) == (2, True)
    wrong = cli("audit", questions, "--corpus", passages, "--out", tmp_path / "audit.txt")
    assert (wrong.code, ".json or .csv" in wrong.err) == (2, True)
    told = cli("audit", questions, "--corpus", passages, "--engine", "simulated_rules")
    assert (told.code, "says nothing of a corpus" in told.err) == (2, True)
    typo = cli("audit", "hotpotq")
    assert (typo.code, "hotpotqa" in typo.err) == (2, True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-s", "max_tasks=1"], "--set max_tasks=1 is for an environment's questions"),
        (["--split", "dev"], "--split dev chooses among a card's"),
        (["--count", 5], "--count is for --prove"),
        (["--prove", "--out", "x.csv"], "--corpus cannot stand with --prove"),
    ],
)
def test_audit_names_options_it_has_no_use_for(
    cli: Cli, files: Path, more: list[object], said: str
) -> None:
    questions, passages = files / "questions.jsonl", files / "passages.jsonl"
    done = cli("audit", questions, "--corpus", passages, *more)
    assert (done.code, said in done.err) == (2, True), done.err


def test_audit_of_an_environment(cli: Cli) -> None:
    done = cli("audit", "MultiHopQA-v0", *SMALL, "--turns", 4)
    assert done.code == 0, done.err
    assert "within 4 turns" in done.out
    found = cli("audit", "MultiHopQA-v0", *SMALL, "-n", 10, "--json").json
    assert found["shares"][0]["within"]["share"] == 1.0, "gold queries find every page"


def test_audit_of_a_world(cli: Cli) -> None:
    found = cli(
        "audit", "encyclopedia", "--prove", "--count", 6, "-s", "entities=400", "--json"
    ).json
    assert set(found["families"]) == set(FAMILIES.shipped)
    assert all(row["built"] == 6 for row in found["families"].values())
    assert found["kept"] > 0.5


def test_a_broken_line_is_named(cli: Cli, files: Path) -> None:
    with (files / "passages.jsonl").open("a", encoding="utf-8") as file:
        file.write("{broken\n")
    done = cli("corpus", "inspect", files / "passages.jsonl")
    assert done.code == 2
    assert "passages.jsonl, line 3" in done.err


def test_data_says_what_is_missing_and_how_to_get_it(cli: Cli, tmp_path: Path) -> None:
    found = cli("data", "--data-dir", tmp_path, "--json").json
    assert found["data_dir"] == str(tmp_path)
    hotpot = next(row for row in found["sets"] if row["id"] == "hotpotqa")
    assert not hotpot["present"]
    assert "searchgym data get hotpotqa" in hotpot["get"]
    told = cli("data", "--data-dir", tmp_path).out
    assert re.search(r"searchgym data get SET fetches [^:]*\bhotpotqa\b", told)


def test_data_notices_a_changed_file(cli: Cli, data_dir: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(data_dir / "bamboogle", tmp_path / "bamboogle")

    def state() -> object:
        rows = cli("data", "--data-dir", tmp_path, "--json").json["sets"]
        return next(row["digest_ok"] for row in rows if row["id"] == "bamboogle")

    assert state() is True
    (path,) = (tmp_path / "bamboogle").glob("questions.*")
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b"\n")
    assert state() is False
    assert "BROKEN" in cli("data", "--data-dir", tmp_path).out


def test_a_real_set_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    done = cli("eval", "HotpotQA", "-s", f"data_dir={tmp_path}")
    assert done.code == 2
    assert "hotpotqa is not on this machine" in done.err
