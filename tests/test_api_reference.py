"""The reference of the public names is made without a warning and leaves no name out."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import time
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 60


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """HTML by package, written as ``make api`` does."""
    folder = tmp_path_factory.mktemp("api")
    started = time.process_time(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "searchgym.site.api", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Warn" not in done.stderr, done.stderr
    assert time.perf_counter() - started[1] < SECONDS
    assert (folder / "index.html").is_file()
    return {
        ".".join(path.relative_to(folder).with_suffix("").parts): path.read_text("utf-8")
        for path in folder.rglob("*.html")
    }


def test_every_public_name_has_a_place(pages: dict[str, str]) -> None:
    assert {"searchgym", "searchgym.llms", "searchgym.warmstart"} <= set(pages)
    for package, page in pages.items():
        if package != "index":
            names = importlib.import_module(package).__all__
            assert names
            assert [n for n in names if f'<section id="{n}">' not in page] == []


def test_functions_and_classes_are_shown_as_such(pages: dict[str, str]) -> None:
    """Also those that share their names with a module of the package."""
    page = pages["searchgym"]
    for name in ("transfer", "measure_answerability", "evaluate"):
        assert re.search(rf'<section id="{name}">\s*<div class="attr function">', page), name
    for name in ("SearchEnv", "Trainer", "Hit"):
        assert re.search(rf'<section id="{name}">\s*<div class="attr class">', page), name


def test_no_markup_is_left_in_the_text(pages: dict[str, str]) -> None:
    for package, page in pages.items():
        body = re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)
        text = unescape(re.sub(r"<[^>]+>", "", body))
        left = re.findall(r".*(?:``|:(?:class|func|meth|mod|data|attr|exc):`|::$).*", text, re.M)
        assert left == [], package
        assert "Alias for field number" not in text
