"""Worked numbers of the rewards of statements and of structured output."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from searchgym import Answer, Call, Task
from searchgym.dialects import get_dialect
from searchgym.objects import load_known
from searchgym.rewards import REWARDS
from searchgym_agents.methods.sql_rewards import jaccard, named, ngrams, same_rows, tokens

GOLD = "SELECT count(DISTINCT n1.title) FROM person AS n1 WHERE n1.birthplace = 'Quell'"
TASK = Task("t", "How many?", ("12", "twelve"), meta={"sql": GOLD})


def reward(name: str, **options: Any) -> Any:
    return load_known(REWARDS[name])(**options)


def test_equal_result_sets_pay_1_and_a_wrong_table_less() -> None:
    paid = reward("reasoning_sql")
    assert paid.parts(GOLD, "count\n12", TASK) == {
        "execution": 3.0, "syntax": 1.0, "schema": 1.0, "ngram": 1.0, "form": 1.0,
    }  # fmt: skip
    other = "SELECT count(*) FROM person WHERE birthplace = 'Quell'"
    parts = paid.parts(other, "count\n12", TASK)
    assert parts["execution"] == 3.0, "another statement of the same rows"
    assert parts["schema"] == pytest.approx(2 / 3)  # title is named by one of them
    wrong = paid.parts(GOLD.replace("person", "film"), "count\n0", TASK)
    assert (wrong["execution"], wrong["syntax"]) == (0.0, 1.0)
    assert wrong["schema"] == pytest.approx(0.5)  # title and birthplace of four names
    assert sum(wrong.values()) < sum(parts.values()) < 7.0
    broken = paid.parts("SELEC 1", "Error: near SELEC.", TASK)
    assert (broken["execution"], broken["syntax"], broken["form"]) == (0.0, 0.0, 1.0)
    assert paid.parts("", "", TASK, formed=False) == dict.fromkeys(parts, 0.0)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (GOLD, {"person", "title", "birthplace"}),
        ("select p.title from person p join film f on f.director = p.title",
         {"title", "person", "film", "director"}),
        ('SELECT film FROM "cast" WHERE person = \'person\'', {"film", "cast", "person"}),
        ("SELECT sum(v) FROM (SELECT DISTINCT a.title, a.tracks AS v FROM album AS a)",
         {"title", "tracks", "album"}),
        ("SELECT 1 -- title FROM person\n/* FROM film */ FROM book /* and a", {"book"}),
        ("SELECT '-- a', '/*' FROM book", {"book"}),
        ("", set()),
        ("'", set()),
    ],
)  # fmt: skip
def test_tables_and_columns_are_told_from_words_and_aliases(query: str, names: set[str]) -> None:
    assert set(named(query)) == names


def test_n_grams_and_their_index() -> None:
    assert tokens("SELECT a, 'X y' FROM \"T\"") == ["select", "a", ",", "'X y'", "from", "t"]
    a, b = ngrams("select a from t", 2), ngrams("select b from t", 2)
    assert (len(a), jaccard(a, b)) == (3, pytest.approx(1 / 5))
    assert jaccard(ngrams("select a from t", 1), ngrams("SELECT a FROM t", 1)) == 1.0
    assert jaccard([], []) == 0.0


@pytest.mark.parametrize(
    ("shown", "same"),
    [("n\n12", True), ("n\ntwelve", True), ("n\n13", False), ("n\n12\n12", False),
     ("n | m\n12 | 1", False), ("No rows.", False), ("", False)],
)  # fmt: skip
def test_rows_of_one_answer(shown: str, same: bool) -> None:
    assert same_rows(shown, TASK) == same


def test_rows_of_a_set_in_any_order() -> None:
    task = Task("t", "Which?", ("A; B",), items=(("A",), ("B", "Bee")))
    assert same_rows("title\nBee\nA", task)
    for wrong in ("title\nA", "title\nA\nB\nC", "title\nA\nA", "title\nB\nBee"):
        assert not same_rows(wrong, task)


OBJECT = '{"name": "sql", "arguments": {"query": "SELECT 1"}}'


@pytest.mark.parametrize(
    ("text", "valid", "structure", "form"),
    [
        (f"<tool_call>\n{OBJECT}\n</tool_call>", 1, 1, 1),
        (OBJECT, 1, 1, 1),
        (f"I call it: {OBJECT}", 1, 1, 0),
        ('<tool_call>{"name": "sql"}</tool_call>', 1, 0.5, 1),
        ("<tool_call>{}</tool_call>", 1, 0, 1),
        ('<tool_call>{"name": "sql",}</tool_call>', 0, 0, 0),
        ("[1]", 0, 0, 0), ("", 0, 0, 0), ("{" * 5000 + "}" * 5000, 0, 0, 0),
        ('{"a":' * 5000 + "1" + "}" * 5000, 0, 0, 0),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_structured_output_is_paid_by_a_hierarchy(
    text: str, valid: float, structure: float, form: float
) -> None:
    paid = reward("rl_struct", valid=1.0, structure=2.0, format=4.0).of(text)
    assert paid == {"valid": valid, "structure": 2 * structure, "format": 4 * form}


def test_both_are_paid_in_the_environment() -> None:
    env = gym.make("searchgym/SqlQA-v0", tasks={"sql": 9}, world={"entities": 600},
                   reward={"reasoning_sql": 1, "rl_struct": 1})  # fmt: skip
    for seed in range(4):
        env.reset(seed=seed)
        query, answer = env.unwrapped.oracle()  # type: ignore[attr-defined]
        env.step(query)
        *_, info = env.step(answer)
        assert info["outcome"]["reasoning_sql"] == 7.0
        assert info["outcome"]["rl_struct"] == 1.75
    env.reset(seed=0)
    say = get_dialect("json_tools").render_action
    env.step(get_dialect("json_tools+tools").render_action(Call("sql", {"query": "SELECT x"})))
    *_, info = env.step(say(Answer("no idea")))
    assert info["outcome"]["rl_struct"] == 0.75
    assert 1.0 <= info["outcome"]["reasoning_sql"] < 1.5
