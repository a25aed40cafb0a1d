import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchgym.scoring import score_answer
from searchgym.text import normalise_answer
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
        ("the", "the", 1, 1, 1),
        ("1,000", "1000", 1, 1, 1),
        ("3.5", "35", 1, 1, 1),
        ("é", "é", 1, 1, 1),
        ("ﬁne", "fine", 0, 0, 0),  # no Unicode folding
        ("I do not know anything", "no", 0, 0, 0),  # whole words cover, not parts of them
        ("1922", "2", 0, 0, 0),
        ("No, it is not", "no", 0, 0, 1),
        ("It was 2 or 12", "2", 0, 1 / 3, 1),
        ("12 and 2", "2", 0, 0.5, 1),
        ("in Quelle", "Quell", 0, 0, 0),
        ("東京都です", "東京", 0, 4 / 7, 1),  # no blanks between words: by characters
        ("서울은 크다", "서울", 0, 4 / 7, 1),  # Korean has them, but not before particles
        ("Größe 5m²", "5m²", 0, 2 / 3, 1),
    ],
)
def test_hand_checked(answer: str, gold: str, em: float, f1: float, cover: float) -> None:
    assert score_answer(_task(gold), answer) == pytest.approx(
        {"em": em, "f1": f1, "cover_em": cover}
    )


WORDS = st.lists(st.sampled_from(["no", "not", "2", "12", "quell", "a", "The", "x-y"]), max_size=6)


@given(WORDS, WORDS, WORDS)
def test_cover_em_is_a_run_of_words(before: list[str], gold: list[str], after: list[str]) -> None:
    said, answer = " ".join([*before, *gold, *after]), " ".join(gold)
    words, run = normalise_answer(said).split(), normalise_answer(answer).split()
    stands = any(words[i : i + len(run)] == run for i in range(len(words) - len(run) + 1))
    assert score_answer(_task(answer), said)["cover_em"] == float(bool(run) and stands)
    other = " ".join(["elsewhere", *gold])
    listed = any(words[i : i + len(run) + 1] == ["elsewhere", *run] for i in range(len(words)))
    assert score_answer(_task(other), said)["cover_em"] == float(listed)


def test_best_over_the_answers() -> None:
    assert score_answer(_task("Mira Venn", "Venn"), "venn")["em"] == 1
    assert score_answer(_task("Mira Ada Venn", "Venn of Quell"), "Mira Venn")["f1"] == 0.8


@pytest.mark.parametrize(
    "text",
    ["unanswerable", "No answer", "I don't know.", "I don’t know", "I do not know the answer.",
     "**Unanswerable**", "N/A", "Not enough information to answer.", "I'm not sure.",
     "The question cannot be answered from the given passages.", "It is unknown.",
     "I’m sorry, but I can’t help with that.", "I was unable to find the answer to this question.",
     "Unfortunately, the search results do not contain this information.", "No information found",
     "Cannot be determined", "There is no answer to this question."],
)  # fmt: skip
def test_refusals_in_typical_wordings(text: str) -> None:
    assert score_answer(_task(abstain=True), text) == {"em": 1, "f1": 1, "cover_em": 1}
    assert score_answer(_task("Paris", "No"), text) == {"em": 0, "f1": 0, "cover_em": 0}


@pytest.mark.parametrize(
    "text",
    ["", "no", "yes", "The answer is no.", "none", "0", "not", "the answer", "I know the answer",
     "Paris", "unanswerable or Paris", "I don't know, but I think it is Paris.", "unanswerable yes",
     "No, it is not", "Not Paris", "It is certain", "0; no answer"],
)  # fmt: skip
def test_what_is_no_refusal(text: str) -> None:
    assert score_answer(_task(abstain=True), text) == {"em": 0, "f1": 0, "cover_em": 0}


def test_a_refusal_may_be_a_real_answer() -> None:
    """A song, an artist."""
    assert score_answer(_task("The Unknown"), "unknown")["em"] == 1
    assert score_answer(_task("Paris"), "unknown") == {"em": 0, "f1": 0, "cover_em": 0}
