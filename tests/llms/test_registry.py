"""Generators by name, by import path, as objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from searchgym.errors import EngineError
from searchgym.llms.base import Completion, GenRequest, Sampling
from searchgym.llms.registry import Cached, build_generator
from searchgym.llms.transformers_generator import TransformersGenerator
from tests.llms import tiny
from tests.llms.letters import Letters

PATH = "tests.llms.letters:Letters"


def test_by_name(tmp_path: Path) -> None:
    folder = tiny.save(tmp_path / "m")
    made = build_generator({"name": "transformers", "model": str(folder), "dtype": "float32"})
    assert isinstance(made, TransformersGenerator)
    assert isinstance(made.run([GenRequest("a", Sampling(2))])[0], Completion)


def test_by_import_path_and_object(tmp_path: Path) -> None:
    assert isinstance(build_generator(PATH), Letters)
    made = build_generator({"name": PATH, "repeatable": False})
    assert isinstance(made, Letters)
    assert not made.repeatable
    assert build_generator(made) is made
    cached = build_generator({"name": PATH, "cache": str(tmp_path / "c.sqlite")})
    assert isinstance(cached, Cached)
    assert isinstance(cached.inner, Letters)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("transfomers", "Did you mean 'transformers'"),
        ({}, "needs the key 'name'"),
        ({"name": PATH, "colour": 1}, "colour"),
        ("nowhere:Thing", "cannot load"),
        ("builtins:dict", "cannot be a generator"),
        (3, "got int"),
    ],
)
def test_mistakes_are_named(spec: object, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        build_generator(spec)  # type: ignore[arg-type]
