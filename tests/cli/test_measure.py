"""``eval``, ``check``, ``train`` and ``transfer`` through the command line."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from searchgym.evaluation import EvalResult, spread
from tests.cli.conftest import SMALL, Cli

pytestmark = pytest.mark.contract


def test_eval_measures_agents_on_the_same_questions(cli: Cli, tmp_path: Path) -> None:
    done = cli(
        "eval", "SearchQA-v0", "-a", "oracle", "-a", "rules", "-a", "majority", "-n", 15, *SMALL,
        "--out", tmp_path, "--json",
    )  # fmt: skip
    oracle, rules, majority = done.json
    assert oracle["means"]["em"]["mean"] == 1.0
    assert rules["means"]["searches"]["mean"] == 1.0
    assert majority["means"]["searches"]["mean"] == 0.0
    assert {r["questions"] for r in done.json} == {15}
    assert len(EvalResult.load(tmp_path / "oracle.json").rows) == 15


def test_eval_is_reproducible_and_readable(cli: Cli) -> None:
    arguments = ("eval", "SimpleQA-v0", "-a", "random", *SMALL)
    first, second = cli(*arguments, "--json").json, cli(*arguments, "--json").json
    for result in (*first, *second):
        del result["seconds"]
    assert first == second
    shown = cli("eval", "SearchQA-v0", "-a", "rules", "--full", *SMALL)
    assert "Exact match by family" in shown.out
    assert "evidence recall" in shown.out
    assert "23 questions are few" in shown.out + shown.err
    assert "Refusals" not in shown.out


def test_equal_agents_are_told_as_such(cli: Cli) -> None:
    agents = [x for name in ("one", "two", "three") for x in ("-a", f"{name}=majority")]
    asked = ("eval", "SimpleQA-v0", *agents, "-n", 4, *SMALL)
    assert re.search(r"^one, two and three are equal, with F1 \d\.\d\d", cli(*asked).out, re.M)
    refused = cli(*asked, "--seed", -1)
    assert (refused.code, "Invalid value for '--seed'" in refused.err) == (2, True)


def test_where_no_answer_is_given_the_reward_is_what_is_measured(cli: Cli) -> None:
    asked = ("eval", "QueryRewriteQA-v0", "-a", "oracle", "-n", 10, "-s", "world.entities=400")
    done = cli(*asked)
    assert {"reward", "recall"} <= {*done.out.split()}
    assert "EM" not in done.out
    assert re.search(r"reward 1\.9\d \[[\d., ]+\] is an upper bound", " ".join(done.out.split()))
    (row,) = cli(*asked, "--json").json
    assert (row["metric"], row["measured"]) == ("reward", 10)


def test_refusals_are_shown_where_some_should_be(cli: Cli) -> None:
    mixed = ["-s", "world.entities=400", "-s", 'tasks={"simple": 8, "unanswerable": 4}']
    shown = cli("eval", "SearchQA-v0", "-a", "oracle", "-a", "always-refuse", "--full", *mixed)
    (refuse,) = [x for x in shown.out.split("Refusals")[1].splitlines() if "always-refuse" in x]
    assert "0.50 [" in refuse  # F1 of refusing 12, of which 4 rightly
    assert "1.00 [" in refuse  # all answerable ones refused, too


def test_a_part_of_the_questions_has_every_family(cli: Cli) -> None:
    arguments = ("eval", "SearchQA-v0", "-n", 6, "-a", "rules", *SMALL, "--json")
    (result,) = cli(*arguments).json
    assert result["questions"] == 6
    assert set(result["em_by_family"]) == {"simple", "chain"}
    assert spread(range(10), 5) == [0, 2, 4, 6, 8]  # type: ignore[arg-type]
    assert spread(range(3), 5) == [0, 1, 2]  # type: ignore[arg-type]


def test_closed_book_runs_no_search(cli: Cli) -> None:
    arguments = ("eval", "SimpleQA-v0", "-a", "rules", *SMALL, "--json", "--closed-book")
    (result,) = cli(*arguments, "only").json
    assert result["means"]["searches"]["mean"] == 0.0
    assert result["means"]["em"]["mean"] == 0.0
    (beside,) = cli(*arguments, "both").json
    assert beside["means"]["searches"]["mean"] == 1.0
    assert beside["closed_book"]["em"] == result["means"]["em"]
    (alone,) = cli(*arguments, "none").json
    assert alone["closed_book"] == {}
    wrong = cli(*arguments, "bth")
    assert (wrong.code, "Did you mean 'both'" in wrong.err) == (2, True)


PAID = """
class Paid:  # counts what it costs, so it is asked once only
    asked = 0
    fingerprint = "paid"
    @property
    def usage(self): return {"requests": Paid.asked}
    def act(self, requests):
        Paid.asked += len(requests)
        return ["<answer> Osten </answer>" for r in requests]
"""


def test_the_closed_book_costs_nothing_unasked(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "paid_agent.py").write_text(PAID, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    arguments = ("eval", "SimpleQA-v0", "-a", "paid_agent:Paid", *SMALL)
    once = cli(*arguments)
    assert "closed-book EM" in once.out
    assert "closed book not asked of paid_agent:Paid" in once.err
    used = cli(*arguments, "--closed-book", "both", "--json").json[0]
    assert used["usage"]["requests"] == used["questions"]
    assert used["closed_book"]["em"]["n"] == used["questions"]


def test_eval_goes_on_where_it_stopped(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tired_agent.py").write_text(
        "class Tired:\n"
        "    left = 4\n"
        "    fingerprint = 'tired'\n"
        "    def act(self, requests):\n"
        "        Tired.left -= 1\n"
        "        if Tired.left == 0: raise KeyboardInterrupt\n"
        "        return ['<answer> 7 </answer>' for r in requests]\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    out = tmp_path / "run"
    arguments = ("eval", "SimpleQA-v0", "-a", "tired_agent:Tired", "-n", 8, *SMALL, "--batch", 1,
                 "--out", out)  # fmt: skip
    stopped = cli(*arguments)
    assert stopped.code == 130
    assert f"3 of 8 episodes are kept in {out}" in stopped.err
    (result,) = cli(*arguments, "--json").json
    assert result["questions"] == 8
    import tired_agent  # type: ignore[import-not-found]

    assert tired_agent.Tired.left == -5, "eight answers in all, and one interrupt"
    other = cli(*arguments, "--seed", 1)
    assert (other.code, "other settings, there and here: seed (0 and 1)" in other.err) == (2, True)
    assert cli(*arguments, "--seed", 1, "--fresh", "--json").json[0]["seed"] == 1
    assert tired_agent.Tired.left == -13
    (more,) = cli(*arguments, "--seed", 1, "-n", 16, "--json").json
    assert (more["questions"], tired_agent.Tired.left) == (16, -21), "only what is new is asked"
    fewer = cli(*arguments, "--seed", 1)
    assert (fewer.code, "questions.count (16 and 8)" in fewer.err) == (2, True)
    uneven = cli(*arguments, "--seed", 1, "-n", 19)
    assert (uneven.code, "twice as many --questions" in uneven.err) == (2, True)
    assert "name it with --out" in cli("eval", "SimpleQA-v0", "--fresh", *SMALL).err


def test_samples_and_workers(cli: Cli, tmp_path: Path) -> None:
    arguments = ("eval", "SimpleQA-v0", "-a", "random", "-a", "oracle", *SMALL, "--samples", 3)
    random, oracle = cli(*arguments, "--out", tmp_path, "--json").json
    assert oracle["samples"]["pass@3"]["mean"] == oracle["samples"]["avg@3 em"]["mean"] == 1.0
    assert set(random["samples"]) == {"pass@1", "pass@2", "pass@3", "avg@3 em", "avg@3 f1"}
    second = EvalResult.load(tmp_path / "random.seed-1.json")
    assert second.rows != EvalResult.load(tmp_path / "random.json").rows
    apart = ("eval", "SimpleQA-v0", "-a", "random", *SMALL, "--seed", 1, "--workers", 2, "--json")
    assert cli(*apart).json[0]["means"] == json.loads(json.dumps(_means(second)))
    assert "All 3 samples of each question" in cli(*arguments, "--full", "--out", tmp_path).out


def _means(result: EvalResult) -> dict[str, dict[str, object]]:
    return {
        name: {k: None if v != v else v for k, v in interval._asdict().items()}
        for name, interval in result.means.items()
    }


def test_an_agent_of_ones_own(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_agents.py").write_text(
        "class Mine:\n"
        "    def act(self, requests):\n"
        "        return ['<answer> 7 </answer>' for _ in requests]\n"
        "class NotOne: pass\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (result,) = cli("eval", "SimpleQA-v0", "-a", "my_agents:Mine", *SMALL, "--json").json
    assert result["means"]["turns"]["mean"] == 1.0
    wrong = cli("eval", "SimpleQA-v0", "-a", "my_agents:NotOne", *SMALL)
    assert (wrong.code, "cannot be an agent: it has no act" in wrong.err) == (2, True)
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "card.toml").write_text(
        'id = "mine"\nsummary = "s"\nuse = "my_agents:Mine"\n', encoding="utf-8"
    )
    assert cli("eval", "SimpleQA-v0", "-a", folder, *SMALL).code == 0


def test_turns_that_are_no_action_are_told(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "talkers.py").write_text(
        "def talker(prompt: str) -> str:\n    return 'I would look it up.'\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = ("-a", "talkers:talker", "-a", "rules", *SMALL)
    talker, rules = cli("eval", "SimpleQA-v0", *asked, "--json").json
    form = {"plain": "search: a query   or   answer: a name",
            "search_r1": "<search> a query </search>   or   <answer> a name </answer>"}  # fmt: skip
    assert talker["unreadable"]["share"] == 1.0
    assert talker["unreadable"]["expected"] == form["search_r1"]
    assert "I would look it up." in talker["unreadable"]["example"]
    assert "unreadable" not in rules
    done = cli("eval", "SimpleQA-v0", *asked, "-s", "dialect=plain")
    told = " ".join(done.err.split())
    assert "talkers:talker: 100 % of its turns were no legal action" in told
    assert " ".join(form["plain"].split()) in told
    done = cli("transfer", "talkers:talker", "--env", "SimpleQA-v0", "-n", 3, "--rungs", "source",
               "--out", tmp_path / "t", "--json", *SMALL)  # fmt: skip
    assert [*done.json["unreadable"]] == ["talkers:talker"]
    assert "of its turns were no legal action" in done.err


def test_an_agent_that_must_be_trained_says_so(cli: Cli) -> None:
    done = cli("eval", "SimpleQA-v0", "-a", "candidate", *SMALL)
    assert (done.code, "searchgym train candidate" in done.err) == (2, True)


def test_check_passes_ours(cli: Cli) -> None:
    (row,) = cli("check", "MultiHopQA-v0", *SMALL, "--json", "--seeds", 2).json
    assert row["result"] == "ok"
    assert "ok" in cli("check", "SimpleQA-v0", *SMALL, "--seeds", 1).err


def test_check_finds_a_broken_promise(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaky.py").write_text(
        "from searchgym.envs.search import SearchEnv\n"
        "class Leaky(SearchEnv):\n"
        "    def reset(self, **kwargs):\n"
        "        observation, info = super().reset(**kwargs)\n"
        "        return observation, {**info, 'answers': self.episode.config.task.answers}\n",
        encoding="utf-8",
    )
    folder = tmp_path / "LeakyQA-v0"
    folder.mkdir()
    (folder / "card.toml").write_text(
        'id = "leaky/LeakyQA-v0"\nsummary = "s"\nuse = "leaky:Leaky"\n[kwargs]\n'
        'corpus = "encyclopedia"\nworld = { entities = 400 }\ntasks = { simple = 10 }\n',
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    done = cli("check", folder, "--json")
    assert done.code == 1
    (row,) = done.json
    assert row["result"] == "broken"
    assert "hidden" in row["note"] or "gold" in row["note"]
    assert row["note"].startswith(f"{folder / 'card.toml'}: ")


def test_an_error_of_a_card_names_its_file(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "WrongQA-v0"
    folder.mkdir()
    text = 'id = "WrongQA-v0"\nsummary = "s"\n[kwargs]\nworld = {entities = 300}\n'
    (folder / "card.toml").write_text(text + "tasks = { simpel = 10 }\n", encoding="utf-8")
    for command in ("check", "show"):
        done = cli(command, folder)
        assert done.code == 2
        assert f"{folder / 'card.toml'}: unknown task family 'simpel'" in done.err


def test_check_says_what_a_registration_lacks(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register = "gym.register('bare/BareQA-v0', 'bare_envs:Bare'{})\n"
    told = "vector_entry_point='searchgym.envs.vector:bare_envs.Bare'"
    for form in ("", f", {told}"):
        (tmp_path / "bare_envs.py").write_text(
            "import gymnasium as gym\nfrom searchgym.envs.search import SearchEnv\n"
            "class Bare(SearchEnv):\n"
            "    def __init__(self, **keywords):\n"
            "        super().__init__(world={'entities': 400}, tasks={'simple': 10}, **keywords)\n"
            + register.format(form),
            encoding="utf-8",
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        done = cli("check", "bare_envs:bare/BareQA-v0", "--json", "--seeds", 1)
        assert (done.code, told in done.out) == ((0, False) if form else (1, True)), done.out
        monkeypatch.delitem(sys.modules, "bare_envs")
        monkeypatch.delitem(gym.registry, "bare/BareQA-v0")


def test_check_takes_any_gymnasium_environment(cli: Cli) -> None:
    (row,) = cli("check", "gymnasium:CartPole-v1", "--json").json
    assert (row["env"], row["result"]) == ("CartPole-v1", "broken")  # it warns, which we count
    assert "\x1b" not in row["note"]
    assert "-infinity" in row["note"]


def test_gymnasiums_own_errors_are_one_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy.py").write_text(
        "from gymnasium.error import DependencyNotInstalled\n"
        "def make(**kwargs):\n"
        "    raise DependencyNotInstalled('needs a thing: pip install thing')\n",
        encoding="utf-8",
    )
    folder = tmp_path / "NeedyQA-v0"
    folder.mkdir()
    (folder / "card.toml").write_text(
        'id = "needy/NeedyQA-v0"\nsummary = "s"\nuse = "needy:make"\n', encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    done = cli("check", folder)
    assert done.code == 2
    assert "pip install thing" in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_folder_that_cannot_be_written_is_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = cli("world", "export", "encyclopedia", "-s", "entities=300", "--out",
               tmp_path / "file" / "w.jsonl")  # fmt: skip
    assert done.code == 2
    assert done.err.startswith(f"searchgym: {tmp_path / 'file'}")


def test_train_evaluate_and_resume(cli: Cli, tmp_path: Path) -> None:
    tiny = [
        "-s", "config.episodes=160", "-s", "config.evaluate_every=1", "-s", "worlds=[0]",
        "-s", "env.world.entities=400", "-s", 'env.tasks={"simple": 12}', "-s", "dev.seed=1",
        "-s", 'dev.tasks={"simple": 4}', "-s", "encoder.none=true",
    ]  # fmt: skip
    first = cli("train", "candidate", *tiny, "--out", tmp_path, "--json")
    assert first.code == 0, first.err
    (row,) = first.json
    assert row["episodes"] >= 160
    assert Path(row["weights"]).is_file()
    told = next(x for x in first.err.splitlines() if "searchgym report" in x)
    page = tmp_path / "page.html"
    assert (told.split()[-2], cli("report", tmp_path, "--out", page).code) == (str(tmp_path), 0)
    assert page.stat().st_size > 100_000
    machine = json.loads((tmp_path / "machine.json").read_text("utf-8"))
    assert machine["versions"]["python"] in page.read_text("utf-8")
    again = cli("train", "candidate", *tiny, "--out", tmp_path, "--json")
    assert again.json == first.json, "a finished agent is loaded, not trained again"


def test_transfer_writes_the_table_and_keeps_results(cli: Cli, tmp_path: Path) -> None:
    arguments = (
        "transfer", "-a", "rules", "-a", "oracle", "--env", "SimpleQA-v0", "-n", 5,
        "--rungs", "source,world,wording,real", "--data-dir", tmp_path / "no-data", "--out",
        tmp_path / "t", *SMALL,
    )  # fmt: skip
    done = cli(*arguments, "--json")
    assert done.code == 0, done.err
    names = [rung["name"] for rung in done.json["rungs"]]
    assert names == ["source world", "held-out world", "held-out wording"]
    oracle = {
        r["rung"]: (r["mean"], r["questions"])
        for r in done.json["table"]
        if (r["agent"], r["metric"]) == ("oracle", "em")
    }
    assert set(oracle) == set(names)
    assert set(oracle.values()) == {(1.0, 5)}
    for name in ("transfer.json", "transfer.csv", "transfer.png", "report.html", "machine.json"):
        assert (tmp_path / "t" / name).stat().st_size > 0
    saved = json.loads((tmp_path / "t" / "transfer.json").read_text(encoding="utf-8"))
    assert saved["table"] == done.json["table"]
    shown = cli(*arguments)
    assert "held-out world" in shown.out
    assert "absent: hotpotqa" in shown.err


def test_transfer_hands_options_to_agents(cli: Cli, tmp_path: Path) -> None:
    arguments = (
        "transfer", "yes=searchgym.agents.simple:ConstantAgent", "--env", "SimpleQA-v0", "-n", 3,
        "--rungs", "source,world", "--batch", 2, *SMALL,
    )  # fmt: skip
    done = cli(*arguments, "-s", "agent.answer=yes", "--out", tmp_path / "t", "--json")
    assert done.code == 0, done.err
    files = list((tmp_path / "t" / "results").glob("*/yes*.json"))
    assert len(files) == 2
    rows = [row for file in files for row in EvalResult.load(file).rows]
    assert {row.answer for row in rows} == {"yes"}
    assert {EvalResult.load(file).settings["batch"] for file in files} == {2}
    wrong = cli(*arguments, "-s", "agent.nix=1", "--out", tmp_path / "w")
    assert wrong.code == 2
    assert "'nix'" in wrong.err


def test_transfer_refuses_options_that_no_agent_takes(cli: Cli, tmp_path: Path) -> None:
    done = cli(
        "transfer", "candidate", "-s", "agent.temperature=1", "--out", tmp_path / "t", "-n", 2
    )
    assert done.code == 2
    assert "-s agent.… (temperature) is for agents that are not trained here" in done.err


def test_a_recipe_is_no_agent(cli: Cli) -> None:
    done = cli("eval", "SearchQA-v0", "-a", "grpo", "-n", 2, *SMALL)
    assert done.code == 2
    assert "'grpo' is a recipe, not an agent" in done.err


def test_results_are_compared_question_by_question(cli: Cli, tmp_path: Path) -> None:
    arguments = ("eval", "SearchQA-v0", "-n", 20, *SMALL, "--out")
    cli(*arguments, tmp_path / "a", "-a", "oracle", "-a", "rules", "-a", "random")
    files = [tmp_path / "a" / f"{name}.json" for name in ("random", "oracle", "rules")]
    done = cli("compare", *files, "-m", "em", "--json").json
    oracle, rules = done["comparisons"]
    assert (oracle["a"], oracle["b"], oracle["mean_a"]) == ("oracle", "random", 1.0)
    assert oracle["difference"]["low"] > 0
    assert oracle["p_holm"] <= 2 * oracle["p"]
    assert rules["p_holm"] >= rules["p"]
    assert "oracle" in done["frontier"]
    assert done["note"].startswith("20 questions are few")
    shown = cli("compare", *files)
    assert "Pareto front" in shown.out
    assert "20 questions are few" in shown.out + shown.err


def test_results_of_different_settings_are_refused(cli: Cli, tmp_path: Path) -> None:
    files = []
    for k in (1, 3):
        arguments = ("eval", "SimpleQA-v0", "-a", "rules", "-n", 6, *SMALL, "-s", f"k={k}")
        cli(*arguments, "--out", tmp_path / str(k))
        files.append(tmp_path / str(k) / "rules.json")
    refused = cli("compare", *files)
    assert refused.code == 2
    assert "not comparable" in refused.err
    said = " ".join(refused.err.split())
    assert "rules.k (3 and 1)" in said
    assert said.endswith("is meant: --despite environment.k --despite rules.k")
    assert cli("compare", *files, "--despite", "rules.k", "--despite", "environment").code == 0
    for name in ("class", "environment.tasks", "rules.dialect", "scoring.version"):  # all there are
        assert "not comparable" in cli("compare", *files, "--despite", name).err
    wrong = cli("compare", *files, "--despite", "rule.k")
    assert wrong.code == 2
    assert "--despite: unknown setting 'rule.k'. Did you mean 'rules.k'" in wrong.err
    alone = cli("compare", files[0])
    assert alone.code == 2
    assert "name two or more" in alone.err
