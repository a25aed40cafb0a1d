from __future__ import annotations

from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.envs import SearchEnv
from searchgym.rewards import explained
from searchgym.scoring.citations import Dossier, judge_report, read_report

LETTERS = {"asked": "A", "beside": "B", "uncited": "U", "wrong page": "W", "unknown": "X"}


@pytest.fixture(scope="module")
def env() -> SearchEnv:
    return SearchEnv(
        corpus="encyclopedia", world={"entities": 400, "seed": 5},
        tasks={"report": 40, "at_most": True}, reward="citations", max_turns=12,
    )  # fmt: skip


@pytest.fixture(scope="module")
def shown(env: SearchEnv) -> dict[str, set[str]]:
    return {passage.title: {passage.id} for passage in env.corpus}


def test_verdicts_agree_with_two_hundred_judged_by_hand(env, shown) -> None:
    told, wrong = 0, []
    for line in Path(__file__).with_name("judged.txt").read_text("utf-8").splitlines():
        if line.startswith("## "):
            dossier = Dossier.from_json(env.tasks[int(line[3:])].meta["dossier"])
        elif line[:1] != "#":
            (verdict,) = judge_report(line[2:], dossier, shown).verdicts
            told += 1
            if LETTERS[verdict.state] != line[0]:
                wrong.append(f"{line} -> {verdict.state}")
    assert told >= 200
    assert len(wrong) <= 0.05 * told, "\n".join(wrong)
    print(f"{told - len(wrong)} of {told}", *wrong, sep="\n")


def test_oracle_earns_one_and_constants_nothing(env) -> None:
    for task in env.tasks:
        env.reset(seed=0, options={"task_id": task.id})
        rewards = [env.step(action)[1] for action in env.oracle()]
        assert sum(rewards) == 1.0, task.answers[0]
        env.reset(seed=0, options={"task_id": task.id})
        assert env.step(f"<answer> {task.answers[0]} </answer>")[1] == 0.0, "nothing was shown"


REPORT = (
    "Ninfeville Cavaliers comes from Khofabad [1]. It was formed in 1965 [1][2]. "
    "Its genre is indie pop. Zhivleronia is led by Svam Toridis [3]."
)


@pytest.mark.parametrize(
    ("report", "states", "measures"),
    [
        # one of four sentences is asked for, three of four citations are right, 1 of 3 facts
        (REPORT, "ABUX", (2 / 4, 1 / 4, 1 / 3)),
        (REPORT.split(". ")[0] + ".", "A", (1.0, 1.0, 1 / 3)),
        (REPORT.replace("[1]", "(source)"), "UWUX", (0.0, 0.0, 0.0)),
        ("", "", (0.0, 0.0, 0.0)),
        ("Ninfeville Cavaliers plays rock, folk, jazz or indie pop [1].", "X", (0.0, 0.0, 0.0)),
        ("Nobody says that Ninfeville Cavaliers is from Khofabad [1].", "X", (0.0, 0.0, 0.0)),
        ("Is Ninfeville Cavaliers from Khofabad [1]?", "X", (0.0, 0.0, 0.0)),
        ("Ninfeville Cavaliers comes from Khofabad. [1] It comes from Khofabad [1].", "A-",
         (1.0, 1 / 2, 1 / 3)),
        ("Ninfeville Cavaliers is from Khofabad [7].\nReferences\n[7] Ninfeville Cavaliers", "A",
         (1.0, 1.0, 1 / 3)),
        ("Ninfeville Cavaliers is from Khofabad [x](https://world.example/wiki/Ninfeville_Cavaliers)"
         ".", "A", (1.0, 1.0, 1 / 3)),
    ],
)  # fmt: skip
def test_measures_of_worked_reports(env, shown, report, states, measures) -> None:
    dossier = Dossier.from_json(env.tasks[0].meta["dossier"])
    url = "https://world.example/wiki/Ninfeville_Cavaliers"
    known = {**shown, "1": shown["Ninfeville Cavaliers"], "2": shown["Khofabad"],
             "3": shown["Zhivleronia"], url: shown["Ninfeville Cavaliers"]}  # fmt: skip
    found = judge_report(report, dossier, known)
    letters = {**LETTERS, "repeated": "-"}
    assert "".join(letters[v.state] for v in found.verdicts) == states
    assert (found.precision, found.recall, found.coverage) == pytest.approx(measures)
    p, r, c = measures
    assert found.score() == pytest.approx(c * 2 * p * r / (p + r) if p + r else 0)


def test_dossier_survives_json(env) -> None:
    for task in env.tasks[:5]:
        data = task.meta["dossier"]
        assert Dossier.from_json(data).to_json() == data


def test_page_says_why(env) -> None:
    env.reset(seed=0, options={"task_id": env.tasks[0].id})
    env.step("<search> Ninfeville Cavaliers </search>")
    env.step(f"<answer> {REPORT.replace('[1]', '[Ninfeville Cavaliers]')} <b> </answer>")
    page = explained(env.episode.outcome())
    for words in ("says more than is known: Svam", "true, but cites no page", "recall 0.20"):
        assert words in page
    assert "head_of_state" in page.partition("Not stated")[2]
    assert "<b>" not in page


@given(st.text(alphabet="[]()1aB. \n,:/#*http", max_size=300))
def test_any_text_is_read(text: str) -> None:
    sentences, _ = read_report(text)
    assert judge_report(text, Dossier([["a"], ["B"]], [], {}), {}).coverage == 0.0
    assert all(s.text.strip() for s in sentences)


UNITS = ("[", "[1]", "[a](", ". ", "\n", " ", "A is 1. ", "https://a/", "#", "References\n", "1. ",
         "Khofabad and Nano ")  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear_in_the_report(env, shown, unit: str) -> None:
    dossier = Dossier.from_json(env.tasks[0].meta["dossier"])

    def seconds(size: int) -> float:
        text, best = unit * (size // len(unit)), float("inf")
        for _ in range(3):
            start = perf_counter()
            judge_report(text, dossier, shown)
            best = min(best, perf_counter() - start)
        return best

    assert seconds(80_000) < 12 * seconds(20_000) + 0.05  # four times; sixteen if it were squared
