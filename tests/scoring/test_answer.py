import pytest

from searchgym.scoring.answer import score_answer
from searchgym.types import ABSTAIN, Task


def _task(*answers: str, abstain: bool = False) -> Task:
    return Task("t", "?", answers or (ABSTAIN,), should_abstain=abstain)


@pytest.mark.parametrize(
    ("answer", "gold", "em", "f1", "cover"),
    [
        ("The Beatles!", "beatles", 1, 1, 1),
        ("beatles band", "beatles", 0, 2 / 3, 1),
        ("not Paris but London", "Paris", 0, 0.4, 1),
        ("", "the", 0, 0, 0),
        ("the", "the", 0, 0, 0),
        ("1,000", "1000", 1, 1, 1),
        ("3.5", "35", 1, 1, 1),
        ("é", "é", 1, 1, 1),
        ("ﬁne", "fine", 0, 0, 0),  # no Unicode folding
    ],
)
def test_hand_checked(answer: str, gold: str, em: float, f1: float, cover: float) -> None:
    assert score_answer(_task(gold), answer) == pytest.approx(
        {"em": em, "f1": f1, "cover_em": cover}
    )


def test_best_over_the_answers() -> None:
    assert score_answer(_task("Mira Venn", "Venn"), "venn")["em"] == 1
    assert score_answer(_task("Mira Ada Venn", "Venn of Quell"), "Mira Venn")["f1"] == 0.8


def test_refusals() -> None:
    refuse = _task(abstain=True)
    for text in ("I don't know.", "unanswerable", "No answer"):
        assert score_answer(refuse, text) == {"em": 1, "f1": 1, "cover_em": 1}
    assert score_answer(refuse, "Paris") == {"em": 0, "f1": 0, "cover_em": 0}
    assert score_answer(refuse, "unanswerable or Paris")["cover_em"] == 0
    assert score_answer(_task("Paris"), "unknown") == {"em": 0, "f1": 0, "cover_em": 0}
    # "Unknown" may be a real answer (a song, an artist)
    assert score_answer(_task("The Unknown"), "unknown")["em"] == 1
