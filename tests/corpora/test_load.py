from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from searchgym.corpora.beir import load_beir
from searchgym.corpora.load import load_corpus, load_questions
from searchgym.corpora.parquet import write_parquet
from searchgym.engines import passage_of as served
from searchgym.envs import SearchEnv
from searchgym.errors import DataError
from searchgym.types import ABSTAIN, Passage, Task

Load = Callable[[Path], object]


def write(path: Path, *records: object) -> Path:
    text = "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as stream:
        stream.write(text)
    return path


def test_passages_from_json_lines_plain_and_gzipped(tmp_path: Path) -> None:
    rows = [{"id": "b", "title": "T t", "text": "x"}, {"_id": 7, "text": "y", "url": "https://u"}]
    plain, packed = write(tmp_path / "c.jsonl", *rows), write(tmp_path / "c.jsonl.gz", *rows)
    corpus = load_corpus(plain)
    assert list(corpus) == [
        Passage("7", "", "y", "https://u"),
        Passage("b", "T t", "x", "corpus://c/b"),
    ]
    assert load_corpus(packed).digest == corpus.digest
    wiki = load_corpus([plain], name="wiki", url="https://en.wikipedia.org/wiki/{title}")
    assert wiki.passage("b").url == "https://en.wikipedia.org/wiki/T_t"


def test_search_r1_contents(tmp_path: Path) -> None:
    path = write(
        tmp_path / "wiki.jsonl",
        {"id": "0", "contents": '"Aldor "the" city"\nFirst.\nSecond.'},
        {"id": "1", "contents": "Unquoted\n"},
    )
    first, second = load_corpus(path)
    assert (first.title, first.text) == ('Aldor "the" city', "First.\nSecond.")
    assert (second.title, second.text) == ("Unquoted", "")


@pytest.mark.parametrize(
    ("record", "title", "text"),
    [
        ({"contents": "滑铁卢大学是加拿大的大学。"}, "", "滑铁卢大学是加拿大的大学。"),
        ({"contents": "Oslo\nA city."}, "Oslo", "A city."),
        ({"title": "Oslo", "contents": "A city."}, "Oslo", "A city."),
        ({"title": "Oslo", "contents": "A city.\nOn a fjord."}, "Oslo", "A city.\nOn a fjord."),
        ({"title": "Oslo", "contents": '"Oslo"\nA city.'}, "Oslo", "A city."),
        ({"title": "Oslo", "contents": "Oslo\nA city."}, "Oslo", "A city."),
        ({"title": "", "contents": '"Oslo"\nA city.'}, "Oslo", "A city."),
        ({"title": "Oslo", "text": "A city.", "contents": "x\ny"}, "Oslo", "A city."),
    ],
)
def test_contents_lose_nothing_and_are_read_alike_from_files_and_servers(
    tmp_path: Path, record: dict[str, str], title: str, text: str
) -> None:
    (found,) = load_corpus(write(tmp_path / "c.jsonl", {"id": "1", **record}))
    assert (found.title, found.text) == (title, text)
    assert served({"id": "1", **record})[:3] == ("1", title, text)


def test_tab_separated_passages_and_questions(tmp_path: Path) -> None:
    dpr = write(tmp_path / "psgs.tsv", "id\ttext\ttitle", '1\t"a ""quoted"" text"\tT')
    assert load_corpus(dpr)[0][:3] == ("1", "T", 'a "quoted" text')
    marco = write(tmp_path / "collection.tsv", "0\tonly text", "1\tmore")
    assert [p.text for p in load_corpus(marco)] == ["only text", "more"]
    questions = write(tmp_path / "q.tsv", 'who?\t[\'a "b"\', "c"]', 'what?\t["d"]', "when?\t1999")
    tasks = load_questions(questions)
    assert [t.answers for t in tasks] == [('a "b"', "c"), ("d",), ("1999",)]
    assert len({t.id for t in tasks}) == 3


def test_questions_of_both_formats(tmp_path: Path) -> None:
    path = write(
        tmp_path / "q.jsonl",
        {
            "id": "1",
            "question": "a?",
            "answers": ["x", "x", "y"],
            "supporting_ids": ["p", "q"],
            "hops": 2,
            "type": "bridge",
            "split": "train",
        },
        {"id": "test_0", "question": "b?", "golden_answers": ["z"], "metadata": {"k": 1}},
        {"id": "3", "question": "c?", "answers": [ABSTAIN]},
        {"id": "4", "question": "d?", "answers": [], "answer_items": ["A: 1", "B: 2"]},
    )
    one, two, three, four = load_questions(path)
    assert (one.answers, one.evidence, one.hops, one.split) == (("x", "y"), ("p", "q"), 2, "train")
    assert one.meta["type"] == "bridge"
    assert (two.answers, two.family, two.split, two.meta["metadata"]) == (
        ("z",),
        "real",
        "test",
        {"k": 1},
    )
    assert three.should_abstain
    assert not two.should_abstain
    assert four.answers == ("A: 1; B: 2",)
    assert {t.split for t in load_questions(path, split="dev")} == {"dev"}


GOOD = {"id": "ok", "text": "t", "question": "q?", "answers": ["a"]}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{not json", "not valid JSON"),
        ("[1, 2]", r"expected a JSON object, got \[1, 2\]"),
        ({**GOOD, "id": ""}, "'id' is empty"),
        ({**GOOD, "id": True}, "'id' must be text, got bool"),
        (GOOD, "id 'ok' was already used in .*line 1"),
    ],
)
@pytest.mark.parametrize("load", [load_corpus, load_questions])
def test_a_broken_line_is_named(load: Load, bad: object, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "f.jsonl", GOOD, "", bad)
    with pytest.raises(DataError, match=f"f.jsonl, line 3: {message}"):
        load(path)


@pytest.mark.parametrize(
    ("load", "bad", "message"),
    [
        (load_corpus, {"text": "t"}, "no 'id'"),
        (load_corpus, {"id": "1"}, "no 'text'"),
        (load_corpus, {"id": "1", "text": 5}, "'text' must be text, got int"),
        (load_corpus, {"id": "1", "text": "", "title": []}, "'title' must be text, got list"),
        (load_corpus, {"id": "1", "contents": None}, "'contents' must be text, got NoneType"),
        (load_questions, {"id": "1", "question": " ", "answers": ["a"]}, "'question' is empty"),
        (load_questions, {"id": "1", "question": "q"}, "no 'answers'"),
        (load_questions, {"id": "1", "question": "q", "answers": []}, "no answer"),
        (load_questions, {"id": "1", "question": "q", "answers": [1]}, "must be a list of texts"),
        (load_questions, {**GOOD, "id": "1", "hops": 0}, "'hops' must be a whole number"),
        (load_questions, {**GOOD, "id": "1", "hops": "²"}, "'hops' must be a whole number"),
        (load_questions, {**GOOD, "id": "1", "hops": "9" * 5000}, "'hops' must be a whole number"),
        (load_questions, {**GOOD, "id": "1", "supporting_ids": [3]}, "'supporting_ids' must be"),
        (load_questions, {**GOOD, "id": "1", "answers": list("['ab']")}, "torn"),
    ],
)
def test_a_wrong_value_is_named(load: Load, bad: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"line 2: .*({message})"):
        load(write(tmp_path / "f.jsonl", GOOD, bad))


def test_questions_as_people_keep_them(tmp_path: Path) -> None:
    """CSV, a JSON array and JSON lines; with and without ids; ``answer`` or ``answers``."""
    wanted = [("Who?", ("Ada", "A. L.")), ("When?, exactly", ("1998",))]
    table = tmp_path / "q.csv"
    table.write_text(
        'Question;Answers\nWho?;"[""Ada"", ""A. L.""]"\n"When?, exactly";1998\n', "utf-8-sig"
    )
    rows = [{"question": "Who?", "answers": ["Ada", "A. L."]},
            {"question": "When?, exactly", "answer": 1998}]  # fmt: skip
    array = tmp_path / "q.json"
    array.write_text(json.dumps(rows, indent=1), "utf-8")
    nested = tmp_path / "n.json"
    nested.write_text(json.dumps({"version": 1, "data": rows}, indent=1), "utf-8")
    for path in (table, array, nested, write(tmp_path / "q.jsonl", *rows)):
        tasks = load_questions(path)
        assert [(t.question, t.answers) for t in tasks] == wanted, path
        assert len({t.id for t in tasks}) == 2
    table.write_text("id,question,answer\nx,Who?,Ada\n", "utf-8")
    assert load_questions(table)[0].id == "x"
    table.write_text("question,answer\nWho, me?,Ada\n", "utf-8")
    with pytest.raises(DataError, match="line 2: 3 columns, expected 2"):
        load_questions(table)
    table.write_text("frage,antwort\nWho?,Ada\n", "utf-8")
    with pytest.raises(DataError, match=r"no 'question'; it has 'frage', 'antwort' \(empty"):
        load_questions(table)


@pytest.mark.parametrize(
    ("answers", "said"),
    [(3776, 'got 3776; in quotes they are texts: \\["3776"\\]'),
     ([1, "b"], 'texts: \\["1", "b"\\]'),
     ({"a": 1}, "got {'a': 1}$"), ([None], r"got \[None\]$")],
)  # fmt: skip
def test_answers_that_are_numbers_are_told_how_to_be_written(
    answers: object, said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=said):
        load_questions(write(tmp_path / "q.jsonl", {"question": "?", "answers": answers}))


def test_a_file_of_an_unknown_kind_is_told_to_be_read_as_json(tmp_path: Path) -> None:
    (tmp_path / "q.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match=r"there is no reader for .xlsx"):
        load_questions(tmp_path / "q.xlsx")


def test_broken_questions_are_named_together(tmp_path: Path) -> None:
    path = write(tmp_path / "q.jsonl", {"question": "a"}, GOOD, {"answer": "b"}, GOOD)
    with pytest.raises(DataError) as raised:
        load_questions(path)
    told = str(raised.value)
    assert "line 1: no 'answers'" in told
    assert "line 3: no 'question'" in told
    assert "line 4: id 'ok' was already used" in told


def test_tables_with_ids_and_texts_are_passages(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id,title,text\nb,B,two\na,A,one\n", "utf-8")
    (tmp_path / "p.json").write_text('[{"id": "a", "text": "one"}]', "utf-8")
    assert [p[:3] for p in load_corpus(tmp_path / "p.csv")] == [
        ("a", "A", "one"),
        ("b", "B", "two"),
    ]
    assert [p.id for p in load_corpus(tmp_path / "p.json")] == ["a"]
    (tmp_path / "rows.csv").write_text("city,people\nOslo,700000\n", "utf-8")
    assert [p[1:3] for p in load_corpus(tmp_path / "rows.csv")] == [
        ("Oslo", "city: Oslo\npeople: 700000")
    ]


def test_bombs_and_special_files_are_refused_at_once(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.jsonl.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as stream:
        for _ in range(40):
            stream.write(b"x" * (1 << 20))
    many = tmp_path / "many.jsonl.gz"
    with gzip.open(many, "wb", compresslevel=9) as stream:
        for _ in range(260):
            stream.write((b" " * 1023 + b"\n") * 1024)
    os.mkfifo(tmp_path / "p.jsonl")
    start = time.process_time()
    for path, message in [
        (bomb, "bomb.jsonl.gz, line 1: longer than 16,777,216 bytes"),
        (many, "many.jsonl.gz unpacks to more than 100 times its size"),
        (tmp_path / "p.jsonl", "p.jsonl is a FIFO"),
        (Path("/dev/zero"), "/dev/zero is a device"),
    ]:
        for load in (load_corpus, load_questions):
            with pytest.raises(DataError, match=message):
                load(path)
    assert time.process_time() - start < 10


@pytest.mark.parametrize("load", [load_corpus, load_questions])
def test_unreadable_files(load: Load, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        load(tmp_path / "absent.jsonl")
    with pytest.raises(DataError, match=r"no (passages|questions)"):
        load(write(tmp_path / "empty.jsonl"))
    (tmp_path / "latin.jsonl").write_bytes(json.dumps(GOOD).encode() + b'\n{"id": "\xe9"}\n')
    with pytest.raises(DataError, match=r"latin.jsonl, line 2: not UTF-8"):
        load(tmp_path / "latin.jsonl")
    rows = (json.dumps({**GOOD, "id": str(i)}) + "\n" for i in range(5000))
    whole = gzip.compress("".join(rows).encode())
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut.jsonl.gz, after line \d+: cannot be read"):
        load(tmp_path / "cut.jsonl.gz")
    (tmp_path / "fake.jsonl.gz").write_bytes(b"plain text")
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "fake.jsonl.gz")
    with pytest.raises(DataError, match="line 2: 1 columns, expected 3"):
        load(write(tmp_path / "t.tsv", "1\ta\tb", "torn row"))


def test_passages_from_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": "b", "title": "T", "text": "x"}, {"id": "a", "title": None, "text": "y"}]
    path = write_parquet(tmp_path / "c.parquet", rows)
    assert list(load_corpus(path)) == [
        Passage("a", "", "y", "corpus://c/a"), Passage("b", "T", "x", "corpus://c/b")
    ]  # fmt: skip
    write_parquet(tmp_path / "bad.parquet", [{"id": "b", "body": "x"}])
    with pytest.raises(DataError, match=r"bad.parquet, line 1: no 'text'; it has 'id', 'body'"):
        load_corpus(tmp_path / "bad.parquet")
    monkeypatch.chdir(tmp_path)
    task = Task("t", "x?", ("x",))
    assert len(SearchEnv(**{"corpus": "c.parquet", "tasks": [task]}).corpus) == 2


def test_a_url_pattern_of_other_fields_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", {"id": "b", "title": "T", "text": "x"})
    with pytest.raises(DataError, match=r"holds more than \{title\} and \{id\}"):
        load_corpus(path, url="https://x/{slug}")


def test_beir_layout_and_its_faults(tmp_path: Path) -> None:
    write(
        tmp_path / "corpus.jsonl",
        {"_id": "d1", "title": "", "text": "x"},
        {"_id": "d2", "text": "y"},
    )
    write(tmp_path / "queries.jsonl", {"_id": "q1", "text": "x?"}, {"_id": "q2", "text": "y?"})
    (tmp_path / "qrels").mkdir()
    rels = tmp_path / "qrels" / "test.tsv"
    write(rels, "query-id\tcorpus-id\tscore", "q1\td1\t2", "q1\td2\t0")
    topics = load_beir(tmp_path)
    assert [p.id for p in load_corpus(tmp_path)] == ["d1", "d2"], "as a corpus, its passages alone"
    assert (topics.queries, topics.qrels) == ({"q1": "x?"}, {"q1": {"d1": 2, "d2": 0}})
    write(rels, "q1 0 d1 1")
    assert load_beir(tmp_path).qrels == {"q1": {"d1": 1}}
    write(tmp_path / "corpus.jsonl", {"_id": "d 1", "text": "x"}, {"_id": "d1", "text": "x"})
    write(rels, "query-id\tcorpus-id\tscore", "q1\td 1\t1", "q1\td1\t2")
    assert load_beir(tmp_path).qrels == {"q1": {"d 1": 1, "d1": 2}}, "ids may hold blanks"
    write(rels, "q1 d1 1", "q1 d9 1", "q1 d1 1", "q9 d1 1")
    odd = load_beir(tmp_path)
    assert (odd.queries, odd.qrels) == ({"q1": "x?"}, {"q1": {"d1": 1, "d9": 1}})
    assert odd.notes == (
        "1 of 2 judged queries are not among the queries; they are left out: 'q9'",
        "1 of 2 judged passages are not in the corpus; they count as not found: 'd9'",
    )
    for row, message in (("q9 d1 1", "queries: 'q9'"), ("q1 d9 1", "not found: 'd9'")):
        write(rels, row)
        with pytest.raises(DataError, match=f"test.tsv: 1 of 1 judged .*{message.split(': ')[1]}"):
            load_beir(tmp_path)
    faults = [
        ("q2 d1 2", "'d1' is judged twice for query 'q2': 1, now 2"),
        ("q1 d1 x", "grade 'x'"),
        ("q1", "expected query"),
    ]
    for row, message in faults:
        write(rels, "q2 d1 1", row)
        with pytest.raises(DataError, match=f"test.tsv, line 2: .*{message}"):
            load_beir(tmp_path)
    with pytest.raises(DataError, match=r"has none of qrels/dev.tsv"):
        load_beir(tmp_path, split="dev")


@pytest.mark.parametrize(
    ("name", "text", "texts"),
    [
        ("lines.json", '{"id":"1","contents":"t\\na"}\n{"id":"2","text":"b"}\n', ["a", "b"]),
        ("inside.json", '{"documents":[{"id":"1","text":"a"}]}', ["a"]),
        ("inside.jsonl", '{"documents":[{"id":"1","text":"a"}]}', ["a"]),
        ("pretty.json", '{\n "version": "1",\n "data": [\n  {"id": "1", "text": "a"}]}', ["a"]),
        ("array.jsonl", '[{"id":"1","text":"a"},\n{"id":"2","text":"b"}]', ["a", "b"]),
        ("lone.json", '{"id":"1","text":"a","refs":[{"id":"x","text":"no"}]}', ["a"]),
        ("long.json", f'[{{"id":"1","text":"{"x" * (17 << 20)}"}}]', ["x" * (17 << 20)]),
        ("parted.jsonl", '{"id":"1","text":"a\u2028b\x85c"}\n', ["a\u2028b\x85c"]),
        ("marks.jsonl", '\ufeff\ufeff{"id":"1","text":"a"}\n', ["a"]),
        ("quotes.csv", "id;text\n1;['1', '2']\n2;\"b,\n\nc\"\n", ["['1', '2']", "b,\n\nc"]),
        ("bars.csv", "id|text\n1|a, b; c\n", ["a, b; c"]),
        ("mac.csv", 'id,text\r1,"a\rb"\r2,c\r', ["a\rb", "c"]),
        ("sep.csv", "sep=;\nid;text\n1;a\n", ["a"]),
        ("spaced.csv", 'id, text, note\n1, "a, b", c\n2, d, e\n', ["a, b", "d"]),
        ("huge.csv", f"id,text\n1,{'x' * 200_000}\n", ["x" * 200_000]),
    ],
)
def test_layouts_of_json_and_tables(tmp_path: Path, name: str, text: str, texts: list[str]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert [p.text for p in load_corpus(tmp_path / name)] == texts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("inside.json", '{"data":[{"question":"q?","answers":["a"]}]}'),
        ("lone.json", '{"question":"q?","answers":["a"]}'),
        ("pretty.json", '{\n"question":"q?",\n"answers":["a"]}'),
        ("long.json", f'[{{"question":"q?","answer":"a","context":"{"x" * (17 << 20)}"}}]'),
        ("mac.csv", "question,answers\rq?,a\r"),
        ("comments.csv", "question,answers,note,note\nq?,a,one,two\n"),
    ],
)
def test_layouts_of_questions(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    (task,) = load_questions(tmp_path / name)
    assert (task.question, task.answers) == ("q?", ("a",))
    if name == "comments.csv":
        assert (task.meta["note"], task.meta["note (2)"]) == ("one", "two")


def test_a_first_row_without_text_does_not_make_records_documents(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,title,text\n1,Oslo,\n2,Rome,b\n")
    with pytest.raises(DataError, match="line 2: no 'text'"):
        load_corpus(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["twice.csv", "twice.tsv"])
def test_a_column_that_comes_twice_is_told(tmp_path: Path, name: str) -> None:
    row = "id,text,text\n1,a,b\n"
    (tmp_path / name).write_text(row if name.endswith("csv") else row.replace(",", "\t"))
    with pytest.raises(DataError, match="line 1: several columns are called 'text'"):
        load_corpus(tmp_path / name)
