"""An environment over passages and questions of one's own, and a folder of notes."""

from __future__ import annotations

import pytest

from searchgym.envs.search import SearchEnv

from ..small import CORPUS, TASKS

OWN = {"corpus": CORPUS, "tasks": TASKS}


def env(**keywords) -> SearchEnv:
    return SearchEnv(**{**OWN, **keywords})


def people(count):
    """Pages of invented people: name → text; each has a place and a year of its own."""
    names = "Anko Belu Cerdo Dimma Elvar Forst Gelta Hurmo Ilko Jarna".split()
    places = "Tarsk Olmen Pirda Veld Sorno Quarn Mildo Brast Nerva Huldo".split()
    return {
        f"{names[i % 10]} Morrin{chr(97 + i // 10)}": (
            f"{names[i % 10]} Morrin{chr(97 + i // 10)} is a novelist. "
            f"{names[i % 10]} Morrin{chr(97 + i // 10)} was born in "
            f"{places[i % 10]}{chr(97 + i // 10)} in {1800 + i}."
        )
        for i in range(count)
    }


@pytest.fixture
def notes(tmp_path):
    """A folder of thirty such pages."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in people(30).items():
        (folder / f"{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
    return f"{folder}/"
