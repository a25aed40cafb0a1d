from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from searchgym.corpora.documents import SkippedFiles, load_documents
from searchgym.corpora.load import load_corpus
from searchgym.engines import BM25Engine
from searchgym.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore::searchgym.corpora.documents.SkippedFiles")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    (tmp_path / "trips").mkdir()
    (tmp_path / "trips" / "oslo.md").write_text(
        "---\ntitle: Holidays\ntags: [sea]\n---\n# Oslo ##\nWe took the *night* ferry.\n\n"
        "It rained.\n\n```\n# not a heading\n```\n## Food\n- Brown cheese\n  - sliced\n\n"
        "| dish | price |\n|---|---|\n| soup | 90 |\n\n# Rome\nSun.\n",
        encoding="utf-8",
    )
    (tmp_path / "plain.txt").write_text("word " * 250, encoding="utf-8")
    (tmp_path / "manual.rst").write_text(
        "Install\n=======\nRun the wizard.\n\nUse\n---\nPress a key.\n", encoding="utf-8"
    )
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "secret.txt").write_text("password")
    (tmp_path / "link.txt").symlink_to(tmp_path / ".hidden" / "secret.txt")
    return tmp_path


def test_headings_become_titles_and_long_texts_are_cut(notes: Path) -> None:
    corpus = load_documents(notes)
    shown = {p.id: (p.title, p.text) for p in corpus}
    assert shown["trips/oslo.md#00000"] == (
        "Holidays › Oslo", "We took the night ferry.\nIt rained.\n# not a heading"
    )  # fmt: skip
    assert shown["trips/oslo.md#00001"] == (
        "Holidays › Oslo › Food", "- Brown cheese\n  - sliced\ndish | price\nsoup | 90"
    )  # fmt: skip
    assert shown["trips/oslo.md#00002"] == ("Holidays › Rome", "Sun.")
    assert shown["manual.rst#00000"] == ("Install", "Run the wizard.")
    assert shown["manual.rst#00001"] == ("Install › Use", "Press a key.")
    plain = [p for p in corpus if p.id.startswith("plain.txt")]
    assert [len(p.text.split()) for p in plain] == [120, 120, 10]
    assert {p.title for p in plain} == {"plain"}
    assert not any("password" in p.text or "sea" in p.text for p in corpus)


def test_what_is_left_out_is_told(notes: Path) -> None:
    with pytest.warns(SkippedFiles, match=r"3 of 6 files were not read:\n"):
        corpus = load_documents(notes)
    assert dict(corpus.skipped) == {
        ".hidden": "hidden (its name begins with a dot)",
        "link.txt": "a link",
        "photo.jpg": "no reader for .jpg",
    }
    assert [(f.path, f.format, f.encoding, f.passages) for f in corpus.files] == [
        ("manual.rst", "text", "utf-8", 2), ("plain.txt", "text", "utf-8", 3),
        ("trips/oslo.md", "Markdown", "utf-8", 3),
    ]  # fmt: skip


def test_opening_a_url_shows_the_whole_file_and_searching_finds_it(notes: Path) -> None:
    corpus = load_corpus(notes, name="notes")
    url = "corpus://notes/trips/oslo.md"  # nothing tells where the folder lies
    page = corpus.page(url)
    assert page is not None
    assert page.passage_ids == tuple(f"trips/oslo.md#0000{i}" for i in range(3))
    assert page.text.endswith("Sun.")
    assert BM25Engine(corpus).search(["cheese"], 3)[0][0].passage.url == url


def test_limits_and_faults(notes: Path, tmp_path: Path) -> None:
    reasons = dict(load_documents(notes, max_file_bytes=500).skipped)
    assert reasons["plain.txt"] == "too large (1,250 bytes, limit 500)"
    with pytest.raises(DataError, match="more than 2 documents"):
        load_documents(notes, max_files=2)
    with pytest.raises(DataError, match="words must be at least 1"):
        load_documents(notes, words=0)
    (notes / "bad.md").write_bytes(b"\0\1\2\3")
    (notes / "bad.json").write_text("{")
    with pytest.raises(DataError, match=r"not every file can be read: .*bad.json.*bad.md"):
        load_documents(notes, strict=True)
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="no file can be read: it is empty"):
        load_documents(tmp_path / "none")
    with pytest.raises(DataError, match="does not exist"):
        load_documents(tmp_path / "absent")


@pytest.mark.parametrize("name", ["trips/oslo.md", "plain.txt", "manual.rst"])
def test_a_single_file_is_a_corpus(notes: Path, name: str) -> None:
    whole = [p for p in load_documents(notes) if p.id.startswith(name)]
    alone = load_corpus(notes / name)
    assert [(p.title, p.text) for p in alone] == [(p.title, p.text) for p in whole]


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [
        ("brücke.txt", "Die Brücke ist 120 Meter lang, größer als die alte.\n", "cp1252"),
        ("brücke.txt", "Die Brücke ist 120 Meter lang.\n", "utf-16"),
        ("leute.csv", "name;town\nAnna Müller;Köln\nJon Berg;Oslo\n", "cp1252"),
    ],
)
def test_a_single_document_may_be_in_another_encoding(
    name: str, text: str, encoding: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(text.encode(encoding))
    whole, alone = load_documents(tmp_path), load_corpus(tmp_path / name)
    assert [(p.id, p.text) for p in alone] == [(p.id, p.text) for p in whole]


@pytest.mark.parametrize(
    ("name", "text"), [("p.csv", "id;text\n1;Köln\n"), ("p.txt", "1\tKöln liegt am Rhein\n")]
)
def test_records_in_another_encoding_are_told_to_be_saved(
    name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(text.encode("cp1252"))
    with pytest.raises(DataError, match=rf"{name}, line \d: not UTF-8 .*; save the file as UTF-8"):
        load_corpus(tmp_path / name)


def test_no_text_is_taken_for_a_heading(tmp_path: Path) -> None:
    """A line above a code fence or a rule is text; headings of one name are two."""
    (tmp_path / "a.md").write_text(
        "# C#\nSharp.\n\n## Notes ##\nOne.\n\n## Notes\nTwo.\n~~~\n# not a heading\n```\n~~~\n"
        "Title\n=====\nRun:\n```\nls\n```\nLast.\n\n***\n",
        encoding="utf-8",
    )
    (tmp_path / "b.rst").write_text("Use\n~~~\nPress a key.\n", encoding="utf-8")
    shown = [(p.title, " ".join(p.text.split())) for p in load_documents(tmp_path)]
    assert shown == [
        ("C#", "Sharp."),
        ("C# › Notes", "One."),
        ("C# › Notes", "Two. # not a heading ```"),
        ("Title", "Run: ls Last."),
        ("Use", "Press a key."),
    ]


def test_text_without_blanks_is_cut_by_characters(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("春" * 500, encoding="utf-8")
    (tmp_path / "t.md").write_text(
        "| a | b |\n|---|---|\n" + "| one two | three |\n" * 60, encoding="utf-8"
    )
    corpus = load_documents(tmp_path)
    assert [len(p.text) for p in corpus if p.id.startswith("a")] == [240, 240, 20]
    rows = [line for p in corpus if p.id.startswith("t") for line in p.text.splitlines()]
    assert rows == ["a | b", *["one two | three"] * 60], "a table is cut between rows"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems know no such names")
def test_names_that_are_no_utf8_stay_apart(tmp_path: Path) -> None:
    for name in (b"\xfe.md", b"\xff.md"):
        (tmp_path / os.fsdecode(name)).write_text("One.", encoding="utf-8")
    assert [p.id for p in load_documents(tmp_path)] == ["\\xfe.md#00000", "\\xff.md#00000"]
