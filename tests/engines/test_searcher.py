"""A corpus and an engine without episodes: what a searcher searches, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from searchgym.engines.searcher import Searcher
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


def test_a_text_is_not_a_list_of_texts() -> None:
    with pytest.raises(TypeError, match=r"write search\(\['city'\]\)"):
        Searcher(CORPUS).search("city")
