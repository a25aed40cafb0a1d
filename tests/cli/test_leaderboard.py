"""The leaderboard, the check of submitted results, and the figures that pages state."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from searchgym import RulesAgent
from searchgym.cards import catalog
from searchgym.core import Trajectory, read_jsonl, write_jsonl
from searchgym.envs import search_env
from searchgym.errors import EvaluationError, SearchGymError
from searchgym.evaluation import EvalResult, compare, evaluate, row_of, spread, trajectories_of
from searchgym.types import Failure, TurnRequest
from searchgym.utils import trust
from searchgym_agents.leaderboard import entries as leaderboard
from searchgym_agents.leaderboard.entries import (
    FEWEST,
    entries,
    expected_files,
    measured,
    ordered,
)
from searchgym_agents.leaderboard.submission import Checked, check_result
from tests.cli.conftest import SMALL, Cli

ROOT = catalog("envs").parent


BEGIN = ("searchgym transfer ", "searchgym eval ", "python -m searchgym_agents.")


def test_every_stored_run_has_rows() -> None:
    rows = entries(fewest=1)
    assert {row.run.partition("/")[0] for row in rows} == {p.parent.name for p in expected_files()}
    assert {"hotpotqa", "nq", "popqa"} <= {row.set for row in rows}
    assert all(row.command.startswith(BEGIN) for row in rows)
    assert all(row.scores["f1"].low <= row.scores["f1"].mean for row in rows)
    assert min(row.questions for row in entries()) >= FEWEST


def test_an_unknown_set_is_named() -> None:
    with pytest.raises(EvaluationError, match="Did you mean 'hotpotqa'"):
        ordered(entries(), of="hotpotq")


# --- results of others ------------------------------------------------------------------------
@pytest.fixture
def submitted(cli: Cli, tmp_path: Path) -> Path:
    done = cli("eval", "SearchQA-v0", "-a", "rules", "-n", 8, "--out", tmp_path / "r", *SMALL)
    assert done.code == 0, done.err
    return tmp_path / "r" / "rules.json"


def test_an_honest_result_passes_and_joins_the_leaderboard(cli: Cli, submitted: Path) -> None:
    found = check_result(submitted)
    assert (found.wrong, found.untried, len(found.right)) == ((), (), 4)
    assert cli("verify", submitted).code == 0
    row = measured(submitted)
    assert (row.method, row.set, row.questions) == ("rules", "SearchQA-v0 (altered)", 8)
    assert row.date >= "2026"
    assert "world=" in row.command, "what is unlike the environment's own is in the command"
    shown = cli("leaderboard", submitted, "--all", "--set", row.set, "--json").json
    assert [r["method"] for r in shown] == ["rules"]


def test_a_result_with_a_reward_of_ones_own_is_checked_by_trust(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_brevity.py").write_text(
        "def brief(outcome):\n    return 1 / len(outcome.turns)\n"
    )
    monkeypatch.chdir(tmp_path)
    own = ("-s", 'reward={"em": 1, "own_brevity:brief": 0.5}')
    done = cli("eval", "SearchQA-v0", "-a", "rules", "-n", 4, "--out", "r", *SMALL, *own)
    assert done.code == 0, done.err
    trust._NAMED.clear()  # as in another process
    refused = cli("verify", "r/rules.json")
    assert refused.code == 2
    assert "--trust" in refused.err
    assert cli("verify", "r/rules.json", "--trust").code == 0


def edited(path: Path, change: Callable[[Any], object]) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


def raise_mean(data: Any) -> None:
    data["means"]["f1"]["mean"] += 0.01


def raise_row(data: Any) -> None:
    at = data["columns"].index("f1")
    worst = min(data["rows"], key=lambda row: row[at])
    worst[at] = 1.0


def drop_row(data: Any) -> None:
    del data["rows"][0]


def older_scoring(data: Any) -> None:
    data["settings"]["scoring"]["version"] = 1


def fewer_results(data: Any) -> None:
    data["settings"]["environment"]["k"] = 1


def other_corpus(data: Any) -> None:
    data["settings"]["corpus"]["digest"] = "0" * 16


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (raise_mean, "f1: mean"),
        (raise_row, "f1: mean"),
        (drop_row, "questions were to be asked"),
        (fewer_results, "rules.k (3 and 1)"),
        (other_corpus, "differs: corpus.digest"),
    ],
)
def test_a_changed_result_fails(
    cli: Cli, submitted: Path, change: Callable[[Any], object], said: str
) -> None:
    edited(submitted, change)
    assert any(said in line for line in check_result(submitted).wrong)
    done = cli("verify", submitted)
    assert (done.code, "WRONG" in done.out) == (1, True)


def test_a_result_of_another_scoring_is_not_verified_and_not_called_wrong(
    cli: Cli, submitted: Path
) -> None:
    edited(submitted, older_scoring)
    checked = check_result(submitted)
    assert (checked.verdict, checked.played, checked.wrong) == ("NOT VERIFIED", False, ())
    assert any("version 1 of the scoring, this is" in line for line in checked.untried)
    done = cli("verify", submitted)
    assert done.code not in (0, 1)
    assert "NOT VERIFIED" in done.out


def test_a_result_without_its_episodes_fails(submitted: Path) -> None:
    trajectories_of(submitted).unlink()
    assert any("is missing" in line for line in check_result(submitted).wrong)


def test_an_invented_page_is_found_by_playing_again(submitted: Path) -> None:
    """A forger puts a gold page among the results and lets row and means follow: file and episodes
    agree, but the engine did not find that page."""
    path = trajectories_of(submitted)
    result = EvalResult.load(submitted)
    played = list(read_jsonl(path))
    at = next(i for i, row in enumerate(result.rows) if row.evidence_recall < 1)
    snapshot = json.loads(json.dumps(played[at].snapshot))
    gold = snapshot["config"]["task"]["evidence"]
    missing = next(page for page in gold if page not in str(snapshot["events"]))
    (received, *_) = (event for event in snapshot["events"] if event[0] == "receive")
    received[1][0]["hits"][0][0] = missing
    forged = replace(played[at], snapshot=snapshot)
    episode = forged.replay()
    forged = Trajectory.of(episode, usage=played[at].usage)
    rows = list(result.rows)
    rows[at] = row_of(episode, forged.usage)
    assert rows[at].evidence_recall > result.rows[at].evidence_recall
    write_jsonl(path, [*played[:at], forged, *played[at + 1 :]])
    replace(result, rows=tuple(rows)).save(submitted)
    assert not check_result(submitted, rebuild=False).wrong
    (line,) = check_result(submitted).wrong
    assert "evidence_" in line
    assert "played again" in line


def invented_record(episode: Any) -> None:
    episode["segments"][-2]["text"] += " It is so."


def other_turn(episode: Any) -> None:
    episode["turns"][0]["text"] = "<search> something else </search>"


def invented_text(episode: Any) -> None:
    """Another text of a page, in the record and in the log alike."""
    (page, *_) = (e for e in episode["snapshot"]["events"] if e[0] == "receive")
    old = str(page[1][0]["hits"][0][2])
    replaced = json.loads(json.dumps(episode).replace(json.dumps(old)[1:-1], "It is so."))
    episode.update(replaced)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (invented_record, "its segments are not those of its own log"),
        (other_turn, "its turns are not those of its own log"),
        (invented_text, "the environment gives another text (results)"),
    ],
)
def test_texts_that_the_environment_did_not_give_are_found(
    submitted: Path, change: Callable[[Any], object], said: str
) -> None:
    path = trajectories_of(submitted)
    first, *others = path.read_text(encoding="utf-8").splitlines(keepends=True)
    episode = json.loads(first)
    change(episode)
    path.write_text(json.dumps(episode) + "\n" + "".join(others), encoding="utf-8")
    assert any(said in line for line in check_result(submitted).wrong)


def test_a_value_of_another_type_raises_no_error_of_pythons(submitted: Path) -> None:
    text = submitted.read_text(encoding="utf-8")
    settings = [("settings", name) for name in json.loads(text)["settings"]]
    cells = [("rows",), ("rows", 0), *(("rows", 0, at) for at in (0, 2, 3, 10, 16, 27))]
    tops = [("agent",), ("set",), ("seed",), ("columns",), ("means",), ("settings",)]
    for where in ((), *tops, *settings, *cells):
        for value in (None, [], "x", 7):
            data = {"file": json.loads(text)}
            inner: Any = data
            *before, last = "file", *where
            for name in before:
                inner = inner[name]
            inner[last] = value
            submitted.write_text(json.dumps(data["file"]), encoding="utf-8")
            with suppress(SearchGymError):
                check_result(submitted, rebuild=False)
            with suppress(SearchGymError):
                leaderboard._row(submitted, EvalResult.load(submitted), Checked((), (), ()))


def test_a_file_of_others_has_nothing_huge_made(submitted: Path) -> None:
    text = submitted.read_text(encoding="utf-8")
    for name, value in (
        ("world", {"entities": 10**8}), ("tasks", {"simple": 10**9}),
        ("tasks", {"simple": 60_000, "chain": 60_000}), ("wording", {"distractors": 101}),
        ("engine", {"name": "hybrid", "engines": ["bm25", "bm25"], "depth": 10**9}),
        ("engine", {"name": "hybrid", "engines": ["bm25"] * 250}),
    ):  # fmt: skip
        data = json.loads(text)
        data["settings"]["environment"][name] = value
        submitted.write_text(json.dumps(data), encoding="utf-8")
        checked = check_result(submitted)
        assert checked.verdict == "NOT VERIFIED"
        assert any("more than " in line for line in checked.untried), checked


def forge_answers(path: Path, **settings: Any) -> None:
    """Make every answer that was given an accepted one, in episodes and rows alike."""
    result, forged, rows = EvalResult.load(path), [], []
    for played in read_jsonl(trajectories_of(path)):
        data = json.loads(json.dumps(played.to_json()))
        data["answers"] = data["snapshot"]["config"]["task"]["answers"] = [played.answer or "x"]
        episode = Trajectory.from_json(data).replay()
        forged.append(Trajectory.of(episode, usage=played.usage))
        rows.append(row_of(episode, played.usage))
    replace(result, rows=tuple(rows), settings={**result.settings, **settings}).save(path)
    write_jsonl(trajectories_of(path), forged)


@pytest.mark.parametrize(
    ("settings", "verdict", "code"),
    [
        ({}, "WRONG", 1),
        ({"time_limit": 4}, "WRONG", 1),
        ({"curriculum": ["Staged", {}, {}]}, "WRONG", 1),
        ({"reward_transforms": ["f"]}, "WRONG", 1),
        ({"class": "somebody:Env"}, "NOT VERIFIED", 3),
        ({"environment": {"corpus": "nowhere"}}, "NOT VERIFIED", 3),
        ({"environment": {"corpus": "encyclopedia", "split": "test"}}, "WRONG", 1),
    ],
    ids=str,
)
def test_forged_accepted_answers_are_never_ok(
    cli: Cli, submitted: Path, settings: dict[str, Any], verdict: str, code: int
) -> None:
    forge_answers(submitted, **settings)
    assert EvalResult.load(submitted).means["em"].mean == 1
    done = cli("verify", submitted)
    assert (done.code, done.out.splitlines()[0]) == (code, f"{submitted}: {verdict}")
    shown = cli("leaderboard", submitted, "--all", "--json")
    if code == 1:
        assert (shown.code, "is wrong" in shown.err) == (2, True)
    else:
        (row,) = (row for row in shown.json if row["run"] == "r/rules")
        assert (row["note"], row["verified"], row["command"]) == ("not verified", False, "")
        assert (
            "1.00" not in cli("leaderboard", submitted, "--all").out.partition(row["set"])[2][:40]
        )


class Losing(RulesAgent):
    """Loses every episode but those of the questions it is given."""

    def __init__(self, kept: set[str]) -> None:
        super().__init__()
        self.kept = kept

    def act(self, requests: Sequence[TurnRequest]) -> list[Any]:
        texts = super().act(requests)
        asked = [" ".join(s.text for s in request.segments) for request in requests]
        return [
            text if any(question in known for question in self.kept)
            else Failure("timeout", "busy", False)
            for text, known in zip(texts, asked, strict=True)
        ]  # fmt: skip


def test_losing_or_leaving_out_wrong_answers_raises_no_score(cli: Cli, tmp_path: Path) -> None:
    env = search_env(
        gym.make("searchgym/SearchQA-v0", world={"entities": 400}, tasks={"simple": 20})
    )
    known = {task.id: task for task in env.tasks}
    honest = evaluate(RulesAgent(), env, name="rules", label="SearchQA-v0")
    right = [known[row.task_id] for row in honest.rows if row.em == 1]
    assert 0 < len(right) < len(known) == 20

    lost, picked = tmp_path / "lost.json", tmp_path / "picked.json"
    agent = Losing({task.question for task in right})
    result = evaluate(agent, env, name="rules", label="SearchQA-v0", out=lost)
    told = f"{len(right)} of 20 questions measured, {20 - len(right)} lost"
    assert result.means["em"].mean == 1
    assert told in repr(result)
    assert told in result._repr_html_()
    assert f">{len(right)}<" in result._repr_html_()
    left_out = compare(result, honest, "em", despite=("agent",))
    assert (left_out.difference.n, left_out.lost) == (len(right), 20 - len(right))
    assert f"{len(right)} questions, {20 - len(right)} lost" in str(left_out)
    checked = check_result(lost)
    assert (checked.verdict, checked.lost) == ("NOT VERIFIED", 20 - len(right))
    row = measured(lost)
    assert (row.questions, row.lost, row.note) == (20, 20 - len(right), f"{20 - len(right)} lost")
    assert row.scores["em"].mean == honest.means["em"].mean

    evaluate(RulesAgent(), env, name="rules", label="SearchQA-v0", tasks=right, out=picked)
    checked = check_result(picked)
    assert (checked.verdict, checked.chosen) == ("NOT VERIFIED", f"{len(right)} chosen of 20")
    row = measured(picked)
    assert (row.note, row.command) == (checked.chosen, "")
    assert row.set.endswith("(altered)")
    assert cli("verify", lost, picked).code == 3


def test_the_command_of_a_row_asks_the_same_questions(tmp_path: Path) -> None:
    env = search_env(gym.make("searchgym/SimpleQA-v0"))
    for name, tasks, options in (
        ("even", spread(env.tasks, 7), "-n 7"),
        ("first", env.tasks[:7], "-s max_tasks=7"),
    ):
        path = tmp_path / f"{name}.json"
        evaluate(RulesAgent(), env, name="rules", tasks=tasks, out=path)
        row = measured(path)
        assert row.set == "SimpleQA-v0", "found by its options, whatever it was called"
        assert row.command == f"searchgym eval searchgym/SimpleQA-v0 -a rules {options}"
        edited(path, lambda data: data["settings"]["agent"].update(options={"k": 5}))
        assert measured(path).command == f"{row.command} -s agent.k=5"


def set_name(data: Any) -> None:
    data["set"] = "hotpotqa"


def name_of_other_corpus(data: Any) -> None:
    data["set"] = "searchgym/HotpotQA-v0"


def fewer_options(data: Any) -> None:
    data["settings"]["environment"].pop("may_abstain")


@pytest.mark.parametrize("change", [set_name, name_of_other_corpus, fewer_options])
def test_another_set_is_not_taken_for_a_shipped_one(
    submitted: Path, change: Callable[[Any], object]
) -> None:
    edited(submitted, change)
    result = EvalResult.load(submitted)
    name, options = leaderboard._identity(result)
    assert options != {}, name


def test_names_in_results_are_neither_markup_nor_commands(cli: Cli, submitted: Path) -> None:
    hostile = "a | b\n\n<script>alert(1)</script>\x1b[31m [x](http://evil) `c` \u202e"
    edited(submitted, lambda data: data.update(agent=hostile))
    for flags in (["--commands"], []):
        out = cli("leaderboard", submitted, "--all", *flags).out
        assert "\x1b" not in out
        assert "\u202e" not in out
    assert "\x1b" not in cli("verify", submitted).out
    assert "\x1b" not in cli("compare", submitted, submitted).out


def test_the_oracle_is_a_ceiling_and_sets_are_ranked_by_their_own_metric(cli: Cli) -> None:
    rows = entries()
    for name in {row.set for row in rows}:
        here = ordered(rows, of=name)
        assert [row.ceiling for row in here] == sorted(row.ceiling for row in here)
    assert {row.method for row in rows if row.ceiling} == {"oracle"}
    lines = {x.split()[0]: x.split() for x in cli("leaderboard").out.splitlines() if x.split()}
    assert "oracle" not in {line[1] for line in lines.values() if len(line) > 2}
    rewriting = ordered(rows, of="QueryRewriteQA-v0")
    assert {row.metric for row in rewriting} == {"reward"}
    assert lines["QueryRewriteQA-v0"][1:4] == ["rules", "reward", "1.58"]
    assert rewriting[-1].scores["reward"].mean > 1.9


def test_a_set_in_place_of_a_file_is_told_apart(cli: Cli) -> None:
    done = cli("leaderboard", "SearchQA-v0")
    assert done.code == 2
    assert "searchgym leaderboard --set SearchQA-v0" in done.err


@pytest.mark.parametrize(
    ("words", "most"), [(("data", "--no-verify"), 60), (("lab", "--stored"), 80),
                        (("show", "candidate", "--no-example"), 90)]
)  # fmt: skip
def test_tables_fit_a_screen_of_80_columns(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], most: int
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli(*words).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= most
    assert "to be checked" not in "".join(lines)
