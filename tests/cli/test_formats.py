"""``export`` and ``score``: there and back, and files that others have made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from searchgym.cards import cards
from searchgym.core import read_jsonl
from searchgym.corpora import SCORED, load_questions, search_r1_row
from searchgym.dialects import PUBLISHED
from searchgym.envs import SearchEnv
from searchgym.errors import DataError, MissingExtraError
from searchgym.evaluation import EvalResult
from searchgym.types import ABSTAIN, Task
from tests.cli.conftest import SMALL, Cli
from tests.small import CORPUS


@pytest.fixture
def run(cli: Cli, tmp_path: Path) -> Path:
    """The folder of an evaluation of two agents."""
    done = cli("eval", "SearchQA-v0", "-a", "rules", "-a", "oracle", *SMALL, "--out", tmp_path)
    assert done.code == 0, done.err
    return tmp_path


def test_a_run_and_judgements_measure_as_the_evaluation_did(cli: Cli, run: Path) -> None:
    assert (
        cli("export", run / "rules.trajectories.jsonl", "--to", "trec", "-o", run / "r").code == 0
    )
    assert cli("export", "SearchQA-v0", "--to", "qrels", "-o", run / "q", *SMALL).code == 0
    ours = EvalResult.load(run / "rules.json").means
    for right in (["--qrels", run / "q"], ["--env", "SearchQA-v0", *SMALL]):
        found = cli("score", run / "r", *right, "--json").json
        assert (found["questions"], found["missing"]) == (23, 0)
        for name in ("evidence_recall", "evidence_precision", "evidence_mrr", "evidence_ndcg"):
            assert found["means"][name]["mean"] == pytest.approx(ours[name].mean, abs=1e-12)
    one = cli("score", run / "r", "--qrels", run / "q", "-k", 1, "--json").json["means"]
    assert one["evidence_recall"]["mean"] < ours["evidence_recall"].mean
    half = "".join((run / "q").read_text().splitlines(keepends=True)[:4])
    (run / "q").write_text(half + "other 0 x 1\n")
    told = cli("score", run / "r", "--qrels", run / "q")
    assert "1 questions are not in it" in told.err


def test_browsecomp_plus_files_there_and_back(cli: Cli, run: Path) -> None:
    out = run / "submitted"
    source = run / "oracle.trajectories.jsonl"
    assert cli("export", source, "--to", "browsecomp-plus", "-o", out).code == 0
    first = json.loads((out / "run_000001.json").read_text("utf-8"))
    assert set(first) == {
        "query_id", "tool_call_counts", "status", "retrieved_docids", "result",
    }  # fmt: skip
    assert first["result"][-1]["output"].startswith("Exact Answer: ")
    found = cli("score", out, "--env", "SearchQA-v0", *SMALL, "--json").json["means"]
    ours = EvalResult.load(run / "oracle.json").means
    for name in ("em", "f1", "cover_em", "evidence_recall", "evidence_mrr"):
        assert found[name]["mean"] == pytest.approx(ours[name].mean, abs=1e-12)
    assert found["calls"]["mean"] == ours["searches"].mean
    again = cli("export", source, "--to", "browsecomp-plus", "-o", out)
    assert (again.code, "holds JSON files already" in again.err) == (2, True)


def test_run_files_of_others(cli: Cli, tmp_path: Path) -> None:
    """Explanation, answer and confidence in one text; another without; one that never ended."""
    questions = tmp_path / "q.jsonl"
    records = [
        {"id": "7", "question": "Where?", "answers": ["Quell"], "supporting_ids": ["d1", "d2"]},
        {"id": "8", "question": "Who?", "answers": ["Mira"]},
        {"id": "9", "question": "When?", "answers": ["1871"]},
        {"id": "10", "question": "Why?", "answers": ["Rain"]},
    ]
    questions.write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")
    passages = [{"id": f"d{i}", "text": f"text {i}"} for i in range(3)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(p) + "\n" for p in passages), "utf-8")
    texts = {
        "7": "Explanation: [d1] says so.\n**Exact Answer:** Quell\nConfidence: 85%",
        "8": "It was Mira, I think.",
        "9": "",
    }
    out = tmp_path / "runs"
    out.mkdir()
    for i, (query, text) in enumerate(texts.items()):
        said = {"type": "output_text", "tool_name": None, "arguments": None, "output": text}
        call = {"type": "tool_call", "tool_name": "search", "arguments": "{}", "output": "[]"}
        record = {
            "metadata": {"model": "m"}, "query_id": int(query), "status": "completed" if text else
            "incomplete", "tool_call_counts": {"search": 2, "get_document": 1},
            "retrieved_docids": ["d2", "d9", "d2"], "result": [call, said] if text else [call],
        }  # fmt: skip
        (out / f"run_{i}.json").write_text(json.dumps(record), "utf-8")
    where = ["-s", f'corpus="{tmp_path / "c.jsonl"}"', "-s", f'tasks="{questions}"']
    shown = cli("score", out, "--env", "SearchQA-v0", *where, "-s", "world=null", "--json")
    assert shown.code == 0, shown.err
    means = {name: v["mean"] for name, v in shown.json["means"].items()}
    assert (shown.json["questions"], shown.json["missing"]) == (4, 1)
    assert (means["em"], means["cover_em"], means["completed"]) == (0.25, 0.5, 0.5)
    assert (means["evidence_recall"], means["evidence_mrr"], means["calls"]) == (0.5, 1.0, 2.25)
    (out / "run_8.json").write_text('{"query_id": "7"}', "utf-8")
    broken = cli("score", out, "--env", "SearchQA-v0", *where, "-s", "world=null")
    assert (broken.code, "run_8.json: not a run file" in broken.err) == (2, True)
    (out / "run_8.json").write_text((out / "run_0.json").read_text())
    twice = cli("score", out, "--env", "SearchQA-v0", *where, "-s", "world=null")
    assert "question '7' is also in" in twice.err


def test_trajectories_as_a_table_and_back(cli: Cli, run: Path) -> None:
    source, table = run / "rules.trajectories.jsonl", run / "t.parquet"
    assert cli("export", source, "--to", "parquet", "-o", table).code == 0
    rows = pq.read_table(table).to_pylist()
    ours = EvalResult.load(run / "rules.json")
    assert [r["em"] for r in rows] == list(ours.values("em"))
    assert [r["tokens_in"] for r in rows] == list(ours.values("tokens_in"))
    assert [m["role"] for m in rows[0]["messages"]] == ["user", "assistant"] * 2
    assert rows[0]["question"] in rows[0]["messages"][0]["content"]
    assert cli("export", table, "--to", "jsonl", "-o", run / "again.jsonl").code == 0
    assert (run / "again.jsonl").read_bytes() == source.read_bytes()
    both = cli("export", run, "--to", "trec", "-o", run / "x")
    assert (both.code, "holds 4 files of trajectories" in both.err) == (2, True)


def test_search_r1_questions_there_and_back(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    assert cli("export", "SearchQA-v0", "--to", "search-r1", "-o", path, *SMALL).code == 0
    row = pq.read_table(path).to_pylist()[0]
    assert row["reward_model"]["style"] == "rule"
    asked = row["question"] if row["question"].endswith("?") else row["question"] + "?"
    prompt = PUBLISHED["search_r1"].text.replace("{question}", asked)
    assert row["prompt"] == [{"role": "user", "content": prompt}]
    assert row["extra_info"] == {"split": "train", "index": 0}
    assert row["reward_model"]["ground_truth"] == {"target": row["golden_answers"]}
    assert (row["ability"], row["data_source"]) == ("fact-reasoning", "SearchQA-v0")
    made = load_questions(path)
    env = SearchEnv(
        **{
            "corpus": "encyclopedia",
            "world": {"entities": 400},
            "tasks": str(path),
            "split": "train",
        }
    )
    assert [t.question for t in env.tasks] == [t.question for t in made]
    ours = SearchEnv(
        **{"corpus": "encyclopedia", "world": {"entities": 400}, "split": "train",
         "tasks": {"simple": 12, "chain-2": 12}}
    ).tasks  # fmt: skip
    kept = ("id", "question", "answers", "evidence", "family", "hops")
    assert [[getattr(t, k) for k in kept] for t in made] == [
        [getattr(t, k) for k in kept] for t in ours
    ]
    done = cli("eval", "SearchQA-v0", "-a", "rules", "-n", 4, "-s", "world.entities=400",
               "-s", f"tasks={path}", "--json")  # fmt: skip
    assert done.json[0]["questions"] == 4


def test_search_r1_scores_seven_data_sources(cli: Cli, tmp_path: Path) -> None:
    """Its trainer refuses others: ``_select_rm_score_fn`` in its ``verl/trainer/main_ppo.py``."""
    path = tmp_path / "train.parquet"
    command = ("export", "SearchQA-v0", "--to", "search-r1", "-o", path, *SMALL)
    said = cli(*command)
    assert "scores no data source 'SearchQA-v0'" in said.err + said.out
    said = cli(*command, "--data-source", "nq")
    assert (said.code, "scores no" in said.err + said.out) == (0, False)
    assert {row["data_source"] for row in pq.read_table(path).to_pylist()} == {"nq"}
    wrong = cli(*command, "--data-source", "hotpot")
    assert (wrong.code, "Did you mean 'hotpotqa'" in wrong.err) == (2, True)
    other = cli("export", "SearchQA-v0", "--to", "qrels", "-o", path, "--data-source", "nq")
    assert (other.code, "belongs to --to search-r1" in other.err) == (2, True)
    assert set(SCORED) <= set(cards("corpora"))  # so that the sets' own environments say theirs


def rows(tmp_path: Path, *records: dict[str, Any]) -> Path:
    path = tmp_path / "nq_search.parquet"
    pq.write_table(pa.Table.from_pylist(list(records)), path)
    return path


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_parquet_files_of_others(tmp_path: Path) -> None:
    """Search-R1's own (FlashRAG's columns kept), verl's without them, truths of several forms."""
    reward = {"style": "rule", "ground_truth": {"target": ["a", "b"]}}
    extra = {"split": "train", "index": 3}
    full = {
        "id": "train_3", "question": "who wrote it?", "golden_answers": ["a", "b"],
        "data_source": "nq", "prompt": chat("Tags. Question: who wrote it?\n"), "ability": "fact",
        "reward_model": reward, "extra_info": extra,
    }  # fmt: skip
    (task,) = load_questions(rows(tmp_path, full))
    assert (task.id, task.question, task.answers) == ("train_3", "who wrote it?", ("a", "b"))
    bare = {k: full[k] for k in ("data_source", "prompt", "reward_model", "extra_info")}
    (task,) = load_questions(rows(tmp_path, bare))
    assert (task.id, task.question, task.answers) == ("nq-train-3", "who wrote it?", ("a", "b"))
    assert (task.split, task.meta["data_source"]) == ("train", "nq")
    plain = {"prompt": "Where is it?", "reward_model": {"ground_truth": "Quell"}}
    (task,) = load_questions(rows(tmp_path, plain))
    assert (task.id, task.question, task.answers) == ("nq_search-0", "Where is it?", ("Quell",))
    env = SearchEnv(**{"corpus": CORPUS, "tasks": str(tmp_path / "nq_search.parquet")})
    assert env.tasks[0].answers == ("Quell",)
    refusal = {"id": 1, "question": "q?", "answers": [ABSTAIN]}
    assert load_questions(rows(tmp_path, refusal))[0].should_abstain


def test_questions_that_speak_of_questions(tmp_path: Path) -> None:
    odd = "Who wrote 'Question: Why?' in 1990?"
    lines = "Who is asked\nQuestion: 1, or\nQuestion: 2?"
    shots = "Question: who? Answer: Quell.\nQuestion: "
    truth = {"reward_model": {"ground_truth": "a"}}
    prompts = [f"Use tags. Question: {odd}\n", shots + odd, shots + "where?\nThink first."]
    path = rows(tmp_path, *({"prompt": chat(p), **truth} for p in prompts))
    read = [task.question for task in load_questions(path)]
    assert read == [odd, odd, "where?\nThink first."]
    for question in (odd, lines):  # rows of our own, whatever is asked
        row = search_r1_row(Task("t", question, ("a",)), 0, "mine")
        assert load_questions(rows(tmp_path, row))[0].question == question


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"text": "x"}, r"line 1: a question needs columns.*it has text"),
        ({"prompt": chat("q"), "reward_model": {"style": "rule"}}, r"line 1: 'reward_model' holds"),
        ({"prompt": [{"role": "system", "content": "q"}], "reward_model": {"ground_truth": "a"}},
         "holds no message of a user"),
        ({"prompt": chat("Question: "), "reward_model": {"ground_truth": "a"}}, "is empty"),
    ],
)  # fmt: skip
def test_rows_that_hold_no_question(tmp_path: Path, record: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_questions(rows(tmp_path, record))


def test_files_that_are_no_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.parquet"
    with pytest.raises(DataError, match="does not exist"):
        load_questions(path)
    path.write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="not a parquet file"):
        load_questions(path)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[parquet\]"):
        load_questions(path)


def test_mistakes_of_people_are_one_line(cli: Cli, tmp_path: Path) -> None:
    wrong = cli("export", "SearchQA-v0", "--to", "trek", "-o", tmp_path / "x")
    assert (wrong.code, "Did you mean 'trec'" in wrong.err) == (2, True)
    none = cli("export", "SearchQA-v0", "--to", "trec", "-o", tmp_path / "x")
    assert (none.code, "is no such file" in none.err) == (2, True)
    (tmp_path / "run").write_text("q1 Q0 d1 1 1.0 t\n")
    alone = cli("score", tmp_path / "run")
    assert (alone.code, "--env ENV" in alone.err) == (2, True)
    (tmp_path / "qrels").write_text("q2 0 d1 1\n")
    other = cli("score", tmp_path / "run", "--qrels", tmp_path / "qrels")
    assert (other.code, "are the ids the same?" in other.err) == (2, True)
    (tmp_path / "t.jsonl").write_text("{}\n")
    assert list(read_jsonl(Path("/dev/null"))) == []
    broken = cli("export", tmp_path / "t.jsonl", "--to", "trec", "-o", tmp_path / "x")
    assert (broken.code, "t.jsonl:1: not a trajectory" in broken.err) == (2, True)
