"""SSRL's format score: the published numbers, and each reason for 0 on its own."""

from __future__ import annotations

import pytest

from searchgym import SearchEnv
from searchgym.scoring.ssrl_format import ssrl_format
from tests.small import CORPUS, TASKS

SEARCH = (
    "<search> who founded Aldor </search>\n<information>\nMira Venn\nfounded it\n</information>\n"
)
THINK = "<think> hm </think>\n"
ANSWER = "<answer> Mira Venn </answer>"
GOOD = THINK + SEARCH + THINK + ANSWER


def text(thoughts: int, searches: int) -> str:
    """A text with so many blocks, thoughts first where there are too many of them."""
    rest = [THINK] * (thoughts - 1) + [""] * max(0, searches - thoughts + 1)
    finds = [SEARCH] * searches + [""] * (len(rest) - searches)
    return THINK + "".join(s + t for s, t in zip(finds, rest, strict=True)) + ANSWER


@pytest.mark.parametrize(
    ("thoughts", "searches", "score"),
    [(1, 0, 0.5), (2, 1, 1.0), (3, 1, 2 / 3), (2, 0, 0.5), (2, 3, 0.5), (1, 1, 0.25), (8, 7, 1.0),
     (8, 0, 1 / 8), (9, 8, 0.0), (5, 4, 1.0), (4, 1, 0.5)],
)  # fmt: skip
def test_the_worked_numbers(thoughts: int, searches: int, score: float) -> None:
    made = text(thoughts, searches)
    assert (made.count("<think>"), made.count("<search>")) == (thoughts, searches)
    assert ssrl_format(made) == pytest.approx(score)


def test_white_space_around_and_between_is_free() -> None:
    assert ssrl_format(f"\n {GOOD} \n") == ssrl_format(GOOD.replace("\n", "")) == 1.0
    assert ssrl_format(GOOD.replace("\n<information>", " ha <information>")) == 1.0  # text, no tag


@pytest.mark.parametrize(
    ("why", "broken"),
    [
        ("another tag", GOOD.replace("hm", "<b>hm</b>", 1)),
        ("another tag, in the text", GOOD.replace("hm", "1 < 2 and 3 > 2", 1)),
        ("another case", GOOD.replace("<think>", "<Think>", 1)),
        ("text before the first thought", "So: " + GOOD),
        ("text after the answer", GOOD + " Done."),
        ("no answer", GOOD.removesuffix(ANSWER)),
        ("no thought first", SEARCH + THINK + ANSWER),
        ("fewer than four tags", "<think> hm </answer>"),
        ("first tags are no thought", "<think><answer> hm </answer>" + SEARCH + ANSWER),
        ("last tags are no answer", THINK + SEARCH + THINK + "<think> Quell </answer>"),
        ("an empty thought", GOOD.replace(" hm ", " ", 1)),
        ("an empty search", GOOD.replace("who founded Aldor", "")),
        ("empty information", GOOD.replace("\nMira Venn\nfounded it\n", "\n \n")),
        ("an empty answer", GOOD.replace(ANSWER, "<answer></answer>")),
        ("a search of two lines", GOOD.replace("who founded", "who\nfounded")),
        ("a search in a line of its own", GOOD.replace("<search> ", "<search>\n")),
        ("a copied thought", GOOD.replace("hm", "Your thoughts", 1)),
        ("a copied query", GOOD.replace("who founded Aldor", "your query")),
        ("copied information", GOOD.replace("founded it", "YOUR INFORMATION")),
        ("a copied answer", GOOD.replace(ANSWER, "<answer> your answer </answer>")),
        ("a thought before the information", GOOD.replace("\n<inf", "<think>a</think><inf")),
        ("a search without information", THINK + "<search> a </search>" + THINK + ANSWER),
        ("information without a search", THINK + "<information> a </information>" + ANSWER),
        ("an unclosed search", THINK + "<search> a <information> b </information>" + ANSWER),
        ("nine thoughts", text(9, 8)),
        ("nothing", ""),
    ],
)  # fmt: skip
def test_each_reason_for_zero(why: str, broken: str) -> None:
    assert broken != GOOD
    assert ssrl_format(broken) == 0.0, why
    assert ssrl_format(GOOD) == 1.0


def test_the_instructions_placeholders_are_those_that_must_not_be_copied() -> None:
    from searchgym.scoring.ssrl_format import PLACEHOLDERS

    shown, _ = SearchEnv(corpus=CORPUS, tasks=TASKS, engine="self").reset(seed=0)
    for kind, words in PLACEHOLDERS.items():
        assert f"<{kind}> {words} </{kind}>" in shown
