"""Retrieval alone, beside what ir_measures says of the same rankings."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import RR, P, R, nDCG

from searchgym.corpora import Corpus, Topics, load_beir, load_corpus, load_ir_dataset, load_topics
from searchgym.engines import BM25Engine
from searchgym.errors import DataError, EvaluationError
from searchgym.evaluation.formats import read_run, write_qrels, write_run
from searchgym.evaluation.retrieval import MEASURES, measure_retrieval
from searchgym.types import Passage
from tests.cli.conftest import Cli, cli

__all__ = ["cli"]
THEIRS = {"nDCG@10": nDCG @ 10, "recall@10": R @ 10, "recall@100": R @ 100, "MRR@10": RR @ 10,
          "P@10": P @ 10}  # fmt: skip


def theirs(topics: Topics, run: Path) -> dict[str, dict[str, float]]:
    """Measure → query → value, by ir_measures from the file of the run."""
    names = {measure: name for name, measure in THEIRS.items()}
    found: dict[str, dict[str, float]] = {name: {} for name in THEIRS}
    scored = ir_measures.read_trec_run(str(run))
    for row in ir_measures.iter_calc(list(THEIRS.values()), dict(topics.qrels), scored):
        found[names[row.measure]][row.query_id] = row.value
    return found


@pytest.fixture(scope="module")
def scifact(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SciFact in BEIR's layout, as its archive unpacks."""
    made = tmp_path_factory.mktemp("beir") / "scifact"
    (made / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl"):
        with gzip.open(data_dir / "ir_scifact" / f"{name}.gz") as packed:
            (made / name).write_bytes(packed.read())
    shutil.copyfile(data_dir / "ir_scifact" / "qrels.tsv", made / "qrels" / "test.tsv")
    return made


@pytest.mark.data
def test_scifact_by_one_command_is_what_others_measure(
    cli: Cli, scifact: Path, tmp_path: Path
) -> None:
    out = tmp_path / "scifact.run"
    done = cli("retrieve", scifact, "--out", out, "--json")
    assert done.code == 0, done.err
    means = {name: row["mean"] for name, row in done.json["means"].items()}
    assert tuple(means) == MEASURES
    assert means["nDCG@10"] == pytest.approx(0.6768, abs=2e-4)  # Lucene's: 0.679
    others = theirs(load_beir(scifact), out)
    assert done.json["queries"] == len(others["nDCG@10"]) == 300
    for name in MEASURES:
        assert means[name] == pytest.approx(np.mean(list(others[name].values())), abs=1e-3), name


def small() -> Topics:
    passages = [Passage(f"d{i}", "", f"apple {'pie ' * i}", f"d{i}") for i in range(6)]
    return Topics(
        Corpus("small", passages),
        {"q1": "apple pie", "q2": "pear", "q3": "apple"},
        {"q1": {"d5": 2, "d1": 1, "d0": 0}, "q2": {"d2": 1}, "q3": {"d3": 0}},
    )


def test_every_query_scores_as_in_ir_measures(tmp_path: Path) -> None:
    topics = small()
    found = measure_retrieval(topics, BM25Engine(topics.corpus), k=100)
    assert set(found.per_query) == {"q1", "q2"}, "q3 has nothing to be found"
    assert found.per_query["q2"] == dict.fromkeys(MEASURES, 0.0)
    write_run(tmp_path / "r", found.run)
    others = theirs(topics, tmp_path / "r")
    for name in MEASURES:
        assert found.per_query["q1"][name] == pytest.approx(others[name]["q1"]), name
    assert [key for key, _ in read_run(tmp_path / "r")["q1"]] == [k for k, _ in found.run["q1"]]
    few = measure_retrieval(topics, BM25Engine(topics.corpus), k=3)
    assert list(few.means) == ["nDCG@3", "recall@3", "MRR@3", "P@3"]
    with pytest.raises(EvaluationError, match="no query has a relevant passage"):
        measure_retrieval(topics._replace(qrels={"q3": {"d3": 0}}), BM25Engine(topics.corpus))


def test_equal_scores_count_as_in_the_run_that_is_written(tmp_path: Path, cli: Cli) -> None:
    import pytrec_eval

    passages = [Passage(key, "", "apple pie", key) for key in "abcd"]
    topics = Topics(Corpus("c", passages), {"q": "pie"}, {"q": {"c": 2, "d": 1, "gone": 1}})
    found = measure_retrieval(topics, BM25Engine(topics.corpus), k=10)
    assert [key for key, _ in found.run["q"]] == ["d", "c", "b", "a"]
    run, judged = write_run(tmp_path / "r.run.gz", found.run), tmp_path / "q.qrels"
    write_qrels(judged, topics.qrels)
    measures = {"ndcg_cut_10", "recip_rank", "recall_10", "P_10"}
    theirs = pytrec_eval.RelevanceEvaluator(dict(topics.qrels), measures).evaluate(
        {"q": dict(read_run(run)["q"])}
    )["q"]
    ours = found.per_query["q"]
    assert [ours[name] for name in ("nDCG@10", "MRR@10", "recall@10", "P@10")] == pytest.approx(
        [theirs[name] for name in ("ndcg_cut_10", "recip_rank", "recall_10", "P_10")]
    )
    scored = cli("score", run, "--qrels", judged, "--json").json["means"]
    assert scored["evidence_ndcg"]["mean"] == pytest.approx(ours["nDCG@10"])
    assert scored["evidence_mrr"]["mean"] == ours["MRR@10"]


def test_a_querys_own_passage_is_left_out_as_in_beir(tmp_path: Path, cli: Cli) -> None:
    texts = {"a": "apple pie", "b": "apple tart", "c": "apple in a large cake", "7": "pear"}
    corpus = Corpus("c", [Passage(key, "", text, key) for key, text in texts.items()])
    topics = Topics(corpus, {"a": "apple pie", "7": "pear"}, {"a": {"b": 1}, "7": {"7": 1}})
    left = measure_retrieval(topics, BM25Engine(corpus), k=2)
    assert (left.per_query["a"]["MRR@2"], left.per_query["7"]["MRR@2"], left.own) == (1, 1, 1)
    assert {key for key, _ in left.run["a"]} == {"b", "c"}, "k all the same"
    kept = measure_retrieval(topics, BM25Engine(corpus), k=2, keep_own=True)
    assert (kept.per_query["a"]["MRR@2"], kept.own) == (0.5, 0)
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", texts), ("queries", topics.queries)):
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps({"_id": key, "text": text}) + "\n" for key, text in rows.items())
        )
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na\tb\t1\n")
    done = cli("retrieve", folder, "--json")
    assert (done.json["means"]["MRR@10"]["mean"], len(done.json["notes"])) == (1, 1)
    titles, runs = '{"name": "bm25", "fields": ["title"]}', tmp_path / "runs"
    two = ("--engine", "bm25", "--engine", titles)
    both = cli("retrieve", folder, "--keep-own", *two, "--out", runs, "--json")
    first, second = both.json["engines"]
    assert first["means"]["MRR@10"]["mean"] == 0.5
    assert second["differences"]["MRR@10"]["mean"] == -0.5
    assert sorted(path.name for path in runs.iterdir()) == ["bm25-2.run", "bm25.run"]
    shown = cli("retrieve", folder, "--engine", "bm25", "--engine", "bm25")
    assert "bm25 2 − bm25" in shown.out
    assert "--keep-own ranks it" in shown.err


def test_questions_with_evidence_are_judgements(cli: Cli, tmp_path: Path) -> None:
    passages = tmp_path / "p.jsonl"
    rows = [{"id": "a", "text": "apple pie"}, {"id": "b", "text": "pear tart"}]
    passages.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (tmp_path / "q.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["question", "answer", "supporting_ids"], ["Which pie?", "apple", "a"],
             ["No evidence?", "x", ""], ["Which tart?", "pear", '["b"]']]
        )  # fmt: skip
    done = cli("retrieve", passages, "--queries", tmp_path / "q.csv", "--json")
    assert done.code == 0, done.err
    assert done.json["queries"] == 2
    assert done.json["means"]["nDCG@10"]["mean"] == 1
    corpus = load_corpus(passages)
    (tmp_path / "bad.csv").write_text("question,answer,supporting_ids\nW?,x,zz\n")
    with pytest.raises(DataError, match=r"1 of 1 judged passages are not in the corpus.*'zz'"):
        load_topics(corpus, tmp_path / "bad.csv", None)
    (tmp_path / "none.csv").write_text("question,answer\nW?,x\n")
    with pytest.raises(DataError, match="no question names its 'supporting_ids'"):
        load_topics(corpus, tmp_path / "none.csv", None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.csv", "id,question\n1,tart\n2,pie\n"),
        ("q.csv", "id,text\n1,tart\n2,pie\n"),
        ("q.json", '[{"id": 1, "text": "tart"}, {"id": 2, "text": "pie"}]'),
        ("q.tsv", "1\ttart\n2\tpie\n"),
        ("q.tsv", "id\ttext\n1\ttart\n2\tpie\n"),
    ],
)
def test_queries_need_no_answers(name: str, text: str, tmp_path: Path) -> None:
    corpus = Corpus("c", [Passage("a", "", "apple pie", "a"), Passage("b", "", "pear tart", "b")])
    (tmp_path / name).write_text(text)
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\tb\t1\n")
    topics = load_topics(corpus, tmp_path / name, tmp_path / "qrels.tsv")
    assert (topics.queries, topics.qrels) == ({"1": "tart"}, {"1": {"b": 1}})
    with pytest.raises(DataError, match="no question names its 'supporting_ids': give --qrels"):
        load_topics(corpus, tmp_path / name, None)
    (tmp_path / "gold.csv").write_text("id,question,supporting_ids\n1,tart,b\n2,pie,\n")
    assert load_topics(corpus, tmp_path / "gold.csv", None) == topics


def test_a_run_that_cannot_be_written_is_measured_all_the_same(cli: Cli, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "my pie.md").write_text("An apple pie.")
    (tmp_path / "q.csv").write_text("id,question,supporting_ids\n1,pie,my pie.md#00000\n")
    asked = ["retrieve", notes, "--queries", tmp_path / "q.csv"]
    done = cli(*asked, "--out", tmp_path / "r.run")
    assert done.code == 2
    assert "1 query, 1 passage\n" in done.out
    assert "nDCG@10" in done.out
    assert "'my pie.md#00000' cannot stand in a TREC file" in done.err
    assert "rename the file" in done.err
    assert not (tmp_path / "r.run").exists()


def test_a_collection_of_ir_datasets_is_measured(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of our own, for those of the package are downloaded. The package's folder is the user's
    if it is there, else in the cache."""
    monkeypatch.setenv("SEARCHGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("IR_DATASETS_HOME", "deleted below")
    monkeypatch.delenv("IR_DATASETS_HOME")
    with pytest.raises(DataError, match="nor a collection"):
        load_ir_dataset("mine/of-a-test")
    import ir_datasets

    (tmp_path / "docs.tsv").write_text("a\tapple pie\nb\tpear tart\n")
    (tmp_path / "queries.tsv").write_text("1\ttart\n2\tnobody judged this\n")
    (tmp_path / "qrels").write_text("1 0 b 1\n1 0 a 0\n")
    made = ir_datasets.create_dataset(
        docs_tsv=str(tmp_path / "docs.tsv"), queries_tsv=str(tmp_path / "queries.tsv"),
        qrels_trec=str(tmp_path / "qrels"),
    )  # fmt: skip
    ir_datasets.registry.register("mine/of-a-test", made)
    topics = load_ir_dataset("mine/of-a-test")
    assert (topics.queries, topics.qrels) == ({"1": "tart"}, {"1": {"b": 1, "a": 0}})
    assert [p.text for p in topics.corpus] == ["apple pie", "pear tart"]
    assert os.environ["IR_DATASETS_HOME"] == str(tmp_path / "cache" / "collections")
    assert not (tmp_path / ".ir_datasets").exists()
    done = cli("retrieve", "mine/of-a-test", "--json")
    assert done.json["means"]["MRR@10"]["mean"] == 1
    done = cli("retrieve", "mine/unknown")
    assert done.code == 2
    assert "nor a collection of ir_datasets" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["encyclopedia"], "has no judgements of its own"),
        (["x", "--qrels", "q"], "needs the queries it judges"),
        (["./nowhere.jsonl", "--queries", "q.jsonl"], "nowhere.jsonl"),
    ],
)
def test_what_cannot_be_measured_is_one_clear_line(
    cli: Cli, arguments: list[str], said: str
) -> None:
    done = cli("retrieve", *arguments)
    assert done.code == 2
    assert said in done.err
