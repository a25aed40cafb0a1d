"""A corpus and an engine without episodes: what a searcher searches, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from searchgym.engines.searcher import Searcher
from searchgym.errors import DataError, EngineError
from tests.small import CORPUS


def test_a_folder_is_named_by_a_path_or_a_text(tmp_path: Path) -> None:
    (tmp_path / "whale.txt").write_text("A blue whale sings.")
    (tmp_path / "bee.txt").write_text("A bee dances.")
    for corpus in (tmp_path, str(tmp_path)):
        ((hit,),) = Searcher(corpus).search(["whale"], k=1)
        assert hit.passage.text == "A blue whale sings."


@pytest.mark.parametrize("corpus", [[1], [], None, {"a": "b"}])
def test_what_is_no_corpus_is_refused(corpus: Any) -> None:
    with pytest.raises(TypeError, match=r"corpus is a Corpus, a folder or file, .* got "):
        Searcher(corpus)


def test_a_bare_name_is_of_the_catalogue_or_a_folder_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "whale.txt").write_text("A blue whale sings.")
    for written in ("mine", "./mine", Path("mine")):
        assert len(Searcher(written).search(["whale"])[0]) == 1
    with pytest.raises(DataError, match="unknown real set 'mime'"):
        Searcher("mime")


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ("city", r"write search\(\['city'\]\)"),
        (None, "takes a list of texts, got None"),
        (["city", None], "takes a list of texts, got one that holds None"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(texts: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Searcher(CORPUS).search(texts)


@pytest.mark.parametrize("k", [-1, 0, float("nan"), "3", 2.5, True])
def test_a_number_of_hits_that_cannot_be_is_named(k: Any) -> None:
    with pytest.raises(EngineError, match=f"k must be a whole number of at least 1, got {k!r}"):
        Searcher(CORPUS).search(["city"], k)
