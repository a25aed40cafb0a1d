"""Generators by name, path and object; the cache of completions: asked once, exact to the bit,
whoever is killed and whoever races."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from searchgym.errors import DataError, EngineError
from searchgym.llms.base import Completion, Generator, GenRequest, Sampling
from searchgym.llms.registry import Cached, build_generator, pack, unpack
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.types import Failure
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


ROOT = Path(__file__).resolve().parents[2]
WRITER = """
import itertools, sys
from searchgym.llms.base import GenRequest, Sampling
from searchgym.llms.registry import Cached
from tests.llms.letters import Letters
cached = Cached(Letters(repeatable=False), sys.argv[1])
print("ready", flush=True)
for i in itertools.count():
    for r, c in zip(batch := [GenRequest(f"{i} {j}", Sampling(9)) for j in range(3)],
                    cached.run(batch)):
        print(r.prompt, c.text, flush=True)
"""


def same(a: object, b: object) -> None:
    assert isinstance(a, Completion)
    assert isinstance(b, Completion)
    for name, x, y in zip(Completion._fields, a, b, strict=True):
        if isinstance(x, np.ndarray):
            assert isinstance(y, np.ndarray)
            assert (x.dtype, x.tobytes()) == (y.dtype, y.tobytes()), name
        else:
            assert x == y, name


def test_a_real_model_is_asked_once(tmp_path: Path) -> None:
    words = tiny.tokenizer()
    model = TransformersGenerator(tiny.model("qwen2", len(words)), words)
    cached = Cached(model, tmp_path / "c.sqlite")
    assert isinstance(cached, Generator)
    batch = [GenRequest("The capital", Sampling(9), key=i) for i in range(3)]
    first = cached.run(batch)
    assert (cached.hits, cached.misses) == (0, 3)
    twin = TransformersGenerator(tiny.model("qwen2", len(words)), words)
    twin.run = None  # type: ignore[assignment, method-assign]  # it must not be asked
    again = Cached(twin, tmp_path / "c.sqlite")
    for a, b in zip(first, again.run(batch), strict=True):
        same(a, b)
    assert (again.hits, again.misses) == (3, 0)


def test_changed_weights_never_meet_old_texts(tmp_path: Path) -> None:
    words = tiny.tokenizer()
    model = TransformersGenerator(tiny.model("qwen2", len(words)), words)
    cached = Cached(model, tmp_path / "c.sqlite")
    request = GenRequest("The capital", Sampling(9))
    (before,) = cached.run([request])
    model.update_weights(tiny.model("qwen2", len(words), seed=1).state_dict())
    (after,) = cached.run([request])
    assert isinstance(before, Completion)
    assert isinstance(after, Completion)
    assert before.ids != after.ids
    assert (before.version, after.version) == (0, 1)
    assert (cached.hits, cached.misses) == (0, 2)
    model.update_weights(tiny.model("qwen2", len(words)).state_dict())
    same(cached.run([request])[0], before)


def test_what_is_asked(tmp_path: Path) -> None:
    inner = Letters(repeatable=False)
    cached = Cached(inner, tmp_path / "c.sqlite")
    assert cached.capabilities == {"ids", "logp", "seed"}
    r = GenRequest("x", Sampling(20), key=1)
    first = cached.run([r, r._replace(key=2), r])
    assert len(inner.asked) == 2, "duplicates of one batch are asked once"
    same(first[0], first[2])
    same(cached.run([r])[0], first[0])
    same(Cached(Letters(), tmp_path / "c.sqlite").run([r])[0], first[0])
    assert len(inner.asked) == 2
    for other in (
        r._replace(prompt="y"),
        r._replace(key=3),
        r._replace(sampling=Sampling(21)),
        r._replace(sampling=Sampling(20, temperature=0.5)),
        r._replace(sampling=Sampling(20, stop=("zzz",))),
        r._replace(needs=frozenset({"logp"})),
    ):
        n = len(inner.asked)
        cached.run([other])
        assert len(inner.asked) == n + 1, other
    other_model = Letters("b")
    assert Cached(other_model, tmp_path / "c.sqlite").run([r])[0] != first[0]
    assert len(other_model.asked) == 1
    assert cached.score([((1,), (2, 3))])[0].tolist() == [-1.0, -1.0]  # type: ignore[union-attr]


def test_failures_are_not_kept(tmp_path: Path) -> None:
    inner = Letters(fail=["bad"])
    cached = Cached(inner, tmp_path / "c.sqlite")
    batch = [GenRequest("bad"), GenRequest("good")]
    a, b = cached.run(batch)
    assert isinstance(a, Failure)
    assert isinstance(b, Completion)
    inner.fail.clear()
    c, d = cached.run(batch)
    assert isinstance(c, Completion)
    same(b, d)
    assert [r.prompt for r in inner.asked] == ["bad", "good", "bad"]


def test_missing_capabilities_are_errors_even_when_cached(tmp_path: Path) -> None:
    cached = Cached(Letters(), tmp_path / "c.sqlite")
    with pytest.raises(EngineError, match="lacks entropy"):
        cached.run([GenRequest("x", needs=frozenset({"entropy"}))])


def test_packing_changes_no_bit() -> None:
    nan = np.array([np.nan, -np.inf, 1e-45, -0.0, 0.1], np.float32)
    for c in (
        Completion("naïve \ud800 \x00", (1, 2), nan, (1, 5), 7, nan[::-1], "stop"),
        Completion(""),
    ):
        same(unpack(pack(c)), c)
    with pytest.raises(DataError, match="cannot be read"):
        unpack(b"{}")


def test_threads_get_one_answer(tmp_path: Path) -> None:
    cached = Cached(Letters(repeatable=False), tmp_path / "c.sqlite")
    batch = [GenRequest(str(i), Sampling(30)) for i in range(20)]
    results: list[list[str]] = []

    def work() -> None:
        results.append([c.text for c in cached.run(batch) if isinstance(c, Completion)])

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 6
    assert all(r == results[0] and len(r) == 20 for r in results)


@pytest.mark.contract
def test_kill_9(tmp_path: Path) -> None:
    """Two processes draw the same requests, killed at random moments: both said the same, and what
    either said is still the answer."""
    path, draw, said = tmp_path / "c.sqlite", random.Random(1), dict[str, str]()
    for _ in range(8):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(path)],
                stdout=subprocess.PIPE, text=True, cwd=ROOT,
            )
            for _ in range(2)
        ]  # fmt: skip
        for w in writers:
            assert w.stdout is not None
            assert w.stdout.readline() == "ready\n"
        time.sleep(draw.uniform(0.02, 0.3))
        for w in writers:
            w.send_signal(signal.SIGKILL)
        for w in writers:
            lines = w.communicate()[0].splitlines(keepends=True)
            for line in lines:
                if line.endswith("\n"):  # the last may be cut
                    prompt, _, text = line.strip().rpartition(" ")
                    assert said.setdefault(prompt, text) == text
        assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(said) > 100
    silent = Letters(repeatable=False)
    answers = Cached(silent, path).run([GenRequest(p, Sampling(9)) for p in said])
    assert [c.text for c in answers if isinstance(c, Completion)] == list(said.values())
    assert not silent.asked, "acknowledged and lost"
