"""TREC files, written here and read by ir_measures, and the other way round."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, R, nDCG

from searchgym.agents import OracleAgent
from searchgym.core import run_episodes
from searchgym.envs import SearchEnv
from searchgym.errors import DataError
from searchgym.evaluation.formats import (
    in_order,
    qrels_of,
    read_qrels,
    read_run,
    run_of,
    write_qrels,
    write_run,
)
from searchgym.evaluation.metrics import row_of
from searchgym.evaluation.run import episode_for
from searchgym.scoring import ndcg_at, precision_at, recall_at, reciprocal_rank
from tests.small import CORPUS, TASKS


def test_what_an_agent_saw_scores_the_same_in_ir_measures(tmp_path: Path) -> None:
    shared = SearchEnv(**{"corpus": CORPUS, "tasks": TASKS})
    episodes = [episode_for(shared, task, 0) for task in shared.tasks]
    run_episodes(iter(episodes), OracleAgent(shared.tasks), shared.toolbox)
    run = write_run(tmp_path / "run.txt", run_of({e.config.task.id: e.seen for e in episodes}))
    qrels = write_qrels(tmp_path / "qrels.txt", qrels_of(shared.tasks))
    theirs = {
        (m.query_id, str(m.measure)): m.value
        for m in ir_measures.iter_calc(
            [RR, nDCG, R @ 100],
            list(ir_measures.read_trec_qrels(str(qrels))),
            list(ir_measures.read_trec_run(str(run))),
        )
    }
    assert len(theirs) == 3 * len(TASKS)
    for episode in episodes:
        row = row_of(episode)
        assert theirs[row.task_id, "RR"] == pytest.approx(row.evidence_mrr, abs=1e-9)
        assert theirs[row.task_id, "nDCG"] == pytest.approx(row.evidence_ndcg, abs=1e-9)
        assert theirs[row.task_id, "R@100"] == pytest.approx(row.evidence_recall, abs=1e-9)


def test_there_and_back(tmp_path: Path) -> None:
    run = {"q1": [("a", 0.1 + 0.2), ("c", 0.25), ("b", 0.25)], "q2": [("a", -1e-17)]}
    assert read_run(write_run(tmp_path / "deep" / "run", run)) == run
    qrels = {"q1": {"a": 2, "b": 0}, "q2": {"é": 1}}
    assert read_qrels(write_qrels(tmp_path / "qrels", qrels)) == qrels
    assert read_run(write_run(tmp_path / "run.gz", run)) == run
    assert gzip.decompress((tmp_path / "run.gz").read_bytes()).startswith(b"q1 Q0 a 1")
    (tmp_path / "beir.tsv").write_text("query-id\tcorpus-id\tscore\nq 1\ta b\t2\n")
    assert read_qrels(tmp_path / "beir.tsv") == {"q 1": {"a b": 2}}


@pytest.mark.parametrize(
    ("ending", "encoding"),
    [("", "utf-8"), ("", "utf-8-sig"), (".gz", "utf-8"), (".gz", "utf-8-sig")],
)
def test_order_is_by_score_then_descending_id(tmp_path: Path, ending: str, encoding: str) -> None:
    path = tmp_path / f"run{ending}"
    text = "q Q0 b 1 0.5 t\r\n\nq Q0 ç 2 0.5 t\nq\tQ0\ta\t3\t9\tt\n".encode(encoding)
    path.write_bytes(gzip.compress(text) if ending else text)
    assert read_run(path) == {"q": [("a", 9.0), ("ç", 0.5), ("b", 0.5)]}


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "cp1252"])
@pytest.mark.parametrize("read", [read_run, read_qrels])
def test_another_encoding_is_one_clear_line(
    tmp_path: Path, read: Callable[[Path], object], encoding: str
) -> None:
    path = tmp_path / "file"
    line = "é 0 a 1\n" if read is read_qrels else "é Q0 a 1 0.5 t\n"
    path.write_bytes(line.encode(encoding))
    with pytest.raises(DataError, match=r"file, line 1: not UTF-8|got . fields|expected query"):
        read(path)


@given(
    st.dictionaries(
        st.sampled_from("abcdefghéZ"),
        st.floats(-2, 2, width=32) | st.sampled_from([0.5, 0.5 + 1e-12, 0.25, 0.25 - 1e-15]),
        min_size=1,
    ),
    st.dictionaries(st.sampled_from("abcdefghéZx"), st.integers(-1, 3), min_size=1),
)
def test_ties_are_ordered_as_pytrec_eval_orders_them(
    scores: dict[str, float], grades: dict[str, int]
) -> None:
    import pytrec_eval

    ranked = [key for key, _ in in_order(scores.items())]
    gold = [key for key, grade in grades.items() if grade > 0]
    if not gold:
        return
    measures = {"ndcg_cut_3", "recip_rank", "recall_2", "P_1"}
    (theirs,) = (
        pytrec_eval.RelevanceEvaluator({"q": grades}, measures).evaluate({"q": scores}).values()
    )
    assert theirs == pytest.approx(
        {"ndcg_cut_3": ndcg_at(ranked, grades, 3), "recip_rank": reciprocal_rank(ranked, gold),
         "recall_2": recall_at(ranked, gold, 2), "P_1": precision_at(ranked, gold, 1)}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("q Q0 a 1 0.5\n", r"run:1: got 5 fields, expected 'query Q0"),
        ("q Q0 a 1 x t\n", r"run:1: 'x' is not a number"),
        ("q Q0 a 1 nan t\n", r"run:1: score 'nan' is not finite"),
        ("q Q0 a 1 2 t\nq Q0 a 2 1 t\n", r"run:2: 'a' is ranked twice"),
    ],
)
def test_broken_runs_are_told_with_their_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "run"
    path.write_text(text, "utf-8")
    with pytest.raises(DataError, match=told):
        read_run(path)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    for bad in ({"q 1": [("a", 1.0)]}, {"q": [("", 1.0)]}, {"q": [("a\u2003b", 1.0)]}):
        with pytest.raises(DataError, match="cannot stand in a TREC file"):
            write_run(tmp_path / "run", bad)
    with pytest.raises(DataError, match="descend"):
        write_run(tmp_path / "run", {"q": [("a", 1.0), ("b", 2.0)]})
    with pytest.raises(DataError, match="twice"):
        write_run(tmp_path / "run", {"q": [("a", 1.0), ("a", 0.5)]})
    (tmp_path / "qrels").write_text("q 0 a 1\nq 0 a 1\n", "utf-8")
    assert read_qrels(tmp_path / "qrels") == {"q": {"a": 1}}
    (tmp_path / "qrels").write_text("q 0 a 1\nq 0 a 0\n", "utf-8")
    with pytest.raises(DataError, match=r"qrels, line 2: 'a' is judged twice"):
        read_qrels(tmp_path / "qrels")
