"""What commands print in a terminal of 80 columns: nothing cut, nothing broken, few lines."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from searchgym.cards import cards
from searchgym.cli.agents import named, short
from searchgym.cli.catalog import KINDS
from searchgym.cli.main import quiet_libraries
from searchgym.cli.output import cut, print_table, progress
from searchgym.cli.targets import env_id
from searchgym.errors import CardError
from tests.cli.application import application, commands
from tests.cli.conftest import SMALL, Cli, Done

WIDTH = 80


@pytest.fixture
def narrow(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("COLUMNS", str(WIDTH))

    def call(*arguments: object, stdin: str = "") -> Done:
        done = cli(*arguments, stdin=stdin)
        assert done.code == 0, done.err
        wide = [line for line in done.out.splitlines() if len(line) > WIDTH]
        assert "--json" in arguments or not wide, wide
        return done

    return call


def words(text: str) -> set[str]:
    return set(text.split())


def test_list_is_one_line_an_item(narrow: Cli) -> None:
    out = narrow("list").out
    assert len(out.splitlines()) <= len(cards("envs")) + 5, "a heading, and where the rest is"
    for card in cards("envs").values():
        (line,) = [x for x in out.splitlines() if card.id.removeprefix("searchgym/") in words(x)]
        said = line.removesuffix("…").split()[1:]
        assert card.summary.split()[: len(said)] == said, "words are whole, and in order"
    for kind in KINDS:
        if kind != "envs":
            assert f"{len(KINDS[kind]())} {kind}" in " ".join(out.split())


@pytest.mark.parametrize("kind", KINDS)
def test_every_list_keeps_names_whole(narrow: Cli, kind: str) -> None:
    rows = KINDS[kind]()
    ids = {str(row["id"]).removeprefix("searchgym/") for row in rows}
    if kind == "systems":  # long names and what they lack are broken between words
        ids = {word for name in ids for word in name.split()}
    else:
        assert len(narrow("list", kind).out.splitlines()) == len(rows) + 1
    for shown in (narrow("list", kind).out, narrow("list", kind, "--long").out):
        whole = " ".join(shown.split())
        assert [name for name in ids if name not in whole] == []


def test_the_long_list_of_environments_has_their_columns(narrow: Cli) -> None:
    head = words(narrow("list", "envs", "--long").out)
    assert {"id", "corpus", "dialect", "tools", "turns"} <= head
    assert "also" not in head


SHOWN = ["SimpleQA-v0", "encyclopedia", "rules", "grpo", "bm25", "search_r1", "em", "kg_2wiki"]


@pytest.mark.parametrize("name", SHOWN)
def test_show_breaks_no_word(narrow: Cli, name: str) -> None:
    out = narrow("show", name).out
    facts = narrow("show", name, "--json").json
    for text in (facts["summary"], facts["description"]):
        plain = re.sub(r"[`*#\[\]()]", " ", text).split()
        inside = [word for word in plain if len(word) < 30 and word.isalpha()]
        assert set(inside) <= set(re.findall(r"[^\W\d_]+", out))
    assert "**" not in out


def test_show_plays_an_example(narrow: Cli) -> None:
    out = narrow("show", "SimpleQA-v0").out
    assert "Question: " in out
    assert "oracle: <search>" in out
    assert "Reward 1 for" in out
    assert "Question: " not in narrow("show", "SimpleQA-v0", "--no-example").out


def test_show_knows_the_stored_scores(narrow: Cli) -> None:
    assert "held-out world (candidate)" in narrow("show", "candidate").out
    for name in (["candidate"], ["hotpotqa", "--no-example"], ["HotpotQA-v0", "--no-example"]):
        assert re.search(r"F1 +0\.28 \[0\.24,0\.32\]", narrow("show", *name).out)


THREE = ("eval", "SearchQA-v0", "-a", "rules", "-a", "oracle", "-a", "random", *SMALL)


def test_eval_is_one_table_and_a_verdict(narrow: Cli) -> None:
    done = narrow(*THREE)
    assert len((done.out + done.err).splitlines()) <= 20
    assert {"agent", "EM", "F1", "recall", "searches"} <= words(done.out)
    for agent in ("rules", "oracle", "random"):
        assert sum(line.split()[:1] == [agent] for line in done.out.splitlines()) >= 1
    assert "an upper bound, has 1.00" in " ".join(done.out.split())
    assert "…" not in done.out


def test_full_says_all_the_rest(narrow: Cli) -> None:
    out = narrow(*THREE, "--full").out
    for title in ("Scores", "Evidence", "Cost per question", "Exact match by family"):
        assert title in out
    (line,) = [x for x in out.splitlines() if x.split()[:1] == ["chain"]]
    assert re.match(r"chain \d+ ([\d.]+ \[[\d.]+,[\d.]+\] ){2}", " ".join(line.split())), (
        "n, intervals"
    )


COUNTING = """
class Counting:
    played = 0
    def act(self, requests):
        Counting.played += len(requests)
        return ['<answer> 7 </answer>' for _ in requests]
"""


def test_agents_are_checked_before_any_plays(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counting_agent.py").write_text(COUNTING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# A\n\nThe cat of Ann is called Seven.\n", encoding="utf-8")
    questions = tmp_path / "questions.jsonl"  # without evidence: an oracle cannot play
    questions.write_text(
        '{"id": "q", "question": "What is the cat of Ann called?", "answers": ["7"]}\n', "utf-8"
    )
    where = ("-s", f"corpus={notes}/", "-s", f"tasks={questions}", "--json")
    mine = "counting_agent:Counting"
    import counting_agent  # type: ignore[import-not-found]

    wrong = cli("eval", "SimpleQA-v0", "-a", mine, "-a", "ruels", *where)
    assert (wrong.code, "Did you mean 'rules'" in wrong.err) == (2, True)
    alone = cli("eval", "SimpleQA-v0", "-a", "oracle", *where)
    assert (alone.code, "oracle: needs gold queries" in alone.err) == (2, True)
    assert counting_agent.Counting.played == 0
    done = cli("eval", "SimpleQA-v0", "-a", mine, "-a", "oracle", *where)
    assert [row["agent"] for row in done.json] == [mine]
    assert "left out: oracle: needs gold queries" in done.err
    assert counting_agent.Counting.played == 1


def test_compare_fits(narrow: Cli, tmp_path: Path) -> None:
    narrow(*THREE, "-n", 20, "--out", tmp_path)
    files = [f"{tmp_path}/{name}.json" for name in ("rules", "oracle", "random")]
    out = narrow("compare", *files).out
    assert "…" not in out
    assert re.search(r"oracle +1\.000", out)


def test_a_table_that_does_not_fit_is_printed_row_by_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_table("T", [{"a": "x" * 20, "b": "y" * 25, "c": 3}])
    out = capsys.readouterr().out
    assert "x" * 20 in out
    assert "y" * 25 in out
    print_table("T", [{"a": "some words that wrap", "b": "and some more of them here"}])
    assert words(capsys.readouterr().out) >= set("some words that wrap and more of them".split())


def test_cut_keeps_whole_words() -> None:
    assert cut("one two three", 13) == "one two three"
    assert cut("one two three", 12) == "one two …"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["rules", "oracle"], ["rules", "oracle"]),
        (["runs/cand/agents/seed-0.safetensors"], ["cand/seed-0"]),
        (["a/x/agents/seed-0.safetensors", "b/x/agents/seed-0.safetensors"],
         ["a/x/agents/seed-0.safetensors", "b/x/agents/seed-0.safetensors"]),
        (["runs/x/model", "mine=runs/y/model"], ["x", "mine"]),
        (["./mine", "my_module:Agent"], ["mine", "my_module:Agent"]),
    ],
)  # fmt: skip
def test_agents_have_short_names(given: list[str], names: list[str]) -> None:
    assert list(named(given)) == names


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(CardError, match="two agents are called 'x'"):
        named(["x=a", "x=b"])
    with pytest.raises(CardError, match="NAME=path"):
        named(["x="])
    assert named(["x=a,b"], several=True) == {"x": ["a", "b"]}
    assert short("..") == ".."


@pytest.mark.parametrize("path", [(), *commands()], ids=" ".join)
def test_help_shows_no_type_beside_a_flag(path: tuple[str, ...]) -> None:
    out = CliRunner().invoke(application(), [*path, "--help"], env={"COLUMNS": "80"}).output
    assert "--help" in out
    for kind in ("<bool>", "<str>", "<list", "<int", "BOOLEAN"):
        assert kind not in out
    assert max(map(len, out.splitlines())) <= WIDTH
    examples = out.partition(" Examples")[2].strip().splitlines()
    assert all(line.strip() for line in examples), "no blank line between examples"


def test_commands_come_in_panels() -> None:
    out = CliRunner().invoke(application(), ["--help"], env={"COLUMNS": "80"}).output
    at = [out.index(f"─ {panel} ─") for panel in ("Look", "Measure", "Train", "Data and servers")]
    assert at == sorted(at)


def test_other_libraries_are_asked_to_keep_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRANSFORMERS_VERBOSITY", raising=False)
    monkeypatch.setenv("HF_HUB_VERBOSITY", "info")
    monkeypatch.setattr(sys, "warnoptions", [])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        quiet_libraries()
        warnings.warn("an argument will go", FutureWarning, stacklevel=1)
        warnings.warn("a warning of ours", UserWarning, stacklevel=1)
    assert [str(w.message) for w in seen] == ["a warning of ours"]
    assert os.environ["TRANSFORMERS_VERBOSITY"] == "error"
    assert os.environ["HF_HUB_VERBOSITY"] == "info", "what the user has set stands"


def test_a_bar_has_stages_and_units() -> None:
    with progress("writing", 3, "worlds") as bar:
        bar(3)
        bar.stage("training", 10, "steps")
        bar(4)
        (task,) = bar._shown.tasks
    assert (task.description, task.fields["unit"]) == ("training", "steps")
    assert (task.completed, task.total) == (4, 10)


def test_every_environment_is_made_by_its_short_id() -> None:
    import gymnasium as gym

    for card in cards("envs").values():
        short_id = card.id.removeprefix("searchgym/")
        assert gym.spec(short_id).kwargs == gym.spec(card.id).kwargs
        assert env_id(short_id) in (card.id, *card.body.get("aliases", ()))
    small = {"world": {"entities": 300}, "tasks": {"simple": 3}}
    assert gym.make("searchgym:SimpleQA-v0", **small).reset(seed=0)[1]["task_id"]
