"""``realism``: worked numbers, and that the classifier guesses where there is nothing to see."""

from __future__ import annotations

import random

import numpy as np
import pytest

from searchgym import Passage
from searchgym.corpora import render
from searchgym.errors import EvaluationError
from searchgym.evaluation.realism import BARS, GoldQuestion, area, blind, kept, masked, table
from tests.worlds.shipped import world_from_card

HOTPOTQA = 89.1
"""Words a passage; the real set is not on every machine."""


def pages(*texts: str) -> list[Passage]:
    return [Passage(str(i), f"T{i}", text, "") for i, text in enumerate(texts)]


def test_the_table_of_a_small_text_is_counted_by_hand() -> None:
    text = pages("the old mill stands here", "the old mill stands alone", "a river", "quiet")
    found = table(text, [GoldQuestion("Where does the old mill turn?", (0,))])
    assert found["words a passage"] == 3.2  # 13 / 4
    assert found["types in 0k words"] == 9
    assert found["shared 4-grams"] == 0.5  # two of the four are "the old mill stands"
    assert found["question words on gold pages"] == 0.67  # old, mill; not turn
    assert found["near-twins of a gold page"] == 1  # five of seven words with the titles
    assert found["begin"] == "where does 100%"


def test_names_and_numbers_are_masked() -> None:
    lower = {"the", "in", "was"}
    assert masked("The Oldeth Marn was born in 1921.", lower) == "the N was born in 0 ."
    assert masked("Oldeth was in Marn.", lower) == "N was in N ."


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    assert area(np.array([1.0, 2.0, 2.0]), np.array([0.0, 2.0])) == pytest.approx(4 / 6)


def test_the_classifier_guesses_between_equals_and_sees_a_template() -> None:
    rng = random.Random(0)
    words = [f"w{rng.choice('aeiou')}{i}x" for i in range(400)]

    def drawn(n: int, extra: str) -> list[Passage]:
        return pages(*(" ".join(["so", *rng.choices(words, k=9)]) + extra for _ in range(n)))

    same = blind(drawn(300, " ends."), drawn(300, " ends."))
    assert same.low < 0.5 < same.high
    assert blind(drawn(300, " is known."), drawn(300, " ends.")).mean == 1.0
    with pytest.raises(EvaluationError, match="at least 50 sentences"):
        blind(drawn(3, "."), drawn(3, "."))


def test_bars_are_judged_where_there_is_a_figure() -> None:
    ours = {"types in 50k words": 8000, "shared 4-grams": 0.2, "words a passage": 80.0}
    assert list(kept(ours, None, None).values()) == [True, False]
    assert list(kept(ours, {"words a passage": 101.0}, 0.9).values()) == [True, False, False, False]
    with pytest.raises(EvaluationError, match="words"):
        table(pages(""))


@pytest.mark.parametrize("phrasing", ["train", "heldout"])
@pytest.mark.parametrize("name", ["encyclopedia-v1", "research-v1"])
def test_pages_keep_the_bars_of_real_text(name: str, phrasing: str) -> None:
    found = table(list(render(world_from_card(name, entities=3600, seed=3), phrasing=phrasing)))
    assert abs(found["words a passage"] / HOTPOTQA - 1) <= BARS["words within"]
    assert found["types in 50k words"] >= BARS["types"]
    assert found["shared 4-grams"] <= BARS["shared 4-grams"]
