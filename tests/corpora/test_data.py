from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from searchgym.corpora import data
from searchgym.corpora.data import (
    download,
    install,
    load_set,
    real_card,
    real_sets,
    status,
    stream_set,
    union_corpus,
)
from searchgym.errors import DataError
from searchgym.types import ABSTAIN

SETS = ("hotpotqa", "2wikimultihopqa", "musique", "nq", "triviaqa", "popqa", "bamboogle")


def test_the_seven_sets_have_cards_with_licence_source_and_a_way_to_get_them() -> None:
    assert set(SETS) <= set(real_sets())
    for name in real_sets():
        found = real_card(name)
        assert found.body["licence"], name
        assert found.body["citation"], name
        assert set(found.body["get"]) in ({"repository", "files"}, {"manual"}, {"wheel"}), name
        assert (found.folder / "README.md").is_file(), name
    for name in SETS:
        assert real_card(name).body["get"]["repository"] == "RUC-NLPIR/FlashRAG_datasets"


def test_data_directory_is_argument_then_variable_then_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SEARCHGYM_DATA", str(tmp_path / "env"))
    assert data.data_directory(tmp_path / "arg") == tmp_path / "arg"
    assert data.data_directory() == tmp_path / "env"
    monkeypatch.delenv("SEARCHGYM_DATA")
    monkeypatch.delenv("SEARCHGYM_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data.data_directory() == tmp_path / "cache" / "searchgym" / "data"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data.data_directory().parts[-4:] == ("Library", "Caches", "searchgym", "data")


def test_absent_sets_say_how_to_get_them(tmp_path: Path) -> None:
    for row in status(tmp_path):
        assert not row.present
        assert row.digest_ok is None
        assert row.get
    with pytest.raises(DataError, match=r"hotpotqa is not on this machine: .*searchgym data get"):
        load_set("hotpotqa", data_dir=tmp_path)
    with pytest.raises(DataError, match="no passages of any real set"):
        union_corpus(tmp_path)
    with pytest.raises(DataError, match="Did you mean 'hotpotqa'"):
        load_set("hotpot", data_dir=tmp_path)
    with pytest.raises(DataError, match=r"unknown split of hotpotqa 'publik'. Did you mean"):
        load_set("hotpotqa", "publik", data_dir=tmp_path)
    (tmp_path / "hotpotqa").mkdir()
    (tmp_path / "hotpotqa" / "SOURCE.md").touch()
    with pytest.raises(DataError, match=r"hotpotqa lacks \S+ here: "):
        load_set("hotpotqa", data_dir=tmp_path)


@pytest.mark.data
def test_status_checks_digests(data_dir: Path, tmp_path: Path) -> None:
    rows = {row.id: row for row in status(data_dir)}
    assert all(rows[name].present and rows[name].digest_ok for name in SETS)
    assert rows["hotpotqa"].bytes > 5_000_000
    copy = tmp_path / "bamboogle"
    copy.mkdir()
    file = "questions.public.jsonl.gz"
    (copy / file).write_bytes((data_dir / "bamboogle" / file).read_bytes() + b" ")
    (changed,) = (row for row in status(tmp_path) if row.id == "bamboogle")
    assert (changed.present, changed.digest_ok) == (True, False)
    (unread,) = (row for row in status(tmp_path, verify=False) if row.id == "bamboogle")
    assert unread.digest_ok is None


@pytest.mark.data
def test_every_split_has_the_size_its_card_says_and_its_gold_in_the_corpus(data_dir: Path) -> None:
    for name in SETS:
        sizes = real_card(name).body["size"]
        for split in real_card(name).body["splits"]:
            if split not in sizes:
                continue  # only where it was downloaded
            corpus, tasks = load_set(name, split, data_dir)
            assert len(tasks) == sizes[split], (name, split)
            assert all(key in corpus for task in tasks for key in task.evidence), (name, split)
            wanted = sizes.get("passages", len(corpus))
            distractors = sizes.get("distractors", 0) if split != "public" else 0
            assert len(corpus) == wanted + distractors, (name, split)
    assert {t.split for t in load_set("hotpotqa", "test", data_dir)[1]} == {"test"}
    assert {t.split for t in load_set("hotpotqa", "dev", data_dir)[1]} == {"dev"}


@pytest.mark.data
def test_sets_without_passages_search_the_union(data_dir: Path) -> None:
    corpus, tasks = load_set("bamboogle", data_dir=data_dir)
    assert len(tasks) == 58
    assert len(corpus) > 60_000
    keys = [(p.title, p.text) for p in corpus]
    assert len(set(keys)) == len(keys)
    refused = load_set("popqa", "unsupported", data_dir)[1]
    assert all(t.should_abstain and t.answers == (ABSTAIN,) for t in refused)
    assert all(t.meta["withheld_answers"] for t in refused)
    with pytest.raises(DataError, match="load_beir"):
        load_set("ir_scifact", data_dir=data_dir)


def flashrag(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


CONTEXT = {"title": ["Aldor", "Quell"], "sentences": [["Aldor is ", " a city."], ["Quell flows."]]}
FACTS = {"title": ["Quell", "Aldor", "Quell"], "sent_id": [0, 0, 1]}


def test_downloaded_files_become_a_set_that_loads(tmp_path: Path) -> None:
    questions = flashrag(
        tmp_path / "dev.jsonl",
        {
            "id": "dev_0",
            "question": "Which city?",
            "golden_answers": ["Aldor"],
            "metadata": {"type": "bridge", "supporting_facts": FACTS, "context": CONTEXT},
        },
        {"id": "dev_1", "question": "Which river?", "golden_answers": ["Quell"], "metadata": {}},
    )
    folder = install(
        "hotpotqa", tmp_path / "data" / "hotpotqa", {"public": questions}, {"repository": "r"}
    )
    corpus, (first, second) = load_set("hotpotqa", data_dir=tmp_path / "data")
    assert sorted(p.text for p in corpus) == ["Aldor is a city.", "Quell flows."]
    assert [corpus.passage(key).title for key in first.evidence] == ["Quell", "Aldor"]
    assert (first.hops, second.evidence, second.answers) == (2, (), ("Quell",))
    (row,) = (row for row in status(tmp_path / "data") if row.id == "hotpotqa")
    assert (row.present, row.digest_ok) == (True, True)
    with gzip.open(folder / "corpus.jsonl.gz", "ab") as stream:
        stream.write(b"\n")
    (row,) = (row for row in status(tmp_path / "data") if row.id == "hotpotqa")
    assert row.digest_ok is False


def test_questions_without_passages_search_a_downloaded_wikipedia(tmp_path: Path) -> None:
    wiki = tmp_path / "wiki-18.jsonl.gz"
    with gzip.open(wiki, "wt") as stream:
        stream.write(json.dumps({"id": "0", "contents": '"Aldor"\nAldor is a city.'}) + "\n")
    install("wiki18", tmp_path / "wiki18", {"corpus": wiki}, {})
    questions = flashrag(
        tmp_path / "test.jsonl", {"id": "t", "question": "q?", "golden_answers": ["a"]}
    )
    install("nq", tmp_path / "nq", {"public": questions}, {})
    corpus, tasks = load_set("nq", data_dir=tmp_path)
    assert [(p.title, p.url) for p in corpus] == [("Aldor", "https://en.wikipedia.org/wiki/Aldor")]
    assert len(tasks) == 1
    assert load_set("wiki18", data_dir=tmp_path)[1] == []
    for name in ("nq", "wiki18"):
        assert list(stream_set(name, data_dir=tmp_path)) == list(corpus)
    with pytest.raises(DataError, match="unknown split of nq 'pubic'"):
        stream_set("nq", "pubic", tmp_path)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": "1", "question": "q", "golden_answers": "a"}, "'golden_answers' must be a list"),
        ({"id": "1", "golden_answers": ["a"]}, "no 'question'"),
        (
            {
                "id": "1",
                "question": "q",
                "golden_answers": ["a"],
                "metadata": {"context": {"title": ["a"]}},
            },
            "needs titles",
        ),
        ({"id": "0", "question": "q", "golden_answers": ["a"]}, "already used"),
    ],
)
def test_a_broken_download_leaves_no_set(record: object, message: str, tmp_path: Path) -> None:
    good = {"id": "0", "question": "q", "golden_answers": ["a"]}
    path = flashrag(tmp_path / "dev.jsonl", good, record)
    with pytest.raises(DataError, match=f"dev.jsonl, line 2: .*{message}"):
        install("hotpotqa", tmp_path / "hotpotqa", {"public": path}, {})
    assert list((tmp_path / "hotpotqa").iterdir()) == []


def test_download_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="frames has no dataset repository"):
        download("frames", tmp_path)
    (tmp_path / "nq").mkdir()
    (tmp_path / "nq" / "mine.txt").write_text("x")
    with pytest.raises(DataError, match="files from elsewhere"):
        download("nq", tmp_path)
