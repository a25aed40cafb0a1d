"""Word vectors: looked up, the same for every batch, related words nearer. Needs the bundled model."""

import subprocess
import sys

import numpy as np
import pytest

from searchgym.candidates.encoder import WordEncoder
from searchgym.candidates.features import FeatureBuilder
from searchgym.candidates.lexical import tokenise
from searchgym.candidates.state import make_state
from searchgym.errors import DataError
from searchgym.types import Passage

TEXTS = [
    "The film was directed by Velda Morrin.",
    "Velda Morrin was the director of the movie, says Żołnierz (née O'Brien) \ud800.",
    "Rivers carry 12,500 tons of sand.",
    "",
]


@pytest.fixture(scope="module")
def encoder():
    return WordEncoder()


def test_one_unit_vector_per_word(encoder):
    for text in TEXTS:
        words = tokenise(text)
        got = encoder(words)
        assert got.shape == (len(words.start), encoder.dim)
        np.testing.assert_allclose((got**2).sum(1), 1, atol=1e-5)


def test_related_words_are_nearer_than_unrelated_ones(encoder):
    a, b, c = (encoder(tokenise(t)) for t in TEXTS[:3])
    assert a[1] @ b[7] == pytest.approx(0.714, abs=0.001)  # film, movie
    assert a[1] @ c[0] < 0.2  # film, rivers


def test_vectors_do_not_depend_on_what_was_asked_before(encoder):
    alone, together = WordEncoder(), WordEncoder()
    many = [tokenise(" ".join(f"word{i}" for i in range(1500))), *map(tokenise, TEXTS)]
    for words in many:
        together(words)
    for words in reversed(many):
        assert np.array_equal(alone(words), together(words))


def test_looking_words_up_loads_no_network():
    code = (
        "import sys; from searchgym.candidates.encoder import WordEncoder; "
        "from searchgym.candidates.lexical import tokenise; WordEncoder()(tokenise('a film')); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_words_read_by_the_network_are_nearer_still(encoder):
    wrote, author, river = encoder.read(["wrote", "author", "river"])
    assert np.linalg.norm(wrote) == pytest.approx(1, abs=1e-5)
    assert wrote @ author == pytest.approx(0.62, abs=0.02)
    assert wrote @ river < 0.25


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"config\.json"):
        WordEncoder(tmp_path)


def test_soft_columns_see_synonyms(encoder):
    passage = Passage("p", "Heat", "The movie was shot by Velda Morrin.", "u")
    state = make_state("Who filmed Heat?", ["Heat"], [(passage, 0, 0)], 2, None)
    soft, plain = FeatureBuilder(encoder)(state), FeatureBuilder(None)(state)
    assert soft.candidates == plain.candidates
    assert (soft.features != plain.features).any()
    assert np.isfinite(soft.features).all()
