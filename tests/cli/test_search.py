"""``search`` and ``play`` on documents without questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from searchgym.cli.search import snippet
from tests.cli.conftest import Cli


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEARCHGYM_CACHE", str(tmp_path / "cache"))
    made = tmp_path / "notes"
    made.mkdir()
    (made / "oslo.md").write_text("# Oslo\n\nThe night ferry.\n\n## Food\n\nBrown cheese.\n")
    (made / "市花.txt").write_text("北京的市花是月季和菊花。", "utf-8")
    (made / "photo.jpg").write_bytes(b"\xff")
    return made


def test_a_folder_is_searched_by_one_command(cli: Cli, notes: Path, tmp_path: Path) -> None:
    done = cli("search", notes, "brown", "cheese")
    assert done.code == 0
    assert done.out.splitlines()[0].startswith("1. Oslo › Food  (oslo.md#00001, ")
    assert "1 × no reader for .jpg: photo.jpg" in done.err
    assert max(map(len, done.out.splitlines())) <= 80
    assert cli("search", notes, "北京的市花是什么？", "--json").json[0]["id"] == "市花.txt#00000"
    assert cli("search", notes, "zebra").code == 1
    assert list((tmp_path / "cache" / "folders").iterdir()), "the index is kept"
    assert sorted(p.name for p in notes.iterdir()) == ["oslo.md", "photo.jpg", "市花.txt"]


def test_a_passage_with_an_address_shows_it(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "pages.jsonl"
    page = {"id": "1", "title": "Oslo", "text": "The night ferry.", "url": "https://example.org/o"}
    file.write_text(json.dumps(page) + "\n")
    assert cli("search", file, "ferry").out.splitlines()[-1] == "   https://example.org/o"


def test_what_changed_is_found(cli: Cli, notes: Path) -> None:
    cli("search", notes, "ferry")
    (notes / "new.md").write_text("A zebra.")
    (notes / "oslo.md").unlink()
    assert cli("search", notes, "zebra", "--json").json[0]["id"] == "new.md#00000"
    assert cli("search", notes, "ferry").code == 1


@pytest.mark.parametrize("command", ["search", "play"])
def test_a_person_looks_around_without_questions(cli: Cli, notes: Path, command: str) -> None:
    done = cli(command, notes, stdin="cheese\nopen 1\nopen 9\nquit\nnever asked\n")
    assert done.code == 0
    assert "Brown cheese." in done.out
    assert "The night ferry.\n\nBrown cheese." in done.out, "the whole document is opened"
    assert "there are 1 hits" in done.out
    assert "never asked" not in done.out


def test_files_and_sets_are_searched_too(cli: Cli, notes: Path, tmp_path: Path) -> None:
    assert cli("search", notes / "oslo.md", "ferry", "--json").json[0]["title"] == "Oslo"
    records = tmp_path / "p.jsonl"
    records.write_text(json.dumps({"id": "x", "text": "A zebra."}) + "\n")
    assert cli("search", records, "zebra", "--json").json[0]["id"] == "x"
    done = cli("search", tmp_path / "absent", "zebra")
    assert done.code == 2


def test_options_are_those_of_the_engine(cli: Cli, notes: Path) -> None:
    assert cli("search", notes, "ferries", "-s", "stemmer=english").code in (0, 1)
    wrong = cli("search", notes, "ferry", "-s", "world.entities=1")
    assert (wrong.code, "engine 'bm25': unknown option 'world'. Known: b, fields" in wrong.err) == (
        2,
        True,
    )
    bare = cli("search", notes, "ferry", "-s", "stemmer")
    assert (bare.code, "for example --set stemmer=german" in bare.err) == (2, True)
    told = cli("search", "--help").out
    assert "An option of the engine" in told
    assert "environment" not in told


def test_a_snippet_shows_where_the_words_are() -> None:
    text = "word " * 100 + "the brown cheese of Oslo " + "tail " * 100
    assert "brown cheese" in snippet(text, "Brown cheeses?  cheese")
    assert snippet(text, "cheese").startswith("… ")
    assert snippet("short", "nothing") == "short"


@pytest.mark.parametrize("more", [(), ("--full",), ("--json",)])
def test_half_a_pair_of_surrogates_is_printed(cli: Cli, tmp_path: Path, more: list[str]) -> None:
    passages = tmp_path / "p.jsonl"
    passages.write_text('{"id": "1", "title": "x", "text": "\\ud800 apple é"}\n')
    done = cli("search", passages, "apple", *more)
    assert done.code == 0, done.err
    assert "\\ud800 apple é" in done.out
    if more == ("--json",):
        assert done.json[0]["text"] == "\ud800 apple é"
